"""tcgen05.ld/st shapes, cp shapes and shift against direct statements of the ISA's figures."""

import numpy as np
import pytest

from tests.sim.tc_harness import absolute, descriptor, place, regs, run
from tirx_eq.errors import ParseError

#: shape -> (registers per repeat, lanes touched, columns per repeat)
SHAPES = {"32x32b": (1, 32, 1), "16x64b": (1, 16, 2), "16x128b": (2, 16, 4), "16x256b": (4, 16, 8), "16x32bx2": (1, 16, 1)}


def owner(shape, lane, column, repeat, split):
    """(thread, register) that holds a cell of the warp's window, read off the ISA's figures row by row."""
    if shape == "32x32b":
        return lane, column
    if shape == "16x32bx2":
        half, within = (0, column) if column < repeat else (1, column - split)
        return lane + 16 * half, within
    pairs = {"16x64b": 2, "16x128b": 4, "16x256b": 8}[shape]
    block, c = divmod(column, pairs)
    if shape == "16x64b":
        return 4 * (lane % 8) + 2 * c + lane // 8, block
    if shape == "16x128b":
        return 4 * (lane % 8) + c, 2 * block + lane // 8
    return 4 * (lane % 8) + c // 2, 4 * block + 2 * (lane // 8) + c % 2


#: every shape with every repeat it has
CASES = [(s, n) for s, (count, _, _) in SHAPES.items() for n in (1, 2, 4, 8, 16, 32, 64, 128) if n * count <= 128]


@pytest.mark.parametrize("shape,repeat", CASES)
@pytest.mark.parametrize("high", [0, 16])
def test_load(shape, repeat, high):
    count, lanes, width = SHAPES[shape]
    if high and (lanes == 32 or repeat > 8):
        return
    n = count * repeat
    split = repeat if shape == "16x32bx2" else 0
    tmem = np.arange(128 * 512, dtype=np.uint32).reshape(1, 128, 512)
    off = f", {split}" if split else ""
    warps = f"""
    add.u32 %r30, %r9, {high << 16};
    tcgen05.ld.sync.aligned.{shape}.x{repeat}.b32 {regs('v', 0, n)}, [%r30]{off};
    tcgen05.wait::ld.sync.aligned;
    """ + "".join(f"    add.u32 %v{i}, %v{i}, 1000000;\n" for i in range(n)) + f"""
    tcgen05.st.sync.aligned.32x32b.x{n}.b32 [%r9], {regs('v', 0, n)};
    tcgen05.wait::st.sync.aligned;
    """
    out = run("", tmem=tmem, warps=warps, commit=False, columns=512)[0]
    columns = range(width * repeat) if not split else list(range(repeat)) + list(range(split, split + repeat))
    for warp in range(4):
        for lane in range(lanes):
            for column in columns:
                thread, register = owner(shape, lane, column, repeat, split)
                assert out[32 * warp + thread, register] == tmem[0, 32 * warp + high + lane, column] + 1000000


@pytest.mark.parametrize("shape,repeat", CASES)
def test_store(shape, repeat):
    count, lanes, width = SHAPES[shape]
    n = count * repeat
    split = repeat if shape == "16x32bx2" else 0
    off = f", {split}" if split else ""
    warps = "".join(f"    mad.lo.u32 %v{i}, %r0, 1000, {i + 5};\n" for i in range(n)) + f"""
    tcgen05.st.sync.aligned.{shape}.x{repeat}.b32 [%r9]{off}, {regs('v', 0, n)};
    tcgen05.wait::st.sync.aligned;
    """
    out = run("", warps=warps, commit=False, columns=512)[0]
    columns = range(width * repeat) if not split else range(2 * repeat)
    for warp in range(4):
        for lane in range(lanes):
            for column in columns:
                thread, register = owner(shape, lane, column, repeat, split)
                assert out[32 * warp + lane, column] == 1000 * (32 * warp + thread) + register + 5


@pytest.mark.parametrize("shape", SHAPES)
def test_pack_and_unpack(shape):
    """A packed register holds the low halves of two neighbouring columns."""
    count, lanes, width = SHAPES[shape]
    repeat = 2
    n = count * repeat
    split = 2 * repeat if shape == "16x32bx2" else 0
    off = f", {split}" if split else ""
    rng = np.random.default_rng(1)
    tmem = rng.integers(0, 1 << 32, (1, 128, 512)).astype(np.uint32)
    warps = f"""
    tcgen05.ld.sync.aligned.{shape}.x{repeat}.pack::16b.b32 {regs('v', 0, n)}, [%r9]{off};
    tcgen05.wait::ld.sync.aligned;
    add.u32 %r31, %r9, 64;
    tcgen05.st.sync.aligned.{shape}.x{repeat}.unpack::16b.b32 [%r31]{off}, {regs('v', 0, n)};
    tcgen05.wait::st.sync.aligned;
    add.u32 %r31, %r9, 256;
    tcgen05.st.sync.aligned.32x32b.x{n}.b32 [%r31], {regs('v', 0, n)};
    tcgen05.wait::st.sync.aligned;
    """
    out = run("", tmem=tmem, warps=warps, commit=False, columns=512)[0]
    low = tmem[0] & 0xFFFF
    columns = width * repeat if not split else 2 * repeat
    for lane in range(lanes):
        for column in range(columns):
            thread, register = owner(shape, lane, column, repeat, repeat)
            assert out[thread, 256 + register] == low[lane, 2 * column] | low[lane, 2 * column + 1] << 16
            assert out[lane, 64 + 2 * column] == low[lane, 2 * column]
            assert out[lane, 64 + 2 * column + 1] == low[lane, 2 * column + 1]


#: cp shape -> (source rows, bytes, function: source row -> lanes that receive it)
COPIES = {
    "128x256b": (128, 32, lambda r: [r]), "128x128b": (128, 16, lambda r: [r]),
    "4x256b": (4, 32, lambda r: [r, r + 32, r + 64, r + 96]),
    "64x128b.warpx2::02_13": (64, 16, lambda r: [r % 32 + 32 * (r // 32), r % 32 + 32 * (r // 32) + 64]),
    "64x128b.warpx2::01_23": (64, 16, lambda r: [r % 32 + 64 * (r // 32), r % 32 + 64 * (r // 32) + 32]),
    "32x128b.warpx4": (32, 16, lambda r: [r, r + 32, r + 64, r + 96]),
}


@pytest.mark.parametrize("shape", COPIES)
@pytest.mark.parametrize("policy", ["late", "early"])
def test_copy(shape, policy):
    rows, width, lanes = COPIES[shape]
    rng = np.random.default_rng(2)
    source = rng.integers(0, 256, (max(8, rows), width)).astype(np.uint8)
    image, leading, stride = place(source, 0, True)
    start = np.full((1, 128, 512), 7, np.uint32)
    body = absolute(0) + f"\n    add.u32 %r40, %r8, 12;\n    tcgen05.cp.cta_group::1.{shape} [%r40], %x0;"
    out = run(body, [image], start, [descriptor(0, leading, stride, 0)], policy=policy)[0]
    expected = start[0].copy()
    for r in range(rows):
        for lane in lanes(r):
            expected[lane, 12 : 12 + width // 4] = source[r].view(np.uint32)
    assert np.array_equal(out[:, :128], expected[:, :128])


def test_copy_with_decompression():
    """fp4 and fp6 source rows of 16 elements padded to 16 bytes arrive as one byte per element: bits 2 to 5, or 0 to 5."""
    rng = np.random.default_rng(3)
    for word, bits in (("b6x16_p32", 6), ("b4x16_p64", 4)):
        codes = rng.integers(0, 1 << bits, (128, 16))
        source = np.zeros((128, 16), np.uint8)
        for r in range(128):
            total = sum(int(c) << (bits * i) for i, c in enumerate(codes[r]))
            source[r, : 2 * bits] = list(total.to_bytes(2 * bits, "little"))
        image, leading, stride = place(source, 0, True)
        body = absolute(0) + f"\n    tcgen05.cp.cta_group::1.128x128b.b8x16.{word} [%r8], %x0;"
        out = run(body, [image], None, [descriptor(0, leading, stride, 0)])[0]
        assert np.array_equal(np.ascontiguousarray(out[:, :4]).view(np.uint8), codes << (6 - bits))


def test_shift():
    tmem = np.random.default_rng(4).integers(0, 1 << 32, (1, 128, 512)).astype(np.uint32)
    out = run("    add.u32 %r40, %r8, 16;\n    tcgen05.shift.cta_group::1.down [%r40];", tmem=tmem)[0]
    expected = tmem[0].copy()
    expected[:-1, 16:24] = tmem[0, 1:, 16:24]
    assert np.array_equal(out[:, :128], expected[:, :128])


@pytest.mark.parametrize("lane", [32, 96])
@pytest.mark.parametrize("group", [1, 2])
def test_shift_from_a_lane_on_and_of_a_pair(lane, group):
    """Rows from the address's lane to the last move; with cta_group::2 in both CTAs."""
    tmem = np.random.default_rng(6).integers(0, 1 << 32, (group, 128, 512)).astype(np.uint32)
    body = f"    add.u32 %r40, %r8, {lane << 16 | 40};\n    tcgen05.shift.cta_group::{group}.down [%r40];"
    out = run(body, tmem=tmem, group=group)
    expected = tmem.copy()
    expected[:, lane:127, 40:48] = tmem[:, lane + 1 :, 40:48]
    assert np.array_equal(out[:, :, :128], expected[:, :, :128])


@pytest.mark.parametrize("mode", [6, 4, 2])
def test_copy_from_swizzled_rows_of_both_ctas(mode):
    """tcgen05.cp.cta_group::2: each CTA's own shared memory goes to its own tensor memory, through the descriptor's swizzle."""
    rng = np.random.default_rng(7)
    cells = {6: 2, 4: 4, 2: 8}[mode]
    sources = rng.integers(0, 256, (2, 128, 16 * cells)).astype(np.uint8)
    images = [place(s, mode, True) for s in sources]
    _, leading, stride = images[0]
    body = absolute(0) + "\n    tcgen05.cp.cta_group::2.128x256b [%r8], %x0;"
    out = run(body, [i[0] for i in images], None, [descriptor(0, leading, stride, mode)], group=2)
    assert np.array_equal(np.ascontiguousarray(out[:, :, :8]).view(np.uint8).reshape(2, 128, 32), sources[:, :, :32])


@pytest.mark.parametrize("word,function", [("min", np.min), ("max", np.max)])
def test_load_with_reduction(word, function):
    """tcgen05.ld.red of sm_103a also returns each thread's smallest or largest word."""
    tmem = np.random.default_rng(5).integers(0, 1 << 32, (1, 128, 512)).astype(np.uint32)
    warps = f"""
    tcgen05.ld.red.sync.aligned.32x32b.x4.{word}.s32 {regs('v', 0, 4)}, %v9, [%r9];
    tcgen05.wait::ld.sync.aligned;
    mov.b32 %v4, %v9;
    add.u32 %r31, %r9, 32;
    tcgen05.st.sync.aligned.32x32b.x4.b32 [%r31], {regs('v', 1, 4)};
    tcgen05.wait::st.sync.aligned;
    """
    with pytest.raises(ParseError, match="sm_103"):
        run("", tmem=tmem, warps=warps, commit=False)
    out = run("", tmem=tmem, warps=warps, commit=False, target="sm_103a")[0]
    assert np.array_equal(out[:, 35].view(np.int32), function(tmem[0, :, :4].view(np.int32), axis=1))
    assert np.array_equal(out[:, 32:35], tmem[0, :, 1:4])
