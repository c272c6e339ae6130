"""Conversions between all dtypes, executed: ties, overflow, infinities and NaN are converted as the interpreter does."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tirx_eq.errors import ProofError
from tirx_eq.interp.run import interpret
from tirx_eq.ir import dtype as dt
from tirx_eq.lower.code.recipes import CASTS
from tirx_eq.lower.kernel import compile_function

from .kernels import kernel
from .value_kernels import COLUMNS, ROWS, value_kernel

FLOATS = (
    "float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn", "float8_e8m0fnu",
)  # fmt: skip
INTEGERS = ("int64", "uint64", "int32", "uint32", "int16", "uint16", "int8", "uint8", "bool")
#: Those that :mod:`test_every_value_cast` has with every value of theirs are left out here.
WIDE = ("float64", "int64", "uint64", "bool", "float8_e8m0fnu")
PAIRS = [
    (a, b) for a, b in product(FLOATS + INTEGERS, repeat=2)
    if a != b and (a in WIDE[:4] or b not in WIDE or dt.bits(a) in (4, 32)) and a != WIDE[4]
]  # fmt: skip
PLACES = (("registers", "thread"), ("global", "cta"), ("shared", "warp"))


def values(dtype: str) -> np.ndarray:
    """Numbers of every size, ties between neighbours of narrower formats, and what overflows them."""
    rng = np.random.default_rng(17)
    count = ROWS * COLUMNS
    if dtype == "bool":
        return rng.integers(0, 2, (ROWS, COLUMNS)).astype(bool)
    if dtype == "float8_e8m0fnu":
        return np.resize(np.arange(256, dtype=np.uint8), (ROWS, COLUMNS)).view(dt.numpy_dtype(dtype))
    if dt.is_integer(dtype):
        info = np.iinfo(dt.numpy_dtype(dtype))
        ends = np.array([info.min, info.max, 0, 1, info.max // 2, info.max - 1, 127, 128 if info.max > 127 else 1],
                        dtype=dt.numpy_dtype(dtype))  # fmt: skip
        spread = rng.integers(0, info.max, count, endpoint=True, dtype=np.uint64) >> rng.integers(
            0, info.bits - 1, count, dtype=np.uint64
        )
        spread = spread if dtype.startswith("uint") else spread.astype(np.int64)
        spread[::2] *= -1 if info.min < 0 else 1
        spread[: len(ends)] = ends
        if info.bits == 64:  # around halves of units of narrower formats, where 53 bits don't tell the side
            spread[16:40] = [(2 * k + 1 << 30 + k) + s for k in range(8) for s in (-1, 0, 1)]
        return spread.astype(dt.numpy_dtype(dtype)).reshape(ROWS, COLUMNS)
    x = np.exp2(rng.uniform(-20, 36, count)) * np.where(rng.integers(0, 2, count), 1.0, -1.0)
    x[count // 4 : count // 2] = np.exp2(rng.uniform(-3, 4, count // 4)) * np.where(rng.integers(0, 2, count // 4), 1.0, -1.0)
    x[: count // 4] = rng.integers(-4096, 4096, count // 4) / 32
    special = [
        0.0, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5, 448.0, 464.0, 465.0, 480.0, 57344.0, 61440.0, 65504.0, 65520.0, 65536.0,
        3.4e38, -3.4e38, 127.5, 128.0, -128.5, 255.5, 2147483648.0, -2147483649.0, 4294967296.0, 1e-40, 2.0**-25,
        3 * 2.0**-26, 0.25, 0.75, 1.25, 1.75, 3.5, 5.0, 7.0, np.inf, -np.inf, np.nan,
    ]  # fmt: skip
    x[count // 2 : count // 2 + len(special)] = special
    with np.errstate(over="ignore"):
        if dtype == "float64":  # beside halves of units, nearer than float32 tells
            ties = np.array([1 + 2.0**-8, 17.0, 1.0625, 1.125, 465.0, 464.0, 2.0**-10, 1.25, 2.5, 3.5, 1 + 2.0**-11])
            x[64 : 64 + 4 * len(ties)] = np.outer([1 + 2.0**-50, 1 - 2.0**-50, -1 - 2.0**-50, 1.0], ties).ravel()
            return x.reshape(ROWS, COLUMNS)
        return x.astype(np.float32).astype(dt.numpy_dtype(dtype)).reshape(ROWS, COLUMNS)


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_cast(source, target):
    place, scope = PLACES[PAIRS.index((source, target)) % len(PLACES)]
    func = value_kernel("cast({D}, {A})", {"D": (target, place, COLUMNS), "A": (source, place, COLUMNS)}, scope)
    given = [np.zeros((ROWS, COLUMNS), dt.numpy_dtype(target)), values(source)]
    result = compile_function(func).simulate(*given)
    assert not result.faults, [str(f) for f in result.faults[:3]]
    got, wanted = result.arrays["D"], interpret(func, *given)["D"]
    if dt.is_float(target):
        got, wanted = (x.astype(np.float32) for x in (got, wanted))
    bad = np.argwhere(~((got == wanted) | ((got != got) & (wanted != wanted))))
    assert not len(bad), (given[1][tuple(bad[0])], got[tuple(bad[0])], wanted[tuple(bad[0])], len(bad))


@pytest.mark.parametrize("broken", ["cvt.rn.satfinite.e2m1x2.f32 D a0 a1", "cvt.rn.satfinite.e2m1x2.f32 D a1 a1"])
def test_the_value_equation_tells_the_halves_of_a_byte_apart(monkeypatch, broken):
    monkeypatch.setitem(CASTS, ("float32", "float4_e2m1fn", 2), broken)
    operands = {"D": ("float4_e2m1fn", "global", COLUMNS), "A": ("float32", "global", COLUMNS)}
    with pytest.raises(ProofError, match="cast"):
        compile_function(value_kernel("cast({D}, {A})", operands, "cta"))


@pytest.mark.parametrize("source", [d for d in FLOATS + INTEGERS if d != "float4_e2m1fn"])
def test_casts_of_single_values(source):
    targets = [t for t in FLOATS + INTEGERS if t not in (source, "float4_e2m1fn")]
    count = ROWS * COLUMNS
    lines = [f"t = Tx.thread_id([{ROWS}])", f"b = Tx.cta_id([{COLUMNS}])", f"i = b * {ROWS} + t"]
    lines += [f'D{k}[i] = Tx.cast(A[i], "{t}")' for k, t in enumerate(targets)]
    params = [f'A: Tx.Buffer(({count},), "{source}")', *(f'D{k}: Tx.Buffer(({count},), "{t}")' for k, t in enumerate(targets))]
    func = kernel("\n".join(lines), ", ".join(params))
    given = [values(source).ravel(), *(np.zeros(count, dt.numpy_dtype(t)) for t in targets)]
    result = compile_function(func).simulate(*given)
    assert not result.faults, [str(f) for f in result.faults[:3]]
    wanted = interpret(func, *given)
    for k, target in enumerate(targets):
        a, b = result.arrays[f"D{k}"], wanted[f"D{k}"]
        if dt.is_float(target):
            a, b = a.astype(np.float64), b.astype(np.float64)
        bad = np.flatnonzero(~((a == b) | ((a != a) & (b != b))))
        assert not len(bad), (target, given[0][bad[0]], a[bad[0]], b[bad[0]], len(bad))
