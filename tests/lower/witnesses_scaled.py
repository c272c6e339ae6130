"""Block-scaled products: a kernel of one tile as text, and variations that each break one condition."""

from __future__ import annotations

from tirx_eq.ir import dtype as dt
from tirx_eq.script import parse_source

SCALED = """
from tirx_eq.layout import S, R, TCol, TileLayout, TLane, mma_shared_layout, tid_in_wg
from tirx_eq.script import tirx as Tx

@Tx.prim_func
def gemm(A: Tx.Buffer((128, {k}), "{a}"), B: Tx.Buffer((128, {k}), "{b}"), F: Tx.Buffer((128, {columns}), "int32"),
         D: Tx.Buffer((128, 128), "float32")):
    Tx.device_entry()
    warp_id = Tx.warp_id_in_wg([4])
    lane_id = Tx.lane_id([32])
    tid = Tx.thread_id([128])
    pool = Tx.SMEMPool()
    tmem_addr = Tx.alloc_shared([1], "uint32")
    A_s = pool.alloc((128, {k}), "{a}", layout=mma_shared_layout("{a}", "128B", (128, {k})))
    B_s = pool.alloc((128, {k}), "{b}", layout=mma_shared_layout("{b}", "128B", (128, {k})))
    mbar = pool.alloc((1,), "uint64", align=8)
    pool.commit()
    if warp_id == 0:
        if lane_id == 0:
            Tx.ptx.mbarrier.init(mbar.ptr_to([0]), 1)
            Tx.ptx.fence.mbarrier_init()
        Tx.ptx.tcgen05.alloc(Tx.address_of(tmem_addr[0]), n_cols=512, cta_group=1)
    Tx.cta.copy(A_s[:, :], A[:, :])
    Tx.cta.copy(B_s[:, :], B[:, :])
    Tx.ptx.fence.proxy_async("shared::cta")
    Tx.ptx.tcgen05.fence.before_thread_sync()
    Tx.cuda.cta_sync()
    Tx.ptx.tcgen05.fence.after_thread_sync()
    tmem = Tx.decl_buffer((128, 128), "float32", scope="tmem", allocated_addr=tmem_addr[0],
                          layout=TileLayout(S[(128, 128) : (1 @ TLane, 1 @ TCol)]))
    words = Tx.decl_buffer((128, {columns}), "int32", scope="tmem", allocated_addr=tmem_addr[0] + 256,
                           layout=TileLayout(S[(128, {columns}) : (1 @ TLane, 1 @ TCol)]))
    SFA = Tx.decl_buffer((128, {factors}), "{sf}", scope="tmem", allocated_addr=tmem_addr[0] + 256, layout={layout})
    SFB = Tx.decl_buffer((128, {factors}), "{sf}", scope="tmem", allocated_addr=tmem_addr[0] + {second}, layout={layout})
    held = Tx.alloc_local(({columns},), "int32")
    held_wg = held.view(128, {columns}, layout=TileLayout(S[(128, {columns}) : (1 @ tid_in_wg, 1)]))
    Tx.copy(held[:], F[tid, :])
    Tx.wg.copy_async(words[:, :], held_wg[:, :])
    Tx.ptx.tcgen05.wait.st()
    Tx.ptx.tcgen05.fence.before_thread_sync()
    Tx.cuda.cta_sync()
    Tx.ptx.tcgen05.fence.after_thread_sync()
    if warp_id == 0:
        if Tx.ptx.elect_sync():
            Tx.gemm_async(tmem[:, :], A_s[:, :], B_s[:, :], SFA=SFA[:, :], SFB=SFB[:, :], accum=False, dispatch="tcgen05")
            Tx.ptx.tcgen05.commit(mbar.ptr_to([0]), cta_group=1)
    Tx.ptx.mbarrier.try_wait(mbar.ptr_to([0]), 0)
    Tx.ptx.tcgen05.fence.after_thread_sync()
    regs = Tx.alloc_local((128,), "float32")
    view = regs.view(128, 128, layout=TileLayout(S[(128, 128) : (1 @ tid_in_wg, 1)]))
    Tx.wg.copy_async(view[:, :], tmem[:, :])
    Tx.ptx.tcgen05.wait.ld()
    Tx.copy(D[tid, :], regs[:])
    Tx.ptx.tcgen05.fence.before_thread_sync()
    Tx.cuda.cta_sync()
    Tx.ptx.tcgen05.fence.after_thread_sync()
    if warp_id == 0:
        Tx.ptx.tcgen05.relinquish_alloc_permit(cta_group=1)
        Tx.ptx.tcgen05.dealloc(tmem_addr[0], n_cols=512, cta_group=1)
"""


def scaled_kernel(a="float8_e4m3fn", sf="float8_e8m0fnu", block=32, changes=()):
    """(kernel, K, factors of a row, columns of one operand's factors); ``changes`` are replacements in the text."""
    k = 128 * 8 // dt.bits(a)
    factors = k // block
    # Groups of four factors of a row share a cell; 32 rows are one column.
    inner = min(factors, 4)
    shard = [(4, "4 @ TCol"), (32, "1 @ TLane"), *([(factors // 4, "16 @ TCol")] if factors > 4 else []), (inner, "1 @ TCol")]
    extents = ", ".join(str(e) for e, _ in shard)
    strides = ", ".join(s for _, s in shard)
    layout = f"TileLayout(S[({extents}) : ({strides})] + R[4 : 32 @ TLane])"
    columns = 4 * max(1, factors // 4)
    text = SCALED.format(a=a, b=a, sf=sf, k=k, factors=factors, layout=layout, columns=2 * columns, second=256 + columns)
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return parse_source(text, "scaled.py")["gemm"], k, factors, columns


def scaled(*changes: tuple[str, str]):
    """The kernel with pieces of its text replaced."""
    return scaled_kernel(changes=changes)[0]


CALL = "Tx.gemm_async(tmem[:, :], A_s[:, :], B_s[:, :], SFA=SFA[:, :], SFB=SFB[:, :], accum=False"
REPLICA = " + R[4 : 32 @ TLane])"

SCALED_WITNESSES = {
    "scaled": lambda: scaled(),
    "scaled by two lanes": lambda: scaled(("        if Tx.ptx.elect_sync():\n", "        if lane_id < 2:\n")),
    "scaled A in tensor memory": lambda: scaled(
        ("    held = Tx", '    A_t = Tx.decl_buffer((128, 128), "float8_e4m3fn", scope="tmem", allocated_addr=tmem_addr[0] + 300, '
         "layout=TileLayout(S[(128, 128) : (1 @ TLane, 1 @ TCol)]))\n    held = Tx"), (CALL, CALL.replace("A_s", "A_t"))),
    "scaled B in tensor memory": lambda: scaled(
        ("    held = Tx", '    B_t = Tx.decl_buffer((128, 128), "float8_e4m3fn", scope="tmem", allocated_addr=tmem_addr[0] + 300, '
         "layout=TileLayout(S[(128, 128) : (1 @ TLane, 1 @ TCol)]))\n    held = Tx"), (CALL, CALL.replace("B_s", "B_t"))),
    "scaled to registers": lambda: scaled(
        ("    if warp_id == 0:\n        if Tx.ptx.elect_sync", '    early = Tx.alloc_local((128,), "float32")\n'
         "    spread = early.view(128, 128, layout=TileLayout(S[(128, 128) : (1 @ tid_in_wg, 1)]))\n"
         "    if warp_id == 0:\n        if Tx.ptx.elect_sync"), (CALL, CALL.replace("tmem[", "spread["))),
    "scaled to halves": lambda: scaled(
        ("    held = Tx", '    half = Tx.decl_buffer((128, 128), "float16", scope="tmem", allocated_addr=tmem_addr[0], '
         "layout=TileLayout(S[(128, 128) : (1 @ TLane, 2 @ TCol)]))\n    held = Tx"), (CALL, CALL.replace("tmem[", "half["))),
    "scaled by registers": lambda: scaled(
        ("    held = Tx", '    SFR = Tx.alloc_local((128, 4), "float8_e8m0fnu")\n    held = Tx'),
        (CALL, CALL.replace("SFB=SFB", "SFB=SFR"))),
    "scaled by a pair": lambda: scaled(
        (CALL, CALL.replace("B_s[:, :]", "B_s[0:64, :]").replace("accum", "cta_group=2, accum"))),
    "scaled, 64 rows": lambda: scaled(
        (CALL, CALL.replace("tmem[:, :]", "tmem[0:64, :]").replace("A_s[:, :]", "A_s[0:64, :]").replace("SFA[:", "SFA[0:64"))),
    "scaled to transposed lanes": lambda: scaled(
        ("S[(128, 128) : (1 @ TLane, 1 @ TCol)]))\n    words", "S[(2, 64, 128) : (1 @ TLane, 2 @ TLane, 1 @ TCol)]))\n    words")),
    "scaled by one quarter": lambda: scaled((REPLICA, ")")),
    "scaled with plain A": lambda: scaled((', layout=mma_shared_layout("float8_e4m3fn", "128B", (128, 128)))\n    B_s', ")\n    B_s")),
    "scaled with plain B": lambda: scaled((', layout=mma_shared_layout("float8_e4m3fn", "128B", (128, 128)))\n    mbar', ")\n    mbar")),
}  # fmt: skip
