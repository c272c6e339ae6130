"""Tensor maps that a kernel makes, copies or changes: tensormap.replace, cp_fenceproxy and the fences of their proxy."""

import re

import numpy as np
import pytest

from tirx_eq.errors import ParseError
from tirx_eq.ptx import ptxas
from tirx_eq.sim import Launch, TensorMap, simulate

rng = np.random.default_rng(4)
ACQUIRE = "fence.proxy.tensormap::generic.acquire.gpu [%d4], 128;"
COPY = "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%d4], [%r2], 128;"
RELEASE = "fence.proxy.tensormap::generic.release.gpu;"
A = rng.integers(0, 1000, (24, 40)).astype(np.int16)


def kernel(change, size, point, rank=2):
    """A warp runs ``change``; then its first thread loads the box that the map at %d4 describes and copies it to out.

    %d0: the parameter's map, %d3: A, %d4: room in global memory, %r2: room in shared memory, %p1: first thread.
    """
    return f"""
.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 maps, .param .u64 A, .param .u64 out) {{
    .shared .align 1024 .b8 box[{size}];
    .shared .align 128 .b8 room[128];
    .shared .align 8 .b64 bar;
    .reg .b32 %r<16>; .reg .b64 %d<16>; .reg .pred %p<4>;
    mov.u32 %r0, box;
    mov.u32 %r1, bar;
    mov.u32 %r2, room;
    mov.u32 %r3, %tid.x;
    mov.b64 %d0, map; cvta.param.u64 %d0, %d0;
    ld.param.u64 %d4, [maps];
    ld.param.u64 %d3, [A];
    ld.param.u64 %d2, [out];
    setp.eq.u32 %p1, %r3, 0;
    @%p1 mbarrier.init.shared::cta.b64 [%r1], 1;
    @%p1 fence.mbarrier_init.release.cluster;
    {change}
    @!%p1 bra E;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], {size};
    cp.async.bulk.tensor.{rank}d.shared::cta.global.tile.mbarrier::complete_tx::bytes
        [%r0], [%d4, {{{", ".join(map(str, point))}}}], [%r1];
W:  mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r1], 0;
    @!%p0 bra W;
    cp.async.bulk.global.shared::cta.bulk_group [%d2], [%r0], {size};
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
E:  ret;
}}"""


def replace(fields, space="shared::cta", address="[%r2]"):
    lines = []
    for name, *values in fields:
        width = 64 if name in ("global_address", "global_stride") else 32
        text = ", ".join(str(v) for v in values)
        lines.append(f"@%p1 tensormap.replace.tile.{name}.{space}.b1024.b{width} {address}, {text};")
    return "\n    ".join(lines)


def run(text, size, maps=None, array=A, host=None, policy="late"):
    host = host or TensorMap("A", "u16", (40, 24), (80,), (8, 4))
    maps = {"map": host} if maps is None else {"map": host, "maps": maps}
    arguments = {"A": array, "out": np.zeros(size, np.uint8)}
    if "maps" not in maps:
        arguments["maps"] = np.zeros(128, np.uint8)
    return simulate(text, "k", Launch(block=(32, 1, 1)), arguments, maps, policy)


ZEROS = "mad.lo.u32 %r4, %r3, 4, %r2;\n    mov.u32 %r5, 0;\n    st.shared::cta.b32 [%r4], %r5;\n    bar.warp.sync -1;\n    "
FIELDS = [("global_address", "%d3"), ("rank", 1), ("box_dim", 0, "%r7"), ("box_dim", 1, 4), ("global_dim", 0, 40),
          ("global_dim", 1, 24), ("global_stride", 0, "%d5"), ("element_stride", 0, 1), ("element_stride", 1, 1),
          ("elemtype", 1), ("interleave_layout", 0), ("swizzle_mode", 0), ("fill_mode", 0)]
VALUES = "mov.u32 %r7, 8;\n    mov.b64 %d5, 80;\n    "


def made(fields=FIELDS, copy=COPY, acquire=ACQUIRE):
    """The whole map is made in shared memory out of zeros, field by field, as Triton does."""
    return f"{ZEROS}{VALUES}{replace(fields)}\n    bar.warp.sync -1;\n    {copy}\n    {acquire}"


def box(array, x, y, width, height):
    out = np.zeros((height, width), array.dtype)
    for i, j in np.ndindex(height, width):
        if 0 <= y + i < array.shape[0] and 0 <= x + j < array.shape[1]:
            out[i, j] = array[y + i, x + j]
    return out


@pytest.mark.parametrize("point", [(3, 5), (36, 22), (-2, -1)])
@pytest.mark.parametrize("policy", ["late", "early"])
def test_a_map_made_from_nothing(point, policy):
    found = run(kernel(made(), 64, point), 64, policy=policy).raise_for_faults()
    assert np.array_equal(found.arrays["out"].view(np.int16).reshape(4, 8), box(A, *point, 8, 4))


@pytest.mark.parametrize("name", [f[0] for f in FIELDS if f[0] not in ("interleave_layout", "swizzle_mode", "fill_mode")])
def test_every_field_is_needed(name):
    """Leaving the field zero is another map or none at all."""
    text = kernel(made([f for f in FIELDS if f[0] != name]), 64, (3, 5))
    found = run(text, 64)
    assert found.faults or not np.array_equal(found.arrays["out"].view(np.int16).reshape(4, 8), box(A, 3, 5, 8, 4))


def with_values(values):
    """FIELDS with other values: {(field, dimension or 0): value}."""
    return [(n, *v[:-1], values.get((n, v[0] if len(v) > 1 else 0), v[-1])) for n, *v in FIELDS]


def test_swizzle_and_element_type():
    fields = with_values({("box_dim", 0): 32, ("box_dim", 1): 16, ("swizzle_mode", 0): 2, ("elemtype", 0): 6})
    found = run(kernel(made(fields), 1024, (0, 2)), 1024).raise_for_faults()
    want = np.zeros(1024, np.uint8)
    plain = box(A, 0, 2, 32, 16).reshape(-1).view(np.uint8)
    for i in range(1024):
        want[i ^ (i >> 3 & 0x30)] = plain[i]
    assert np.array_equal(found.arrays["out"], want)


@pytest.mark.parametrize("atom,move", [(1, lambda i: i ^ (i >> 2 & 0x60)), (3, lambda i: i ^ (i >> 1 & 0x40)),
                                       (2, lambda i: (i ^ (i >> 2 & 0x60)) ^ ((i ^ (i >> 2 & 0x60)) >> 4 & 8))])
def test_swizzle_atoms(atom, move):
    wide = rng.integers(0, 1000, (24, 64)).astype(np.int16)
    fields = with_values({("box_dim", 0): 64, ("box_dim", 1): 16, ("global_dim", 0): 64, ("swizzle_mode", 0): 3})
    fields.append(("swizzle_atomicity", atom))
    text = kernel(made(fields), 2048, (0, 2)).replace("mov.b64 %d5, 80", "mov.b64 %d5, 128")
    found = run(text, 2048, array=wide)
    want = np.zeros(2048, np.uint8)
    plain = wide[2:18].reshape(-1).view(np.uint8)
    for i in range(2048):
        want[move(i)] = plain[i]
    assert np.array_equal(found.raise_for_faults().arrays["out"], want)


def copied(change):
    """CUTLASS: the host's map goes to shared memory by 16-byte copies, is changed there and copied out."""
    return f"""setp.lt.u32 %p2, %r3, 8;
    mad.lo.u32 %r4, %r3, 16, %r2;
    mad.wide.u32 %d6, %r3, 16, %d0;
    @%p2 ld.v2.b64 {{%d7, %d8}}, [%d6];
    @%p2 st.shared.v2.b64 [%r4], {{%d7, %d8}};
    bar.warp.sync -1;
    {change}
    bar.warp.sync -1;
    {COPY}
    {ACQUIRE}"""


def test_a_copied_map_with_other_extents():
    change = "mov.u32 %r8, 20;\n    " + replace([("global_dim", 0, "%r8"), ("global_address", "%d9")])
    text = kernel(copied("add.u64 %d9, %d3, 160;\n    " + change), 64, (16, 1))
    found = run(text, 64).raise_for_faults()
    assert np.array_equal(found.arrays["out"].view(np.int16).reshape(4, 8), box(A[2:, :20], 16, 1, 8, 4))


def in_place(change="", release=RELEASE, acquire=ACQUIRE):
    return f"""add.u64 %d4, %d4, 128;
    {change}
    @%p1 {release}
    @%p1 {acquire}"""


MAPS = [TensorMap("A", "u16", (40, 24), (80,), (8, 4)), TensorMap("A", "u16", (20, 24), (80,), (8, 4), offset_bytes=800)]


def test_an_array_of_maps_in_global_memory():
    found = run(kernel("add.u64 %d4, %d4, 128;", 64, (16, 1)), 64, MAPS).raise_for_faults()
    assert np.array_equal(found.arrays["out"].view(np.int16).reshape(4, 8), box(A[10:, :20], 16, 1, 8, 4))


@pytest.mark.parametrize("space", [".global", ""])
def test_changed_in_global_memory(space):
    change = replace([("global_address", "%d3")], "SPACE", "[%d4]").replace(".SPACE", space)
    found = run(kernel(in_place(change), 64, (16, 1)), 64, MAPS).raise_for_faults()
    assert np.array_equal(found.arrays["out"].view(np.int16).reshape(4, 8), box(A[:, :20], 16, 1, 8, 4))


@pytest.mark.parametrize("release,acquire,message", [
    ("bar.warp.sync 1;", ACQUIRE, "release since"), (RELEASE, "bar.warp.sync 1;", "acquire on it since"),
    (RELEASE, ACQUIRE.replace("%d4", "%d10"), "acquire on it since")])
def test_missing_fences_are_found(release, acquire, message):
    change = "sub.u64 %d10, %d4, 128;\n    " + replace([("global_address", "%d3")], "global", "[%d4]")
    found = run(kernel(in_place(change, release, acquire), 64, (16, 1)), 64, MAPS)
    assert [f.kind for f in found.faults] == ["proxy"] and message in found.faults[0].message


def test_an_acquire_before_the_change_does_not_count():
    change = f"@%p1 {ACQUIRE}\n    " + replace([("global_address", "%d3")], "global", "[%d4]")
    found = run(kernel(in_place(change, RELEASE, "bar.warp.sync 1;"), 64, (16, 1)), 64, MAPS)
    assert [f.kind for f in found.faults] == ["proxy"]


def test_another_threads_acquire_counts_behind_a_barrier():
    change = replace([("global_address", "%d3")], "global", "[%d4]") + f"""
    @%p1 {RELEASE}
    bar.warp.sync -1;
    setp.eq.u32 %p3, %r3, 5;
    @%p3 {ACQUIRE}
    BARRIER"""
    text = kernel("add.u64 %d4, %d4, 128;\n    " + change, 64, (16, 1))
    run(text.replace("BARRIER", "bar.warp.sync -1;"), 64, MAPS).raise_for_faults()
    assert [f.kind for f in run(text.replace("BARRIER", ""), 64, MAPS).faults] == ["proxy"]


def test_faults_of_maps():
    def kinds(change, maps=None):
        return [f.kind for f in run(kernel(change, 64, (3, 5)), 64, maps).faults]
    assert kinds("cvt.u64.u32 %d11, %r2;\n    cvta.shared.u64 %d4, %d11;") == ["tensormap"], "shared memory cannot hold it"
    assert kinds(made(copy="mov.u64 %d4, %d0;", acquire="")) == []
    assert kinds(made().replace(ZEROS, "")) == ["uninitialised"]
    assert kinds(made().replace("mov.b64 %d5, 80", "mov.b64 %d5, 72")) == ["tensormap"], "a stride of 72 bytes"
    assert kinds("@%p1 add.u64 %d4, %d4, 64;", MAPS) == ["tensormap"], "half of one map and half of another"
    assert kinds("add.u64 %d4, %d4, 8;", MAPS) == ["alignment"]
    assert kinds(replace([("rank", 1)], "global", "[%d0]")) == ["bounds"], "a parameter cannot be changed"
    assert "race" in kinds(made().replace("@%p1 tensormap.replace.tile.rank", "tensormap.replace.tile.rank"))


@pytest.mark.parametrize("text", ["elemtype.shared::cta.b1024.b32 [%r2], 16", "swizzle_mode.shared::cta.b1024.b32 [%r2], 4",
                                  "rank.shared::cta.b1024.b64 [%r2], %d3", "global_stride.global.b1024.b64 [%d4], 4, %d3",
                                  "elemtype.shared::cta.b1024.b32 [%r2], %r3"])
def test_bad_fields_are_refused(text):
    with pytest.raises(ParseError):
        run(kernel(f"tensormap.replace.tile.{text};", 64, (0, 0)), 64)


@pytest.mark.skipif(ptxas.find_tool("ptxas") is None, reason="PTXAS IS NOT INSTALLED: nothing assembled")
def test_ptxas_takes_these_kernels():
    for change in (made(), copied(""), in_place(replace([("global_address", "%d3")], "global", "[%d4]")),
                   made([*FIELDS, ("swizzle_atomicity", 3)])):
        text = re.sub(r"@%p1 (fence|bar)", r"\1", kernel(change, 64, (0, 0)))
        ptxas.assemble(text, "sm_100a")
