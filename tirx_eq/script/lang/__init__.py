"""What kernels are often built with: barriers and pipelines, warp roles, tile schedulers, pools, matrix descriptors."""

from ..pools import SMEMPool, TMEMPool
from .launch_control import ClusterLaunchControlScheduler
from .pipeline import MBarrier, Pipeline, PipelineState, TCGen05Bar, TMABar
from .smem_desc import SmemDescriptor
from .tile_scheduler import (
    BaseTileScheduler,
    ClusterPersistentScheduler2D,
    FlashAttentionLinearScheduler,
    FlashAttentionLPTScheduler,
    GroupMajor3D,
    IndexedTripleTileScheduler,
)
from .warp_role import WarpgroupRole, WarpRole

__all__ = [
    "BaseTileScheduler", "ClusterLaunchControlScheduler", "ClusterPersistentScheduler2D", "FlashAttentionLPTScheduler",
    "FlashAttentionLinearScheduler", "GroupMajor3D", "IndexedTripleTileScheduler", "MBarrier", "Pipeline",
    "PipelineState", "SMEMPool", "SmemDescriptor", "TCGen05Bar", "TMABar", "TMEMPool", "WarpRole", "WarpgroupRole",
]  # fmt: skip
