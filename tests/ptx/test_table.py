"""The instruction table against the assembler, and its refusals."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.ptx import probe
from tirx_eq.errors import PtxError
from tirx_eq.ptx import ptxas
from tirx_eq.ptx.syntax import check_bound, expand, parse_groups, requirements
from tirx_eq.ptx.table import find, find_all, instructions
from tirx_eq.ptx.target import FEATURES, TARGETS, require, target_has

needs_ptxas = pytest.mark.skipif(ptxas.find_tool("ptxas") is None, reason="PTXAS IS NOT INSTALLED: table not checked")

#: Where rows that sm_100a lacks are assembled instead.
ELSEWHERE = ("sm_100a", "sm_103a", "sm_120a", "sm_90a")

#: Older assemblers read a few forms on targets, and at versions, where the newer one refuses them.
EXACT = probe.VERSION >= (9, 4)


def usable(opcode, target):
    try:
        return bool(find_all(opcode, target, probe.VERSION))
    except PtxError:
        return False


@needs_ptxas
def test_every_row_assembles():
    """Each row in up to six forms, without and with free operands, with registers and immediates, to machine code."""
    kernels = {}
    emitted = Counter()
    rows = [row for row in instructions() if row.ptx <= probe.VERSION]
    assert len(rows) >= len(instructions()) - 4
    for row in rows:
        for target in ELSEWHERE:
            legal = [m for m in probe.forms(row, 200) if probe.refusal(m, target) is None][:6]
            if legal:
                break
        assert legal, f"no target has a form of {row.syntax()}"
        group = legal[0].bound.get("cg", "") if row.feature.startswith("tcgen05") else ""
        for match in legal:
            key = (target, match.bound.get("cg", "") if group else "", row.section)
            if key not in kernels:
                module, kernel = probe.probe_kernel(target)
                kernels[key] = module, kernel, probe.Operands(kernel)
            _, kernel, operands = kernels[key]
            for trailing, immediates in ((False, False), (True, False), (True, True)):
                try:
                    values = operands.all(match, trailing, immediates)
                    kernel.emit(match.opcode, *values)
                except PtxError:
                    # another row of the same opcode may not take these operands at all
                    assert trailing, match.opcode
            emitted[row] += 1
    assert len(emitted) == len(rows)
    for (target, group, section), (module, kernel, _) in kernels.items():
        made = ptxas.assemble(module.text(), target, optimize=0)
        assert made.cubin, (target, group, section)
        assert len(kernel.instructions) >= 3
    assert sum(emitted.values()) > 1500


@needs_ptxas
@pytest.mark.parametrize(
    "target", ["sm_80", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_100f", "sm_103a", "sm_103f", "sm_107a", "sm_107f",
               "sm_110a", "sm_120a"],
)  # fmt: skip
def test_table_and_assembler_agree(target):
    """What the table admits the assembler reads, and what the table refuses the assembler refuses."""
    if TARGETS[target].ptx > probe.VERSION:
        pytest.skip(f"the assembler does not know {target}")
    limit = 300 if target == "sm_100a" else 30
    groups = {}
    for row in instructions():
        for match in probe.forms(row, limit):
            # one cta_group per kernel
            group = match.bound.get("cg", "") if row.feature.startswith("tcgen05") else ""
            groups.setdefault(group, []).append((match, probe.refusal(match, target)))
    admitted = refused = 0
    wrong = []
    for group in groups.values():
        for verdict in probe.ask(group, target):
            if verdict.table is None:
                admitted += 1
                if verdict.assembler is not None:
                    wrong.append(f"the table admits {verdict.text} but: {verdict.assembler}")
            elif verdict.assembler is None and not usable(verdict.opcode, target):
                # 256-bit accesses of generic addresses: the ISA grants them to .global only
                if EXACT and "moves 256 bits" not in verdict.table:
                    wrong.append(f"{verdict.text} assembles, but the table says {verdict.table}")
            else:
                refused += 1
    assert not wrong, "\n".join(wrong[:20])
    assert admitted > 2000 and refused > 50


@needs_ptxas
def test_version_floors():
    """At the lowest PTX version the table claims for a form, the assembler reads it."""
    groups = {}
    for row in instructions():
        for match in probe.forms(row, 24):
            if check_bound(match):
                continue
            needs = requirements(match)
            having = [t for t in TARGETS.values() if all(not f or target_has(t, f) for _, f, _ in needs)]
            assert having, match.opcode
            target = min(having, key=lambda t: (t.ptx, t.arch))
            version = max(target.ptx, *(v for _, _, v in needs))
            if version > probe.VERSION:
                continue
            group = match.bound.get("cg", "") if row.feature.startswith("tcgen05") else ""
            groups.setdefault((target.name, version, group), []).append((match, None))
    count = 0
    for (target, version, _), members in groups.items():
        for verdict in probe.ask(members, target, version):
            assert verdict.assembler is None, f"{target} {version}: {verdict.text} {verdict.assembler}"
            count += 1
    assert count > 3000


@needs_ptxas
def test_target_floors():
    """Each target is read at its floor and refused below."""
    below = {(8, 0): (7, 8), (8, 6): (8, 5), (8, 7): (8, 6), (8, 8): (8, 7), (9, 0): (8, 8)}
    empty = ".version {}.{}\n.target {}\n.address_size 64\n.visible .entry k() {{ ret; }}\n"
    for target in TARGETS.values():
        if target.ptx > probe.VERSION:
            continue
        arch = "compute_" + target.name[3:]
        assert not ptxas.diagnostics(empty.format(*target.ptx, target.name), arch), target
        if EXACT and target.ptx in below:
            assert ptxas.diagnostics(empty.format(*below[target.ptx], target.name), arch), target


def test_tensor_memory_is_granted_by_target_name():
    having = {t for t in TARGETS if target_has(t, "tcgen05")}
    assert {"sm_100a", "sm_100f", "sm_103a", "sm_103f", "sm_110a"} <= having
    assert not having & {"sm_100", "sm_103", "sm_90a", "sm_120", "sm_120a", "sm_120f", "sm_121a"}
    for target in ("sm_120a", "sm_121a", "sm_90a"):
        with pytest.raises(PtxError, match=f"target {target} has no tcgen05"):
            require(target, "tcgen05", "gemm_async")
        with pytest.raises(PtxError, match=f"target {target} has no tcgen05"):
            find("tcgen05.mma.cta_group::1.kind::f16", target)
    for target in ("sm_100a", "sm_103a"):
        require(target, "tcgen05")
    with pytest.raises(PtxError, match="unknown target 'sm_101a'"):
        require("sm_101a", "tcgen05")
    with pytest.raises(PtxError, match="unknown target feature"):
        target_has("sm_100a", "warp_drive")


def test_features_are_used_and_known():
    used = {r for row in instructions() for r in (row.feature, *(n.feature for n in row.needs)) if r}
    assert used <= set(FEATURES)
    # features without a row of their own guard builder constructs
    assert set(FEATURES) - used <= {"sm_86"} | used


@pytest.mark.parametrize(
    ("opcode", "target", "message"),
    [
        ("tcgen05.mma.cta_group::1.kind::f17", None, "'.kind::f17' is not a modifier permitted at this place"),
        ("tcgen05.mma.kind::f16.cta_group::1", None, "'.kind::f16' is not a modifier"),
        ("tcgen05.mma.cta_group::3.kind::f16", None, "'.cta_group::3'"),
        ("tcgen05.alloc.cta_group::1.sync.aligned", None, "the end of the opcode"),
        ("tcgen05.mma.cta_group::1.kind::f16.ashift.collector::a::use", None, "cannot be combined"),
        ("tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale", None, "no scale vector size"),
        ("tcgen05.mma.cta_group::1.kind::mxf4.block_scale.scale_vec::4X", None, "does not take .scale_vec::4X"),
        ("tcgen05.mma.cta_group::1.kind::mxf4.block_scale.scale_vec::2X", "sm_100f", "no tcgen05.scale_vec"),
        ("tcgen05.mma.cta_group::1.kind::i8", "sm_103a", "no tcgen05.i8"),
        ("tcgen05.mma.ws.cta_group::2.kind::f16", None, "'.cta_group::2'"),
        ("tcgen05.ld.sync.aligned.16x256b.x64.b32", None, "moves 256 registers"),
        ("tcgen05.ld.red.sync.aligned.32x32b.x2.min.f32", "sm_100a", "no tcgen05.ld.red"),
        ("tcgen05.cp.cta_group::1.64x128b", None, "'.64x128b' is not"),
        ("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cta.b64", None, "'.shared::cta'"),
        ("cp.async.bulk.tensor.6d.shared::cta.global.tile.mbarrier::complete_tx::bytes", None, "'.6d'"),
        ("cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes.multicast::cluster", None,
         "'.multicast::cluster'"),
        ("ld.shared.v8.b32", None, "moves 256 bits|'.v8'"),
        ("ld.global.v8.b32", "sm_90", "no sm_100"),
        ("add.f32x2", "sm_90a", "no sm_100"),
        ("setmaxnreg.inc.sync.aligned.u32", "sm_100", "no setmaxnreg"),
        ("redux.sync.max.f32", "sm_120a", "no redux.f32"),
        ("mbarrier.arrive.release.shared::cta.b64", None, "needs a scope"),
        ("frobnicate.b32", None, "unknown instruction"),
        ("ld.shared.L2::cache_hint.b32", None, "applies to .global"),
        ("cvt.f16.f32", None, "needs a rounding mode"),
        ("setp.lo.s32", None, "compares unsigned types"),
    ],
)  # fmt: skip
def test_opcode_refusals(opcode, target, message):
    with pytest.raises(PtxError, match=message):
        find(opcode, target)


#: What compiled tile kernels (GEMM, scaled GEMM, attention, normalisation) are made of.
REAL = """
mbarrier.init.shared::cta.b64 mbarrier.inval.shared::cta.b64 mbarrier.arrive.shared::cta.b64
mbarrier.arrive.release.cta.shared::cta.b64 mbarrier.arrive.release.cluster.shared::cluster.b64
mbarrier.arrive.expect_tx.shared::cta.b64 mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64
mbarrier.expect_tx.relaxed.cta.shared::cta.b64 mbarrier.complete_tx.relaxed.cta.shared::cta.b64
mbarrier.try_wait.parity.shared::cta.b64 mbarrier.try_wait.parity.acquire.cta.shared::cta.b64
mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 mbarrier.test_wait.parity.shared.b64
fence.mbarrier_init.release.cluster fence.proxy.async fence.proxy.async.shared::cta fence.proxy.async.shared::cluster
fence.proxy.async.global fence.acq_rel.cluster fence.proxy.tensormap::generic.acquire.gpu
fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster
cp.async.bulk.tensor.{1d,2d,3d,4d,5d}.shared::cta.global.tile.mbarrier::complete_tx::bytes
cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes
cp.async.bulk.tensor.{2d,3d,4d}.shared::cluster.global.tile.mbarrier::complete_tx::bytes.cta_group::{1,2}
cp.async.bulk.tensor.{2d,3d}.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint
cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster
cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster.cta_group::2.L2::cache_hint
cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes
cp.async.bulk.tensor.{2d,3d,4d}.global.shared::cta.tile.bulk_group cp.async.bulk.tensor.2d.global.shared::cta.bulk_group
cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group.L2::cache_hint
cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group
cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group
cp.async.bulk.prefetch.tensor.2d.L2.global.tile cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes
cp.async.bulk.global.shared::cta.bulk_group cp.async.bulk.commit_group cp.async.bulk.wait_group
cp.async.bulk.wait_group.read prefetch.tensormap cp.async.cg.shared.global cp.async.ca.shared.global
cp.async.commit_group cp.async.wait_group cp.async.mbarrier.arrive.noinc.shared::cta.b64
elect.sync setmaxnreg.{inc,dec}.sync.aligned.u32 griddepcontrol.{wait,launch_dependents}
clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128
clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.multicast::cluster::all.b128
clusterlaunchcontrol.query_cancel.is_canceled.pred.b128
clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128
clusterlaunchcontrol.query_cancel.get_first_ctaid::{x,y,z}.b32.b128 ld.shared.b128
barrier.cluster.arrive barrier.cluster.arrive.{release,relaxed}.aligned barrier.cluster.wait.acquire.aligned
bar.sync bar.arrive bar.warp.sync mapa.shared::cluster.u32 mapa.u64 shfl.sync.{idx,bfly,up,down}.b32
st.shared.v4.b32 ld.shared.v4.f32 ld.global.v8.b32 st.global.v8.f32 st.global.v4.b64 ld.global.nc.v4.b32
stmatrix.sync.aligned.m8n8.x4.shared.b16 stmatrix.sync.aligned.m8n8.x4.trans.shared.b16
stmatrix.sync.aligned.m16n8.x4.trans.shared.b8 ldmatrix.sync.aligned.m8n8.x4.shared.b16
add.f32x2 mul.rz.ftz.f32x2 fma.rn.f32x2 max.f32 min.NaN.f32 redux.sync.max.f32 cvt.rn.{f16x2,bf16x2}.f32
cvt.rn.satfinite.e4m3x2.f32 cvt.rn.satfinite.e2m1x2.f32 cvt.rp.satfinite.ue8m0x2.f32 ex2.approx.ftz.f32
lg2.approx.f32 rcp.approx.ftz.f32 rsqrt.approx.f32 tanh.approx.f32
createpolicy.fractional.L2::evict_first.b64 red.global.add.v4.f32 atom.global.add.u32 atom.shared.cas.b32
tcgen05.alloc.cta_group::{1,2}.sync.aligned.shared::cta.b32 tcgen05.dealloc.cta_group::{1,2}.sync.aligned.b32
tcgen05.relinquish_alloc_permit.cta_group::{1,2}.sync.aligned tcgen05.mma.cta_group::{1,2}.kind::{f16,tf32,f8f6f4,i8}
tcgen05.mma.cta_group::1.kind::f16.collector::a::{fill,use,lastuse,discard} tcgen05.mma.cta_group::1.kind::f16.ashift
tcgen05.mma.cta_group::{1,2}.kind::mxf8f6f4.block_scale tcgen05.mma.cta_group::2.kind::mxf4.block_scale.scale_vec::2X
tcgen05.mma.cta_group::{1,2}.kind::mxf4nvf4.block_scale.{scale_vec::4X,block16}
tcgen05.mma.sp.cta_group::1.kind::f16 tcgen05.mma.ws.cta_group::1.kind::f16.collector::b0::fill
tcgen05.mma.ws.sp.cta_group::1.kind::i8 tcgen05.cp.cta_group::2.32x128b.warpx4
tcgen05.cp.cta_group::1.128x256b.b8x16.b4x16_p64 tcgen05.shift.cta_group::1.down
tcgen05.ld.sync.aligned.32x32b.x{1,2,4,8,16,32,64,128}.b32 tcgen05.ld.sync.aligned.16x256b.x{1,2,4,8,16,32}.b32
tcgen05.ld.sync.aligned.16x32bx2.x2.pack::16b.b32 tcgen05.st.sync.aligned.32x32b.x{16,32}.unpack::16b.b32
tcgen05.wait::{ld,st}.sync.aligned tcgen05.fence::{before,after}_thread_sync
tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64
tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64
cvta.to.global.u64 cvta.param.u64 ld.param.u64 mul.wide.u32 prmt.b32 lop3.b32 bfe.u32 selp.b32 vote.sync.ballot.b32
"""


@pytest.mark.parametrize("opcode", [opcode for word in REAL.split() for opcode in expand(word)])
def test_instructions_of_real_kernels(opcode):
    assert find_all(opcode, "sm_100a", (8, 8))


def test_version_refusals():
    with pytest.raises(PtxError, match=r"needs PTX 8\.7, the module is written for 8\.6"):
        find("tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X", "sm_100a", (8, 6))
    with pytest.raises(PtxError, match=r"needs PTX 8\.8"):
        find("ld.global.v8.b32", "sm_100a", (8, 6))


def test_notation():
    assert expand("kind::{f16,tf32}|x{1,2}.y") == ("kind::f16", "kind::tf32", "x1.y", "x2.y")
    group, other = parse_groups("cg=cta_group::{1,2}? b32")
    assert (group.name, group.choices, group.optional) == ("cg", ("cta_group::1", "cta_group::2"), True)
    assert other.choices == ("b32",) and not other.optional
