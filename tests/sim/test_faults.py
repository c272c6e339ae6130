"""Every planted mistake is reported, with the kind of fault it is, or gives wrong numbers under some schedule."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from tests.sim.test_gemm_min import SOURCE, run

DATA = Path(__file__).parent.parent / "data" / "ptx"
spec = importlib.util.spec_from_file_location("known_mutants", DATA / "known_mutants.py")
known = importlib.util.module_from_spec(spec)
spec.loader.exec_module(known)

rng = np.random.default_rng(5)
A, B = (rng.integers(-8, 9, (256, 64)).astype(np.float16) for _ in range(2))
EXPECTED = A.astype(np.float64) @ B.astype(np.float64).T

#: mutant -> kind of fault that must be among those reported; None: wrong numbers are the only sign
KINDS = {
    "wrong idesc dtype (bf16 A)": "descriptor", "idesc N=64": "uninitialised", "idesc M=64": "uninitialised",
    "idesc M=192 illegal": "descriptor", "idesc reserved bit 23": "descriptor", "desc swizzle none": None,
    "desc swizzle 64B": None, "desc swizzle invalid 3": "descriptor", "desc version 0": "descriptor",
    "desc SBO 512": None, "k-advance wrong": None, "k-advance past atom": None,
    "first mma accumulates": "uninitialised", "no wait for TMA": "uninitialised", "no wait for MMA": "race",
    "no commit": "deadlock", "expect_tx too small": "mbarrier", "expect_tx too large": "deadlock",
    "no tcgen05.wait::ld": "tcgen05-wait", "no tcgen05.fence after MMA wait": "tcgen05-fence",
    "no fence.mbarrier_init": "mbarrier-fence", "no fences at all": "tcgen05-fence",
    "no bar.sync before dealloc": "tmem-alloc", "no bar.sync after alloc": "race", "no dealloc": "tmem-alloc",
    "alloc 64 columns, uses 128": "tmem-alloc", "warp reads foreign lanes": "tmem-lane", "wrong phase parity": "race",
    "swapped A/B tile coords": None, "store row stride wrong": "race", "smem tile misaligned": "alignment",
    "mbarrier count 2": "deadlock", "alloc by thread 0 only": "convergence",
}


def test_the_list_is_complete():
    assert set(KINDS) == set(known.M) - {"baseline"} and len(KINDS) == 33


@pytest.mark.parametrize("name", KINDS)
def test_known_mutant(name):
    result = run(known.M[name], A, B, "late")
    if KINDS[name] is None:
        assert not np.array_equal(result.arrays["pC"], EXPECTED)
    else:
        kinds = {f.kind for f in result.faults}
        assert KINDS[name] in kinds
        fault = next(f for f in result.faults if f.kind == KINDS[name])
        assert fault.rule and str(fault)


def swap(*pairs):
    source = SOURCE
    for old, new in pairs:
        assert old in source
        source = source.replace(old, new, 1)
    return source


def test_relaxed_wait_without_fence_is_told_apart():
    """A default wait acquires; a relaxed one does not.  Both need the fence, and the message says which it was."""
    no_fence = ("@!%p6 bra L_wait_done;\n    tcgen05.fence::after_thread_sync;", "@!%p6 bra L_wait_done;")
    relaxed = ("mbarrier.try_wait.parity.shared::cta.b64 %p6", "mbarrier.try_wait.parity.relaxed.cluster.shared::cta.b64 %p6")
    for changes, word in (((no_fence,), "acquiring"), ((relaxed, no_fence), "relaxed")):
        result = run(swap(*changes), A, B)
        found = [f for f in result.faults if f.kind == "tcgen05-fence"]
        assert found and word in found[0].message
    result = run(swap(relaxed), A, B)
    assert not [f for f in result.faults if f.kind in ("tcgen05-fence", "race")]


RING = """
.version 8.7
.target sm_100a
.address_size 64
.visible .entry ring(.param .u64 src, .param .u64 dst) {
    .shared .align 128 .b8 buf[512];
    .shared .align 8 .b64 full[2];
    .reg .pred %p<4>;
    .reg .b32 %r<16>;
    .reg .b64 %d<8>;
    mov.u32 %r0, buf;
    mov.u32 %r1, full;
    mbarrier.init.shared::cta.b64 [%r1], 1;
    mbarrier.init.shared::cta.b64 [%r1+8], 1;
    fence.mbarrier_init.release.cluster;
    ld.param.u64 %d0, [src];
    ld.param.u64 %d1, [dst];
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 256;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r0], [%d0], 256, [%r1];
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1+8], 256;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r0+256], [%d0+256], 256, [%r1+8];
    mov.u32 %r2, 0;
LOOP:
    and.b32 %r3, %r2, 1;
    shl.b32 %r4, %r3, 3;
    add.u32 %r4, %r4, %r1;
    shl.b32 %r5, %r3, 8;
    add.u32 %r5, %r5, %r0;
    shr.u32 %r6, %r2, 1;
    and.b32 %r6, %r6, 1;
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r4], %r6;
    @!%p0 bra WAIT;
    cp.async.bulk.global.shared::cta.bulk_group [%d1], [%r5], 256;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group.read PENDING;
    setp.ge.u32 %p1, %r2, 2;
    @%p1 bra NEXT;
    add.u64 %d2, %d0, 512;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4], 256;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r5], [%d2], 256, [%r4];
NEXT:
    add.u64 %d0, %d0, 256;
    add.u64 %d1, %d1, 256;
    add.u32 %r2, %r2, 1;
    setp.lt.u32 %p2, %r2, 4;
    @%p2 bra LOOP;
    cp.async.bulk.wait_group 0;
    ret;
}
"""


@pytest.mark.parametrize("policy", ["late", "early"])
def test_number_of_pending_bulk_groups(policy):
    """With two stages, waiting for all but one store does not cover the stage about to be refilled."""
    from tirx_eq.sim import Launch, simulate
    data = np.arange(256, dtype=np.int32)
    good = simulate(RING.replace("PENDING", "0"), "ring", Launch(), [data, np.zeros_like(data)], policy=policy)
    assert not good.faults and np.array_equal(good.arrays["dst"], data)
    bad = simulate(RING.replace("PENDING", "1"), "ring", Launch(), [data, np.zeros_like(data)], policy=policy)
    fault = next(f for f in bad.faults if f.kind == "race")
    assert "bulk store" in fault.message and "buf + 0" in fault.message


PAIR = """
.version 8.7
.target sm_100a
.address_size 64
.visible .entry pair() {
    .shared .align 4 .b32 base;
    .reg .b32 %r<4>;
    mov.u32 %r0, base;
    tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%r0], 64;
    ld.shared.b32 %r1, [%r0];
    BARRIER
    tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r1, 64;
    tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;
    ret;
}
"""


@pytest.mark.parametrize("policy,seed", [("late", 0), ("early", 0), ("random", 1), ("random", 2)])
def test_pair_dealloc_is_ordered_after_the_peers_alloc(policy, seed):
    from tirx_eq.sim import Launch, simulate
    launch = Launch((2, 1, 1), (32, 1, 1), (2, 1, 1))
    text = "bar.warp.sync 0xffffffff; BARRIER"
    source = PAIR.replace("BARRIER", text)
    bad = simulate(source.replace("BARRIER", ""), "pair", launch, [], policy=policy, seed=seed)
    assert any(f.kind == "tmem-alloc" and "peer" in f.message for f in bad.faults)
    fence = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
    good = simulate(source.replace("BARRIER", fence), "pair", launch, [], policy=policy, seed=seed)
    assert not good.faults


def test_reuse_of_an_accumulator_without_the_fence_is_a_warning():
    """Loads completed by wait::ld, a barrier, then an MMA that overwrites: shipped kernels leave the fence out."""
    from tests.sim.tc_harness import absolute, descriptor
    from tests.sim.tc_harness import run as frame
    value = descriptor(0, 128, 256, 0)
    warps = """
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {%v0}, [%r9];
    tcgen05.wait::ld.sync.aligned;
    bar.sync 0;
    FENCE
    """
    body = absolute(0, 1) + "\n    tcgen05.mma.cta_group::1.kind::f16 [%r8], %x0, %x1, %y2, %p6;"
    for fence, count in (("", 1), ("tcgen05.fence::after_thread_sync;", 0)):
        result = frame(body, None, None, [value, value, 0x08100010], warps.replace("FENCE", fence), faults=True)
        assert not result.faults and len(result.warnings) == count
        assert all(w.kind == "tcgen05-fence" for w in result.warnings)
    unwaited = warps.replace("FENCE", "").replace("bar.sync 0;", "")
    result = frame(body, None, None, [value, value, 0x08100010], unwaited, faults=True)
    assert "race" in {f.kind for f in result.faults}
