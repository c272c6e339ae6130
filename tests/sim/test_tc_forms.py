"""Forms of tcgen05.mma beside the plain one: zero-column masks, column shift, collector buffers, A of .ws in tensor memory,
block scales of a pair with M = 128."""

import numpy as np
import pytest

from tests.sim.tc_harness import absolute, descriptor, place, run
from tests.sim.test_tc_mma import idesc, multiply, read_d, stored, values
from tirx_eq.sim.tcgen05.descriptors import BadDescriptor
from tirx_eq.sim.tcgen05.ws import column_mask

rng = np.random.default_rng(23)


def mask_word(start, first, skip, use, shift=0, on=1):
    """PTX ISA table of the zero-column mask descriptor; ``start`` and ``first`` from sub-mask 0 on."""
    low = sum(s << 8 * i for i, s in enumerate(start)) | sum(f << 32 + i for i, f in enumerate(first))
    return low | on << 39 | skip << 40 | use << 48 | shift << 56


#: the ISA's four examples: (M, descriptor, low bits of each sub-mask, written as the ISA does: highest bit first)
EXAMPLES = [
    (128, mask_word((0, 0, 0, 0), (0, 0, 0, 0), 4, 3, on=0), ["00000000"]),
    (128, mask_word((0,), (0,), 2, 3), ["111 0000 111 0000"]),
    (64, mask_word((0, 0), (1, 0), 2, 3), ["111 0000 111 0000 111", "0000 111 0000 111 0000"]),
    (32, mask_word((0, 1, 2, 1), (1, 1, 0, 0), 2, 3, 2),
     ["0000 111 0000 111", "0000 111 0000 11", "111 0000 111 00", "111 0000 111 000"]),
]


@pytest.mark.parametrize("m,word,expected", EXAMPLES)
def test_zero_column_masks_of_the_isa(m, word, expected):
    mask = column_mask(word, m, 128).reshape(128 // m, -1)
    for got, text in zip(mask, expected, strict=True):
        bits = [b == "1" for b in reversed(text.replace(" ", ""))]
        assert got[: len(bits)].tolist() == bits


def test_a_start_count_beyond_the_first_span_is_refused():
    with pytest.raises(BadDescriptor, match="start count 0"):
        column_mask(mask_word((4,), (0,), 2, 3), 128, 64)


@pytest.mark.parametrize("M,start,first,shift", [
    (128, (1,), (1,), 0), (64, (0, 2), (1, 0), 8), (32, (0, 1, 2, 1), (1, 1, 0, 0), 2), (128, (0,), (0,), 32)])
def test_masked_and_shifted_columns(M, start, first, shift):
    N = 64
    av, ac = values(M, 16, "f16")
    bv, bc = values(N + 32, 16, "f16")
    image_a, la, sa = place(ac, 0, True)
    image_b, lb, sb = place(bc, 0, True, 32768)
    image = np.pad(image_a, (0, len(image_b) - len(image_a))) | image_b
    word = mask_word(start, first, 2, 3, shift)
    zero = []
    for s, f in zip(start, first):
        pattern = ([1] * 3 + [0] * 4 if f else [0] * 4 + [1] * 3) * 40
        zero += pattern[s : s + N // (128 // M)]
    body = absolute(0, 1) + "\n    tcgen05.mma.ws.cta_group::1.kind::f16 [%r8], %x0, %x1, %y2, %p6, %x3;"
    limit = {0: 0, 2: 1, 8: 1, 32: 3}[shift] << 30
    out = run(body, [image], None, [descriptor(0, la, sa, 0), descriptor(32768, lb, sb, 0), idesc(M, N) | limit, word])
    expected = (av @ bv[shift : shift + N].T) * (1 - np.array(zero))
    np.testing.assert_array_equal(read_d(out, M, N, "f32", 1, True), expected)


def test_a_shift_beyond_the_instruction_descriptor_is_a_fault():
    body = absolute(0) + "\n    tcgen05.mma.ws.cta_group::1.kind::f16 [%r8], %x0, %x0, %y1, %p6, %x2;"
    result = run(body, None, None, [descriptor(0, 128, 256, 0), idesc(128, 64) | 1 << 30, mask_word((0,), (0,), 0, 0, 9)],
                 faults=True)
    assert result.faults[0].kind == "descriptor" and "column shift 9" in result.faults[0].message


@pytest.mark.parametrize("M", [32, 64, 128])
def test_weight_stationary_with_a_in_tensor_memory(M):
    """A is needed in every block of lanes that holds a block of N (data paths 1x4, 2x2, 4x1)."""
    N = 64
    av, ac = values(M, 16, "f16")
    bv, bc = values(N, 16, "f16")
    image, leading, stride = place(bc, 0, True)
    tmem = np.zeros((1, 128, 512), np.uint32)
    tmem[0, :, 100:108] = np.tile(stored(ac, "f16", "f16").view(np.uint32), (128 // M, 1))
    body = absolute(0) + """
    add.u32 %r41, %r8, 100;
    tcgen05.mma.ws.cta_group::1.kind::f16 [%r8], [%r41], %x0, %y1, %p6;"""
    params = [descriptor(0, leading, stride, 0), idesc(M, N)]
    np.testing.assert_array_equal(read_d(run(body, [image], tmem, params), M, N, "f32", 1, True), av @ bv.T)
    if M < 128:
        tmem[0, 127, 100] ^= 0x3C00
        result = run(body, [image], tmem, params, faults=True)
        assert "must be the same" in result.faults[0].message


def test_block_scales_of_a_pair_with_two_halves_of_lanes():
    """M = 128 of a pair: the scale factors of B's upper half of N are in lanes 64-127 (CUTLASS tmem_sf_frg, 2x2)."""
    M, N = 128, 64
    av, ac = values(M, 32, "e4m3")
    bv, bc = values(N, 32, "e4m3")
    fa, fb = (rng.integers(120, 134, rows).astype(np.uint8) for rows in (M, N))
    images, params = [np.zeros(65536, np.uint8) for _ in range(2)], []
    for c, start in ((ac, 0), (bc, 32768)):
        for cta in range(2):
            image, leading, stride = place(c[len(c) // 2 * cta :][: len(c) // 2], 0, True, start)
            images[cta][: len(image)] |= image
        params.append(descriptor(start, leading, stride, 0))
    tmem = np.zeros((2, 128, 512), np.uint32)
    for cta in range(2):
        tmem[cta, :, 100:102] = np.tile(fa.reshape(2, 2, 32)[cta], (1, 4)).T
        tmem[cta, :, 110] = np.concatenate([fb[:32], fb[:32], fb[32:], fb[32:]])
    word = N >> 3 << 17 | 1 << 23 | M >> 7 << 27
    body = absolute(0, 1) + """
    add.u32 %r41, %r8, 100;
    add.u32 %r42, %r8, 110;
    tcgen05.mma.cta_group::2.kind::mxf8f6f4.block_scale [%r8], %x0, %x1, %y2, [%r41], [%r42], %p6;"""
    out = run(body, images, tmem, [*params, word], group=2)
    scale = [2.0 ** (f.astype(np.float64) - 127)[:, None] for f in (fa, fb)]
    expected = ((av * scale[0]) @ (bv * scale[1]).T).astype(np.float32)
    np.testing.assert_array_equal(read_d(out, M, N, "f32", 2), expected)


def usage_body(first, second, between=""):
    """Two MMAs on the same A with the given collector usages."""
    return absolute(0, 1) + f"""
    tcgen05.mma.cta_group::1.kind::f16{first} [%r8], %x0, %x1, %y2, %p6;
    {between}
    add.u32 %r40, %r8, 32;
    tcgen05.mma.cta_group::1.kind::f16{second} [%r40], %x0, %x1, %y2, %p6;"""


FILL, USE, LAST = (f".collector::a::{word}" for word in ("fill", "use", "lastuse"))
PARAMS = [descriptor(0, 2048, 128, 0), descriptor(32768, 2048, 128, 0), idesc(128, 16)]


@pytest.mark.parametrize("first,second,kind", [
    (FILL, USE, None), (FILL, LAST, None), ("", USE, "collector"), (LAST, "", "collector"),
    (".collector::a::discard", LAST, "collector")])
def test_collector_buffer_of_a(first, second, kind):
    result = run(usage_body(first, second), [np.zeros(65536, np.uint8)], None, PARAMS, faults=True)
    assert [f.kind for f in result.faults] == ([kind] if kind else [])


def test_a_collector_buffer_of_another_operand_is_a_fault():
    image = np.arange(65536, dtype=np.uint32).astype(np.uint8) & 0x3B
    body = usage_body(FILL, USE, "add.u64 %x0, %x0, 1;")
    result = run(body, [image], None, PARAMS, faults=True)
    assert result.faults[0].kind == "collector" and "no longer" in result.faults[0].message


def test_collector_buffers_of_b():
    body = absolute(0, 1) + """
    tcgen05.mma.ws.cta_group::1.kind::f16.collector::b2::fill [%r8], %x0, %x1, %y2, %p6;
    tcgen05.mma.ws.cta_group::1.kind::f16.collector::b2::lastuse [%r8], %x0, %x1, %y2, %p6;
    tcgen05.mma.ws.cta_group::1.kind::f16.collector::b1::use [%r8], %x0, %x1, %y2, %p6;"""
    params = [descriptor(0, 2048, 128, 0), descriptor(32768, 1024, 128, 0), idesc(128, 64)]
    result = run(body, [np.zeros(65536, np.uint8)], None, params, faults=True)
    assert [(f.kind, "b1" in f.message) for f in result.faults] == [("collector", True)]


@pytest.mark.parametrize("scale", [0, 1, 15])
@pytest.mark.parametrize("kind,a", [("f16", "f16"), ("tf32", "tf32")])
def test_scale_of_the_accumulator(kind, a, scale):
    multiply(kind, 128, 16, a, accumulate=True, scale=scale)


@pytest.mark.parametrize("group,M", [(1, 64), (1, 128), (2, 128), (2, 256)])
def test_disabled_lanes_in_every_data_path(group, M):
    multiply("f16", M, 32, group=group, mask=rng.integers(0, 2, 128 * group).astype(bool), accumulate=True)
