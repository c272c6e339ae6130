"""Comparing the results of another execution with those of the interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import noise, values
from .record import Record

#: How many times the largest deviation of the disturbed executions is allowed.
SAFETY = 2.0


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
    name: str, expected: np.ndarray, found: np.ndarray, before: np.ndarray, exact: bool,
    disturbed: Sequence[np.ndarray] = (), signed_zeros: bool = True,
) -> Comparison:  # fmt: skip
    """Compare one buffer.  NaN agrees with NaN; with ``exact``, +0 and -0 don't agree unless ``signed_zeros`` is off (the sign
    of a sum that is 0 depends on the order of its terms, and on whether it begins with a 0).

    ``disturbed``: what the buffer has after executions whose operations are off as far as they may be.
    """
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
        if not signed_zeros:
            same |= (a == 0) & (b == 0)
        with np.errstate(all="ignore"):
            error = np.where(same, 0.0, np.abs(a - b))
        bound = np.zeros(shape) if exact else tolerance(a, expected.dtype, disturbed)
    bad = ~same & ~(error <= bound) if not exact else ~same
    at = tuple(int(i) for i in np.unravel_index(int(np.argmax(bad)), shape)) if bad.any() else None
    return Comparison(
        name, expected.dtype.name, shape, changed, float(np.max(bound)) if bound.size else 0.0,
        float(np.nanmax(error)) if error.size else 0.0, int(np.count_nonzero(bad)), at,
        None if at is None else expected[at], None if at is None else found[at],
    )  # fmt: skip


def tolerance(expected: Any, dtype: np.dtype[Any], disturbed: Sequence[np.ndarray]) -> Any:
    """The error allowed per element: a step of the dtype (a value may be rounded to the other neighbour), and
    :data:`SAFETY` times the largest deviation of the disturbed executions beyond that, in units of an element's size and
    its row's (the last dimension), since what is small may be a difference of what is large."""
    finite = np.where(np.isfinite(expected), expected, 0.0)
    step = noise.one_step(finite, dtype.name)
    rows = finite.reshape(-1, finite.shape[-1]) if finite.ndim else finite.reshape(1, 1)
    size = np.abs(finite) + np.sqrt(np.mean(np.square(rows), axis=1, keepdims=True) * np.ones_like(rows)).reshape(finite.shape)
    worst = 0.0
    for other in disturbed:
        with np.errstate(all="ignore"):
            beyond = np.where(np.isfinite(expected), np.abs(values.widen(other) - finite) - step, 0.0)
            ratio = np.where((beyond > 0) & np.isfinite(beyond), beyond / np.where(size > 0, size, 1.0), 0.0)
        worst = max(worst, float(ratio.max(initial=0.0)))
    return step + SAFETY * worst * size


def _bits(a: np.ndarray) -> np.ndarray:
    flat = np.ascontiguousarray(a).reshape(-1)
    return flat.view(np.uint8).reshape(*a.shape, flat.dtype.itemsize)
