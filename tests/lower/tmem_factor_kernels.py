"""Products on the tensor core whose operands in tensor memory are given, and taken, as images of its lanes and columns.

The images are made and read by the functions here from the data path layouts of the PTX ISA, not by the compiler's layouts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tirx_eq.ir import PrimFunc
from tirx_eq.ir import dtype as dt
from tirx_eq.script import parse_source

Array = np.ndarray

SOURCE = """
from tirx_eq.layout import S, R, TCol, TileLayout, TLane, mma_shared_layout, tid_in_wg
from tirx_eq.script import tirx as Tx

@Tx.prim_func
def gemm(A: Tx.Buffer({a_image}, "{a_given}"), B: Tx.Buffer(({n}, {k}), "{b}"), F: Tx.Buffer(({lanes}, {f_columns}), "int32"),
         D: Tx.Buffer(({lanes}, {width}), "{d}")):
    Tx.device_entry()
    bx = Tx.cta_id([{group}])
    rank = Tx.cta_id_in_cluster([{group}])
    warp_id = Tx.warp_id_in_wg([4])
    lane_id = Tx.lane_id([32])
    tid = Tx.thread_id([128])
    pool = Tx.SMEMPool()
    tmem_addr = Tx.alloc_shared([1], "uint32")
    A_s = pool.alloc(({m}, {k}), "{a}", layout=mma_shared_layout("{a}", "128B", ({m}, {k})))
    B_s = pool.alloc(({n_cta}, {k}), "{b}", layout=mma_shared_layout("{b}", "128B", ({n_cta}, {k})))
    mbar = pool.alloc((1,), "uint64", align=8)
    pool.commit()
    if warp_id == 0:
        if lane_id == 0:
            Tx.ptx.mbarrier.init(mbar.ptr_to([0]), 1)
            Tx.ptx.fence.mbarrier_init()
        Tx.ptx.tcgen05.alloc(Tx.address_of(tmem_addr[0]), n_cols=512, cta_group={group})
    Tx.cta.copy(B_s[:, :], B[bx * {n_cta} : bx * {n_cta} + {n_cta}, :])
    {fill_shared}
    Tx.ptx.fence.proxy_async("shared::cta")
    Tx.ptx.tcgen05.fence.before_thread_sync()
    Tx.cuda.{sync}()
    Tx.ptx.tcgen05.fence.after_thread_sync()
    tmem = Tx.decl_buffer(({m}, {n}), "{d}", scope="tmem", allocated_addr=tmem_addr[0], layout={d_layout})
    lanes = Tx.decl_buffer((128, {width}), "{d}", scope="tmem", allocated_addr=tmem_addr[0],
                           layout=TileLayout(S[(128, {width}) : (1 @ TLane, {d_step} @ TCol)]))
    A_t = Tx.decl_buffer(({m}, {k}), "{a}", scope="tmem", allocated_addr=tmem_addr[0] + 256, layout={a_layout})
    a_words = Tx.decl_buffer((128, {a_columns}), "int32", scope="tmem", allocated_addr=tmem_addr[0] + 256,
                             layout=TileLayout(S[(128, {a_columns}) : (1 @ TLane, 1 @ TCol)]))
    f_words = Tx.decl_buffer((128, {f_columns}), "int32", scope="tmem", allocated_addr=tmem_addr[0] + 384,
                             layout=TileLayout(S[(128, {f_columns}) : (1 @ TLane, 1 @ TCol)]))
    {factors}
    {fill_tmem}
    Tx.ptx.tcgen05.wait.st()
    Tx.ptx.tcgen05.fence.before_thread_sync()
    Tx.cuda.{sync}()
    Tx.ptx.tcgen05.fence.after_thread_sync()
    if rank == 0:
        if warp_id == 0:
            if Tx.ptx.elect_sync():
                Tx.gemm_async({call})
                Tx.ptx.tcgen05.commit(mbar.ptr_to([0]), cta_group={group}{mask})
    Tx.ptx.mbarrier.try_wait(mbar.ptr_to([0]), 0)
    Tx.ptx.tcgen05.fence.after_thread_sync()
    regs = Tx.alloc_local(({width},), "{d}")
    view = regs.view(128, {width}, layout=TileLayout(S[(128, {width}) : (1 @ tid_in_wg, 1)]))
    Tx.wg.copy_async(view[:, :], lanes[:, :])
    Tx.ptx.tcgen05.wait.ld()
    Tx.copy(D[bx * 128 + tid, :], regs[:])
    Tx.ptx.tcgen05.fence.before_thread_sync()
    Tx.cuda.{sync}()
    Tx.ptx.tcgen05.fence.after_thread_sync()
    if warp_id == 0:
        Tx.ptx.tcgen05.relinquish_alloc_permit(cta_group={group})
        Tx.ptx.tcgen05.dealloc(tmem_addr[0], n_cols=512, cta_group={group})
"""

#: for data path layout F, whose result leaves half of the lanes as they were
ZERO_LANES = """zeros = Tx.alloc_local(({0},), "{1}")
    zeros_view = zeros.view(128, {0}, layout=TileLayout(S[(128, {0}) : (1 @ tid_in_wg, 1)]))
    Tx.fill(zeros[:], 0)
    Tx.wg.copy_async(lanes[:, :], zeros_view[:, :])"""

STORE_WORDS = """{0}_held = Tx.alloc_local(({1},), "int32")
    {0}_view = {0}_held.view(128, {1}, layout=TileLayout(S[(128, {1}) : (1 @ tid_in_wg, 1)]))
    Tx.copy({0}_held[:], {2}[bx * 128 + tid, :])
    Tx.wg.copy_async({0}_words[:, :], {0}_view[:, :])"""


def layout(*iters: tuple[int, str], replica: tuple[int, int] = (1, 0)) -> str:
    """A TileLayout's text; iterators of extent 1 are left out."""
    iters = tuple(i for i in iters if i[0] != 1)
    copies = f" + R[{replica[0]} : {replica[1]} @ TLane]" if replica[0] > 1 else ""
    return f"TileLayout(S[({', '.join(str(e) for e, _ in iters)}) : ({', '.join(s for _, s in iters)})]{copies})"


@dataclass(frozen=True)
class Product:
    """``m`` rows of A in all CTAs of the group, ``n`` columns; ``sf`` the dtype of scale factors, one for ``block`` of K."""

    a: str = "float16"
    b: str = "float16"
    d: str = "float32"
    m: int = 128
    n: int = 64
    k: int = 64
    group: int = 1
    stationary: bool = False
    a_in_tmem: bool = True
    sf: str = ""
    block: int = 32
    accum: str = "False"

    @property
    def rows(self) -> int:
        """Rows of A in one CTA."""
        return self.m // self.group

    @property
    def contained(self) -> bool:
        """Whether elements of A have 4 bits, and in tensor memory a byte each."""
        return dt.bits(self.a) == 4 and not (self.sf and dt.bits(self.b) == 4)

    @property
    def blocks(self) -> int:
        """Blocks of lanes that share out the columns of D."""
        return 128 // self.rows if self.stationary or self.group == 2 else 1

    @property
    def half_lanes(self) -> bool:
        """Data path layout F: 16 of every 32 lanes."""
        return self.rows == 64 and self.blocks == 1

    @cached_property
    def d_places(self) -> tuple[Array, Array]:
        """Lane and column of D[m, n] in its CTA."""
        i, j = np.indices((self.rows, self.n))
        width = self.n // self.blocks
        lane = i % 16 + i // 16 * 32 if self.half_lanes else i + self.rows * (j // width)
        return lane, j % width

    def text(self) -> str:
        """The kernel's source."""
        bits, width = 8 if self.contained else dt.bits(self.a), self.n // self.blocks
        row = ((4, "32 @ TLane"), (16, "1 @ TLane")) if self.half_lanes else ((self.rows, "1 @ TLane"),)
        d_step = 32 // dt.bits(self.d)  # an element of the accumulator has a column of its own
        factors, operands, f_columns = "", "", 8
        if self.sf:
            factors, f_columns = self._factors()
            operands = "SFA=SFA[:, :], SFB=SFB[:, :], "
        given = "A_t" if self.a_in_tmem else "A_s"
        config = f"accum={self.accum}, cta_group={self.group}" + (", weight_stationary=True" if self.stationary else "")
        a_columns = self.k * bits // 32
        fill = [STORE_WORDS.format("a", a_columns, "A")] if self.a_in_tmem else []
        fill += [STORE_WORDS.format("f", f_columns, "F")] if self.sf else []
        fill += [ZERO_LANES.format(width, self.d)] if self.half_lanes else []
        own = f"A[bx * {self.rows} : bx * {self.rows} + {self.rows}, :]"
        return SOURCE.format(
            a=self.a, b=self.b, d=self.d, m=self.rows, n=self.n, k=self.k, n_cta=self.n // self.group, group=self.group,
            lanes=128 * self.group, width=width, f_columns=f_columns, a_columns=a_columns, factors=factors,
            a_image=(128 * self.group, a_columns) if self.a_in_tmem else (self.m, self.k),
            a_given="int32" if self.a_in_tmem else self.a,
            d_layout=layout(*row, (self.blocks, f"{self.rows} @ TLane"), (width, f"{d_step} @ TCol")),
            d_step=d_step, a_layout=layout(*row, (self.k, f"{1 + self.contained} @ TCol"), replica=(self.blocks, self.rows)),
            fill_shared="pass" if self.a_in_tmem else f"Tx.cta.copy(A_s[:, :], {own})",
            fill_tmem="\n    ".join(fill) or "pass", mask=", cta_mask=3" if self.group == 2 else "",
            sync="cluster_sync" if self.group == 2 else "cta_sync",
            call=f"tmem[:, :], {given}[:, :], B_s[:, :], {operands}{config}",
        )  # fmt: skip

    def _factors(self) -> tuple[str, int]:
        """Declarations of the factors' buffers, and their columns."""
        count = self.k // self.block
        inner, outer = min(count, 4), max(1, count // 4)
        per_a, per_b = self.rows // 32, self.n // (32 * (2 if self.blocks == 2 else 1))
        tail = lambda per: ((outer, f"{4 * per} @ TCol"), (inner, "1 @ TCol"))  # noqa: E731
        sfa = layout((per_a, "4 @ TCol"), (32, "1 @ TLane"), *tail(per_a), replica=(4, 32))
        halves = ((2, "64 @ TLane"),) if self.blocks == 2 else ()
        sfb = layout(*halves, (per_b, "4 @ TCol"), (32, "1 @ TLane"), *tail(per_b), replica=(4 // self.blocks, 32))
        decl = '{0} = Tx.decl_buffer(({1}, {2}), "{3}", scope="tmem", allocated_addr=tmem_addr[0] + {4}, layout={5})'
        lines = [decl.format("SFA", self.rows, count, self.sf, 384, sfa),
                 decl.format("SFB", self.n, count, self.sf, 384 + per_a * outer, sfb)]  # fmt: skip
        return "\n    ".join(lines), (per_a + per_b) * outer

    def function(self, *changes: tuple[str, str]) -> PrimFunc:
        """The kernel, with pieces of its text replaced."""
        text = self.text()
        for old, new in changes:
            assert old in text, old
            text = text.replace(old, new)
        return parse_source(text, "product.py")["gemm"]

    # -- images -----------------------------------------------------------------------------------------------
    def a_image(self, a: Array) -> Array:
        """A as it is given to the kernel: the cells of all lanes of all CTAs, or the matrix."""
        if not self.a_in_tmem:
            return a
        cells = []
        for rows in np.split(a, self.group):
            raw = rows.view(np.uint8) << 2 if self.contained else packed(rows, self.a)  # the central bits of a byte
            words = np.ascontiguousarray(raw).view(np.int32)
            lanes = np.zeros((128, words.shape[1]), np.int32)
            at = np.arange(self.rows)
            at = at % 16 + at // 16 * 32 if self.half_lanes else at
            for block in range(self.blocks):
                lanes[at + block * self.rows] = words
            cells.append(lanes)
        return np.concatenate(cells)

    def factor_image(self, sfa: Array, sfb: Array) -> Array:
        """Cells of all lanes that hold the factors (rows, factors) of A and of B."""
        images = []
        for rows in np.split(sfa, self.group):
            halves = np.split(sfb, 2) if self.blocks == 2 else [sfb, sfb]
            images.append(np.concatenate([np.tile(cells_of(rows), (4, 1)),
                                          np.concatenate([np.tile(cells_of(h), (2, 1)) for h in halves])], axis=1))  # fmt: skip
        return np.concatenate(images)

    def result(self, image: Array) -> Array:
        """D from the image of its lanes."""
        lane, column = self.d_places
        return np.concatenate([part[lane, column] for part in np.split(image, self.group)])


def packed(rows: Array, dtype: str) -> Array:
    """Bytes of rows in tensor memory: fp4 two to a byte, the first in the low half."""
    raw = np.ascontiguousarray(rows).view(np.uint8)
    return np.ascontiguousarray(raw[:, 0::2] | raw[:, 1::2] << 4) if dt.bits(dtype) == 4 else raw


def cells_of(scale: Array) -> Array:
    """The 32 lanes of cells of factors (rows, factors): row r in lane r % 32, 32 rows a column, four factors a cell."""
    raw = scale.view(np.uint8)
    rows, factors = raw.shape
    per = rows // 32
    cell = np.zeros((32, per * max(1, factors // 4) * 4), np.uint8)
    for r in range(rows):
        for f in range(factors):
            cell[r % 32, (f // 4 * per + r // 32) * 4 + f % 4] = raw[r, f]
    return cell.view(np.int32)
