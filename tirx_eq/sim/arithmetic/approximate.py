"""How far ``approx`` instructions may be off (PTX ISA 9.7.3), and results that are as far off as that.

The simulator returns correctly rounded values, or, when asked for the ``worst`` approximations, values at the edge of the
stated error, on a side that depends on the operand: what a program promises must hold for these too.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Array = np.ndarray


def _relative(bound: float) -> Callable[[Array, Array], Array]:
    return lambda x, exact: bound * np.abs(exact)


def _logarithm(x: Array, exact: Array) -> Array:
    return np.where((x >= 0.5) & (x <= 2.0), 2.0**-22, 2.0**-22 * np.abs(exact))


def _circular(x: Array, exact: Array) -> Array:
    return np.where(np.abs(x) <= np.pi, 2.0**-20.5, np.where(np.abs(x) <= 100 * np.pi, 2.0**-14.7, 1.0))


#: Instruction -> largest error for arguments and exact results, in float64.
ERRORS: dict[str, Callable[[Array, Array], Array]] = {
    "ex2": _relative(2.0**-22), "lg2": _logarithm, "rcp": _relative(2.0**-23), "sqrt": _relative(2.0**-23),
    "rsqrt": _relative(2.0**-22.9), "tanh": _relative(2.0**-11), "sin": _circular, "cos": _circular,
    "div": _relative(2.0**-22),
}  # fmt: skip


#: The same for f16 and bf16 (PTX ISA 9.7.4), the rounding of the result left out: (relative, absolute).
NARROW_ERRORS: dict[tuple[str, str], tuple[float, float]] = {
    ("ex2", "f16"): (2.0**-9.9 - 2.0**-11, 0.0), ("ex2", "bf16"): (2.0**-7 - 2.0**-8, 0.0),
    ("tanh", "f16"): (0.0, 2.0**-10.987 - 2.0**-12), ("tanh", "bf16"): (2.0**-8, 0.0),
}  # fmt: skip


def worst_narrow(name: str, kind: str, operand: Array, exact: Array) -> Array:
    """The same for an instruction on f16 or bf16 values (``operand`` has them as float32)."""
    relative, absolute = NARROW_ERRORS[name, kind]
    return _off(operand, exact, relative * np.abs(exact) + absolute)


def worst(name: str, operand: Array, exact: Array) -> Array:
    """A value as far from the exact result (float64) as instruction ``name`` allows; its rounding to float32 is left room."""
    return _off(operand, exact, ERRORS[name](operand.astype(np.float64), exact) - 2.0**-24 * np.abs(exact))


def _off(operand: Array, exact: Array, error: Array) -> Array:
    bits = operand.astype(np.float32).view(np.uint32) * np.uint32(0x9E3779B1)
    sign = np.where(bits >> np.uint32(31) == 0, 1.0, -1.0)
    return np.where(np.isfinite(exact) & (error > 0), exact + sign * error, exact)
