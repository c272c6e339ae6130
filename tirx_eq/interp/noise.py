"""How far another execution of a kernel may be off, found by executing it with its roundings disturbed.

The target may add in another order, contract a product and a sum, or approximate a function as far as
:mod:`tirx_eq.ir.accuracy` promises.  So the interpreter runs again, each such operation off by as much as it may be: all
upwards, all downwards, and at random.  What that does to a result is what the comparison allows, whatever the kernel does
to the values in between; an error that is no rounding stands out.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..ir import dtype as dt
from ..ir.accuracy import UNIT, Accuracy, power_accuracy, promised

Array = Any
#: Ways to choose the side on which each operation is off.
MODES = ("up", "down", "random")
#: What functions without a promise may be off.
UNKNOWN = Accuracy(2.0**-16, 2.0**-126)
#: The tensor core cuts partial sums off instead of rounding them: two roundings for each term.
TENSOR_CORE = 2.0


@dataclass(frozen=True, eq=False)
class Noise:
    """One disturbed execution; ``mode`` of :data:`MODES`."""

    mode: str
    seed: int

    def side(self, exact: Array) -> Array:
        """+1 or -1 for each value, the same for the same value: copies of an element stay equal."""
        if self.mode != "random":
            return np.float64(1.0 if self.mode == "up" else -1.0)
        bits = np.asarray(exact, dtype=np.float64).view(np.uint64) ^ np.uint64(self.seed)
        return np.where(bits * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(63) == 0, 1.0, -1.0)

    def off(self, exact: Array, error: Array) -> Array:
        """A float64 array, each value off by ``error``; away from zero or towards it, and infinities as they are."""
        with np.errstate(all="ignore"):
            moved = exact + self.side(exact) * np.sign(exact) * error
            return np.where(np.isfinite(moved), moved, exact)


_CURRENT: ContextVar[Noise | None] = ContextVar("noise", default=None)


@contextmanager
def disturbed(mode: str, seed: int = 0) -> Iterator[None]:
    """Within, operations of the interpreter are off by what they may be."""
    token = _CURRENT.set(Noise(mode, seed))
    try:
        yield
    finally:
        _CURRENT.reset(token)


def _unit(dtype: str) -> Accuracy:
    return UNIT.get(dtype, UNIT["float32"])


def rounding(exact: Array, dtype: str) -> Array:
    """A float64 result of arithmetic in ``dtype`` before it is rounded: off by one more rounding."""
    noise = _CURRENT.get()
    return exact if noise is None else noise.off(exact, _unit(dtype).relative * np.abs(exact))


def function(name: str, exact: Array, dtype: str) -> Array:
    """A float64 result of a function that is approximate on the target."""
    noise = _CURRENT.get()
    if noise is None:
        return exact
    accuracy = promised(name, dt.element(dtype)) or UNKNOWN
    return noise.off(exact, accuracy.relative * np.abs(exact) + accuracy.absolute)


def power(x: Array, y: Array, exact: Array, dtype: str = "float32") -> Array:
    """A float64 result of x^y that is rounded to ``dtype``."""
    noise = _CURRENT.get()
    if noise is None:
        return exact
    with np.errstate(all="ignore"):
        product = np.abs(y) * np.maximum(1.0, np.abs(np.log2(np.abs(x))))
    none, one = power_accuracy(0.0, dtype), power_accuracy(1.0, dtype)
    relative = none.relative + (one.relative - none.relative) * np.nan_to_num(product)
    return noise.off(exact, relative * np.abs(exact) + one.absolute)


def total(exact: Array, terms: float, magnitudes: Any) -> Array:
    """A float64 sum of ``terms`` values with these sums of magnitudes, formed in float32 in any order.

    ``magnitudes`` may be a function, which is only asked where there is noise.
    """
    noise = _CURRENT.get()
    if noise is None:
        return exact
    size = magnitudes() if callable(magnitudes) else magnitudes
    error = terms * UNIT["float32"].relative * size
    return np.asarray(exact) + noise.side(exact) * error


def active() -> bool:
    """Whether this execution is disturbed."""
    return _CURRENT.get() is not None


def one_step(value: Array, dtype: str) -> Array:
    """The distance of neighbouring numbers of ``dtype`` at a float64 value."""
    unit = _unit(dtype)
    _, exponent = np.frexp(np.abs(value))
    with np.errstate(all="ignore"):
        step = np.ldexp(unit.relative, exponent)
    return np.maximum(np.where(np.isfinite(step) & (value != 0), step, 0.0), 2 * unit.absolute)
