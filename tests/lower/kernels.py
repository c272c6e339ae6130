"""Kernels for the tests of the lowering, as source text."""

from __future__ import annotations

import re
from pathlib import Path

from tirx_eq.ir import PrimFunc
from tirx_eq.script import load_file, parse_source

EXAMPLES = Path(__file__).parents[2] / "examples"

HEADER = """
from tirx_eq.script import tirx as Tx
from tirx_eq.layout import S, R, TileLayout, SwizzleLayout, ComposeLayout, TLane, TCol, tid_in_wg, mma_shared_layout
"""


def kernel(body: str, params: str = "", header: str = "") -> PrimFunc:
    """The kernel ``k`` with these parameters and statements (lines of the body are indented here)."""
    return parse_source(source(body, params, header), "k.py")["k"]


def with_tensor_memory(body: str, columns: int) -> str:
    """Statements between allocation and release of ``columns`` of tensor memory, at ``addr[0]``, by the warp ``w == 0``."""
    return f"""
addr = Tx.alloc_shared([1], "uint32")
if w == 0:
    Tx.ptx.tcgen05.alloc(Tx.address_of(addr[0]), n_cols={columns}, cta_group=1)
Tx.ptx.tcgen05.fence.before_thread_sync()
Tx.cuda.cta_sync()
Tx.ptx.tcgen05.fence.after_thread_sync()
{body}
Tx.cuda.cta_sync()
if w == 0:
    Tx.ptx.tcgen05.relinquish_alloc_permit(cta_group=1)
    Tx.ptx.tcgen05.dealloc(addr[0], n_cols={columns}, cta_group=1)
"""


def source(body: str, params: str = "", header: str = "") -> str:
    """The text of that kernel's module."""
    lines = "\n".join("    " + line for line in body.strip("\n").splitlines())
    return f"{HEADER}{header}\n\n@Tx.prim_func\ndef k({params}):\n    Tx.device_entry()\n{lines}\n"


def one_namespace(text: str) -> str:
    """An example's text with everything under ``Tx``."""
    two = "from tirx_eq.script import tirx as T\nfrom tirx_eq.script.tirx import tile as Tx\n"
    assert two in text
    return re.sub(r"\bT\.", "Tx.", text.replace(two, "from tirx_eq.script import tirx as Tx\n"))


def example(name: str) -> PrimFunc:
    """The kernel of an example."""
    return next(iter(load_file(EXAMPLES / f"{name}.py").values()))


def copy_kernel(dst: str, src: str, *, threads: int = 128, config: str = "", before: str = "") -> PrimFunc:
    """A kernel of one ``Tx.cta.copy`` between two global buffers A and B of 64x64 f16, or views made in ``before``."""
    return kernel(
        f"tid = Tx.thread_id([{threads}])\n{before}\nTx.cta.copy({dst}, {src}{config})",
        'A: Tx.Buffer((64, 64), "float16"), B: Tx.Buffer((64, 64), "float16")',
    )
