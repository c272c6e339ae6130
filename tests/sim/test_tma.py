"""TMA boxes against element-by-element statements: dimensions, strides, swizzles, bounds, gather, scatter, reduction."""

import ml_dtypes
import numpy as np
import pytest

from tirx_eq.errors import PtxError
from tirx_eq.sim import Launch, TensorMap, simulate

rng = np.random.default_rng(9)


def kernel(load, size, after="", store="", tx=None, out=None):
    """Load a box into shared memory, copy shared memory as it lies to ``out``, then store it again elsewhere.

    ``tx``: bytes that the barrier expects, if not ``size``; ``out``: instructions in place of those that copy to ``out``.
    """
    out = out or f"cp.async.bulk.global.shared::cta.bulk_group [%d2], [%r0], {size};"
    return f"""
.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128], .param .align 64 .b8 back[128], .param .u64 out) {{
    .shared .align 1024 .b8 box[{size}];
    .shared .align 8 .b64 bar;
    .reg .b32 %r<16>; .reg .b64 %d<8>; .reg .pred %p<2>;
    mov.u32 %r0, box;
    mov.u32 %r1, bar;
    mbarrier.init.shared::cta.b64 [%r1], 1;
    fence.mbarrier_init.release.cluster;
    mov.b64 %d0, map; cvta.param.u64 %d0, %d0;
    mov.b64 %d1, back; cvta.param.u64 %d1, %d1;
    ld.param.u64 %d2, [out];
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], {size if tx is None else tx};
    {load}
W:  mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r1], 0;
    @!%p0 bra W;
    {after}
    {out}
    {store}
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
    ret;
}}"""


def run(tensor, back, array, target, load, store, size, policy="late", after=""):
    arguments = {"out": np.zeros(size, np.uint8), "A": array, "B": target}
    result = simulate(kernel(load, size, after, store), "k", Launch(), arguments, {"map": tensor, "back": back}, policy)
    return result.raise_for_faults().arrays


def coordinates(point):
    return "{" + ",".join(str(v) for v in point) + "}"


def load_text(rank, point, mode="tile"):
    return (f"cp.async.bulk.tensor.{rank}d.shared::cta.global.{mode}.mbarrier::complete_tx::bytes "
            f"[%r0], [%d0, {coordinates(point)}], [%r1];")


def strides_of(array):
    return tuple(reversed(array.strides[:-1]))


SHAPES = {1: ((64,), (32,)), 2: ((10, 24), (6, 16)), 3: ((4, 6, 16), (2, 3, 8)), 4: ((3, 4, 5, 8), (2, 2, 3, 8)),
          5: ((2, 3, 2, 4, 8), (2, 2, 1, 3, 4))}


@pytest.mark.parametrize("rank", SHAPES)
@pytest.mark.parametrize("policy", ["late", "early"])
@pytest.mark.parametrize("where", ["inside", "low", "high"])
def test_box_of_every_rank(rank, policy, where):
    shape, box = SHAPES[rank]
    a = rng.integers(1, 1000, shape).astype(np.int32)
    point = [{"inside": 1, "low": -2, "high": shape[::-1][i] - 1}[where] if shape[::-1][i] > 3 else 0 for i in range(rank)]
    inner_box = box[::-1]
    tensor = TensorMap("A", "s32", shape[::-1], strides_of(a), inner_box)
    back = TensorMap("B", "s32", shape[::-1], strides_of(a), inner_box)
    size = 4 * int(np.prod(box))
    store = f"cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group [%d1, {coordinates(point)}], [%r0];"
    out = run(tensor, back, a, np.full_like(a, -1), load_text(rank, point), store, size, policy)
    expected_box = np.zeros(box, np.int32)
    expected = np.full_like(a, -1)
    for index in np.ndindex(*box):
        at = tuple(index[d] + point[rank - 1 - d] for d in range(rank))
        if all(0 <= c < n for c, n in zip(at, shape)):
            expected_box[index] = a[at]
            expected[at] = a[at]
    np.testing.assert_array_equal(out["out"].view(np.int32).reshape(box), expected_box)
    np.testing.assert_array_equal(out["B"], expected)


#: mode -> (bytes of a row, function: (row, byte) -> where the byte is stored), read off the figures as 16-byte cells
STORED = {
    "none": (32, lambda r, b: 32 * r + b),
    "32B": (32, lambda r, b: 32 * r + ((b // 16) ^ (r // 4 % 2)) * 16 + b % 16),
    "64B": (64, lambda r, b: 64 * r + ((b // 16) ^ (r // 2 % 4)) * 16 + b % 16),
    "128B": (128, lambda r, b: 128 * r + ((b // 16) ^ (r % 8)) * 16 + b % 16),
    "128B_atom32B": (128, lambda r, b: 128 * r + ((b // 32) ^ (r % 4)) * 32 + b % 32),
    "128B_atom32B_flip8B": (128, lambda r, b: 128 * r + ((b // 32) ^ (r % 4)) * 32 + (b % 32 ^ 8 * (r % 2))),
    "128B_atom64B": (128, lambda r, b: 128 * r + ((b // 64) ^ (r % 2)) * 64 + b % 64),
}


@pytest.mark.parametrize("mode", STORED)
def test_swizzles(mode):
    width, stored = STORED[mode]
    a = rng.integers(0, 256, (24, width)).astype(np.uint8)
    tensor = TensorMap("A", "u8", (width, 24), (width,), (width, 16), swizzle=mode)
    store = "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%d1, {0, 2}], [%r0];"
    back = TensorMap("B", "u8", (width, 24), (width,), (width, 16), swizzle=mode)
    out = run(tensor, back, a, np.zeros_like(a), load_text(2, (0, 4)), store, 16 * width)
    np.testing.assert_array_equal(out["B"][2:18], a[4:20])
    for r in range(16):
        for b in range(width):
            assert out["out"][stored(r, b)] == a[4 + r, b]


def test_element_strides_skip_elements():
    a = rng.integers(0, 1000, (12, 32)).astype(np.int32)
    tensor = TensorMap("A", "s32", (32, 12), (128,), (16, 6), (2, 3))
    out = run(tensor, tensor, a, a.copy(), load_text(2, (4, 1)), "", 8 * 2 * 4)
    np.testing.assert_array_equal(out["out"].view(np.int32).reshape(2, 8), a[1:7:3, 4:20:2])


def test_nan_fill():
    a = np.ones((4, 8), np.float16)
    tensor = TensorMap("A", "f16", (8, 4), (16,), (8, 4), oob_fill="nan")
    out = run(tensor, tensor, a, a.copy(), load_text(2, (4, -1)), "", 64)
    box = out["out"].view(np.float16).reshape(4, 8)
    assert np.isnan(box[0]).all() and np.isnan(box[1:, 4:]).all() and (box[1:, :4] == 1).all()


def nearest_even(value, bits):
    """float64 to ``bits`` mantissa bits."""
    mantissa, exponent = np.frexp(value)
    return np.ldexp(np.round(np.ldexp(mantissa, bits + 1)), exponent - bits - 1)


@pytest.mark.parametrize("kind", ["f32", "f32_ftz", "tf32", "tf32_ftz"])
def test_loads_round_to_tf32_and_flush(kind):
    a = np.concatenate([rng.normal(size=20), [1 + 2**-11, 1 + 3 * 2**-11, -2 + 2**-13, 1e-40, -1e-39, 0.0, -0.0, np.inf,
                                              -np.inf, np.nan, 3.4e38, 2**-126]]).astype(np.float32)
    tensor = TensorMap("A", kind, (32,), (), (32,))
    out = run(tensor, tensor, a, a.copy(), load_text(1, (0,)), "", 128)["out"].view(np.float32)
    small = np.abs(a) < 2.0**-126
    want = np.where(small & kind.endswith("_ftz"), np.copysign(0, a), a).astype(np.float64)
    if kind.startswith("tf32"):
        normal = np.isfinite(a) & ~small
        want[normal] = nearest_even(want[normal], 10)
        np.testing.assert_array_equal(out[small].view(np.uint32) & 0x1FFF, 0)
        want[small] = out[small] if kind == "tf32" else want[small]
    np.testing.assert_array_equal(out, want.astype(np.float32))
    np.testing.assert_array_equal(np.signbit(out), np.signbit(a))


def test_gather_and_scatter_of_four_rows():
    a = rng.integers(0, 1000, (20, 16)).astype(np.int32)
    rows = (3, 17, 25, 4)
    tensor = TensorMap("A", "s32", (16, 20), (64,), (8, 1))
    where = coordinates((8, 1, 9, 19, -1))
    store = f"cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [%d1, {where}], [%r0];"
    back = TensorMap("B", "s32", (16, 20), (64,), (8, 1))
    out = run(tensor, back, a, np.zeros_like(a), load_text(2, (4, *rows), "tile::gather4"), store, 4 * 8 * 4)
    box = np.stack([a[r, 4:12] if r < 20 else np.zeros(8, np.int32) for r in rows])
    np.testing.assert_array_equal(out["out"].view(np.int32).reshape(4, 8), box)
    expected = np.zeros_like(a)
    for r, values in zip((1, 9, 19), box):
        expected[r, 8:] = values
    np.testing.assert_array_equal(out["B"], expected)


REDUCTIONS = {
    "add": np.add, "max": np.maximum, "min": np.minimum, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "inc": lambda old, b: np.where(old >= b, 0, old + 1), "dec": lambda old, b: np.where((old == 0) | (old > b), b, old - 1)}


@pytest.mark.parametrize("kind,operation", [
    *(("u32", op) for op in REDUCTIONS), *(("u64", op) for op in ("add", "min", "max", "and", "or", "xor")),
    ("s64", "min"), ("f32", "add"), ("f16", "add"), ("f16", "max"), ("bf16", "add"), ("bf16", "min")])
def test_every_reduction_of_numbers_without_sign_and_floats(kind, operation):
    dtype = np.dtype({"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32, "s64": np.int64}
                     .get(kind, np.uint64 if kind == "u64" else np.uint32))
    a, b = (rng.integers(0, 50, (8, 8)).astype(dtype) for _ in range(2))
    tensor, back = (TensorMap(name, kind, (8, 8), (8 * dtype.itemsize,), (8, 8)) for name in "AB")
    store = f"cp.reduce.async.bulk.tensor.2d.global.shared::cta.{operation}.tile.bulk_group [%d1, {{0, 2}}], [%r0];"
    out = run(tensor, back, a, b, load_text(2, (0, 0)), store, 64 * dtype.itemsize)
    expected = b.copy()
    expected[2:] = REDUCTIONS[operation](b[2:], a[:6])
    np.testing.assert_array_equal(out["B"].view(dtype), expected)


@pytest.mark.parametrize("operation,function", [("add", np.add), ("max", np.maximum), ("min", np.minimum)])
def test_reduction(operation, function):
    a, b = (rng.integers(-50, 50, (8, 8)).astype(np.int32) for _ in range(2))
    tensor = TensorMap("A", "s32", (8, 8), (32,), (8, 8))
    back = TensorMap("B", "s32", (8, 8), (32,), (8, 8))
    store = f"cp.reduce.async.bulk.tensor.2d.global.shared::cta.{operation}.tile.bulk_group [%d1, {{0, 2}}], [%r0];"
    out = run(tensor, back, a, b, load_text(2, (0, 0)), store, 256)
    expected = b.copy()
    expected[2:] = function(b[2:], a[:6])
    np.testing.assert_array_equal(out["B"], expected)


def of_chunks(load, tensor, array, carried, tx, chunks=32):
    """The first ``carried`` bytes of every 16 of a padded box in shared memory; all others are undefined."""
    words = "".join(
        f"ld.shared.b32 %r2, [%r0+{at}]; st.global.b32 [%d2+{at}], %r2;\n"
        for k in range(chunks) for at in range(16 * k, 16 * k + carried, 4))
    arguments = {"out": np.zeros(16 * chunks, np.uint8), "A": array, "B": array}
    result = simulate(kernel(load, 16 * chunks, tx=tx, out=words), "k", Launch(), arguments, {"map": tensor, "back": tensor})
    return result


def test_packed_fp4_rows_are_padded():
    """Of 16 bytes the first 8 are 16 elements; the barrier is told the bytes that were read."""
    a = rng.integers(0, 256, (4, 128)).astype(np.uint8)
    tensor = TensorMap("A", "u4x16_align16", (256, 4), (128,), (128, 4))
    load = load_text(2, (128, 0))
    box = of_chunks(load, tensor, a, 8, 4 * 64).raise_for_faults().arrays["out"].reshape(4, 8, 16)
    np.testing.assert_array_equal(box[..., :8].reshape(4, 64), a[:, 64:])
    assert of_chunks(load, tensor, a, 12, 4 * 64).faults[0].kind == "uninitialised"
    assert of_chunks(load, tensor, a, 8, 4 * 128).faults[0].kind == "deadlock"


def test_what_pads_is_loaded_whole_rows_of_128_at_a_time():
    a = rng.integers(0, 256, (4, 128)).astype(np.uint8)
    tensor = TensorMap("A", "u4x16_align16", (256, 4), (128,), (128, 4))
    assert "not a multiple of 128" in of_chunks(load_text(2, (64, 0)), tensor, a, 8, 4 * 64).faults[0].message
    store = "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%d1, {0, 0}], [%r0];"
    found = of_chunks(load_text(2, (0, 0)) + store, tensor, a, 8, 4 * 64)
    assert "only loads of u4x16_align16" in found.faults[0].message
    with pytest.raises(PtxError, match="no swizzle 64B"):
        TensorMap("A", "u4x16_align16", (256, 4), (128,), (128, 4), swizzle="64B")


def test_packed_fp4_and_fp6_rows():
    a = rng.integers(0, 256, (4, 96)).astype(np.uint8)
    dense = TensorMap("A", "u4x16_align8", (192, 4), (96,), (64, 4))
    out = run(dense, dense, a, a.copy(), load_text(2, (16, 0)), "", 4 * 32)
    np.testing.assert_array_equal(out["out"].reshape(4, 32), a[:, 8:40])
    six = TensorMap("A", "u6x16_align16", (128, 4), (96,), (128, 4))
    out = of_chunks(load_text(2, (0, 0)), six, a, 12, 4 * 96).raise_for_faults().arrays
    np.testing.assert_array_equal(out["out"].reshape(4, 8, 16)[..., :12].reshape(4, 96), a)


def test_stores_of_six_bits_take_one_from_each_byte():
    """``.b6p2x16``: the low 6 bits of 16 bytes become 12 bytes."""
    a = rng.integers(0, 256, (4, 128)).astype(np.uint8)
    bytes_of = TensorMap("A", "u8", (128, 4), (128,), (128, 4))
    back = TensorMap("B", "u6x16_align16", (128, 4), (96,), (128, 4))
    store = "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%d1, {0, 0}], [%r0];"
    out = run(bytes_of, back, a, np.zeros((4, 96), np.uint8), load_text(2, (0, 0)), store, 4 * 128)
    for row, packed in zip(a, out["B"]):
        total = sum(int(v & 63) << 6 * i for i, v in enumerate(row))
        assert packed.tobytes() == total.to_bytes(96, "little")


def test_generic_write_then_tma_store_needs_the_fence():
    a = rng.integers(0, 1000, (8, 8)).astype(np.int32)
    tensor = TensorMap("A", "s32", (8, 8), (32,), (8, 8))
    change = "st.shared.b32 [%r0], 7;"
    for fence, clean in (("", False), ("fence.proxy.async.global;", False), ("fence.proxy.async.shared::cta;", True),
                         ("fence.proxy.async;", True)):
        arguments = {"out": np.zeros(256, np.uint8), "A": a, "B": a}
        result = simulate(kernel(load_text(2, (0, 0)), 256, change + fence), "k", Launch(), arguments,
                          {"map": tensor, "back": tensor})
        assert ([f.kind for f in result.faults] == []) == clean
        if not clean:
            assert result.faults[0].kind == "proxy"


@pytest.mark.parametrize("change,word", [
    ({"box_shape": (48, 16), "swizzle": "32B"}, "96 bytes exceed the 32-byte span"), ({"box_shape": (257, 1)}, "1..256"),
    ({"global_strides_bytes": (100,)}, "multiple of 16"), ({"element_strides": (9, 1)}, "1..8"),
    ({"box_shape": (4, 4)}, "multiple of 16"), ({"offset_bytes": 8}, "aligned"), ({"element_type": "q7"}, "element type")])
def test_illegal_maps_are_refused(change, word):
    fields = {"array": "A", "element_type": "f16", "global_shape": (64, 64), "global_strides_bytes": (128,),
              "box_shape": (16, 16)}
    with pytest.raises(PtxError, match=word):
        TensorMap(**{**fields, **change})


def reducing(before, after, tensor, policy="late", ctas=2):
    """CTAs add the same 16 values to global memory; ``before`` and ``after`` it, the first thread does something to it."""
    add = ("cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.tile.bulk_group [%d0, {0}], [%r0];" if tensor else
           "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.s32 [%d1], [%r0], 64;")
    text = f"""
.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 sum) {{
    .shared .align 128 .b8 box[64];
    .reg .b32 %r<8>; .reg .b64 %d<4>; .reg .pred %p<2>;
    mov.u32 %r0, box;
    mov.u32 %r1, %tid.x;
    mov.b64 %d0, map; cvta.param.u64 %d0, %d0;
    ld.param.u64 %d1, [sum];
    mad.lo.u32 %r2, %r1, 4, %r0;
    st.shared.b32 [%r2], 5;
    {before}
    fence.proxy.async.shared::cta;
    bar.sync 0;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra E;
    {add}
    cp.async.bulk.commit_group;
    {after}
E:  ret;
}}"""
    maps = {"map": TensorMap("sum", "s32", (16,), (), (16,))}
    return simulate(text, "k", Launch(grid=(ctas, 1, 1), block=(16, 1, 1)), {"sum": np.zeros(16, np.int32)}, maps, policy)


@pytest.mark.parametrize("tensor", [False, True])
@pytest.mark.parametrize("policy", ["late", "early", "random"])
def test_reductions_need_order_among_others_but_not_among_themselves(tensor, policy):
    wait, read = "cp.async.bulk.wait_group 0;", "ld.global.b32 %r4, [%d1];"
    found = reducing("", wait, tensor, policy)
    assert not found.faults and (found.arrays["sum"] == 10).all()
    assert not reducing("", wait + "atom.global.add.u32 %r4, [%d1], 1;", tensor, policy).faults

    def kinds(before, after):
        return {f.kind for f in reducing(before, after, tensor, policy).faults}
    assert kinds("", wait.replace("wait_group", "wait_group.read") + read) == {"race"}
    assert kinds("", wait + "st.global.b32 [%d1], 7;") == {"race"}, "the other CTA's reduction"
    zero = "setp.ne.u32 %p1, %r1, 0;\n    @!%p1 st.global.b32 [%d1], 0;"
    assert [f.kind for f in reducing(zero, wait, tensor, policy, 1).faults] == ["proxy"]
    assert not reducing(zero + "fence.proxy.async;", wait + read, tensor, policy, 1).faults
