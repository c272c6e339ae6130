"""mbarrier forms and CTA barriers: phases, tokens, drops, transaction bytes, cp.async arrivals, reductions at barriers."""

import numpy as np
import pytest

from tirx_eq.sim import Launch, simulate


def run(body, threads=64, policy="late", extra="", **options):
    """Run ``body`` with %r0 = thread, %r1 = address of a barrier, %r2 = address of 1 KB; %r9 is stored per thread."""
    source = f"""
.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 src, .param .u64 out) {{
    .shared .align 16 .b8 buf[1024];
    .shared .align 8 .b64 bar;
    .reg .b32 %r<16>; .reg .b64 %d<8>; .reg .pred %p<8>;
    {extra}
    mov.u32 %r0, %tid.x; mov.u32 %r1, bar; mov.u32 %r2, buf; mov.u32 %r9, 0;
    ld.param.u64 %d0, [src]; ld.param.u64 %d1, [out];
    setp.ne.u32 %p0, %r0, 0;
    {body}
    mul.wide.u32 %d2, %r0, 4; add.u64 %d1, %d1, %d2; st.global.b32 [%d1], %r9;
    ret;
}}"""
    data = np.arange(256, dtype=np.uint32)
    return simulate(source, "k", Launch((1, 1, 1), (threads, 1, 1)), [data, np.zeros(threads, np.uint32)], policy=policy,
                    **options)


POLICIES = pytest.mark.parametrize("policy", ["late", "early", "random"])


@POLICIES
def test_tokens_and_phases(policy):
    """Three phases by state token; the token's pending count is what was outstanding before the arrival."""
    body = """
    @!%p0 mbarrier.init.shared::cta.b64 [%r1], 64;
    bar.sync 0;
    mov.u32 %r3, 0;
LOOP:
    shl.b32 %r4, %r0, 2; add.u32 %r4, %r4, %r2; st.shared.b32 [%r4], %r3;
    mbarrier.arrive.shared::cta.b64 %d3, [%r1];
WAIT:
    mbarrier.test_wait.shared::cta.b64 %p1, [%r1], %d3;
    @!%p1 bra WAIT;
    xor.b32 %r5, %r4, 4; ld.shared.b32 %r6, [%r5]; add.u32 %r9, %r9, %r6;
    mbarrier.arrive.shared::cta.b64 %d3, [%r1];
WAIT2:
    mbarrier.try_wait.shared::cta.b64 %p1, [%r1], %d3;
    @!%p1 bra WAIT2;
    add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, 3; @%p2 bra LOOP;
    mbarrier.pending_count.b64 %r7, %d3; setp.eq.u32 %p3, %r7, 0; @%p3 add.u32 %r9, %r9, 1000;
    """
    result = run(body, policy=policy).raise_for_faults()
    assert (result.arrays["out"] == 3).all()


@POLICIES
def test_arrive_drop_lowers_the_count(policy):
    body = """
    @!%p0 mbarrier.init.shared::cta.b64 [%r1], 64;
    bar.sync 0;
    setp.ge.u32 %p1, %r0, 32;
    @%p1 mbarrier.arrive_drop.shared::cta.b64 _, [%r1];
    @%p1 bra END;
    mbarrier.arrive.shared::cta.b64 _, [%r1];
A:  mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r1], 0; @!%p2 bra A;
    mbarrier.arrive.shared::cta.b64 _, [%r1];
B:  mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r1], 1; @!%p2 bra B;
    mov.u32 %r9, 7;
END:
    """
    result = run(body, policy=policy).raise_for_faults()
    assert result.arrays["out"].tolist() == [7] * 32 + [0] * 32


def test_counted_arrival_above_the_pending_count():
    body = "@!%p0 mbarrier.init.shared::cta.b64 [%r1], 2; bar.sync 0; @!%p0 mbarrier.arrive.shared::cta.b64 _, [%r1], 3;"
    assert [f.kind for f in run(body).faults] == ["mbarrier"]


@pytest.mark.parametrize("body,kind", [
    ("mbarrier.arrive.shared::cta.b64 _, [%r1];", "mbarrier"),
    ("@!%p0 mbarrier.init.shared::cta.b64 [%r1], 0;", "mbarrier"),
    ("@!%p0 mbarrier.init.shared::cta.b64 [%r2+4], 1;", "alignment"),
    ("@!%p0 mbarrier.init.shared::cta.b64 [%r1], 1; @!%p0 st.shared.b32 [%r1], 0;", "mbarrier"),
    ("@!%p0 mbarrier.init.shared::cta.b64 [%r1], 1; @%p0 mbarrier.arrive.shared::cta.b64 _, [%r1], 1;", "race"),
    ("@!%p0 mbarrier.init.shared::cta.b64 [%r1], 1; @!%p0 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r1], 16;",
     "mbarrier"),
    ("bar.sync 16;", "barrier"), ("bar.sync 1, 40;", "barrier"), ("bar.sync 1, 128;", "deadlock"),
    ("ld.shared.b32 %r9, [%r2];", "uninitialised"), ("ld.shared.b32 %r9, [%r2+1024];", "race"),
    ("ld.shared.b32 %r9, [%r2+4096];", "bounds"), ("ld.shared.b32 %r9, [%r2+2];", "alignment"),
    ("st.shared.b32 [%r2], %r0;", "race"), ("ld.global.b32 %r9, [%d0+1024];", "bounds"),
    ("add.u32 %r9, %r9, %r15;", "uninitialised"), ("shfl.sync.idx.b32 %r9, %r0, 0, 31, 0xfffffffe;", "collective"),
    ("@%p0 bar.warp.sync 1;", "collective"), ("trap;", "isa"),
])
def test_misuse(body, kind):
    faults = [f.kind for f in run(body).faults]
    if kind == "race" and "1024" in body:
        assert faults            # reading the mbarrier's own bytes, which nobody has written
    else:
        assert kind in faults, faults


@POLICIES
def test_cp_async_arrives_on_an_mbarrier(policy):
    body = """
    @!%p0 mbarrier.init.shared::cta.b64 [%r1], 64;
    bar.sync 0;
    mul.wide.u32 %d2, %r0, 16; add.u64 %d3, %d0, %d2; shl.b32 %r3, %r0, 4; add.u32 %r3, %r3, %r2;
    cp.async.cg.shared.global [%r3], [%d3], 16, %r4;
    cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r1];
A:  mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r1], 0; @!%p2 bra A;
    xor.b32 %r5, %r0, 63; shl.b32 %r5, %r5, 4; add.u32 %r5, %r5, %r2;
    ld.shared.v2.b32 {%r6, %r7}, [%r5]; add.u32 %r9, %r6, %r7;
    """
    result = run("mov.u32 %r4, 4;" + body, policy=policy).raise_for_faults()
    assert result.arrays["out"].tolist() == [4 * (63 - t) for t in range(64)]       # bytes beyond the source are zero
    broken = run("mov.u32 %r4, 16;" + body.replace("@!%p2 bra A;", ""), policy="late")
    assert "race" in {f.kind for f in broken.faults}


def test_barrier_reductions():
    body = """
    and.b32 %r3, %r0, 3; setp.eq.u32 %p1, %r3, 0;
    bar.red.popc.u32 %r9, 0, %p1;
    bar.red.and.pred %p2, 0, %p1; @%p2 add.u32 %r9, %r9, 100;
    bar.red.or.pred %p3, 0, %p1; @%p3 add.u32 %r9, %r9, 1000;
    """
    assert (run(body).raise_for_faults().arrays["out"] == 1016).all()


def test_a_missing_barrier_is_a_race_and_a_present_one_is_not():
    write = "shl.b32 %r4, %r0, 2; add.u32 %r5, %r4, %r2; st.shared.b32 [%r5], %r0;"
    read = "xor.b32 %r6, %r4, 128; add.u32 %r6, %r6, %r2; ld.shared.b32 %r9, [%r6];"
    for between, clean in (("bar.sync 0;", True), ("bar.warp.sync 0xffffffff;", False), ("", False)):
        assert (not run(write + between + read).faults) == clean
    near = "xor.b32 %r6, %r4, 4; add.u32 %r6, %r6, %r2; ld.shared.b32 %r9, [%r6];"
    for between, clean in (("bar.warp.sync 0xffffffff;", True), ("", False)):
        assert (not run(write + between + near).faults) == clean


def test_write_after_read_needs_a_barrier():
    body = """
    shl.b32 %r4, %r0, 2; add.u32 %r5, %r4, %r2; st.shared.b32 [%r5], %r0;
    bar.sync 0;
    xor.b32 %r6, %r4, 128; add.u32 %r6, %r6, %r2; ld.shared.b32 %r9, [%r6];
    BARRIER
    st.shared.b32 [%r5], 5;
    """
    assert not run(body.replace("BARRIER", "bar.sync 0;")).faults
    assert [f.kind for f in run(body.replace("BARRIER", "")).faults] == ["race"]


def test_message_passing_through_a_flag():
    """Release and acquire order ordinary accesses; a relaxed flag without fences does not."""
    body = """
    @%p0 bra READER;
    st.shared.b32 [%r2], 42;
    st.RELEASE.cta.shared.b32 [%r2+4], 1;
    bra END;
READER:
    setp.ne.u32 %p1, %r0, 32; @%p1 bra END;
L:  ld.ACQUIRE.cta.shared.b32 %r3, [%r2+4]; setp.eq.u32 %p2, %r3, 0; @%p2 bra L;
    FENCE
    ld.shared.b32 %r9, [%r2];
END:
    """
    flag = "@!%p0 st.shared.b32 [%r2+4], 0; bar.sync 0;"
    for release, acquire, before, after, clean in (
            ("release", "acquire", "", "", True), ("relaxed", "relaxed", "", "", False),
            ("relaxed", "relaxed", "fence.acq_rel.cta;", "fence.acq_rel.cta;", True), ("release", "relaxed", "", "", False)):
        text = flag + body.replace("RELEASE", release).replace("ACQUIRE", acquire).replace("FENCE", after)
        store = f"st.{release}.cta.shared.b32 [%r2+4], 1"
        text = text.replace(store, before + store)
        result = run(text)
        assert result.arrays["out"][32] == 42
        assert (not result.faults) == clean, (release, acquire, [str(f) for f in result.faults])
