"""For every condition of the rules for element-wise primitives and reductions, a kernel that it keeps out."""

from __future__ import annotations

from .kernels import kernel

AXES = "from tirx_eq.layout import laneid, warpid\n"
HALVES = 'A: Tx.Buffer((64, 64), "float16"), B: Tx.Buffer((64, 64), "float16")'
IDS = "tid = Tx.thread_id([128])\nw = Tx.warp_id([4])\n"
LOCAL = 'r = Tx.alloc_local((16,), "float32")\ns = Tx.alloc_local((16,), "float32")\n'
COLUMNS = 'V = Tx.decl_buffer((64, 64), "float16", data=A.data, layout=TileLayout(S[(64, 64):(1, 64)]))\n'
TENSOR_MEMORY = """
addr = Tx.alloc_shared([1], "uint32")
t = Tx.decl_buffer((128, 16), "float32", scope="tmem", allocated_addr=addr[0], layout=TileLayout(S[(128, 16):(1 @ TLane, 1 @ TCol)]))
"""
ROWS = "v = r.view(128, 16, layout=TileLayout(S[(128, 16):(1 @ tid_in_wg, 1)]))\n"
REVERSED = "u = s.view(128, 16, layout=TileLayout(S[(2, 64, 16):(1 @ tid_in_wg, 2 @ tid_in_wg, 1)]))\n"


def of(statement: str, before: str = "", params: str = HALVES):
    """A kernel factory: 128 threads, ``before``, then the statement."""
    return lambda: kernel(IDS + before + statement, params, AXES)


ELEMENTWISE = {
    "sum of registers by nobody": of("if w == 7:\n    Tx.add(r[:], r[:], s[:])", LOCAL),
    "exp in registers": of("Tx.exp(r[:], r[:])", LOCAL),
    "sum in registers": of("Tx.add(r[:], r[:], s[:])", LOCAL),
    "fill by a cluster": of("Tx.cluster.fill(B[:, :], 0.0)"),
    "add in tensor memory": of("Tx.wg.add(t[:, :], t[:, :], 1.0)", TENSOR_MEMORY),
    "exp of integers": of("Tx.exp(r[:], r[:])", 'r = Tx.alloc_local((16,), "int32")\n'),
    "shifted in place": of("Tx.add(B[tid % 64, 0:32], B[tid % 64, 1:33], 1.0)"),
    "held by other threads": of("Tx.wg.add(v[:, :], v[:, :], u[:, :])", LOCAL + ROWS + REVERSED),
    "one result, many writers": of("Tx.cta.add(B[0, 0:16], r[:], 1.0)", LOCAL),
    "three registers": of("Tx.add(r[0:3], r[0:3], s[0:3])", LOCAL),
    "a large tile by one thread": of("if tid == 0:\n    Tx.add(B[:, :], A[:, :], 1.0)"),
    "columns": of("Tx.cta.add(B[:, :], V[:, :], 1.0)", COLUMNS),
    "odd start": of("Tx.cta.add(B[:, 1:33], A[:, 0:32], 1.0)"),
}  # fmt: skip
