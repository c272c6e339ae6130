"""Small kernels with open layouts, as text: each with few enough combinations to try them all."""

from __future__ import annotations

from tirx_eq.ir import PrimFunc
from tirx_eq.script.loader import parse_function

HEADER = "from tirx_eq.script import tirx as Tx\nfrom tirx_eq.layout import Axis\n\n"


def kernel(params: str, body: str, name: str = "k") -> PrimFunc:
    """A kernel of the given parameters (``A: (32, 32) float32, …``) and body lines."""
    declared = ", ".join(_parameter(p) for p in params.split(";"))
    lines = "\n".join("    " + line for line in body.strip("\n").split("\n"))
    return parse_function(f"{HEADER}@Tx.prim_func\ndef {name}({declared}):\n    Tx.device_entry()\n{lines}\n")


def _parameter(text: str) -> str:
    name, rest = text.strip().split(":")
    shape, dtype = rest.strip().rsplit(" ", 1)
    return f'{name}: Tx.Buffer({shape}, "{dtype}")'


def transpose(n: int, dtype: str, layout: str = "Tx.auto") -> PrimFunc:
    """A square tile through shared memory: written by rows, read by columns."""
    return kernel(f"A: ({n}, {n}) {dtype}; B: ({n}, {n}) {dtype}", f"""
tx = Tx.thread_id([{n}])
S1 = Tx.alloc_shared(({n}, {n}), "{dtype}", layout={layout})
for i in Tx.serial({n}):
    S1[i, tx] = A[i, tx]
Tx.cuda.cta_sync()
for i in Tx.serial({n}):
    B[i, tx] = S1[tx, i]
""")


def through_shared(rows: int, columns: int, dtype: str, layout: str = "Tx.auto") -> PrimFunc:
    """A tile copied to shared memory and back by the CTA."""
    return kernel(f"A: ({rows}, {columns}) {dtype}; B: ({rows}, {columns}) {dtype}", f"""
tx = Tx.thread_id([64])
S1 = Tx.alloc_shared(({rows}, {columns}), "{dtype}", layout={layout})
Tx.cta.copy(S1[:, :], A[:, :])
Tx.cuda.cta_sync()
Tx.cta.copy(B[:, :], S1[:, :])
""")


def copied_then_columns(n: int, dtype: str, layout: str = "Tx.auto") -> PrimFunc:
    """Vectors in, single elements of columns out."""
    return kernel(f"A: ({n}, {n}) {dtype}; B: ({n}, {n}) {dtype}", f"""
tx = Tx.thread_id([{n}])
S1 = Tx.alloc_shared(({n}, {n}), "{dtype}", layout={layout})
Tx.cta.copy(S1[:, :], A[:, :])
Tx.cuda.cta_sync()
for i in Tx.serial({n}):
    B[i, tx] = S1[tx, i]
""")


def row_sums(rows: int, columns: int, held: int, dtype: str, op: str = "sum") -> PrimFunc:
    """A warp reduces rows of a tile that it holds in registers."""
    return kernel(f"A: ({rows}, {columns}) {dtype}; B: ({rows}, 1) float32", f"""
lane = Tx.lane_id([32])
x_reg = Tx.alloc_local(({held},), "float32", layout=Tx.auto)
r_reg = Tx.alloc_local(({max(1, rows * held // columns)},), "float32", layout=Tx.auto)
x = x_reg.view({rows}, {columns}, layout=Tx.auto)
r = r_reg.view({rows}, 1, layout=Tx.auto)
Tx.warp.cast(x[:, :], A[:, :])
Tx.warp.{op}(r[:, 0], x[:, :])
Tx.warp.copy(B[:, :], r[:, :])
""")


def scaled(rows: int, columns: int, dtype: str, out: str) -> PrimFunc:
    """A warp multiplies a tile in registers by itself and stores it in another dtype."""
    held = rows * columns // 32
    return kernel(f"A: ({rows}, {columns}) {dtype}; B: ({rows}, {columns}) {out}", f"""
lane = Tx.lane_id([32])
x_reg = Tx.alloc_local(({held},), "float32", layout=Tx.auto)
y_reg = Tx.alloc_local(({held},), "float32", layout=Tx.auto)
x = x_reg.view({rows}, {columns}, layout=Tx.auto)
y = y_reg.view({rows}, {columns}, layout=Tx.auto)
Tx.warp.cast(x[:, :], A[:, :])
Tx.warp.mul(y[:, :], x[:, :], x[:, :])
Tx.warp.cast(B[:, :], y[:, :])
""")


def product(
    n: int = 64, k: int = 64, dtype: str = "float16", *, a: str = "Tx.auto", b: str = 'Tx.auto(swizzle="128B")',
    d: str = "Tx.auto", regs: str = "Tx.auto", m: int = 128, trans_b: bool = False, uses: str = "rows", tma: bool = False,
    columns: int = 0, held: int = 0, given: str = "",
) -> PrimFunc:  # fmt: skip
    """One tcgen05.mma tile: operands to shared memory, product, accumulator to registers and out.

    ``uses``: ``rows`` (each thread stores its row), ``tile`` (the warpgroup stores the tile), or the line that stores;
    ``columns`` of tensor memory to allocate and elements ``held`` by a thread, if not those that are needed; ``given``: a
    line of its own in the epilogue.
    """
    shape_b = f"({k}, {n})" if trans_b else f"({n}, {k})"
    acc = "int32" if dtype in ("int8", "uint8") else "float32"
    columns = columns or max(32, 1 << (n - 1).bit_length())
    bits = {"float16": 16, "bfloat16": 16, "float32": 32}.get(dtype, 8)
    load = f"""
if warp_id == 0:
    if Tx.ptx.elect_sync():
        Tx.ptx.mbarrier.arrive.expect_tx(full.ptr_to([0]), {(m + n) * k * bits // 8})
        Tx.copy_async(A_s[:, :], A[:, :], dispatch="tma", mbar=full.ptr_to([0]))
        Tx.copy_async(B_s[:, :], B[:, :], dispatch="tma", mbar=full.ptr_to([0]))
Tx.ptx.mbarrier.try_wait(full.ptr_to([0]), 0)
""" if tma else """
Tx.cta.copy(A_s[:, :], A[:, :])
Tx.cta.copy(B_s[:, :], B[:, :])
Tx.ptx.fence.proxy_async("shared::cta")
"""
    stores = {"rows": "Tx.copy(D[tid, :], D_reg[:])", "tile": "Tx.wg.cast(D[:, :], D_wg[:, :])"}
    store = stores.get(uses, uses)
    return kernel(f"A: ({m}, {k}) {dtype}; B: {shape_b} {dtype}; D: ({m}, {n}) {acc}", f"""
bx = Tx.cta_id([1])
warp_id = Tx.warp_id_in_wg([4])
lane_id = Tx.lane_id([32])
tid = Tx.thread_id([128])
pool = Tx.SMEMPool()
tmem_addr = Tx.alloc_shared([1], "uint32")
A_s = pool.alloc(({m}, {k}), "{dtype}", layout={a})
B_s = pool.alloc({shape_b}, "{dtype}", layout={b})
mbar = pool.alloc((1,), "uint64", align=8)
full = pool.alloc((1,), "uint64", align=8)
pool.commit()
if warp_id == 0:
    if lane_id == 0:
        Tx.ptx.mbarrier.init(mbar.ptr_to([0]), 1)
        Tx.ptx.mbarrier.init(full.ptr_to([0]), 1)
        Tx.ptx.fence.mbarrier_init()
    Tx.ptx.tcgen05.alloc(Tx.address_of(tmem_addr[0]), n_cols={columns}, cta_group=1)
tmem = Tx.decl_buffer(({m}, {n}), "{acc}", scope="tmem", allocated_addr=tmem_addr[0], layout={d})
Tx.ptx.tcgen05.fence.before_thread_sync()
Tx.cuda.cta_sync()
Tx.ptx.tcgen05.fence.after_thread_sync()
{load}
Tx.ptx.tcgen05.fence.before_thread_sync()
Tx.cuda.cta_sync()
Tx.ptx.tcgen05.fence.after_thread_sync()
if warp_id == 0:
    if Tx.ptx.elect_sync():
        Tx.gemm_async(tmem[:, :], A_s[:, :], B_s[:, :], transB={trans_b}, accum=False, dispatch="tcgen05", cta_group=1)
        Tx.ptx.tcgen05.commit(mbar.ptr_to([0]), cta_group=1)
Tx.ptx.mbarrier.try_wait(mbar.ptr_to([0]), 0)
Tx.ptx.tcgen05.fence.after_thread_sync()
D_reg = Tx.alloc_local(({held or m * n // 128},), "{acc}")
D_wg = D_reg.view({m}, {n}, layout={regs})
Tx.wg.copy_async(D_wg[:, :], tmem[:, :])
Tx.ptx.tcgen05.wait.ld()
{given}
{store}
Tx.ptx.tcgen05.fence.before_thread_sync()
Tx.cuda.cta_sync()
Tx.ptx.tcgen05.fence.after_thread_sync()
if warp_id == 0:
    Tx.ptx.tcgen05.relinquish_alloc_permit(cta_group=1)
    Tx.ptx.tcgen05.dealloc(tmem_addr[0], n_cols={columns}, cta_group=1)
""")
