"""Conversions of every number that 8 and 16 bits can hold, to every dtype; the meaning is written down here once more."""

from __future__ import annotations

import numpy as np
import pytest

from tirx_eq.ir import dtype as dt
from tirx_eq.lower.kernel import Kernel, compile_function
from tirx_eq.ptx.ptxas import assemble, find_tool

from .kernels import kernel

SOURCES = (
    "float16", "bfloat16", "int16", "uint16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "int8", "uint8",
)  # fmt: skip
TARGETS = (
    "float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "int64", "uint64", "int32",
    "uint32", "int16", "uint16", "int8", "uint8", "bool",
)  # fmt: skip
COLUMNS = 8
LARGEST = {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0}


def casts(source: str, rows: int) -> Kernel:
    targets = [t for t in TARGETS if t != source]
    lines = [f"t = Tx.thread_id([{min(rows, 128)}])", f"b = Tx.cta_id([{max(1, rows // 128)}])", "i = b * 128 + t",
             f'a = Tx.alloc_local(({COLUMNS},), "{source}")', "Tx.copy(a[:], A[i, :])"]  # fmt: skip
    for k, target in enumerate(targets):
        lines += [f'd{k} = Tx.alloc_local(({COLUMNS},), "{target}")', f"Tx.cast(d{k}[:], a[:])",
                  f"Tx.copy(D{k}[i, :], d{k}[:])"]  # fmt: skip
    params = [f'A: Tx.Buffer(({rows}, {COLUMNS}), "{source}")']
    params += [f'D{k}: Tx.Buffer(({rows}, {COLUMNS}), "{t}")' for k, t in enumerate(targets)]
    return compile_function(kernel("\n".join(lines), ", ".join(params)))


def meaning(values: np.ndarray, target: str) -> np.ndarray:
    """float64 values (exact for the sources here) in ``target``, by numpy and the rules of PTX ISA's cvt."""
    with np.errstate(all="ignore"):
        if target == "bool":
            return values != 0
        if target == "float8_e8m0fnu":  # the power of two at or above
            size = np.abs(values)
            exponent = np.ceil(np.log2(np.where((size > 0) & np.isfinite(size), size, 1.0)))
            exponent = np.where(size == 0, -127, np.where(np.isinf(size), 127, np.clip(exponent, -127, 127)))
            bits = np.where(np.isnan(size), 255, exponent + 127).astype(np.uint8)
            return bits.view(dt.numpy_dtype(target))
        if dt.is_float(target):
            limit = LARGEST.get(target)
            inside = values if limit is None else np.clip(values, -limit, limit)
            return inside.astype(np.float32).astype(dt.numpy_dtype(target)) if target != "float64" else values
        info = np.iinfo(target)
        clear = np.nan_to_num(np.trunc(values), nan=0.0, posinf=2.0**70, neginf=-(2.0**70))
        return np.array([min(max(int(v), info.min), info.max) for v in clear.ravel()], dtype=target).reshape(values.shape)


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")  # signalling NaNs are among the values
@pytest.mark.parametrize("source", SOURCES)
def test_every_value(source):
    bits = dt.bits(source)
    count = 1 << bits
    given = np.arange(count, dtype=f"u{bits // 8}").view(dt.numpy_dtype(source)).reshape(-1, COLUMNS)
    rows = len(given)
    made = casts(source, rows)
    targets = [t for t in TARGETS if t != source]
    outs = [np.zeros((rows, COLUMNS), dt.numpy_dtype(t)) for t in targets]
    ran = made.simulate(given, *outs)
    assert not ran.faults, [str(f) for f in ran.faults[:3]]
    if dt.is_integer(source):
        exact = given.astype(np.float64)
    else:
        exact = given.astype(np.float32).astype(np.float64)
    for k, target in enumerate(targets):
        got, wanted = ran.arrays[f"D{k}"], meaning(exact, target)
        if dt.is_integer(source) and dt.is_integer(target):  # the low bits
            wanted = given.astype(np.int64).astype(target)
        if dt.is_float(target):
            got, wanted = got.astype(np.float64), wanted.astype(np.float64)
        bad = np.argwhere(~((got == wanted) | ((got != got) & (wanted != wanted))))
        assert not len(bad), (target, exact[tuple(bad[0])], got[tuple(bad[0])], wanted[tuple(bad[0])], len(bad))


@pytest.mark.skipif(find_tool("ptxas") is None, reason="PTXAS IS NOT INSTALLED: nothing assembled")
@pytest.mark.parametrize("source", [*SOURCES, "float64", "float32", "int64", "uint64", "int32", "uint32", "bool"])
def test_all_conversions_assemble(source):
    assert assemble(casts(source, 32).ptx, "sm_100a").spill_stores == 0


LOSSLESS = ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")


@pytest.mark.parametrize("lossless", [True, False])
def test_float4_to_everything_and_back(lossless):
    others = [t for t in TARGETS if (t in LOSSLESS) == lossless]
    lines = ["t = Tx.thread_id([32])", 'a = Tx.alloc_local((8,), "float4_e2m1fn")', "Tx.copy(a[:], A[t, :])"]
    for k, other in enumerate(others):
        lines += [f'd{k} = Tx.alloc_local((8,), "{other}")', f"Tx.cast(d{k}[:], a[:])", f"Tx.cast(a[:], d{k}[:])"]
    lines.append("Tx.copy(E[t, :], a[:])")
    params = ", ".join(f'{name}: Tx.Buffer((32, 8), "float4_e2m1fn")' for name in "AE")
    made = compile_function(kernel("\n".join(lines), params))
    if find_tool("ptxas") is not None:
        assert assemble(made.ptx, "sm_100a").spill_stores == 0
    given = np.resize(np.arange(16, dtype=np.uint8), (32, 8)).view(dt.numpy_dtype("float4_e2m1fn"))
    ran = made.simulate(given, np.zeros_like(given))
    assert not ran.faults
    back = ran.arrays["E"].astype(np.float32)
    start = given.astype(np.float32)
    # Through ue8m0 magnitudes, through integers without halves, through truth values 0 or 1.
    np.testing.assert_array_equal(back, start if lossless else np.abs(start) >= 1)
