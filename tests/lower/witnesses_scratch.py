"""Kernels that the conditions of lowerings through scratch keep out, each one by one condition."""

from __future__ import annotations

from .kernels import kernel

AXES = "from tirx_eq.layout import laneid, warpid, wid_in_wg, tx\n"
HEAD = """
tid = Tx.thread_id([256])
g = Tx.warpgroup_id([2])
w = Tx.warp_id([8])
a = Tx.alloc_local((4,), "float32")
b = Tx.alloc_local((4,), "float32")
"""
SUM = """
v = a.view(128, 4, layout=TileLayout(S[(128, 4):(1 @ tid_in_wg, 1)]))
r = b.view(4, layout=TileLayout(S[(4,):(1,)]))
Tx.wg.sum(r[:], v[:, :], axes=0)
"""


def of(text: str):
    return lambda: kernel(HEAD + text, 'A: Tx.Buffer((64, 64), "float32")', AXES)


SCRATCH_WITNESSES = {
    "warps meet": of(SUM),
    "warps meet in a loop": of("for k in Tx.serial(3):\n" + "\n".join("    " + x for x in SUM.strip().splitlines())),
    "warps meet, rows held by one warp": of(
        "v = a.view(32, 4, layout=TileLayout(S[(32, 4):(1 @ laneid, 1)]))\n"
        "r = b.view(32, layout=TileLayout(S[(32,):(1 @ laneid,)]))\nTx.warp.sum(r[:], v[:, :])"),
    "warps meet, no barrier is left": of("".join(f"Tx.ptx.bar.sync({n}, 256)\n" for n in range(1, 16, 2)) + SUM),
    "warps meet, results held by threads of two minds": of(
        "v = a.view(128, 4, layout=TileLayout(S[(128, 4):(1 @ tid_in_wg, 1)]))\n"
        "r = b.view(3, layout=TileLayout(S[(3,):(1 @ tid_in_wg,)]))\nTx.wg.sum(r[:], v[:, 0:3], axes=0)"),
    "warps meet, no room": of('s = Tx.alloc_shared((232448,), "uint8")\n' + SUM),
}  # fmt: skip

EXCHANGE = """
v = a.view(128, 4, layout=TileLayout(S[(128, 4):(1 @ tid_in_wg, 1)]))
u = b.view(128, 4, layout=TileLayout(S[(4, 32, 4):(1, 4 @ tid_in_wg, 1 @ tid_in_wg)]))
Tx.wg.copy(u[:, :], v[:, :])
"""
SCRATCH_WITNESSES |= {
    "registers change warps": of(EXCHANGE),
    "registers change warps in a loop": of(
        "for k in Tx.serial(3):\n" + "\n".join("    " + x for x in EXCHANGE.strip().splitlines())),
    "registers change warps, by some threads": of(
        "if tid < 40:\n" + "\n".join("    " + x for x in EXCHANGE.strip().splitlines())),
    "registers change warps, by a cluster": of(EXCHANGE.replace("Tx.wg.copy(u[:, :], v[:, :])", "Tx.cluster.copy(u[:, :], v[:, :], cta_mask=1)")),
    "registers change warps, no barrier is left": of(
        "".join(f"Tx.ptx.bar.sync({n}, 256)\n" for n in range(1, 16, 2)) + EXCHANGE),
    "registers change warps, no room": of('s = Tx.alloc_shared((232448,), "uint8")\n' + EXCHANGE),
    "registers change warps and dtypes": of(
        'h = Tx.alloc_local((4,), "int32")\n' + EXCHANGE.replace("u = b", "u = h")),
    "registers stay": of(EXCHANGE.replace("S[(4, 32, 4):(1, 4 @ tid_in_wg, 1 @ tid_in_wg)]", "S[(128, 4):(1 @ tid_in_wg, 1)]")),
    "memory is permuted": of("Tx.cta.permute_layout(A[0:8, :], A[8:16, :])"),
}  # fmt: skip
#: With the source's first extent halved.
UNEQUAL_EXCHANGES = {"registers change warps, other extents": SCRATCH_WITNESSES["registers change warps"]}
