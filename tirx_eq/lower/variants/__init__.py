"""Programs that tile primitives can become: for each e-node of ``rules/lower.egg`` its price and its instructions."""

from __future__ import annotations

from .base import Variant
from .cluster import CLUSTER_COPIES
from .cluster_part import CLUSTER_PARTS
from .copy import COPIES
from .elementwise import MAPS
from .exchange import EXCHANGES
from .gemm import GEMMS
from .halves import HALF_COPIES
from .matrix_copy import MATRIX_COPIES
from .mma_sync import MMA_SYNC
from .peer_store import PEER_STORES
from .product_fma import PRODUCTS
from .redistribute import REDISTRIBUTIONS
from .reduce import REDUCTIONS
from .reduce_warps import REDUCTIONS_OF_WARPS
from .spread_copy import SPREAD_COPIES
from .tensor_copy import ASYNC_COPIES
from .tmem import TMEM_COPIES
from .tmem_copy import COPIES_TO_TMEM
from .tmem_parts import PART_COPIES

_ALL = (
    *COPIES, *SPREAD_COPIES, *MATRIX_COPIES, *ASYNC_COPIES, *CLUSTER_COPIES, *PEER_STORES, *TMEM_COPIES, *COPIES_TO_TMEM, *MAPS,
    *REDUCTIONS, *GEMMS, *MMA_SYNC, *PRODUCTS, *REDISTRIBUTIONS, *HALF_COPIES, *PART_COPIES, *REDUCTIONS_OF_WARPS,
    *EXCHANGES, *CLUSTER_PARTS,
)  # fmt: skip
#: e-node operator -> variant.
VARIANTS: dict[str, Variant] = {v.node: v for v in _ALL}
#: Variants that keep their scratch to themselves; where there is no room for that, those that share it do.
OWN_SCRATCH = frozenset(("ReduceWarpsOnce", "ExchangeOnce"))

__all__ = ["OWN_SCRATCH", "VARIANTS", "Variant"]
