"""``tirx-eq audit``: what is wrong with a kernel and what could go, with evidence."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import ParseError
from .output import print_json, stderr, stdout, table, write_text

if TYPE_CHECKING:
    from ..audit import Audit


def load_any(spec: str) -> list[Any]:
    """The kernels of ``MODULE:FUNC``, ``FILE:FUNC``, or of a JSON document of ``apache-tvm-tirx``.

    A kernel is a function of ours or of TVM.  The module or file is imported as Python does it.
    """
    if spec.endswith(".json"):
        from ..interop.tvm import from_tvm_json

        return _functions(from_tvm_json(_read(Path(spec))), spec)
    path, _, name = spec.rpartition(":")
    if not path:
        path, name = spec, ""
    module = _module(path)
    if name:
        if not hasattr(module, name):
            raise ParseError(f"{path} has no '{name}'")
        return _functions(getattr(module, name), name)
    found = [f for n, v in vars(module).items() if not n.startswith("_") for f in _kernels(v)]
    if not found:
        raise ParseError(f"{path} has no kernels")
    return found


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as error:
        raise ParseError(f"can't read {path}: {error.strerror}") from None


def _module(path: str) -> Any:
    file = Path(path)
    if file.suffix != ".py":
        try:
            return importlib.import_module(path)
        except ImportError as error:
            raise ParseError(f"can't import {path}: {error}") from None
    if not file.exists():
        raise ParseError(f"can't read {path}: No such file or directory")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(file.stem, module)
    spec.loader.exec_module(module)
    return module


def _kernels(value: Any) -> list[Any]:
    from ..interop.tvm_objects import type_key
    from ..ir import IRModule, PrimFunc

    if isinstance(value, PrimFunc) or type_key(value) in ("tirx.PrimFunc", "tirx.Function"):
        return [value]
    if isinstance(value, IRModule):
        return [f for f in value.functions.values() if isinstance(f, PrimFunc)]
    if type_key(value) == "ir.IRModule":
        return [f for _, f in value.functions.items() if _kernels(f)]
    return []


def _functions(value: Any, name: str) -> list[Any]:
    found = _kernels(value)
    if not found:
        raise ParseError(f"'{name}' is a {type(value).__name__}, not a kernel", hint="a PrimFunc or an IRModule")
    return found


def audit_command(
    kernel: Annotated[str, typer.Argument(help="MODULE:FUNC, FILE.py:FUNC, or a JSON document of apache-tvm-tirx")],
    html: Annotated[Path | None, typer.Option(help="where to write the report as one HTML file")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print the report as JSON")] = False,
) -> None:
    """Audit a kernel of ours or of TVM: bounds, layouts, bank conflicts, index operators, TVM's own faults."""
    from ..audit import audit
    from ..audit.report import html_report

    results = []
    with stderr().status("loading") as status:
        for func in load_any(kernel):
            began = time.perf_counter()
            done = audit(func, progress=lambda check: status.update(f"checking {check}"))
            done.seconds["total"] = round(time.perf_counter() - began, 4)
            results.append(done)
    if html is not None:
        write_text(html, html_report(results))
    if as_json:
        print_json([r.to_json() for r in results])
    else:
        for result in results:
            _show(result)
    if any(f.severity == "error" for r in results for f in r.findings):
        raise typer.Exit(1)


def _show(result: Audit) -> None:
    console = stdout()
    console.print(
        f"{result.name}: {result.nodes} nodes, {result.opaque} opaque; {result.accesses} accesses, "
        f"{result.unproved} bounds unproved; index operators {result.operators_before} -> {result.operators_after}; "
        f"{result.seconds['total']:.2f} s", markup=False,
    )  # fmt: skip
    if result.not_priced:
        console.print(f"tile calls are not priced: {result.not_priced}", markup=False)
    if not result.findings:
        console.print("nothing found")
        return
    rows = [
        (f.severity, f.kind, f"{f.where}\n{f.span}" if f.span else f.where, f.what, f.evidence, f.remedy)
        for f in result.findings
    ]
    console.print(table("findings", ("", "kind", "where", "what", "evidence", "remedy"), rows))


def add(app: typer.Typer) -> None:
    """Register the command."""
    app.command("audit")(audit_command)
