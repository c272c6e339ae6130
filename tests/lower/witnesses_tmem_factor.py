"""Products with A in tensor memory, weight-stationary and block-scaled: variations that each break one condition."""

from __future__ import annotations

from .tmem_factor_kernels import Product

STATIONARY = Product(m=64, stationary=True)
SCALED = Product("float8_e4m3fn", "float8_e4m3fn", k=128, sf="float8_e8m0fnu")
ISSUE = "            if Tx.ptx.elect_sync():\n"
PLAIN_B = ', layout=mma_shared_layout("{0}", "128B", (64, {1})))\n    mbar'
WITH_REPLICA = "S[(64, 64) : (1 @ TLane, 1 @ TCol)] + R[2 : 64 @ TLane]"
TRANSPOSED_LANES = "S[(2, {0}, {1}) : (1 @ TLane, 2 @ TLane, 1 @ TCol)]"


def _registers(rows: int, product: Product) -> tuple[tuple[str, str], ...]:
    """The accumulator in registers instead."""
    spread = f"S[({rows}, {128 // rows}, {product.n * rows // 128}) : (1 @ tid_in_wg, {rows} @ tid_in_wg, 1)]"
    if rows == 128:
        spread = f"S[(128, {product.n}) : (1 @ tid_in_wg, 1)]"
    declared = (
        f'    early = Tx.alloc_local(({product.n * rows // 128},), "float32")\n'
        f"    spread = early.view({rows}, {product.n}, layout=TileLayout({spread}))\n    if rank == 0:\n        if warp_id"
    )
    return ("    if rank == 0:\n        if warp_id", declared), ("gemm_async(tmem[", "gemm_async(spread[")


TMEM_FACTOR_WITNESSES = {
    "ws, A in tensor memory": lambda: STATIONARY.function(),
    "ws, A in tensor memory, by two lanes": lambda: STATIONARY.function((ISSUE, "            if lane_id < 2:\n")),
    "ws, all in tensor memory": lambda: STATIONARY.function(("B_s[:, :], accum", "A_t[:, :], accum")),
    "ws, A in tensor memory, to registers": lambda: STATIONARY.function(*_registers(64, STATIONARY)),
    "ws, A in tensor memory, of a pair": lambda: STATIONARY.function(("accum=False, cta_group=1", "accum=False, cta_group=2")),
    "ws, A in tensor memory, 32 columns": lambda: Product(m=64, n=32, stationary=True).function(),
    "ws, A in tensor memory, transposed": lambda: STATIONARY.function(("accum=False", "transA=True, accum=False")),
    "ws, A in tensor memory, to one block of lanes": lambda: STATIONARY.function(
        ("S[(64, 2, 32) : (1 @ TLane, 64 @ TLane, 1 @ TCol)]", "S[(64, 64) : (1 @ TLane, 1 @ TCol)]")),
    "ws, A in one block of lanes": lambda: STATIONARY.function(
        (WITH_REPLICA, WITH_REPLICA.split(" + ")[0])),
    "ws, A in tensor memory, plain B": lambda: STATIONARY.function((PLAIN_B.format("float16", 64), ")\n    mbar")),
    "scaled, A in tensor memory": lambda: SCALED.function(),
    "scaled, A in tensor memory, by two lanes": lambda: SCALED.function((ISSUE, "            if lane_id < 2:\n")),
    "scaled, all in tensor memory": lambda: SCALED.function(("B_s[:, :], SFA", "A_t[0:64, :], SFA")),
    "scaled, A in tensor memory, to registers": lambda: SCALED.function(*_registers(128, SCALED)),
    "scaled, A in tensor memory, by registers": lambda: SCALED.function(
        ("    f_held", '    SFR = Tx.alloc_local((64, 4), "float8_e8m0fnu")\n    f_held'),
        ("SFB=SFB[", "SFB=SFR[")),
    "scaled, A in tensor memory, of half a pair": lambda: SCALED.function(("accum=False, cta_group=1", "accum=False, cta_group=2")),
    "scaled, A in tensor memory, 24 columns": lambda: SCALED.function(
        ("tmem[:, :], A_t[:, :], B_s[:, :], SFA=SFA[:, :], SFB=SFB[:, :]",
         "tmem[:, 0:24], A_t[:, :], B_s[0:24, :], SFA=SFA[:, :], SFB=SFB[0:24, :]")),
    "scaled, A in tensor memory, transposed": lambda: SCALED.function(("accum=False", "transA=True, accum=False")),
    "scaled, A in tensor memory, to transposed lanes": lambda: SCALED.function(
        ("layout=TileLayout(S[(128, 64) : (1 @ TLane, 1 @ TCol)]))\n    lanes",
         f"layout=TileLayout({TRANSPOSED_LANES.format(64, 64)}))\n    lanes")),
    "scaled by one quarter, A in tensor memory": lambda: SCALED.function(
        ("S[(2, 32, 4) : (4 @ TCol, 1 @ TLane, 1 @ TCol)] + R[4 : 32 @ TLane]",
         "S[(2, 32, 4) : (4 @ TCol, 1 @ TLane, 1 @ TCol)]")),
    "scaled, A in transposed lanes": lambda: SCALED.function(
        ("layout=TileLayout(S[(128, 128) : (1 @ TLane, 1 @ TCol)]))\n    a_words",
         f"layout=TileLayout({TRANSPOSED_LANES.format(64, 128)}))\n    a_words")),
    "scaled, A in tensor memory, plain B": lambda: SCALED.function((PLAIN_B.format("float8_e4m3fn", 128), ")\n    mbar")),
}  # fmt: skip
