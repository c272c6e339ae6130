"""For every condition of the rules for shared-out registers, a kernel that it keeps out."""

from __future__ import annotations

from .kernels import kernel
from .product_kernels import register_product

AXES = "from tirx_eq.layout import laneid, warpid\n"
IDS = "tid = Tx.thread_id([128])\nw = Tx.warp_id([4])\n"
HALVES = 'A: Tx.Buffer((64, 64), "float16"), B: Tx.Buffer((64, 64), "float16")'
REGISTERS = 'r = Tx.alloc_local((16,), "float16")\n'
LANES = REGISTERS + "v = r.view(32, 16, layout=TileLayout(S[(32, 16):(1 @ laneid, 1)]))\n"
WARPGROUP = REGISTERS + "v = r.view(128, 16, layout=TileLayout(S[(128, 16):(1 @ tid_in_wg, 1)]))\n"
SCATTERED = REGISTERS + "v = r.view(32, 16, layout=TileLayout(S[(32, 2, 8):(1 @ laneid, 1, 2)]))\n"
COLUMNS = 'V = Tx.decl_buffer((64, 64), "float16", data=A.data, layout=TileLayout(S[(64, 64):(1, 64)]))\n'
FRAGMENT = "f = r.view(16, 16, layout=TileLayout(S[(2, 8, 2, 4, 2):(2, 4 @ laneid, 4, 1 @ laneid, 1)]))\n"
MATRIX = REGISTERS + FRAGMENT + 's = Tx.alloc_shared([16, 32], "float16")\n'
MATRIX_COLUMNS = REGISTERS + FRAGMENT + (
    's = Tx.alloc_shared([16, 16], "float16", layout=TileLayout(S[(16, 2, 8):(2, 1, 32)]))\n')
WIDER = REGISTERS + "v = r.view(64, 16, layout=TileLayout(S[(64, 16):(1 @ tid_in_wg, 1)]))\n" + (
    's = Tx.alloc_shared([64, 16], "float16")\n')
GAPS = REGISTERS + "v = r.view(32, 8, layout=TileLayout(S[(32, 8):(1 @ laneid, 2)]))\n"
SHARED = 's = Tx.alloc_shared([32, 16], "float16")\n'
ONE = "if w == 0:\n    "


def of(statement: str, before: str = LANES, params: str = HALVES):
    """A kernel factory: 128 threads, ``before``, then the statement."""
    return lambda: kernel(IDS + before + statement, params, AXES)


MATRICES = """
ra = Tx.alloc_local((16,), "{0}")
rb = Tx.alloc_local((8,), "{0}")
rd = Tx.alloc_local((16,), "float32")
a = ra.view(16, 16, layout=TileLayout(S[(2, 8, 2, 4, 2):(2, 4 @ laneid, 4, 1 @ laneid, 1)]))
b = rb.view(16, 8, layout=TileLayout(S[(2, 4, 2, 8):(2, 1 @ laneid, 1, 4 @ laneid)]))
d = rd.view(16, 8, layout=TileLayout(S[(2, 8, 4, 2):(2, 4 @ laneid, 1 @ laneid, 1)]))
e = rd.view(16, 8, layout=TileLayout(S[(2, 8, 4, 2):(1, 4 @ laneid, 1 @ laneid, 2)]))
l = rd.view(16, 8, layout=TileLayout(S[(16, 2, 4):(2 @ laneid, 1 @ laneid, 1)]))
t = Tx.alloc_shared([16, 16], "float32")
"""
TENSOR = """
addr = Tx.alloc_shared([1], "uint32")
tm = Tx.decl_buffer((128, 16), "float32", scope="tmem", allocated_addr=addr[0], layout=TileLayout(S[(128, 16):(1 @ TLane, 1 @ TCol)]))
"""
PRODUCT = MATRICES.format("float16")
TWICE = LANES + """
q = Tx.alloc_local((16,), "float16")
i = Tx.alloc_local((16,), "uint16")
x = q.view(32, 16, layout=TileLayout(S[(32, 16):(1 @ laneid, 1)]))
y = i.view(32, 16, layout=TileLayout(S[(32, 16):(1 @ laneid, 1)]))
z = q.view(32, 16, layout=TileLayout(S[(16, 2, 16):(1 @ laneid, 16 @ laneid, 1)]))
near = r.view(128, 16, layout=TileLayout(S[(128, 16):(1 @ tid_in_wg, 1)]))
far = q.view(128, 16, layout=TileLayout(S[(32, 4, 16):(1 @ tid_in_wg, 32 @ tid_in_wg, 1)]))
"""
LOAD, STORE = "Tx.warp.copy(v[:, :], A[0:32, 0:16])", ONE + "Tx.warp.copy(B[0:32, 0:16], v[:, :])"

#: Kernels whose product then gets A of half the extents.
UNEQUAL_PRODUCTS = {"product of other shapes": of(ONE + "Tx.warp.gemm(d[:, :], a[:, :], b[:, :], d[:, :])", PRODUCT)}
#: Kernels whose copy then gets a source of half the extent.
UNEQUAL = {
    "spread, two extents": of(ONE + LOAD),
    "moved registers of two extents": of(ONE + "Tx.warp.copy(x[:, :], v[:, :])", TWICE),
}
REGISTER_WITNESSES = {
    "moved registers": of(ONE + "Tx.warp.copy(x[:, :], v[:, :])", TWICE),
    "moved by five threads": of("if tid < 5:\n    Tx.warp.copy(x[:, :], v[:, :])", TWICE),
    "moved by a cluster": of("Tx.cluster.copy(x[:, :], v[:, :], cta_mask=1)", TWICE),
    "moved registers of two dtypes": of(ONE + "Tx.warp.copy(x[:, :], y[:, :])", TWICE),
    "exchanged with other lanes": of(ONE + "Tx.warp.copy(z[:, :], v[:, :])", TWICE),
    "exchanged with other warps": of("Tx.wg.copy(far[:, :], near[:, :])", TWICE),
    "product": of(ONE + "Tx.warp.gemm(d[:, :], a[:, :], b[:, :], d[:, :], beta=1.0)", PRODUCT),
    "product by five threads": of("if tid < 5:\n    Tx.warp.gemm(d[:, :], a[:, :], b[:, :], d[:, :])", PRODUCT),
    "product by a cluster": of("Tx.cluster.gemm(d[:, :], a[:, :], b[:, :], d[:, :], cta_mask=1)", PRODUCT),
    "product by a thread": of("Tx.gemm(d[:, :], a[:, :], b[:, :], d[:, :])", PRODUCT),
    "product of tensor memory": of(ONE + "Tx.warp.gemm(d[:, :], tm[0:16, 0:16], b[:, :], d[:, :])", PRODUCT + TENSOR),
    "product of truth values": of(ONE + "Tx.warp.gemm(d[:, :], a[:, :], b[:, :], d[:, :])", MATRICES.format("bool")),
    "product of tf32": of(ONE + "Tx.warp.gemm(d[:, :], a[:, :], b[:, :], d[:, :])", MATRICES.format("tfloat32")),
    "product by a factor from memory": of(ONE + "Tx.warp.gemm(d[:, :], a[:, :], b[:, :], d[:, :], alpha=t[0, 0])", PRODUCT),
    "product element by element": of("Tx.cta.gemm(t[0:8, 0:8], t[8:16, 0:8], t[8:16, 8:16], t[0:8, 0:8])", PRODUCT),
    "product in place": of(ONE + "Tx.warp.gemm(t[0:8, 0:8], t[0:8, 0:8], t[8:16, 0:8], t[0:8, 0:8])", PRODUCT),
    "product of shared memory": of(ONE + "Tx.warp.gemm(d[:, :], t[:, :], b[:, :], d[:, :])", PRODUCT),
    "product of float32": of(ONE + "Tx.warp.gemm(d[:, :], a[:, :], b[:, :], d[:, :])", MATRICES.format("float32")),
    "twice the product": of(ONE + "Tx.warp.gemm(d[:, :], a[:, :], b[:, :], d[:, :], alpha=2.0)", PRODUCT),
    "half the product of integers": lambda: register_product((16, 8, 32), ("int8", "int8", "int32"), alpha=0.5),
    "product of halves": lambda: register_product(
        (16, 8, 16), ("float16", "float16", "float16"), alpha=0.5, config=", dispatch='mma_sync_scaled'"),
    "product over its addend": of(ONE + "Tx.warp.gemm(d[:, :], a[:, :], b[:, :], e[:, :], beta=1.0)", PRODUCT),
    "product with rows of lanes": of(ONE + "Tx.warp.gemm(l[:, :], a[:, :], b[:, :], l[:, :])", PRODUCT),
    "spread load": of(ONE + LOAD),
    "spread store": of(STORE),
    "halves of two columns in one byte": of(
        ONE + "Tx.warp.copy(v[:, :], A[0:32, 0:16])",
        'r = Tx.alloc_local((16,), "float4_e2m1fn")\nv = r.view(32, 16, layout=TileLayout(S[(32, 2, 8):(1 @ laneid, 1, 2)]))\n',
        params=HALVES.replace("float16", "float4_e2m1fn")),
    "spread over five threads": of("if tid < 5:\n    " + LOAD),
    "spread over a cluster": of("Tx.cluster.copy(v[:, :], A[0:32, 0:16])"),
    "spread, two dtypes": of(ONE + LOAD, params=HALVES.replace('A: Tx.Buffer((64, 64), "float16")',
                                                               'A: Tx.Buffer((64, 64), "uint16")')),
    "spread, no registers": of("Tx.warp.copy(B[0:32, 0:16], A[0:32, 0:16])"),
    "spread over a warpgroup, copied by a warp": of(
        ONE + "Tx.warp.copy(v[:, :], A[0:64, :])",
        REGISTERS.replace("16", "32", 1) + "v = r.view(64, 64, layout=TileLayout(S[(64, 2, 32):(1 @ tid_in_wg, 64 @ tid_in_wg, 1)]))\n"),
    "spread store of everyone's registers": of(ONE + "Tx.warp.copy(B[0, 0:16], r[:])", REGISTERS),
    "spread from shared": of(ONE + "Tx.warp.copy(v[:, :], s[:, :])", LANES + SHARED),
    "spread from columns": of(ONE + "Tx.warp.copy(v[:, :], V[0:32, 0:16])", LANES + COLUMNS),
    "spread from an odd place": of(ONE + "Tx.warp.copy(v[:, :], A[0:32, 1:17])"),
    "ldmatrix": of(ONE + "Tx.warp.copy(f[:, :], s[:, 0:16])", MATRIX),
    "stmatrix": of(ONE + "Tx.warp.copy(s[:, 0:16], f[:, :])", MATRIX),
    "ldmatrix of more than a warp": of(ONE + "Tx.warp.copy(v[:, :], s[:, :])", WIDER),
    "stmatrix of more than a warp": of(ONE + "Tx.warp.copy(s[:, :], v[:, :])", WIDER),
    "stmatrix of everyone's registers": of(ONE + "Tx.warp.copy(s[0, 0:16], r[:])", MATRIX),
    "stmatrix of rows": of(ONE + "Tx.warp.copy(s[:, :], v[:, :])", LANES + SHARED),
    "ldmatrix to halves of registers": of(ONE + "Tx.warp.copy(v[:, :], s[:, 0:8])", GAPS + SHARED),
    "stmatrix of halves of registers": of(ONE + "Tx.warp.copy(s[:, 0:8], v[:, :])", GAPS + SHARED),
    "ldmatrix from columns": of(ONE + "Tx.warp.copy(f[:, :], s[:, :])", MATRIX_COLUMNS),
    "stmatrix to columns": of(ONE + "Tx.warp.copy(s[:, :], f[:, :])", MATRIX_COLUMNS),
    "ldmatrix from an odd place": of(ONE + "Tx.warp.copy(f[:, :], s[:, 1:17])", MATRIX),
    "stmatrix to an odd place": of(ONE + "Tx.warp.copy(s[:, 1:17], f[:, :])", MATRIX),
    "scattered over registers": of(ONE + LOAD, SCATTERED),
}  # fmt: skip
