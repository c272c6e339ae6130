"""For every condition of the rules for elements of 4 bits, a kernel that it keeps out."""

from __future__ import annotations

from .kernels import kernel

PARAMS = 'A: Tx.Buffer((64, 64), "float4_e2m1fn"), B: Tx.Buffer((64, 64), "float4_e2m1fn")'
LOCAL = 'r = Tx.alloc_local((16,), "float4_e2m1fn")\ns = Tx.alloc_local((16,), "float4_e2m1fn")\n'
LANES = LOCAL + """
v = r.view(32, 16, layout=TileLayout(S[(32, 16):(1 @ laneid, 1)]))
u = s.view(32, 16, layout=TileLayout(S[(2, 16, 16):(1 @ laneid, 2 @ laneid, 1)]))
l = s.view(16, 16, layout=TileLayout(S[(16, 16):(1 @ laneid, 1)]))
"""
TENSOR_MEMORY = """
addr = Tx.alloc_shared([1], "uint32")
t = Tx.decl_buffer((128, 16), "float4_e2m1fn", scope="tmem", allocated_addr=addr[0], layout=TileLayout(S[(128, 16):(1 @ TLane, 1 @ TCol)]))
"""


def of(statement: str, before: str = LOCAL, params: str = PARAMS):
    """A kernel factory: 128 threads, ``before``, then the statement."""
    return lambda: kernel(f"tid = Tx.thread_id([128])\nw = Tx.warp_id([4])\n{before}{statement}", params, "from tirx_eq.layout import laneid\n")


HALF_WITNESSES = {
    "halves": of("Tx.copy(r[1:9], s[0:8])"),
    "halves of nobody": of("if w == 7:\n    Tx.copy(r[1:9], s[0:8])"),
    "halves by a cluster": of("Tx.cluster.copy(B[:, :], A[:, :])"),
    "halves of two dtypes": of("Tx.copy(r[:], A[0, 0:16])", params=PARAMS.replace('(64, 64), "float4_e2m1fn")', '(64, 64), "uint8")')),
    "halves of bytes of memory": of("Tx.copy(B[0, 1:9], r[0:8])"),
    "halves of other threads": of("if w == 0:\n    Tx.warp.copy(v[:, :], u[:, :])", LANES),
    "whole bytes": of("Tx.cta.copy(B[:, :], A[:, :])", "", PARAMS.replace("float4_e2m1fn", "uint8")),
    "halves of tensor memory": of("Tx.copy(r[:], t[0:1, :])", LOCAL + TENSOR_MEMORY),
    "half fill": of("Tx.fill(r[1:9], 1)"),
    "half fill of nobody": of("if w == 7:\n    Tx.fill(r[1:9], 1)"),
    "half fill by a cluster": of("Tx.cluster.fill(B[:, :], 1)"),
    "half fill of a value": of('Tx.fill(B[0, :], Tx.cast(tid, "float32"))'),
    "half fill of whole bytes": of("Tx.fill(B[0, :], 1)", "", PARAMS.replace("float4_e2m1fn", "uint8")),
    "half fill of tensor memory": of("Tx.fill(t[0:1, :], 1)", TENSOR_MEMORY),
    "half fill of bytes of memory": of("Tx.fill(B[0, 1:9], 1)"),
    "half fill of the lower lanes": of("if w == 0:\n    Tx.warp.fill(l[:, :], 1)", LANES),
}  # fmt: skip
UNEQUAL_HALVES = {"halves of two extents": of("Tx.copy(r[:], A[0, 0:16])")}
