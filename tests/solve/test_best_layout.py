"""``best_layout`` against brute force over each family, the known cases, and refusals."""

from __future__ import annotations

import random
from dataclasses import replace
from math import prod

import numpy as np
import pytest

from tirx_eq.errors import LayoutError, ProofError
from tirx_eq.ir.index import evaluate_many
from tirx_eq.layout import ComposeLayout, S, SwizzleLayout, TileLayout, mma_shared_layout
from tirx_eq.layout.conflicts import bank_conflicts
from tirx_eq.prove.layouts import equal
from tirx_eq.redistribution.swizzle_synthesis import Phase, XorMatrix, bank_cost, exhaustive_bank_maps, synthesise
from tirx_eq.solve.memory.access import (
    EngineAccess,
    WarpAccess,
    columns,
    count_wavefronts,
    distributed,
    ldmatrix,
    rows,
)
from tirx_eq.solve.memory.best_layout import best_layout
from tirx_eq.solve.memory.best_layout_check import recheck
from tirx_eq.solve.memory.lane_skew import lane_skew

BYTES = {"float32": 4, "float16": 2, "float8_e4m3fn": 1}


def random_accesses(rng: random.Random, shape: tuple[int, ...], size: int) -> list[WarpAccess]:
    """One to three: rows, columns, ldmatrix-like, strided, scattered; some with lanes switched off, some with weights."""
    r, c = shape[-2:]
    made = []
    for _ in range(rng.randint(1, 3)):
        kind = rng.choice(["row", "column", "matrix", "strided", "scattered"])
        widest = max(1, min(c & -c, 16 // size))
        vector = rng.choice([v for v in (1, 2, 4, 8, 16) if v <= widest])
        if kind == "row":
            access = rows(shape, vector, rng.randrange(r) * c)
        elif kind == "column":
            access = columns(shape, vector, rng.randrange(c // vector) * vector)
        elif kind == "matrix":
            vector = widest
            access = WarpAccess("matrix", tuple((l % 8 % r, (l // 8 * vector) % c) for l in range(32)), vector)
        elif kind == "strided":
            a, b = rng.randrange(1, 8), rng.randrange(0, 5)
            access = WarpAccess("strided", tuple((l * a % r, l * b % (c // vector) * vector) for l in range(32)), vector)
        else:
            access = WarpAccess(
                "scattered", tuple((rng.randrange(r), rng.randrange(c // vector) * vector) for _ in range(8)), vector
            )
        if rng.random() < 0.3:
            keep = rng.randrange(1, 1 << 32) | 1
            access = access.where(lambda lane, keep=keep: bool(keep >> lane & 1))
        made.append(access.times(rng.choice([1, 1, 2, 5])))
    return made


def brute_force(shape, dtype, accesses, family):
    """The least weighted wavefronts over a family, by the definition: addresses by hand, banks in dictionaries."""
    size, cols = BYTES[dtype], shape[-1]
    total = prod(shape)
    pitches = {"xor": [cols], "padding": range(cols, cols + 128 // size)}[family]
    if family == "xor" and cols & (cols - 1):
        pitches = [cols, 1 << cols.bit_length()]
    best = None
    for pitch in pitches:
        dense = [e // cols * pitch + e % cols for e in range(total)]
        swizzles = [(0, 0, 0)]
        if family == "xor":
            width = max(dense).bit_length()
            swizzles += [
                (n, s, t) for n in range(1, 6) for s in range(width) for t in range(width)
                if abs(s - t) >= n and max(s, t) + n <= width
            ]  # fmt: skip
        for n, s, t in swizzles:
            at = [a ^ ((a >> s & ((1 << n) - 1)) << t) for a in dense]
            cost = weighted(at, shape, size, accesses)
            if cost is not None and (best is None or cost < best):
                best = cost
    return best


def weighted(at, shape, size, accesses):
    cost = 0
    for a in accesses:
        width, lanes = size * a.vector, {16: 8, 8: 16}.get(size * a.vector, 32)
        for first in range(0, 32, lanes):
            words = {}
            for coord in a.lanes[first : first + lanes]:
                if coord is None:
                    continue
                flat = coord[0] * shape[1] + coord[1]
                if any(at[flat + k] != at[flat] + k for k in range(a.vector)) or at[flat] * size % width:
                    return None
                for byte in range(at[flat] * size, at[flat] * size + width):
                    words.setdefault(byte // 4 % 32, set()).add(byte // 4)
            cost += a.weight * max((len(w) for w in words.values()), default=0)
    return cost


SHAPES = [(8, 16), (16, 16), (8, 32), (32, 8), (12, 24), (16, 20), (7, 40), (32, 32)]


@pytest.mark.parametrize("seed", range(100))
def test_equals_brute_force(seed):
    """Over each family, by a count that shares nothing with the implementation but the numbers of lanes per phase."""
    rng = random.Random(seed)
    dtype = rng.choice(list(BYTES))
    shape = SHAPES[seed % len(SHAPES)]
    accesses = random_accesses(rng, shape, BYTES[dtype])
    family = ("xor", "padding")[seed % 2]
    mine = brute_force(shape, dtype, accesses, family)
    if mine is None:
        with pytest.raises(LayoutError, match="no layout of"):
            best_layout(shape, dtype, accesses, family=family)
        return
    found = best_layout(shape, dtype, accesses, family=family)
    assert found.total == mine
    recheck(found)


@pytest.mark.parametrize("seed", range(8))
def test_synthesised_matrices_equal_brute_force(seed):
    """Six or seven word-index bits: every bank map is tried."""
    rng = random.Random(seed)
    bits, kept = (6, 0) if seed % 2 else (7, 2)
    phases = []
    for _ in range(rng.randint(1, 3)):
        words = {rng.randrange(1 << bits) >> kept << kept for _ in range(rng.randint(2, 6))}
        phases.append(Phase(tuple(sorted(w | k for w in words for k in range(1 << kept))), rng.choice([1, 2])))
    found = synthesise(bits, kept, phases)
    if bits == 7:
        least = min(bank_cost(rows, phases) for rows in exhaustive_bank_maps(bits, kept))
    else:  # a map of rank 5 merges each word with that at one other index, k away
        least = min(sum(p.weight * fullest(p.words, k) for p in phases) for k in range(1, 64))
    assert found.decided and found.cost == bank_cost(found.rows, phases) == least


def fullest(words, k):
    classes = [min(w, w ^ k) for w in words]
    return max(classes.count(c) for c in classes)


def test_rows_and_columns_give_the_128_byte_swizzle():
    found = best_layout((8, 64), "float16", ["row", "column"])
    assert found.layout == mma_shared_layout("float16", "128B", (8, 64))
    assert found.conflict_free and found.proof.kind == "lower bound"
    assert best_layout((8, 64), "float16", ["row", "column", "tma", "mma"]).layout == found.layout


def test_a_transpose_is_free_of_conflicts():
    for family, expected in (("auto", 32 * 32 * 4), ("padding", (32 * 33 - 1) * 4)):
        found = best_layout((32, 32), "float32", ["row:1", "column:1"], family=family)
        assert found.wavefronts == (1, 1) and found.bytes == expected
    assert best_layout((32, 32), "float32", ["row:1", "column:1"], family="matrix").conflict_free


def scale_factor_accesses():
    """4 x 32 words are read along lanes and written transposed: word 4 l + i by lane l."""
    reads = [WarpAccess(f"read {i}", tuple((i, l) for l in range(32))) for i in range(4)]
    writes = [WarpAccess(f"write {i}", tuple(divmod(4 * l + i, 32) for l in range(32))) for i in range(4)]
    return reads, writes


def test_scale_factor_transposes_match_permute_layout():
    """The lane's number shifted by 3 is XORed into the row, as order of a permute_layout and as swizzle of the words."""
    skew = lane_skew(TileLayout(S[(4, 32) : (32, 1)]), TileLayout(S[(4, 32) : (1, 4)]), "uint32")
    assert skew.shift == 3 and skew.conflict_free and (skew.reads, skew.writes) == (4, 4)
    assert dict(skew.tried)[None] == 4 + 16
    reads, writes = scale_factor_accesses()
    found = best_layout((4, 32), "uint32", [*reads, *writes])
    assert found.layout == ComposeLayout(SwizzleLayout(0, 2, 5), TileLayout(S[(4, 32) : (32, 1)]))
    assert found.wavefronts == (1,) * 8
    # the same map: bits 5 and 6 of word 4 l + i are l >> 3, XORed into i
    assert all(SwizzleLayout(0, 2, 5).permute(4 * l + i) == 4 * l + skew.row(i, l) for l in range(32) for i in range(4))


@pytest.mark.parametrize(("shape", "accesses"), [
    ((48, 40), ["row:1", "column:1"]), ((33, 65), ["row:1", "column:1"]), ((7, 12), ["row:4", "column:4"]), ((100,), ["row:2"]),
])  # fmt: skip
def test_other_extents_than_powers_of_two(shape, accesses):
    found = best_layout(shape, "float32", accesses)
    assert found.conflict_free
    recheck(found)


def test_engines_restrict_the_family():
    found = best_layout((64, 64), "float16", ["column", "tma"])
    assert found.family == "hardware" and any("can't name" in e.reason for e in found.excluded)
    with pytest.raises(LayoutError, match="can't name it"):
        best_layout((48, 36), "float16", [EngineAccess("a", "mma")], family="padding")


def test_a_synthesised_matrix_is_better_than_every_swizzle():
    """Three access patterns whose differences no single XOR of neighbouring bits separates."""
    shape = (32, 32)
    spread = [(1, 0, 6, 3, 8), (9, 2, 5, 7, 0), (4, 8, 1, 9, 6)]
    accesses = []
    for k, bits in enumerate(spread):
        flats = [sum((l >> j & 1) << b for j, b in enumerate(bits)) for l in range(32)]
        accesses.append(WarpAccess(f"p{k}", tuple(divmod(f, 32) for f in flats)))
    others = best_layout(shape, "float32", accesses, family=("xor", "padding", "hardware"))
    found = best_layout(shape, "float32", accesses)
    assert found.family == "matrix" and found.conflict_free and others.total > found.total
    assert recheck(found)
    matrix = found.layout
    if isinstance(matrix, XorMatrix):
        index = np.arange(1024)
        assert (evaluate_many(matrix.term(), {"x": index}) == matrix.evaluate(index)["m"]).all()


def test_vectors_of_registers_as_accesses():
    """The stores of a thread distribution: eight f16 of a row per thread."""
    spread = TileLayout(S[(32, 8) : (1 @ _lane(), 1)])
    made = distributed(spread, (32, 8), "float16", 8)
    assert len(made) == 1 and made[0].lanes[5] == (5, 0) and made[0].vector == 8


def _lane():
    from tirx_eq.layout import laneid

    return laneid


def test_masked_lanes_keep_their_phase():
    """Sixteen lanes of 8 bytes are a phase: with every lane of the second half off, only the first is served."""
    access = columns((32, 32), 2).where(lambda lane: lane < 16)
    found = best_layout((32, 32), "float32", [access], family="hardware")
    assert found.ideal == (1,)
    assert best_layout((32, 32), "float32", [columns((32, 32), 2)], family="hardware").ideal == (2,)


def test_counts_agree_with_the_definition():
    rng = random.Random(3)
    for width in (1, 2, 4, 8, 16):
        table = np.array([[rng.randrange(256) * width for _ in range(32)] for _ in range(20)])
        one_by_one = [bank_conflicts([int(a) for a in row], width).wavefronts for row in table]
        assert list(count_wavefronts(table, width)) == one_by_one


def test_a_false_claim_is_found():
    found = best_layout((32, 32), "float32", ["row:1", "column:1"], family="xor")
    with pytest.raises(ProofError, match="takes"):
        recheck(replace(found, layout=TileLayout(S[(32, 32) : (32, 1)])))
    plain = best_layout((32, 32), "float32", ["column:1"], family="hardware")
    worse = replace(plain, layout=TileLayout(S[(32, 32) : (32, 1)]), wavefronts=(32,), label="row-major")
    with pytest.raises(ProofError, match="less than 32"):
        recheck(worse)
    with pytest.raises(ProofError, match="one place"):
        recheck(replace(found, layout=TileLayout(S[(32, 32) : (0, 1)])))


def test_refusals_name_what_is_wrong():
    for given, message in (
        ([WarpAccess("x", ((0, 99),))], "lane 0's element"), (["diagonal"], "unknown access"), ([], "at least one"),
        ([WarpAccess("x", ((0, 0),), 3)], "1, 2, 4, 8 or 16 bytes"), ([WarpAccess("x", (None,) * 32)], "every lane"),
        ([("row", 0)], "weight"),
    ):  # fmt: skip
        with pytest.raises(LayoutError, match=message):
            best_layout((8, 64), "float16", given)
    with pytest.raises(LayoutError, match="unknown family"):
        best_layout((8, 64), "float16", ["row"], family="magic")
    assert ldmatrix((16, 64), "float16").vector == 8
    assert equal(best_layout((8, 64), "f16", ["row", "column"]).layout, SwizzleLayout(3, 3, 3), (8, 64))


def test_lanes_at_random_places_are_settled_too():
    """32 random words: no bank map of rank 5 keeps them apart, which the kernel search shows by exhaustion."""
    rng = random.Random(1)
    accesses = [WarpAccess(f"a{k}", tuple((rng.randrange(32), rng.randrange(32)) for _ in range(32))) for k in range(2)]
    found = best_layout((32, 32), "float32", accesses, family="matrix")
    assert found.wavefronts == (2, 2) and found.proof.kind == "subspaces"


@pytest.mark.parametrize("seed", range(6))
def test_matrices_rechecked_by_every_bank_map(seed):
    """64 words, 16-byte vectors somewhere: 2**12 maps are counted by the check."""
    rng = random.Random(seed)
    accesses = [rows((16, 4), 4), WarpAccess("x", tuple((rng.randrange(16), rng.randrange(4)) for _ in range(8)))]
    found = best_layout((16, 4), "float32", accesses, family="matrix")
    assert found.proof.kind in ("lower bound", "subspaces", "unsatisfiable") and recheck(found)
