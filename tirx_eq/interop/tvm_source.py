"""Source text of a kernel for TVM 0.26: the same text, with its import lines changed.

Only text is handled: neither package is imported, nothing is executed.
"""

from __future__ import annotations

import ast

from ..errors import InteropError

#: Our modules and TVM's.  What a module of ours has in another of theirs is in :data:`_ELSEWHERE`.
_MODULES = {
    "tirx_eq.script": "tvm.script",
    "tirx_eq.script.tirx": "tvm.script.tirx",
    "tirx_eq.script.lang": "tvm.backend.cuda.lang",
    "tirx_eq.layout": "tvm.tirx.layout",
}
_ELSEWHERE = dict.fromkeys(
    ("SwizzleMode", "mma_atom_layout", "mma_atom_shape", "mma_shared_layout"), "tvm.backend.cuda.tile_primitive.tma_utils"
)


def source_for_tvm(text: str) -> str:
    """``text`` with its top-level imports from this package replaced by those that TVM 0.26 has for them.

    Everything else stays as it is, on its line.  Raises InteropError for an import that TVM has nothing for, or text
    that isn't Python.
    """
    try:
        body = ast.parse(text).body
    except SyntaxError as error:
        raise InteropError(f"line {error.lineno}: {error.msg}") from None
    lines = text.splitlines()
    for node in body:
        if isinstance(node, ast.Import) and any(a.name.split(".")[0] == "tirx_eq" for a in node.names):
            raise InteropError(f"line {node.lineno}: import names from modules of tirx_eq, not the package")
        if not isinstance(node, ast.ImportFrom) or (node.module or "").split(".")[0] != "tirx_eq":
            continue
        first, last = node.lineno - 1, node.end_lineno or node.lineno
        lines[first:last] = ["; ".join(_imports(node))] + [""] * (last - first - 1)
    return "\n".join(lines) + "\n"


def _imports(node: ast.ImportFrom) -> list[str]:
    module = node.module or ""
    if module not in _MODULES:
        raise InteropError(f"line {node.lineno}: TVM has nothing for the module '{module}'", hint=", ".join(_MODULES))
    wanted: dict[str, list[str]] = {}
    for alias in node.names:
        name = alias.name if alias.asname is None else f"{alias.name} as {alias.asname}"
        wanted.setdefault(_ELSEWHERE.get(alias.name, _MODULES[module]), []).append(name)
    return [f"from {source} import {', '.join(names)}" for source, names in wanted.items()]
