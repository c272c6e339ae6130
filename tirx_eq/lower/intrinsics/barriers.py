"""Barriers, fences and what else orders threads (PTX ISA 9.7.13, 9.7.19)."""

from __future__ import annotations

from ...ir import EQ, Not, const
from .language import Arguments, Template


def _mbarrier(instruction: str, operands: str, result: str = "_") -> tuple[Template, ...]:
    """An operation on an mbarrier: of the own CTA, of CTA ``remote``, or at an address that may be in another.

    What it releases there is for threads of another CTA.
    """
    peer = f"mbarrier.{instruction}{{.sem}}{{.scope}}.shared::cluster.b64 {result}"
    told = peer.replace("{.sem}{.scope}", ".release.cluster")
    return (
        Template(f"{told} [bar@remote] {operands}", "remote? !sem"),
        Template(f"{peer} [bar@remote] {operands}", "remote?"),
        Template(f"{told} [bar] {operands}", "space=shared::cluster !sem"),
        Template(f"{peer} [bar] {operands}", "space=shared::cluster"),
        Template(f"mbarrier.{instruction}{{.sem}}{{.scope}}.shared::cta.b64 {result} [bar] {operands}"),
    )


def _trap(given: Arguments) -> Arguments:
    condition = given["cond"]
    return {"pred": Not(condition) if condition.dtype == "bool" else EQ(condition, const(0, condition.dtype))}



#: Calls that wait for a phase of an mbarrier -> ordering modifiers.
PARITY_WAITS = {
    "tirx.ptx.mbarrier_try_wait": "",
    "tirx.ptx.mbarrier_try_wait_acquire_cluster": "acquire.cluster",
}

TEMPLATES: dict[str, tuple[Template, ...]] = {
    "tirx.cuda.cta_sync": (Template("bar.sync 0"),),
    "tirx.cuda.warp_sync": (Template("bar.warp.sync 0xffffffff"),),
    "tirx.cuda.cluster_sync": (Template("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned"),),
    "tirx.cuda.warpgroup_sync": (Template("bar.sync bar_no 128"),),
    "tirx.cuda.nano_sleep": (Template("nanosleep.u32 time"),),
    "tirx.cuda.thread_fence": (Template("fence.acq_rel.gpu"),),
    "tirx.cuda.syncthreads_and": (Template("bar.red.and.pred %d 0 cond"),),
    "tirx.cuda.syncthreads_or": (Template("bar.red.or.pred %d 0 cond"),),
    "tirx.cuda.trap_when_assert_failed": (Template("trap", derive=_trap),),
    "tirx.tvm_storage_sync": (
        Template("bar.warp.sync 0xffffffff", "scope=warp"), Template("bar.sync 0", "scope=shared"),
        Template("bar.sync 0", "scope=shared.dyn"),
    ),
    "tirx.ptx.bar_sync": (Template("bar.sync name_bar_id thread_count"),),
    "tirx.ptx.barrier_sync": (Template("barrier.sync name_bar_id thread_count"),),
    "tirx.ptx.bar_arrive": (Template("bar.arrive name_bar_id thread_count"),),
    "tirx.ptx.barrier_cluster_arrive": (Template("barrier.cluster.arrive{.sem}{.aligned}"),),
    "tirx.ptx.barrier_cluster_wait": (Template("barrier.cluster.wait{.acquire}{.aligned}"),),
    "tirx.ptx.mbarrier_init": (Template("mbarrier.init.shared::cta.b64 [bar] thread_count"),),
    "tirx.ptx.mbarrier_arrive": _mbarrier("arrive", "count?"),
    "tirx.ptx.mbarrier_arrive_expect_tx": _mbarrier("arrive.expect_tx", "byte_count"),
    "tirx.ptx.mbarrier_arrive_no_complete": (
        Template("mbarrier.arrive.noComplete.release.cta.shared::cta.b64 %state:b64 [bar] count"),
    ),
    "tirx.ptx.mbarrier_complete_tx": (
        Template("mbarrier.complete_tx.relaxed{.scope}.shared::cluster.b64 [bar@remote] tx_count", "remote?"),
        Template("mbarrier.complete_tx.relaxed{.scope}.shared::cta.b64 [bar] tx_count"),
    ),
    "tirx.ptx.mbarrier_try_wait_once": (Template("mbarrier.try_wait.parity.shared::cta.b64 %d [bar] phase ticks"),),
    "tirx.ptx.mbarrier_test_wait_parity": (
        Template("mbarrier.test_wait.parity{.sem}{.scope}.shared::cta.b64 %d [barrier] phase"),
    ),
    "tirx.ptx.fence_mbarrier_init": (Template("fence.mbarrier_init.release.cluster"),),
    "tirx.ptx.fence": (Template("fence.{sem}.{scope}"),),
    "tirx.ptx.fence_proxy_async": (Template("fence.proxy.async{.space}"),),
    "tirx.ptx.griddepcontrol_wait": (Template("griddepcontrol.wait"),),
    "tirx.ptx.griddepcontrol_launch_dependents": (Template("griddepcontrol.launch_dependents"),),
    "tirx.ptx.setmaxnreg": (
        Template("setmaxnreg.inc.sync.aligned.u32 reg_count", "inc"), Template("setmaxnreg.dec.sync.aligned.u32 reg_count"),
    ),
    "tirx.ptx.clc_try_cancel": (
        Template("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.multicast::cluster::all.b128 "
                 "[handle] [mbar]"),
    ),
    "tirx.ptx.fetch_register": (Template("mov.u{bits} %d <reg_name>"),),
    "tirx.cuda.clock64": (Template("mov.u64 %d <clock64>"),),
}  # fmt: skip
