"""What kernels are often built with: barriers and pipelines, warp roles, tile schedulers, pools."""

from ..pools import SMEMPool, TMEMPool
from .pipeline import MBarrier, Pipeline, PipelineState, TCGen05Bar, TMABar
from .tile_scheduler import BaseTileScheduler, ClusterPersistentScheduler2D, FlashAttentionLinearScheduler
from .warp_role import WarpgroupRole, WarpRole

__all__ = [
    "BaseTileScheduler", "ClusterPersistentScheduler2D", "FlashAttentionLinearScheduler", "MBarrier", "Pipeline",
    "PipelineState", "SMEMPool", "TCGen05Bar", "TMABar", "TMEMPool", "WarpRole", "WarpgroupRole",
]  # fmt: skip
