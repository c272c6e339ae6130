"""Matrix and instruction descriptors: published values, round trips, and where elements lie."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tirx_eq.errors import PtxError
from tirx_eq.ptx.descriptor import (
    SWIZZLES,
    MatrixDescriptor,
    decode_instruction_descriptor,
    element_address,
    element_offset,
    k_advance,
)
from tirx_eq.ptx.idesc import ACCUMULATORS, OPERAND_CODES, BlockScaledDescriptor, InstructionDescriptor

MODES = sorted(SWIZZLES)


@pytest.mark.parametrize(
    ("descriptor", "value"),
    [
        (InstructionDescriptor("f16", 128, 128, "f16", "f16"), 0x08200010),
        (InstructionDescriptor("f16", 128, 128, "bf16", "bf16"), 0x08200490),
        (InstructionDescriptor("f16", 128, 256, "bf16", "bf16"), 0x08400490),
        (InstructionDescriptor("f16", 128, 256, "f16", "f16", transpose_b=True), 0x08410010),
    ],
)
def test_published_instruction_descriptors(descriptor, value):
    assert descriptor.encode() == value
    assert decode_instruction_descriptor(value, "kind::f16") == descriptor
    descriptor.validate(cta_group=1)


def test_block_scaled_bits_one_by_one():
    base = BlockScaledDescriptor("mxf8f6f4", 128, 128, "e4m3", "e4m3")
    assert base.encode() == 1 << 23 | 16 << 17 | 1 << 27
    assert BlockScaledDescriptor("mxf8f6f4", 256, 128, "e4m3", "e2m1", sfb_id=3).encode() == (
        1 << 23 | 16 << 17 | 2 << 27 | 5 << 10 | 3 << 4
    )
    nv = BlockScaledDescriptor("mxf4nvf4", 256, 64, "e2m1", "e2m1", scale_type="ue4m3", sfa_id=2, k96=True)
    assert nv.encode() == 1 << 7 | 1 << 10 | 8 << 17 | 2 << 27 | 2 << 29 | 1 << 31
    assert nv.k == 96


def test_matrix_descriptor_units():
    descriptor = MatrixDescriptor(start=0, lbo=16, sbo=1024, swizzle="128B")
    assert descriptor.encode() == 0x4000404000010000
    assert descriptor.encode() != 0x4000440000010000  # the byte distance written raw
    moved = descriptor.advance_elements(36864, 16)
    assert moved.encode() - descriptor.encode() == 4608
    with pytest.raises(PtxError, match="not a multiple of 16 bytes"):
        descriptor.advance_elements(4, 16)
    with pytest.raises(PtxError, match="stride byte offset of 1000 bytes is not a multiple of 16"):
        MatrixDescriptor(0, 16, 1000)
    with pytest.raises(PtxError, match="outside"):
        MatrixDescriptor(1 << 18, 16, 1024)


def test_mode_codes():
    assert {m.name: m.code for m in SWIZZLES.values()} == {
        "none": 0, "128B_ATOM_32B": 1, "128B": 2, "64B": 4, "32B": 6,
    }  # fmt: skip
    for code in (3, 5, 7):
        with pytest.raises(PtxError, match=f"swizzle code {code} is not defined"):
            MatrixDescriptor.decode(0x4000404000010000 & ~(7 << 61) | code << 61)
    with pytest.raises(PtxError, match="bits 46-48"):
        MatrixDescriptor.decode(0x4000404000010000 & ~(7 << 46))
    with pytest.raises(PtxError, match="reserved"):
        MatrixDescriptor.decode(0x4000404000010000 | 1 << 55)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 0x3FFF), st.integers(0, 0x3FFF), st.integers(0, 0x3FFF), st.sampled_from(MODES), st.integers(0, 7),
    st.booleans(),
)  # fmt: skip
def test_matrix_descriptor_round_trip(start, lbo, sbo, mode, base, absolute):
    descriptor = MatrixDescriptor(start * 16, lbo * 16, sbo * 16, mode, base, absolute)
    assert MatrixDescriptor.decode(descriptor.encode()) == descriptor
    assert descriptor.template == descriptor.encode() - start


@st.composite
def dense(draw):
    kind = draw(st.sampled_from(sorted(ACCUMULATORS)))
    a = draw(st.sampled_from(sorted(OPERAND_CODES[kind])))
    b = a if kind == "f16" else draw(st.sampled_from(sorted(OPERAND_CODES[kind])))
    d = draw(st.sampled_from([t for t in ACCUMULATORS[kind] if t != "f16" or a != "bf16"]))
    movable = ("f16", "bf16", "tf32", "e4m3", "e5m2", "u8", "s8")
    sparse = draw(st.booleans())
    return InstructionDescriptor(
        kind, draw(st.sampled_from([32, 64, 128, 256])), 8 * draw(st.integers(1, 32)), a, b, d,
        transpose_a=a in movable and draw(st.booleans()), transpose_b=b in movable and draw(st.booleans()),
        negate_a=kind != "i8" and draw(st.booleans()), negate_b=kind != "i8" and draw(st.booleans()),
        saturate=kind == "i8" and draw(st.booleans()), sparse=sparse, sparsity=draw(st.integers(0, 3)) if sparse else 0,
        max_shift=draw(st.sampled_from([0, 8, 16, 32])),
    )  # fmt: skip


@st.composite
def scaled(draw):
    kind = draw(st.sampled_from(["mxf8f6f4", "mxf4", "mxf4nvf4"]))
    a, b = (draw(st.sampled_from(sorted(OPERAND_CODES[kind]))) for _ in "ab")
    wide = kind == "mxf8f6f4"
    ids = st.sampled_from([0, 1, 2, 3] if wide else [0, 2])
    sparse = draw(st.booleans())
    return BlockScaledDescriptor(
        kind, draw(st.sampled_from([128, 256])), 8 * draw(st.integers(1, 32)), a, b,
        draw(st.sampled_from(["ue8m0", "ue4m3"])) if kind == "mxf4nvf4" else "ue8m0", draw(ids), draw(ids),
        transpose_a=a in ("e4m3", "e5m2") and draw(st.booleans()),
        transpose_b=b in ("e4m3", "e5m2") and draw(st.booleans()),
        negate_a=draw(st.booleans()), negate_b=draw(st.booleans()), sparse=sparse,
        k96=not wide and not sparse and draw(st.booleans()),
    )  # fmt: skip


@settings(max_examples=80, deadline=None)
@given(st.one_of(dense(), scaled()))
def test_instruction_descriptor_round_trip(descriptor):
    value = descriptor.encode()
    assert 0 <= value < 1 << 32
    assert decode_instruction_descriptor(value, descriptor.kind) == descriptor


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: InstructionDescriptor("f16", 128, 128, "e4m3", "e4m3"), "A type e4m3 is not one of kind f16"),
        (lambda: InstructionDescriptor("f16", 128, 128, "bf16", "bf16", "f16"), "D type f16 needs f16 operands"),
        (lambda: InstructionDescriptor("tf32", 128, 128, "tf32", "tf32", "f16"), "D type f16 is not one of kind tf32"),
        (lambda: InstructionDescriptor("i8", 128, 128, "s8", "s8", "s32", negate_a=True), "cannot negate"),
        (lambda: InstructionDescriptor("f8f6f4", 128, 128, "e2m1", "e4m3", transpose_a=True), "must be K-major"),
        (lambda: InstructionDescriptor("f16", 128, 12, "f16", "f16"), "N = 12"),
        (lambda: InstructionDescriptor("f16", 192, 128, "f16", "f16").validate(), "M = 192 is not in {64, 128}"),
        (lambda: InstructionDescriptor("f16", 128, 24, "f16", "f16").validate(), "N = 24 is not permitted"),
        (lambda: InstructionDescriptor("f16", 64, 24, "f16", "f16").validate(2), "M = 64 is not in {128, 256}"),
        (lambda: BlockScaledDescriptor("mxf4", 128, 128, "e2m1", "e2m1", "ue4m3"), "scale type ue4m3"),
        (lambda: BlockScaledDescriptor("mxf4", 128, 128, "e2m1", "e2m1", sfa_id=1), "SFA id 1"),
        (lambda: decode_instruction_descriptor(0xFFFFFFFF, "f16"), "reserved bits"),
        (lambda: decode_instruction_descriptor(0x08200010 | 5 << 7, "f16"), "A type code 5 is not defined"),
    ],
)
def test_instruction_descriptor_refusals(make, message):
    with pytest.raises(PtxError, match=message.replace("{", r"\{").replace("}", r"\}")):
        make()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("major", ["K", "MN"])
@pytest.mark.parametrize("bits", [8, 16, 32])
def test_canonical_layout_is_a_bijection_onto_the_dense_tile(mode, major, bits):
    """A densely packed tile of 64 rows and 32 bytes of K fills its bytes exactly once, before and after the swizzle."""
    if major == "K" and mode == "128B_ATOM_32B":
        with pytest.raises(PtxError, match="MN-major operands only"):
            element_offset(major, mode, 16, 1024, bits, 0, 0)
        return
    span, size = SWIZZLES[mode].span, bits // 8
    rows = 128
    k = (span or 32) // size if major == "K" else 32
    if mode == "none":
        lbo, sbo = (rows * 16, 128) if major == "K" else (rows * size * 8, 128)
    elif major == "K":
        lbo, sbo = 16, 8 * span
    else:
        groups = k // SWIZZLES[mode].rows
        sbo = SWIZZLES[mode].rows * span
        lbo = groups * sbo
    descriptor = MatrixDescriptor(4096, lbo, sbo, mode)
    linear = {element_offset(major, mode, lbo, sbo, bits, r, c) for r in range(rows) for c in range(k)}
    assert linear == set(range(0, rows * k * size, size))
    absolute = {element_address(descriptor, major, bits, r, c) for r in range(rows) for c in range(k)}
    assert absolute == {4096 + x for x in linear}


@pytest.mark.parametrize("mode", ["32B", "64B", "128B"])
def test_k_advance_names_the_same_elements(mode):
    """The tile advanced along K is the tile: adding bytes to the start and then swizzling is exact inside an atom."""
    span, rows, bits = SWIZZLES[mode].span, 64, 16
    tile = MatrixDescriptor(8192, 16, 8 * span, mode)
    pitch = rows * span
    for k0 in range(0, 2 * span // 2, 16):
        moved = tile.advance(k_advance("K", mode, 16, 8 * span, bits, k0, pitch))
        column, inside = divmod(k0 * 2, span)
        for row in range(rows):
            for k in range(16):
                linear = 8192 + column * pitch + (row // 8) * 8 * span + (row % 8) * span + inside + 2 * k
                assert element_address(moved, "K", bits, row, k) == SWIZZLES[mode].apply(linear)


def test_k_advance_refusals():
    with pytest.raises(PtxError, match="not a multiple of 16 bytes"):
        k_advance("K", "128B", 16, 1024, 16, 4)
    with pytest.raises(PtxError, match="its pitch is needed"):
        k_advance("K", "128B", 16, 1024, 16, 64)
    with pytest.raises(PtxError, match="not a multiple of 8"):
        k_advance("MN", "128B", 1024, 2048, 16, 4)
    assert k_advance("MN", "128B", 1024, 2048, 16, 16) == 4096
    assert k_advance("K", "none", 2048, 128, 16, 16) == 4096


def test_tile_alignment():
    MatrixDescriptor(1024, 16, 1024, "128B").check_alignment()
    with pytest.raises(PtxError, match="1024-byte pattern"):
        MatrixDescriptor(512, 16, 1024, "128B").check_alignment()


def strided(shape, stride, index):
    """Value of the layout shape:stride at ``index``, first mode fastest; the last extent is unbounded."""
    out = 0
    for i, (extent, step) in enumerate(zip(shape, stride)):
        digit = index if i == len(shape) - 1 else index % extent
        index //= extent
        out += digit * step
    return out


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(["K", "MN"]), st.sampled_from(MODES), st.sampled_from([8, 16, 32]), st.integers(1, 64),
    st.integers(1, 64), st.data(),
)  # fmt: skip
def test_element_offset_is_the_canonical_strided_layout(major, mode, bits, lbo, sbo, data):
    """Against the canonical layouts as shapes and strides in elements: T elements are 16 bytes, W of those a row."""
    if major == "K" and mode == "128B_ATOM_32B":
        return
    t, w = 128 // bits, max(1, SWIZZLES[mode].span // 16)
    big_l, big_s = lbo * t, sbo * t
    if major == "K":
        rows = ([8, None], [w * t, big_s])
        columns = ([t, None], [1, big_l]) if mode == "none" else ([t * w], [1])
    elif mode == "none":
        rows, columns = ([t, None], [1, big_s]), ([8, None], [t, big_l])
    else:
        group = 4 if mode == "128B_ATOM_32B" else 8
        rows, columns = ([t * w, None], [1, big_l]), ([group, None], [w * t, big_s])
    row = data.draw(st.integers(0, 255))
    k = data.draw(st.integers(0, (t * w if major == "K" and mode != "none" else 128) - 1))
    expected = 0
    for (shape, stride), index in ((rows, row), (columns, k)):
        expected += strided([e or 1 << 30 for e in shape], stride, index)
    assert element_offset(major, mode, 16 * lbo, 16 * sbo, bits, row, k) == expected * bits // 8


def test_hand_computed_addresses():
    """128-byte swizzle, K-major f16: row 9, k = 20 is cell 2 of row 1 of atom 1, and lands in cell 3."""
    tile = MatrixDescriptor(0x4000, 16, 1024, "128B")
    assert element_address(tile, "K", 16, 9, 20) == 0x4000 + 1024 + 128 + 3 * 16 + 8
    # MN-major f16, 64 x 8 atoms: m = 70, k = 3 lies in the second span of M
    wide = MatrixDescriptor(0x8000, 4096, 1024, "128B")
    assert element_address(wide, "MN", 16, 70, 3) == 0x8000 + 4096 + 3 * 128 + ((0 ^ 3) * 16) + 12
    # no swizzle, K-major: k = 9 is in the second 16-byte column
    assert element_offset("K", "none", 2048, 128, 16, 17, 9) == 16 + 2 * 128 + 2048 + 2


@pytest.mark.parametrize(("mode", "cells"), [("128B", 8), ("64B", 4), ("32B", 2)])
def test_swizzle_as_a_permutation_of_cells(mode, cells):
    """Cell c of row r of an atom is stored at cell c ^ ((r * cells) >> 3)."""
    for row in range(16):
        for cell in range(cells):
            for byte in (0, 7, 15):
                address = row * 16 * cells + cell * 16 + byte
                moved = row * 16 * cells + (cell ^ ((row % 8 * cells) >> 3)) * 16 + byte
                assert SWIZZLES[mode].apply(address) == moved


def test_swizzle_with_32_byte_atoms():
    """Rows of 128 bytes, period four: cell c of row r is stored at cell c ^ 2 * (r % 4)."""
    for row in range(8):
        for cell in range(8):
            assert SWIZZLES["128B_ATOM_32B"].apply(row * 128 + cell * 16) == row * 128 + (cell ^ 2 * (row & 3)) * 16
    assert all(SWIZZLES["none"].apply(x) == x for x in range(0, 4096, 4))


def test_type_codes():
    """Operand type codes of the instruction descriptor, as the ISA lists them."""
    small = {"e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5}
    assert OPERAND_CODES == {
        "f16": {"f16": 0, "bf16": 1}, "tf32": {"tf32": 2}, "f8f6f4": small, "i8": {"u8": 0, "s8": 1},
        "mxf8f6f4": small, "mxf4": {"e2m1": 1}, "mxf4nvf4": {"e2m1": 1},
    }  # fmt: skip
    assert (
        InstructionDescriptor("tf32", 64, 8, "tf32", "tf32").encode() == 1 << 4 | 2 << 7 | 2 << 10 | 1 << 17 | 4 << 24
    )
    i8 = InstructionDescriptor("i8", 128, 32, "s8", "u8", "s32", saturate=True)
    assert i8.encode() == 1 << 3 | 2 << 4 | 1 << 7 | 4 << 17 | 8 << 24
    negated = InstructionDescriptor("f16", 128, 16, "f16", "f16", "f16", negate_a=True, transpose_a=True)
    assert negated.encode() == 1 << 13 | 1 << 15 | 2 << 17 | 8 << 24
