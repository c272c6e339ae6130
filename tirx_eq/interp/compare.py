"""Comparing the results of another execution with those of the interpreter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from . import values
from .record import Record

#: Relative error of the approximate functions (ex2, lg2, rcp, rsqrt, sin … of PTX ISA 9.7.3), with room for a chain of
#: a few of them and for the multiplication that turns exp into exp2.
APPROXIMATE = 2.0**-16
#: Unit roundoff of float32, in which the target accumulates.
UNIT = 2.0**-24


@dataclass(frozen=True)
class Comparison:
    """One buffer: how many elements differ beyond the bound, the largest error, and the first bad coordinate.

    ``bound`` is the largest error that is allowed anywhere in the buffer; 0 if bits must agree.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    changed: bool
    bound: float
    error: float
    different: int
    first: tuple[int, ...] | None = None
    expected: Any = None
    found: Any = None

    @property
    def agrees(self) -> bool:
        return self.different == 0

    def describe(self) -> str:
        """The first difference in words, or an empty string."""
        if self.first is None:
            return ""
        at = ", ".join(map(str, self.first))
        return f"{self.name}[{at}] is {self.found}, expected {self.expected}"


def is_exact(kind: str, record: Record) -> bool:
    """Whether bits must agree: no function that the target only approximates, and no sum in an order of its own (or
    whole numbers in, for which the order makes no difference)."""
    return not record.approximate and (kind == "integers" or not record.terms)


def compare(
    name: str, expected: np.ndarray, found: np.ndarray, before: np.ndarray, record: Record, exact: bool
) -> Comparison:
    """Compare one buffer.  NaN agrees with NaN; with ``exact``, +0 and -0 don't agree."""
    shape = expected.shape
    if found.shape != shape or found.dtype != expected.dtype:
        raise ValueError(
            f"{name}: {found.dtype}{list(found.shape)} can't be compared with {expected.dtype}{list(shape)}"
        )
    raw_a, raw_b = _bits(expected), _bits(found)
    same = np.all(raw_a == raw_b, axis=-1)
    changed = bool(np.any(_bits(before) != raw_a))
    exact = exact or not changed
    if expected.dtype.kind in "iub":
        a, b = expected.astype(np.int64), found.astype(np.int64)
        error = np.abs(a - b).astype(np.float64)
        bound: Any = np.zeros(shape)
    else:
        a, b = values.widen(expected), values.widen(found)
        same |= np.isnan(a) & np.isnan(b)
        with np.errstate(all="ignore"):
            error = np.where(same, 0.0, np.abs(a - b))
        bound = np.zeros(shape) if exact else tolerance(a, expected.dtype, record)
    bad = ~same & ~(error <= bound) if not exact else ~same
    at = tuple(int(i) for i in np.unravel_index(int(np.argmax(bad)), shape)) if bad.any() else None
    return Comparison(
        name, expected.dtype.name, shape, changed, float(np.max(bound)) if bound.size else 0.0,
        float(np.nanmax(error)) if error.size else 0.0, int(np.count_nonzero(bad)), at,
        None if at is None else expected[at], None if at is None else found[at],
    )  # fmt: skip


def tolerance(expected: Any, dtype: np.dtype[Any], record: Record) -> Any:
    """The error allowed per element: two roundings to the dtype, the error of float32 sums in any order
    (terms · 2⁻²⁴ · the sum of magnitudes), of approximate functions (relative), and 2⁻²⁰ of the largest element for
    what is left after cancellation."""
    finite = np.where(np.isfinite(expected), np.abs(expected), 0.0)
    largest = float(finite.max()) if finite.size else 0.0
    sums = (record.terms + 2) * UNIT * record.magnitude
    functions = 16 * UNIT * largest + (APPROXIMATE * finite if record.approximate else 0.0)
    return 2 * _epsilon(dtype) * finite + sums + functions


def _epsilon(dtype: np.dtype[Any]) -> float:
    import ml_dtypes

    return float(ml_dtypes.finfo(dtype).eps)


def _bits(a: np.ndarray) -> np.ndarray:
    flat = np.ascontiguousarray(a).reshape(-1)
    return flat.view(np.uint8).reshape(*a.shape, flat.dtype.itemsize)
