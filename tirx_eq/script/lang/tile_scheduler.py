"""Which tile a persistent CTA or cluster works on next."""

from __future__ import annotations

from typing import Any

from ...ir import EQ, Expr, const
from ..buffers import local_scalar
from ..math import select, truncdiv
from ..meta import meta_class
from .emission import if_else, let, store


@meta_class
class BaseTileScheduler:
    """A linear tile index and the coordinates made of it; a subclass says how (``update_current_m_n_idx``)."""

    def __init__(self, prefix: str) -> None:
        self.m_idx = local_scalar("int32")
        self.n_idx = local_scalar("int32")
        self.linear_idx = local_scalar("int32")

    def update_current_m_n_idx(self, linear_idx: Any) -> None:
        """Emit the coordinates of a linear index."""

    def init(self, linear_init: Any) -> None:
        """Start at a linear index."""
        store(self.linear_idx, linear_init)
        self.update_current_m_n_idx(linear_init)

    def next_tile(self, step: Any) -> None:
        """Go ``step`` tiles further."""
        store(self.linear_idx, self.linear_idx + step)
        self.update_current_m_n_idx(self.linear_idx)

    def valid(self, total_tiles: Any) -> Expr:
        """Whether there is a tile."""
        return self.linear_idx < total_tiles


class ClusterPersistentScheduler2D(BaseTileScheduler):
    """Tiles of a matrix over ``num_clusters`` persistent clusters, in groups of ``l2_group_size`` rows.

    Within a group tiles go down the rows first, then along the columns, so that neighbours share operands in the L2
    cache.  ``num_m_tiles`` may be an expression; a last group has fewer rows.

    ``serpentine``: in square blocks of ``l2_group_size`` tiles instead, row by row within a block; columns of blocks are
    passed downwards and upwards in turn.  What no block covers comes last: the columns on the right, then the rows below.
    """

    def __init__(
        self, prefix: str, num_m_tiles: Any, num_n_tiles: int, num_clusters: int, l2_group_size: int = 8,
        cluster_m: int = 1, cluster_n: int = 1, serpentine: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(prefix)
        self._serpentine = serpentine
        self.tile_count = local_scalar("int32")
        self.work_idx, self.tile_idx = self.linear_idx, self.tile_count
        self._clusters, self._group = num_clusters, l2_group_size
        self._cluster = (cluster_m, cluster_n)
        self._columns = (num_n_tiles + cluster_n - 1) // cluster_n
        divide = truncdiv if isinstance(num_m_tiles, Expr) else (lambda a, b: a // b)
        self._rows: Any = divide(num_m_tiles + cluster_m - 1, cluster_m)
        self._full_groups: Any = divide(self._rows, l2_group_size)
        self._tail_rows: Any = self._rows - self._full_groups * l2_group_size
        self._total: Any = self._rows * self._columns * cluster_m * cluster_n

    def init(self, cluster_id: Any) -> None:
        """Start with the first tile of a cluster."""
        store(self.linear_idx, cluster_id)
        store(self.tile_count, 0)
        self.update_current_m_n_idx(cluster_id)

    def next_tile(self) -> None:  # type: ignore[override]
        """Go to this cluster's next tile."""
        self.next_tile_stride(self._clusters)

    def next_tile_stride(self, stride: Any) -> None:
        """Go ``stride`` tiles further."""
        store(self.linear_idx, self.linear_idx + stride)
        store(self.tile_count, self.tile_count + 1)
        self.update_current_m_n_idx(self.linear_idx)

    def valid(self) -> Expr:  # type: ignore[override]
        """Whether there is a tile left for this cluster."""
        return self.linear_idx < self._total

    def update_current_m_n_idx(self, work_idx: Any) -> None:
        """Emit the coordinates of a work index."""
        cluster_m, cluster_n = self._cluster
        m_offset, rest = work_idx % cluster_m, work_idx // cluster_m
        n_offset, tile = rest % cluster_n, rest // cluster_n
        span = self._group * self._columns

        def place(row: Any, col: Any) -> None:
            store(self.m_idx, row * cluster_m + m_offset)
            store(self.n_idx, col * cluster_n + n_offset)

        def in_full_group() -> None:
            group = let("group_id", tile // span)
            within = let("within_group", tile % span)
            row = let("tile_row", group * self._group + within % self._group)
            place(row, let("tile_col", within // self._group))

        def in_tail() -> None:
            within = let("rem", tile - self._full_groups * span)
            row = let("tile_row", self._full_groups * self._group + within % self._tail_rows)
            place(row, let("tile_col", within // self._tail_rows))

        def nowhere() -> None:
            place(0, 0)

        if self._serpentine:
            self._in_blocks(tile, place, nowhere)
            return
        full_known, tail_known = isinstance(self._full_groups, int), isinstance(self._tail_rows, int)
        no_full = full_known and self._full_groups == 0
        no_tail = tail_known and self._tail_rows == 0
        if no_full:
            (nowhere if no_tail else in_tail)()
            return
        inside = (self._full_groups > 0) & (tile < self._full_groups * span)
        if_else(inside, in_full_group, nowhere if no_tail else lambda: if_else(self._tail_rows > 0, in_tail, nowhere))

    def _in_blocks(self, tile: Any, place: Any, nowhere: Any) -> None:
        """Emit the coordinates in serpentine order."""
        side, columns = self._group, self._columns // self._group
        rows: Any = self._full_groups
        covered, right = rows * columns * side * side, self._columns - columns * side
        strip = self._rows * right

        def in_block() -> None:
            block = let("block", tile // (side * side))
            within = let("within_block", tile % (side * side))
            column = let("block_col", block // rows)
            down = let("block_row", block % rows)
            row = select(EQ(column % 2, const(0, "int32")), down, rows - 1 - down)
            place(row * side + within // side, column * side + within % side)

        def at_the_right() -> None:
            rest = let("rem", tile - covered)
            place(rest // right, columns * side + rest % right)

        def below() -> None:
            rest = let("rem", tile - covered - strip)
            place(rows * side + rest // (columns * side), rest % (columns * side))

        def outside_blocks() -> None:
            if right and columns:
                if_else(tile < covered + strip, at_the_right, below_or_nowhere)
            else:
                (at_the_right if right else below_or_nowhere)()

        def below_or_nowhere() -> None:
            (nowhere if isinstance(self._tail_rows, int) and self._tail_rows == 0 else below)()

        if not columns or (isinstance(rows, int) and rows == 0):
            outside_blocks()
        else:
            if_else(tile < covered, in_block, outside_blocks)


class FlashAttentionLinearScheduler(BaseTileScheduler):
    """(batch, head, block of queries) in linear order over ``num_ctas`` persistent CTAs."""

    def __init__(self, prefix: str, num_batches: int, num_heads: int, num_m_blocks: int, num_ctas: int) -> None:
        super().__init__(prefix)
        self._heads, self._blocks, self._ctas = num_heads, num_m_blocks, num_ctas
        self._total = num_batches * num_heads * num_m_blocks
        self.batch_idx = local_scalar("int32")
        self.head_idx = local_scalar("int32")
        self.m_block_idx = local_scalar("int32")

    def update_current_m_n_idx(self, linear_idx: Any) -> None:
        """Emit batch, head and block of a linear index."""
        per_batch = self._heads * self._blocks
        store(self.batch_idx, linear_idx // per_batch)
        store(self.head_idx, linear_idx % per_batch // self._blocks)
        store(self.m_block_idx, linear_idx % self._blocks)

    def next_tile(self) -> None:  # type: ignore[override]
        """Go to this CTA's next task."""
        super().next_tile(self._ctas)

    def valid(self) -> Expr:  # type: ignore[override]
        """Whether there is a task left for this CTA."""
        return self.linear_idx < self._total


class FlashAttentionLPTScheduler(BaseTileScheduler):
    """(batch, head, block of queries), the longest tasks first: with a causal mask late blocks of queries see most keys.

    ``l2_swizzle`` heads (of all batches, in order) take turns, so that they share keys in the L2 cache; a last group has
    fewer.  With ``num_ctas`` persistent CTAs stride over the tasks; without, each CTA has one.
    """

    def __init__(
        self, prefix: str, num_batches: int, num_heads: int, num_m_blocks: int, l2_swizzle: int, num_ctas: int | None = None
    ) -> None:
        super().__init__(prefix)
        self._heads, self._blocks, self._swizzle, self._ctas = num_heads, num_m_blocks, l2_swizzle, num_ctas
        self._all_heads = num_batches * num_heads
        self._total = self._all_heads * num_m_blocks
        self.batch_idx = local_scalar("int32")
        self.head_idx = local_scalar("int32")
        self.m_block_idx = local_scalar("int32")

    def update_current_m_n_idx(self, linear_idx: Any) -> None:
        """Emit batch, head and block of a linear index."""
        group = let("head_group", linear_idx // (self._swizzle * self._blocks))
        within = let("within_group", linear_idx % (self._swizzle * self._blocks))
        rest = self._all_heads % self._swizzle or 1
        full = group < self._all_heads // self._swizzle
        block = select(full, within // self._swizzle, within // rest)
        head = let("head", group * self._swizzle + select(full, within % self._swizzle, within % rest))
        store(self.batch_idx, head // self._heads)
        store(self.head_idx, head % self._heads)
        store(self.m_block_idx, self._blocks - 1 - block)

    def next_tile(self) -> None:  # type: ignore[override]
        """Go to this CTA's next task."""
        if self._ctas is None:
            store(self.linear_idx, self._total)
        else:
            super().next_tile(self._ctas)

    def valid(self) -> Expr:  # type: ignore[override]
        """Whether there is a task left for this CTA."""
        return self.linear_idx < self._total


class GroupMajor3D(BaseTileScheduler):
    """Tiles (m, n, k) in groups of ``group_rows`` rows: rows first, then columns, then k; ``m_tiles`` may be an expression.

    ``next_tile`` goes ``step`` tiles further.  A last group has fewer rows.
    """

    def __init__(self, prefix: str, m_tiles: Any, n_tiles: int, k_tiles: int, group_rows: int, step: int = 1) -> None:
        super().__init__(prefix)
        self._rows, self._columns, self._depth, self._group, self._step = m_tiles, n_tiles, k_tiles, group_rows, step
        self.tile_idx = local_scalar("int32")
        self.k_idx = local_scalar("int32")

    def update_current_m_n_idx(self, linear_idx: Any) -> None:
        """Emit the coordinates of a linear index."""
        size = self._group * self._columns * self._depth
        known = isinstance(self._rows, int)
        groups = self._rows // self._group if known else truncdiv(self._rows, self._group)
        last = self._rows - groups * self._group

        def place(first: Any, rows: Any, within: Any) -> None:
            store(self.m_idx, first + within % rows)
            store(self.n_idx, within // rows % self._columns)
            store(self.k_idx, within // (rows * self._columns))

        def in_full_group() -> None:
            place(linear_idx // size * self._group, self._group, let("within_group", linear_idx % size))

        def in_last_group() -> None:
            place(groups * self._group, last, let("rem", linear_idx - groups * size))

        def nowhere() -> None:
            place(0, 1, const(0, "int32"))

        def outside() -> None:
            if_else(last > 0, in_last_group, nowhere)

        if_else(groups > 0 and linear_idx < groups * size if known else linear_idx < groups * size, in_full_group, outside)

    def init(self, linear_init: Any) -> None:
        """Start at a linear index."""
        store(self.tile_idx, 0)
        super().init(linear_init)

    def next_tile(self) -> None:  # type: ignore[override]
        """Go ``step`` tiles further."""
        self.next_tile_stride(self._step)

    def next_tile_stride(self, stride: Any) -> None:
        """Go ``stride`` tiles further."""
        store(self.tile_idx, self.tile_idx + 1)
        super().next_tile(stride)

    def valid(self) -> Expr:  # type: ignore[override]
        """Whether there is a tile."""
        return self.linear_idx < self._rows * self._columns * self._depth


class IndexedTripleTileScheduler(BaseTileScheduler):
    """Tasks from lists in memory: CTA ``i`` has those from ``tiles_indptr[i]`` to ``tiles_indptr[i + 1]``.

    ``b_idx``, ``h_idx`` and ``q_idx`` are the lists' elements; the lists have one element more than there are tasks, since the
    next is read before it is known whether there is one.
    """

    def __init__(self, prefix: str, b_indices: Any, h_indices: Any, q_indices: Any, tiles_indptr: Any) -> None:
        super().__init__(prefix)
        self._lists, self._starts = (b_indices, h_indices, q_indices), tiles_indptr
        self.q_idx = local_scalar("int32")
        self.h_idx = local_scalar("int32")
        self.b_idx = local_scalar("int32")
        self.linear_lim = local_scalar("int32")

    def init(self, sm: Any) -> None:
        """Start with the first task of a CTA."""
        store(self.linear_lim, self._starts[sm + 1])
        super().init(self._starts[sm])

    def update_current_m_n_idx(self, linear_idx: Any) -> None:
        """Emit the loads of the current task."""
        for scalar, values in zip((self.b_idx, self.h_idx, self.q_idx), self._lists):
            store(scalar, values[self.linear_idx])

    def next_tile(self) -> None:  # type: ignore[override]
        """Go to the next task."""
        super().next_tile(1)

    def valid(self) -> Expr:  # type: ignore[override]
        """Whether there is a task left for this CTA."""
        return self.linear_idx < self.linear_lim
