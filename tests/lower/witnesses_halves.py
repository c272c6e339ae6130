"""For every condition of the rules for elements of 4 bits, a kernel that it keeps out."""

from __future__ import annotations

from .kernels import kernel

PARAMS = 'A: Tx.Buffer((64, 64), "float4_e2m1fn"), B: Tx.Buffer((64, 64), "float4_e2m1fn")'
LOCAL = 'r = Tx.alloc_local((16,), "float4_e2m1fn")\ns = Tx.alloc_local((16,), "float4_e2m1fn")\n'
LANES = LOCAL + """
v = r.view(32, 16, layout=TileLayout(S[(32, 16):(1 @ laneid, 1)]))
u = s.view(128, 16, layout=TileLayout(S[(128, 16):(1 @ tid_in_wg, 1)]))
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
    "halves of five lanes": of("if tid < 5:\n    Tx.warp.copy(r[1:9], s[0:8])"),
    "halves by a cluster": of("Tx.cluster.copy(B[:, :], A[:, :])"),
    "halves of two dtypes": of("Tx.copy(r[:], A[0, 0:16])", params=PARAMS.replace('(64, 64), "float4_e2m1fn")', '(64, 64), "uint8")')),
    "halves of bytes of memory": of("Tx.copy(B[0, 1:9], r[0:8])"),
    "halves of other threads": of("if w == 0:\n    Tx.warp.copy(u[:, :], u[:, :])", LANES),
    "whole bytes": of("Tx.cta.copy(B[:, :], A[:, :])", "", PARAMS.replace("float4_e2m1fn", "uint8")),
    "halves of tensor memory": of("Tx.copy(r[:], t[0:1, :])", LOCAL + TENSOR_MEMORY),
}  # fmt: skip
for op, value in (("fill", ", 1"), ("memset", ", 1"), ("zero", "")):
    HALF_WITNESSES |= {
        f"half {op}": of(f"Tx.{op}(r[1:9]{value})"),
        f"half {op} of five lanes": of(f"if tid < 5:\n    Tx.warp.{op}(r[1:9]{value})"),
        f"half {op} by a cluster": of(f"Tx.cluster.{op}(B[:, :]{value})"),
        f"half {op} of whole bytes": of(f"Tx.{op}(B[0, :]{value})", "", PARAMS.replace("float4_e2m1fn", "uint8")),
        f"half {op} of tensor memory": of(f"Tx.{op}(t[0:1, :]{value})", TENSOR_MEMORY),
        f"half {op} of bytes of memory": of(f"Tx.{op}(B[0, 1:9]{value})"),
        f"half {op} of the lower lanes": of(f"if w == 0:\n    Tx.warp.{op}(l[:, :]{value})", LANES),
    }
    if value:
        HALF_WITNESSES[f"half {op} of a value"] = of(f'Tx.{op}(B[0, :], Tx.cast(tid, "float32"))')
HALF_WITNESSES |= {
    "permuted halves": of("Tx.permute_layout(r[1:9], s[0:8])"),
    "permuted halves of five lanes": of("if tid < 5:\n    Tx.warp.permute_layout(r[1:9], s[0:8])"),
    "permuted halves by a cluster": of("Tx.cluster.permute_layout(B[:, :], A[:, :])"),
    "permuted halves of tensor memory": of("Tx.permute_layout(r[:], t[0:1, :])", LOCAL + TENSOR_MEMORY),
    "permuted bytes": of("Tx.cta.permute_layout(B[:, :], A[:, :])", "", PARAMS.replace("float4_e2m1fn", "uint8")),
    "permuted halves of two dtypes": of(
        "Tx.permute_layout(r[:], A[0, 0:16])", params=PARAMS.replace('A: Tx.Buffer((64, 64), "float4_e2m1fn")',
                                                                     'A: Tx.Buffer((64, 64), "uint8")')),
    "permuted halves of a row in place": of("Tx.warp.permute_layout(B[0, 0:8], B[0, 4:12])"),
    "permuted halves of other threads": of("if w == 0:\n    Tx.warp.permute_layout(u[:, :], u[:, :])", LANES),
    "permuted halves of bytes of memory": of("Tx.permute_layout(B[0, 1:9], r[0:8])"),
}
UNEQUAL_HALVES = {"halves of two extents": of("Tx.copy(r[:], A[0, 0:16])")}
UNEQUAL_PERMUTED = {"permuted halves of two extents": of("Tx.permute_layout(r[:], A[0, 0:16])")}
