"""Copies from shared to tensor memory: kernels as text, and variations that each break one condition."""

from __future__ import annotations

from tirx_eq.script import parse_source

from .witnesses_scaled import scaled_kernel

COPIED = """
from tirx_eq.layout import S, R, TCol, TileLayout, TLane, mma_shared_layout, tid_in_wg
from tirx_eq.script import tirx as Tx

@Tx.prim_func
def copied(A: Tx.Buffer(({rows}, {width}), "{dtype}"), D: Tx.Buffer((128, {width}), "{dtype}")):
    Tx.device_entry()
    warp_id = Tx.warp_id_in_wg([4])
    lane_id = Tx.lane_id([32])
    tid = Tx.thread_id([128])
    pool = Tx.SMEMPool()
    tmem_addr = Tx.alloc_shared([1], "uint32")
    A_s = pool.alloc(({rows}, {width}), "{dtype}", layout={shared}, align=1024)
    mbar = pool.alloc((1,), "uint64", align=8)
    pool.commit()
    if warp_id == 0:
        if lane_id == 0:
            Tx.ptx.mbarrier.init(mbar.ptr_to([0]), 1)
            Tx.ptx.fence.mbarrier_init()
        Tx.ptx.tcgen05.alloc(Tx.address_of(tmem_addr[0]), n_cols=32, cta_group=1)
    Tx.cta.copy(A_s[:, :], A[:, :])
    Tx.ptx.fence.proxy_async("shared::cta")
    Tx.ptx.tcgen05.fence.before_thread_sync()
    Tx.cuda.cta_sync()
    Tx.ptx.tcgen05.fence.after_thread_sync()
    t = Tx.decl_buffer(({rows}, {width}), "{dtype}", scope="tmem", allocated_addr=tmem_addr[0], layout={lanes})
    all_lanes = Tx.decl_buffer((128, {width}), "{dtype}", scope="tmem", allocated_addr=tmem_addr[0],
                               layout=TileLayout(S[(128, {width}) : (1 @ TLane, 1 @ TCol)]))
    regs = Tx.alloc_local(({width},), "{dtype}")
    view = regs.view(128, {width}, layout=TileLayout(S[(128, {width}) : (1 @ tid_in_wg, 1)]))
    if warp_id == 0:
        if Tx.ptx.elect_sync():
            Tx.copy_async(t[:, :], A_s[:, :])
            Tx.ptx.tcgen05.commit(mbar.ptr_to([0]), cta_group=1)
    Tx.ptx.mbarrier.try_wait(mbar.ptr_to([0]), 0)
    Tx.ptx.tcgen05.fence.after_thread_sync()
    Tx.wg.copy_async(view[:, :], all_lanes[:, :])
    Tx.ptx.tcgen05.wait.ld()
    Tx.copy(D[tid, :], regs[:])
    Tx.ptx.tcgen05.fence.before_thread_sync()
    Tx.cuda.cta_sync()
    Tx.ptx.tcgen05.fence.after_thread_sync()
    if warp_id == 0:
        Tx.ptx.tcgen05.relinquish_alloc_permit(cta_group=1)
        Tx.ptx.tcgen05.dealloc(tmem_addr[0], n_cols=32, cta_group=1)
"""

BY_REGISTERS = """    held = Tx.alloc_local((8,), "int32")
    held_wg = held.view(128, 8, layout=TileLayout(S[(128, 8) : (1 @ tid_in_wg, 1)]))
    Tx.copy(held[:], F[tid, :])
    Tx.wg.copy_async(words[:, :], held_wg[:, :])
    Tx.ptx.tcgen05.wait.st()
    Tx.ptx.tcgen05.fence.before_thread_sync()
    Tx.cuda.cta_sync()
    Tx.ptx.tcgen05.fence.after_thread_sync()
"""


def copied(shared: str, width: int, rows: int = 128, lanes: str = "", changes: tuple[tuple[str, str], ...] = (),
           dtype: str = "float32"):  # fmt: skip
    """A kernel that copies (rows, width) elements into tensor memory by one thread, and writes all 128 lanes out."""
    lanes = lanes or f"TileLayout(S[(128, {width}) : (1 @ TLane, 1 @ TCol)])"
    text = COPIED.format(shared=shared, width=width, rows=rows, lanes=lanes, dtype=dtype)
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return parse_source(text, "copied.py")["copied"]


def factors_by_copy():
    """The block-scaled product with its scale factors, (256, 4) for A and B, brought by tcgen05.cp."""
    pool = "    mbar = pool.alloc"
    fill = "    Tx.ptx.fence.proxy_async"
    product = "            Tx.gemm_async"
    return scaled_kernel(changes=(
        ('F: Tx.Buffer((128, 8), "int32")', 'F: Tx.Buffer((256, 4), "float8_e8m0fnu")'),
        (BY_REGISTERS, ""),
        (pool, '    F_s = pool.alloc((256, 4), "float8_e8m0fnu", align=128, '
               f"layout=TileLayout(S[(2, 4, 32, 4) : (512, 4, 16, 1)]))\n{pool}"),
        (fill, f"    Tx.cta.copy(F_s[:, :], F[:, :])\n{fill}"),
        (product, "            Tx.copy_async(SFA[:, :], F_s[0:128, :])\n"
                  f"            Tx.copy_async(SFB[:, :], F_s[128:256, :])\n{product}"),
    ))[0]  # fmt: skip


def _plain(*changes: tuple[str, str]):
    return copied("TileLayout(S[(128, 4) : (4, 1)])", 4, changes=changes)


COPY = "Tx.copy_async(t[:, :], A_s[:, :])"

TMEM_COPY_WITNESSES = {
    "cp": lambda: _plain(),
    "cp by two lanes": lambda: _plain(("        if Tx.ptx.elect_sync():\n", "        if lane_id < 2:\n")),
    "cp to a pair": lambda: _plain((COPY, COPY[:-1] + ", cta_group=2)")),
    "cp of other words": lambda: _plain(('(128, 4), "float32", layout', '(128, 4), "int32", layout'),
                                        ('A: Tx.Buffer((128, 4), "float32")', 'A: Tx.Buffer((128, 4), "int32")')),
    "cp from global memory": lambda: _plain((COPY, "Tx.copy_async(t[:, :], A[:, :])")),
    "cp to shared memory": lambda: _plain((COPY, "Tx.copy_async(A_s[:, :], A_s[:, :])")),
    "cp of strided rows": lambda: copied("TileLayout(S[(128, 4) : (8, 1)])", 4),
}  # fmt: skip
