"""Giving source text to real TVM."""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "script"))

from programs import PROGRAMS, ours, theirs  # noqa: E402, F401

#: What TVM 0.27 doesn't take of the corpus, which is written for 0.26: it renamed intrinsics and dropped a tile primitive.
REJECTED_BY_027 = {
    "intrinsics": "elect_sync",
    "tensor_core": "elect_sync",
    "fused_tiles": "compose_op",
    "pointers": "prefetch_tensormap",
    **dict.fromkeys((
        "gemm_single_tile", "gemm_k_loop", "gemm_many_tiles", "gemm_tma", "gemm_software_pipeline", "gemm_persistent",
        "gemm_warp_roles", "gemm_cluster", "gemm_two_consumers", "gemm_tma_pipeline", "gemm_nvfp4",
        "gemm_fp8_blockwise", "attention",
    ), "mbarrier_init"),
}

#: The examples that are kernels, and their functions.
EXAMPLES = {
    "gemm_single_tile": "gemm", "scale": "scale", "gemm_k_loop": "gemm", "gemm_many_tiles": "gemm", "gemm_tma": "gemm",
    "gemm_software_pipeline": "gemm", "gemm_persistent": "gemm", "gemm_warp_roles": "gemm", "gemm_cluster": "gemm",
    "gemm_two_consumers": "gemm", "gemm_tma_pipeline": "gemm", "gemm_nvfp4": "gemm", "gemm_fp8_blockwise": "gemm",
    "attention": "attention",
}  # fmt: skip

_HEADER = """\
from tvm.script import tirx as T
from tvm.script.tirx import tile as Tile
from tvm.tirx.layout import S, TCol, TileLayout, TLane, tid_in_wg
from tvm.backend.cuda.tile_primitive.tma_utils import mma_shared_layout
"""


def load_source(text: str, name: str, folder: Path) -> Any:
    """The module made by executing ``text`` from a file (TVM's parser reads the source of functions back)."""
    path = folder / f"{name}.py"
    path.write_text(text)
    return load(path, f"theirs_{name}")


def load(path: Path, name: str) -> Any:
    """The module in a file."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def example_for_tvm(name: str) -> str:
    """An example's text for TVM: its import lines changed, and a prefix for everything split into TVM's two namespaces."""
    from tirx_eq.interop.tvm_source import source_for_tvm
    from tirx_eq.ir.op import TILE_PRIMITIVES

    text = (ROOT / "examples" / f"{name}.py").read_text()
    if "import tile as Tx" in text:
        return source_for_tvm(text)
    kept = []
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) or (isinstance(node, ast.FunctionDef) and node.decorator_list):
            first = node.decorator_list[0].lineno if isinstance(node, ast.FunctionDef) else node.lineno
            kept += text.splitlines()[first - 1 : node.end_lineno]
    text = "\n".join([_HEADER, *kept])
    tile = "|".join(["cta", "wg", "warp", "warpgroup", "cluster", "thread", *(p.name for p in TILE_PRIMITIVES)])
    called = r"(?=\.|\()"
    text = re.sub(rf"\bTx\.({tile}){called}", r"Tile.\1", text)
    return re.sub(r"\bTx\.", "T.", text)


def parsed_by_tvm(name: str, folder: Path) -> Any:
    """The function of a program or example as TVM parses it; skips what this version rejects, if it still does."""
    import tvm

    text, func = (example_for_tvm(name), EXAMPLES[name]) if name in EXAMPLES else (theirs(name), name)
    if not tvm.__version__.startswith("0.26") and name in REJECTED_BY_027:
        with pytest.raises(Exception, match=REJECTED_BY_027[name]):
            load_source(text, name, folder)
        pytest.skip(f"TVM {tvm.__version__} doesn't parse this program: {REJECTED_BY_027[name]} is not what it was")
    return getattr(load_source(text, name, folder), func)
