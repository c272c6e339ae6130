"""Hardware layouts against the tables of the PTX ISA, written out here as formulas, and bank conflicts by hand."""

from __future__ import annotations

import pytest

from tirx_eq.errors import LayoutError
from tirx_eq.layout import (
    ComposeLayout,
    R,
    S,
    SwizzleLayout,
    SwizzleMode,
    TCol,
    TileLayout,
    TLane,
    default_layout,
    mma_atom_layout,
    mma_atom_shape,
    mma_shared_layout,
    tcgen05_atom_layout,
    tmem_datapath_layout,
    tmem_mma_operand_layout,
    wg_local_layout,
)
from tirx_eq.layout.conflicts import (
    Access,
    bank_conflicts,
    best_swizzle,
    column_access,
    conflicts,
    ldmatrix_access,
    row_access,
)
from tirx_eq.layout.hardware import DATAPATHS, LOAD_ATOMS, datapath_of, scale_factor_layout, swizzle_mode_of
from tirx_eq.layout.image import covers, injective
from tirx_eq.prove.check import check
from tirx_eq.prove.layouts import conflict_free

#: byte swizzles of the ISA: x ^ ((x >> 3) & mask)
BYTE_SWIZZLE = {0: 0x00, 1: 0x10, 2: 0x30, 3: 0x70}


@pytest.mark.parametrize("mode", [0, 1, 2, 3])
@pytest.mark.parametrize(("dtype", "bits"), [("float4_e2m1fn", 4), ("float8_e4m3fn", 8), ("float16", 16), ("float32", 32)])
def test_shared_layout_is_the_canonical_k_major_one(mode, dtype, bits):
    """Byte address: rows pitch the span, 8-row groups follow, K atoms outermost, then the XOR on absolute bytes."""
    rows, depth = 16, 2 * 8 * 256 // bits
    layout = mma_shared_layout(dtype, mode, (rows, depth))
    span = (16 << mode) * 8 // bits
    for r in range(rows):
        for k in range(0, depth, max(1, 8 // bits)):
            flat = (k // span * rows + r) * span + k % span
            byte = flat * bits // 8
            byte ^= (byte >> 3) & BYTE_SWIZZLE[mode]
            assert layout.at(r, k, shape=(rows, depth))["m"] * bits // 8 == byte


def test_shared_layouts_by_name_and_stage():
    assert mma_shared_layout("f16", "128B", (128, 64)) == mma_shared_layout("float16", 3, [128, 64])
    staged = mma_shared_layout("float16", SwizzleMode.SWIZZLE_128B_ATOM, (5, 128, 128))
    assert staged == ComposeLayout(3, 3, 3, TileLayout(S[(5, 128, 2, 64):(16384, 64, 8192, 1)]))
    assert mma_shared_layout("float16", 0, (128, 64)) == TileLayout(S[(128, 8, 8):(8, 1024, 1)])
    assert mma_atom_shape("float16", 3) == (8, 64) and mma_atom_shape("float16", 3, (4, 8, 64)) == (1, 8, 64)
    assert mma_atom_layout("float16", 3) == ComposeLayout(3, 3, 3, TileLayout(S[512:1]))
    assert swizzle_mode_of(staged, "float16") is SwizzleMode.SWIZZLE_128B_ATOM
    assert swizzle_mode_of(staged, "float32") is None
    with pytest.raises(LayoutError, match=r"K = 32 isn't a multiple of 64 elements \(128 bytes of float16"):
        mma_shared_layout("float16", 3, (16, 32))
    with pytest.raises(LayoutError, match="12 rows isn't a multiple of 8"):
        mma_shared_layout("float16", 3, (12, 128))
    with pytest.raises(LayoutError, match="unknown swizzle mode '96B'"):
        mma_shared_layout("float16", "96B", (16, 64))


#: rows, and (lane, column) of element (m, n) of an M x N accumulator per CTA
PLACES = {
    "A": (128, lambda m, n, N: (m, n)),
    "B": (64, lambda m, n, N: (m % 64 + 64 * (n >= N // 2), n % (N // 2))),
    "C": (64, lambda m, n, N: (m % 16 + 32 * (m // 16), n)),
    "D": (128, lambda m, n, N: (m, n)),
    "E": (64, lambda m, n, N: (m + 64 * (n >= N // 2), n % (N // 2))),
    "F": (64, lambda m, n, N: (m % 16 + 32 * (m // 16), n)),
    "G": (32, lambda m, n, N: (m + 32 * (n // (N // 4)), n % (N // 4))),
}


@pytest.mark.parametrize("letter", sorted(PLACES))
def test_data_paths(letter):
    rows, place = PLACES[letter]
    layout = tmem_datapath_layout(letter, rows, 16)
    for r in range(rows):
        for c in range(16):
            lane, column = place(r, c, 16)
            assert layout.at(r, c, shape=(rows, 16)) == {"TLane": lane, "TCol": column}
    assert injective(layout)
    if letter not in "CF":
        assert covers(layout, {"TLane": 128, "TCol": 16 * rows // 128})
    else:
        second = tmem_datapath_layout(letter, rows, 16, 1)
        assert {second.at(r, 0, shape=(rows, 16))["TLane"] for r in range(rows)} == {
            16 + 32 * q + i for q in range(4) for i in range(16)
        }
    with pytest.raises(LayoutError, match=f"data path {letter}"):
        tmem_datapath_layout(letter, rows + 1, 16)


def test_data_path_letters():
    assert set(DATAPATHS) == set(PLACES)
    assert datapath_of(128) == "D" and datapath_of(64) == "F" and datapath_of(64, ws=True) == "E"
    assert datapath_of(256, 2) == "A" and datapath_of(128, 2) == "B" and datapath_of(128, 2, sparse=True) == "C"
    with pytest.raises(LayoutError, match=r"no tcgen05.mma with M = 96"):
        datapath_of(96)


#: (lane, column) of register j of thread t, for each shape
REGISTERS = {
    "32x32b": lambda t, j: (t, j),
    "16x64b": lambda t, j: (8 * (t & 1) + (t >> 2), 2 * j + ((t >> 1) & 1)),
    "16x128b": lambda t, j: ((t >> 2) + 8 * (j & 1), 4 * (j >> 1) + (t & 3)),
    "16x256b": lambda t, j: ((t >> 2) + 8 * ((j >> 1) & 1), 8 * (j >> 2) + 2 * (t & 3) + (j & 1)),
}


@pytest.mark.parametrize("shape", sorted(REGISTERS))
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("rows", [64, 128])
def test_load_atoms(shape, dtype, rows):
    """Every (thread, register) holds the element that the instruction puts there, and all are used once."""
    atom, packed = LOAD_ATOMS[shape], 1 if dtype == "float32" else 2
    groups = 2 if shape == "32x32b" and rows == 64 else 1
    for repeat in atom.repeats[:4]:
        cols = atom.width * repeat * packed * groups
        layout = tcgen05_atom_layout(shape, (rows, cols), dtype)
        held = {}
        for r in range(rows):
            for c in range(cols):
                at = layout.at(r, c, shape=(rows, cols))
                thread = at["tid_in_wg"] if "tid_in_wg" in at else 32 * at["wid_in_wg"] + at["laneid"]
                held[thread, at.get("m", 0)] = (r, c)
        registers = atom.registers * repeat
        halves = 2 if rows == 128 and atom.lanes == 16 else 1
        assert len(held) == rows * cols == 128 * registers * packed * halves
        for (thread, m), (r, c) in held.items():
            half, part = divmod(m, registers * packed)
            lane, column = REGISTERS[shape](thread % 32, part // packed)
            warp = thread // 32
            if atom.lanes == 16:
                row = 32 * warp + 16 * half + lane if rows == 128 else 16 * warp + lane
                assert (r, c) == (row, column * packed + part % packed)
            else:
                row = thread
                group, row = divmod(row, rows)
                assert (r, c) == (row, group * (cols // groups) + m)


def test_load_atom_refusals():
    with pytest.raises(LayoutError, match="can't have 12 columns"):
        tcgen05_atom_layout("16x256b", (128, 12), "float32")
    with pytest.raises(LayoutError, match="16 or 32 bits, float8_e4m3fn has 8"):
        tcgen05_atom_layout("16x64b", (64, 64), "float8_e4m3fn")
    with pytest.raises(LayoutError, match="needs 64 or 128 rows, got 32"):
        tcgen05_atom_layout("16x64b", (32, 64), "float32")
    assert wg_local_layout(64) == TileLayout.from_iters([(128, 1, "tid_in_wg"), (64, 1, "m")])


def test_matrix_operands_in_tensor_memory():
    identity = TileLayout(S[(128, 64):(1 @ TLane, 1 @ TCol)])
    assert tmem_mma_operand_layout("A", (128, 64), "f16", M=128, cta_group=1) == identity
    halves = tmem_mma_operand_layout("A", (64, 64), "f16", M=128, cta_group=2)
    assert halves == TileLayout(S[(64, 64):(1 @ TLane, 1 @ TCol)] + R[2 : 64 @ TLane])
    assert tmem_mma_operand_layout("D", (64, 64), "f32", M=128, cta_group=2) == tmem_datapath_layout("B", 64, 64)
    assert tmem_mma_operand_layout("D", (2, 64, 64), "f32", M=128, cta_group=2) == identity
    assert tmem_mma_operand_layout("D", (64, 64), "f32", M=64, cta_group=1, ws=True) == tmem_datapath_layout("E", 64, 64)
    with pytest.raises(LayoutError, match=r"data path D .* needs the shape \(128, columns\), got \(64, 64\)"):
        tmem_mma_operand_layout("D", (64, 64), "f32", M=128, cta_group=1)
    with pytest.raises(LayoutError, match="its halves differ"):
        tmem_mma_operand_layout("A", (64, 64), "f16", M=64, cta_group=1, ws=True)


def test_scale_factors():
    layout = scale_factor_layout(128, 4)
    assert layout.at(33, 2, shape=(128, 4)) == {"TLane": 1, "TCol": 6}
    assert layout.span("TLane") == 128 and layout.span("TCol") == 16
    assert layout.axes() == (TCol.name, TLane.name)


# -- bank conflicts --------------------------------------------------------------------------------------------------


def test_conflicts_by_hand():
    assert bank_conflicts([4 * i for i in range(32)], 4).wavefronts == 1
    assert bank_conflicts([128 * i for i in range(32)], 4).wavefronts == 32
    assert bank_conflicts([0] * 32, 4).wavefronts == 1  # one word for all
    assert bank_conflicts([8 * i for i in range(32)], 4).wavefronts == 2
    assert bank_conflicts([132 * i for i in range(32)], 4).conflict_free
    wide = bank_conflicts([16 * i for i in range(32)], 16)
    assert (wide.wavefronts, wide.ideal, wide.ways) == (4, 4, 1)
    pitch = bank_conflicts([128 * i for i in range(32)], 16)
    assert (pitch.wavefronts, pitch.ways) == (32, 8)
    assert pitch.collisions[0] == (0, 0, tuple(range(8)))
    with pytest.raises(LayoutError, match="lane 1's address 6 isn't a multiple of 4"):
        bank_conflicts([0, 6], 4)


def test_inactive_lanes_keep_their_place_in_the_phases():
    """Sixteen bytes a lane are served eight lanes at a time: lanes 7 and 8 never meet, whoever else is inactive."""
    addresses = [None] * 32
    addresses[7], addresses[8] = 0, 128
    assert bank_conflicts(addresses, 16).conflict_free
    assert bank_conflicts([0, 128], 16).ways == 2
    access = Access("two lanes", tuple((0, 0) if i == 7 else (1, 0) if i == 8 else None for i in range(32)), 8)
    found = conflict_free(default_layout((8, 64)), "float16", access, (8, 64))
    assert found.status == "equal" and check(found).ok


def test_swizzle_removes_column_conflicts():
    shape = (64, 64)
    plain, swizzled = default_layout(shape), mma_shared_layout("float16", 3, shape)
    assert conflicts(plain, "float16", column_access(shape, 8), shape).wavefronts == 32
    assert conflicts(swizzled, "float16", column_access(shape, 8), shape).conflict_free
    assert conflicts(swizzled, "float16", row_access(shape, 8), shape).conflict_free
    assert conflicts(plain, "float16", ldmatrix_access(shape, "float16"), shape).ways == 8
    assert conflicts(swizzled, "float16", ldmatrix_access(shape, "float16"), shape).conflict_free


def test_conflicts_refuse_torn_vectors():
    shape = (8, 64)
    with pytest.raises(LayoutError, match=r"lane 0's 16 elements aren't contiguous|2, 4, 8 or 16 bytes"):
        conflicts(mma_shared_layout("float16", 3, shape), "float16", Access("wide", ((1, 0),), 16), shape)
    with pytest.raises(LayoutError, match="it also uses TCol, TLane"):
        conflicts(tmem_datapath_layout("D", 128, 64), "float16", column_access((128, 64)), (128, 64))


def test_the_best_swizzle_is_the_hardware_one():
    shape = (64, 64)
    found = best_swizzle(default_layout(shape), [column_access(shape, 8), row_access(shape, 8)], "float16", shape)
    assert found.wavefronts == found.ideal == 8
    assert isinstance(found.layout, ComposeLayout) and found.layout.swizzle == SwizzleLayout(3, 3, 3)
    idle = best_swizzle(default_layout(shape), [row_access(shape, 8)], "float16", shape)
    assert idle.layout == default_layout(shape)
