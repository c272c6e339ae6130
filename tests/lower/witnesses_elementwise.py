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


def of(statement: str, before: str = "", params: str = HALVES):
    """A kernel factory: 128 threads, ``before``, then the statement."""
    return lambda: kernel(IDS + before + statement, params, AXES)


ELEMENTWISE = {
    "sum of registers by five lanes": of("if tid < 5:\n    Tx.warp.add(r[:], r[:], s[:])", LOCAL),
    "exp in registers": of("Tx.exp(r[:], r[:])", LOCAL),
    "sum in registers": of("Tx.add(r[:], r[:], s[:])", LOCAL),
    "fill by a cluster": of("Tx.cluster.fill(B[:, :], 0.0)"),
    "add in tensor memory": of("Tx.add(t[0:1, :], t[0:1, :], 1.0)", TENSOR_MEMORY),
    "exp of integers": of("Tx.exp(r[:], r[:])", 'r = Tx.alloc_local((16,), "int32")\n'),
    "shifted in place": of("Tx.add(B[tid % 64, 0:32], B[tid % 64, 1:33], 1.0)"),
    "held by other threads": of("Tx.warp.add(v[:, :], v[:, :], v[:, :])", LOCAL + ROWS),
    "one result, many writers": of("Tx.cta.add(B[0, 0:16], r[:], 1.0)", LOCAL),
    "three registers": of("Tx.add(r[0:3], r[0:3], s[0:3])", LOCAL),
    "a large tile by one thread": of("if tid == 0:\n    Tx.add(B[:, :], A[:, :], 1.0)"),
    "halves of bytes in another order": of(
        "Tx.cast(C[tid % 64, 1:5], r[0:4])", LOCAL, 'C: Tx.Buffer((64, 64), "float4_e2m1fn")'),
    "columns": of("Tx.cta.add(B[:, :], V[:, :], 1.0)", COLUMNS),
    "odd start": of("Tx.cta.add(B[:, 1:33], A[:, 0:32], 1.0)"),
}  # fmt: skip

VECTOR = 'a = Tx.alloc_local((16,), "float32")\nr = Tx.alloc_local((16,), "float32")\n'
VIEWS = "v = a.view(32, 16, layout=TileLayout(S[(32, 16):(1 @ laneid, 1)]))\n"
FLOATS = 'A: Tx.Buffer((64, 64), "float32"), B: Tx.Buffer((64, 64), "float32")'

REDUCING = {
    "sum of registers": of("Tx.sum(r[0:1], a[:])", VECTOR),
    "max of registers": of("Tx.max(r[0:1], a[:])", VECTOR),
    "sum of memory": of("Tx.cta.sum(B[0, :], A[:, :])", params=FLOATS),
    "max of halves in memory": of("Tx.cta.max(B[0, :], A[:, :])"),
    "registers reduced by five lanes": of("if tid < 5:\n    Tx.warp.max(r[0:1], a[:])", VECTOR),
    "sum by a cluster": of("Tx.cluster.sum(B[0, :], A[:, :])", params=FLOATS),
    "sum of tensor memory": of("Tx.warp.sum(r[0:1], t[:, :])", VECTOR + TENSOR_MEMORY),
    "negative of truth values": of("Tx.reduce_negate(q[0:1], q[1:5], 'sum')", 'q = Tx.alloc_local((8,), "bool")\n'),
    "two rows, one place": of("Tx.sum(r[0:1], b[:, :])", VECTOR + "b = a.view(2, 8, layout=TileLayout(S[(2, 8):(8, 1)]))\n"),
    "rows over several warps": of(
        "Tx.wg.sum(r[:], v[:, :], axes=0)", VECTOR + "v = a.view(128, 16, layout=TileLayout(S[(128, 16):(1 @ tid_in_wg, 1)]))\n"),
    "result in other threads": of(
        "Tx.warp.sum(u[:], v[:, :])", VECTOR + VIEWS + "u = r.view(32, layout=TileLayout(S[(2, 16):(1 @ laneid, 2 @ laneid)]))\n"),
    "result in other threads, from memory": of(
        "Tx.warp.sum(u[0:16], A[0:16, :])",
        VECTOR + "u = r.view(32, layout=TileLayout(S[(16, 2):(2 @ laneid, 1 @ laneid)]))\n", FLOATS),
    "summed in place": of("Tx.cta.sum(A[0, :], A[:, :])", params=FLOATS),
    "results in other registers from thread to thread": of(
        "if w == 0:\n    Tx.warp.sum(u[16:48], A[0:32, :])",
        VECTOR + "u = r.view(64, layout=TileLayout(S[(2, 32):(1, 1 @ laneid)]))\n", FLOATS),
}  # fmt: skip
