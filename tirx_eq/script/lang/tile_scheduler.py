"""Which tile a persistent CTA or cluster works on next."""

from __future__ import annotations

from typing import Any

from ...errors import IRError
from ...ir import Expr
from ..buffers import local_scalar
from ..math import truncdiv
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
    """

    def __init__(
        self, prefix: str, num_m_tiles: Any, num_n_tiles: int, num_clusters: int, l2_group_size: int = 8,
        cluster_m: int = 1, cluster_n: int = 1, serpentine: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(prefix)
        if serpentine:
            raise IRError("ClusterPersistentScheduler2D: serpentine order is not available here")
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

        full_known, tail_known = isinstance(self._full_groups, int), isinstance(self._tail_rows, int)
        no_full = full_known and self._full_groups == 0
        no_tail = tail_known and self._tail_rows == 0
        if no_full:
            (nowhere if no_tail else in_tail)()
            return
        inside = (self._full_groups > 0) & (tile < self._full_groups * span)
        if_else(inside, in_full_group, nowhere if no_tail else lambda: if_else(self._tail_rows > 0, in_tail, nowhere))


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
