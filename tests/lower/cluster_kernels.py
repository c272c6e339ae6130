"""Kernels of clusters of CTAs, as functions of what varies."""

from __future__ import annotations

from tirx_eq.ir.dtype import storage_bits
from tirx_eq.script import parse_source

from .kernels import kernel
from .register_kernels import AXES, Layout

TILE = "mma_shared_layout('float16', 3, (64, 64))"
IDS = "r = Tx.cta_id_in_cluster([{ctas}])\ng = Tx.cluster_id([1])\ntid = Tx.thread_id([128])\n"


def halves(rows_in: int, rows_out: int) -> str:
    return f'A: Tx.Buffer(({rows_in}, 64), "float16"), B: Tx.Buffer(({rows_out}, 64), "float16")'


def barrier(expected: int, where: str = "bar") -> str:
    """One thread initialises a barrier for one arrival, which it makes, expecting so many bytes."""
    return f"""
if tid == 0:
    Tx.ptx.mbarrier.init({where}.ptr_to([0]), 1)
    Tx.ptx.fence.mbarrier_init()
    Tx.ptx.mbarrier.arrive.expect_tx({where}.ptr_to([0]), {expected})
"""


def multicast(mask: str = "cta_mask=15", ctas: int = 4, shared: str = TILE, load: str = "", params: str = "",
              call: str = "if tid == 0:\n    Tx.copy_async"):  # fmt: skip
    """Each of four CTAs loads a quarter of a tile for all of them; every CTA writes its copy of the whole tile."""
    rows = 64 // ctas
    part = f"r * {rows} : r * {rows} + {rows}"
    load = load or f"sh[{part}, :], A[{part}, :], mbar=bar.ptr_to([0]), {mask}"
    body = f"""
pool = Tx.SMEMPool()
sh = pool.alloc((64, 64), "float16", layout={shared})
bar = pool.alloc((1,), "uint64", align=8)
pool.commit()
{barrier(8192)}
Tx.cuda.cluster_sync()
{call}({load})
Tx.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
Tx.cta.copy(B[r * 64 : r * 64 + 64, :], sh[:, :])
Tx.cuda.cluster_sync()
"""
    return kernel(IDS.format(ctas=ctas) + body, params or halves(64, 64 * ctas))


def exchange(copy: str = "", shared: str = TILE, to: str = "", expected: int = 8192, who: str = "tid == 0", before: str = ""):
    """Two CTAs copy a tile into each other's shared memory, and write what they got."""
    copy = copy or "Tx.copy_async(to[:, :], sh[:, :], dispatch='dsmem', mbar=bar.ptr_to([0]), remote_cta_id=1 - r)"
    body = f"""
w = Tx.warp_id([4])
sh = Tx.alloc_shared((64, 64), "float16", layout={shared})
to = Tx.alloc_shared((64, 64), "float16", layout={to or shared})
bar = Tx.alloc_shared((1,), "uint64")
{before}
{barrier(expected)}
Tx.cta.copy(sh[:, :], A[r * 64 : r * 64 + 64, :])
Tx.ptx.fence.proxy_async("shared::cta")
Tx.cuda.cluster_sync()
if {who}:
    {copy}
Tx.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
Tx.cta.copy(B[r * 64 : r * 64 + 64, :], to[:, :])
Tx.cuda.cluster_sync()
"""
    return kernel(IDS.format(ctas=2) + body, halves(128, 128))


SEND = "to[tid, :], v[:], mbar=bar.ptr_to([0]), remote_cta_id=1 - r"


def send_registers(send: str = SEND, threads: int = 64, dtype: str = "float32", to: str = "", count: int = 8,
                   who: str = "tid >= 0", scope: str = "thread"):  # fmt: skip
    """Every thread of two CTAs sends its registers into the other CTA's shared memory (st.async)."""
    layout = f", layout={to}" if to else ""
    size = storage_bits(dtype) // 8
    return kernel(
        f"""
r = Tx.cta_id_in_cluster([2])
g = Tx.cluster_id([1])
tid = Tx.thread_id([{threads}])
to = Tx.alloc_shared(({threads}, {count}), "{dtype}"{layout})
bits = Tx.alloc_shared(({threads}, {count}), "int32")
bar = Tx.alloc_shared((1,), "uint64")
v = Tx.alloc_local(({count},), "{dtype}")
u = Tx.alloc_local(({count},), "{dtype}", layout=TileLayout(S[({count},) : (2,)]))
{barrier(threads * count * size)}
Tx.copy(v[:], A[r * {threads} + tid, :])
Tx.cuda.cluster_sync()
if {who}:
    Tx.{scope}.copy_async({send})
Tx.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
Tx.cta.copy(B[r * {threads} : r * {threads} + {threads}, :], to[:, :])
Tx.cuda.cluster_sync()
""",
        f'A: Tx.Buffer(({2 * threads}, {count}), "{dtype}"), B: Tx.Buffer(({2 * threads}, {count}), "{dtype}")',
    )


def send_tile(layout: Layout, dtype: str, to: str = "", ctas: int = 2, rank: str = "", send: str = "", before: str = "",
              many: int = 128, expected: int | None = None):  # fmt: skip
    """Every CTA of a cluster sends a tile that its threads hold, as the layout says, into the next CTA's shared memory."""
    rows, columns = layout.shape
    guard = "if w == 0:\n    " if layout.scope == "warp" else ""
    order = f", layout={to}" if to else ""
    rank = rank or f"(r + 1) % {ctas}"
    send = send or f"{{}}.copy_async(to[:, :], v[:, :], mbar=bar.ptr_to([0]), remote_cta_id={rank})"
    size = rows * columns * storage_bits(dtype) // 8
    return kernel(
        f"""
r = Tx.cta_id_in_cluster([{ctas}])
g = Tx.cluster_id([1])
tid = Tx.thread_id([{many}])
w = Tx.warp_id([{many // 32}])
regs = Tx.alloc_local(({layout.registers},), "{dtype}")
v = regs.view({rows}, {columns}, layout=TileLayout({layout.text}))
to = Tx.alloc_shared(({rows}, {columns}), "{dtype}"{order}, align=1024)
bits = Tx.alloc_shared(({rows}, {columns}), "uint{storage_bits(dtype)}")
bar = Tx.alloc_shared((1,), "uint64")
{before}
{barrier(size if expected is None else expected)}
{guard}Tx.{layout.scope}.copy(v[:, :], A[r * {rows} : r * {rows} + {rows}, :])
Tx.cuda.cluster_sync()
{guard}{send.format(f"Tx.{layout.scope}")}
Tx.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
Tx.cta.copy(B[r * {rows} : r * {rows} + {rows}, :], to[:, :])
Tx.cuda.cluster_sync()
""",
        f'A: Tx.Buffer(({ctas * rows}, {columns}), "{dtype}"), B: Tx.Buffer(({ctas * rows}, {columns}), "{dtype}")',
        AXES,
    )


PAIR = """
from tirx_eq.layout import S, TCol, TileLayout, TLane, mma_shared_layout, tid_in_wg
from tirx_eq.script import tirx as Tx
from tirx_eq.script.lang import TMABar

@Tx.prim_func
def pair(A: Tx.Buffer((256, 64), "float16"), B: Tx.Buffer((128, 64), "float16"), D: Tx.Buffer((256, 128), "float32")):
    Tx.device_entry()
    cluster = Tx.cluster_id([1])
    r = Tx.cta_id_in_cluster([2])
    warp_id = Tx.warp_id([4])
    tid = Tx.thread_id([128])
    pool = Tx.SMEMPool()
    tmem_addr = Tx.alloc_shared([1], "uint32")
    A_s = pool.alloc((128, 64), "float16", layout=mma_shared_layout("float16", 3, (128, 64)))
    B_s = pool.alloc((64, 64), "float16", layout=mma_shared_layout("float16", 3, (64, 64)))
    full = TMABar(pool, 1, leader=tid == 0)
    done = pool.alloc((1,), "uint64", align=8)
    pool.commit()
    full.init(1)
    at_leader = full.remote_view(0)
    if tid == 0:
        Tx.ptx.mbarrier.init(done.ptr_to([0]), 1)
        Tx.ptx.fence.mbarrier_init()
    if warp_id == 0:
        Tx.ptx.tcgen05.alloc(Tx.address_of(tmem_addr[0]), n_cols=128, cta_group=2)
    Tx.ptx.tcgen05.fence.before_thread_sync()
    Tx.cuda.cluster_sync()
    Tx.ptx.tcgen05.fence.after_thread_sync()
    tmem = Tx.decl_buffer((128, 128), "float32", scope="tmem", allocated_addr=tmem_addr[0],
                          layout=TileLayout(S[(128, 128) : (1 @ TLane, 1 @ TCol)]))
    if warp_id == 0:
        if Tx.ptx.elect_sync():
            if r == 0:
                full.arrive(0, 49152)
            Tx.copy_async(A_s[:, :], A[r * 128 : r * 128 + 128, :], mbar=at_leader.ptr_to([0]), cta_group=2)
            Tx.copy_async(B_s[:, :], B[r * 64 : r * 64 + 64, :], mbar=at_leader.ptr_to([0]), cta_group=2)
    if warp_id == 1:
        if r == 0:
            if Tx.ptx.elect_sync():
                full.wait(0, 0)
                Tx.ptx.tcgen05.fence.after_thread_sync()
                Tx.gemm_async(tmem[:, :], A_s[:, :], B_s[:, :], accum=False, dispatch="tcgen05", cta_group=2)
                Tx.ptx.tcgen05.commit(done.ptr_to([0]), cta_group=2, cta_mask=3)
    Tx.ptx.mbarrier.try_wait(done.ptr_to([0]), 0)
    Tx.ptx.tcgen05.fence.after_thread_sync()
    regs = Tx.alloc_local((128,), "float32")
    view = regs.view(128, 128, layout=TileLayout(S[(128, 128) : (1 @ tid_in_wg, 1)]))
    Tx.wg.copy_async(view[:, :], tmem[:, :])
    Tx.ptx.tcgen05.wait.ld()
    Tx.copy(D[r * 128 + tid, :], regs[:])
    Tx.ptx.tcgen05.fence.before_thread_sync()
    Tx.cuda.cluster_sync()
    Tx.ptx.tcgen05.fence.after_thread_sync()
    if warp_id == 0:
        Tx.ptx.tcgen05.relinquish_alloc_permit(cta_group=2)
        Tx.ptx.tcgen05.dealloc(tmem_addr[0], n_cols=128, cta_group=2)
"""


def pair(*changes: tuple[str, str]):
    """A product of a pair of CTAs, whose loads report to the even CTA's barrier."""
    text = PAIR
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return parse_source(text, "pair.py")["pair"]


def shared_work(
    copy: str = "Tx.cluster.copy(B[:, :], A[:, :])", ctas: int = 4, before: str = "", params: str = "", grid: int = 1
):  # fmt: skip
    """One copy by all threads of a cluster."""
    ids = f"r = Tx.cta_id_in_cluster([{ctas}])\ng = Tx.cluster_id([{grid}])\ntid = Tx.thread_id([128])\nw = Tx.warp_id([4])\n"
    return kernel(f"{ids}{before}\n{copy}", params or 'A: Tx.Buffer((64, 72), "float16"), B: Tx.Buffer((64, 72), "float16")')
