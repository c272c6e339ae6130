"""What the functions of float32 promise: how far a result may be from the exact one.

The compiler takes the cheapest code that keeps the promise, and the comparison with the interpreter allows just that.
Results in narrower formats are computed in float32 and rounded; there an error of one unit roundoff more is allowed.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Accuracy:
    """|result - exact| <= ``relative`` * |exact| + ``absolute``."""

    relative: float
    absolute: float = 0.0

    def within(self, other: Accuracy) -> bool:
        """Whether this is at least as accurate as ``other``."""
        return self.relative <= other.relative and self.absolute <= other.absolute


#: The smallest normal float32: results below it may be zero (PTX ISA 9.7.3, .ftz).
TINY = 2.0**-126
#: The smallest float32.
LEAST_F32 = 2.0**-149

#: Function -> its accuracy.  Functions that are not here are exact or correctly rounded.
#: ``exp`` and what is made of it: the exponent x·log2(e), up to 127, is rounded to 24 bits.
#: Logarithms near 1, and the hyperbolic tangent and the error function near 0, have an absolute error.
#: ``sin``, ``cos`` and ``tan`` hold for |x| up to 2^20; ``pow`` is :func:`power_accuracy`.
ACCURACY: dict[str, Accuracy] = {
    "exp2": Accuracy(2.0**-22, TINY), "exp": Accuracy(2.0**-16, TINY), "exp10": Accuracy(2.0**-16, TINY),
    "log2": Accuracy(2.0**-21, 2.0**-22), "log": Accuracy(2.0**-21, 2.0**-22), "log10": Accuracy(2.0**-21, 2.0**-22),
    "log1p": Accuracy(2.0**-21, 2.0**-21),
    "reciprocal": Accuracy(2.0**-23, 0.0), "rcp": Accuracy(2.0**-22, TINY), "rsqrt": Accuracy(2.0**-22, 0.0),
    "sigmoid": Accuracy(2.0**-16, TINY), "silu": Accuracy(2.0**-16, 2.0**-118),
    "tanh": Accuracy(2.0**-23, 2.0**-21), "erf": Accuracy(2.0**-23, 2.0**-20),
    "sin": Accuracy(2.0**-23, 2.0**-19), "cos": Accuracy(2.0**-23, 2.0**-19), "tan": Accuracy(2.0**-20),
    "asin": Accuracy(2.0**-22), "acos": Accuracy(2.0**-22), "atan": Accuracy(2.0**-22), "atan2": Accuracy(2.0**-21, LEAST_F32),
    "sinh": Accuracy(2.0**-20), "cosh": Accuracy(2.0**-20), "hypot": Accuracy(2.0**-22, LEAST_F32),
    "asinh": Accuracy(2.0**-21, 2.0**-21), "acosh": Accuracy(2.0**-21, 2.0**-21), "atanh": Accuracy(2.0**-21, 2.0**-22),
    "expm1": Accuracy(2.0**-24), "cbrt": Accuracy(2.0**-24),
}  # fmt: skip

#: The same for float64.  ``sin``, ``cos`` and ``tan`` hold for |x| up to 2^30; ``pow`` is :func:`power_accuracy`.
#: Subnormal results are multiples of 2^-1074.
LEAST = 2.0**-1074
ACCURACY_DOUBLE: dict[str, Accuracy] = {
    "exp2": Accuracy(2.0**-52, LEAST), "exp": Accuracy(2.0**-52, LEAST), "exp10": Accuracy(2.0**-52, LEAST),
    "log2": Accuracy(2.0**-52), "log": Accuracy(2.0**-52), "log10": Accuracy(2.0**-52), "log1p": Accuracy(2.0**-52),
    "reciprocal": Accuracy(2.0**-53), "rcp": Accuracy(2.0**-53), "rsqrt": Accuracy(2.0**-52),
    "sigmoid": Accuracy(2.0**-51, LEAST), "silu": Accuracy(2.0**-51, 2.0**-1064),
    "tanh": Accuracy(2.0**-51), "sin": Accuracy(2.0**-52), "cos": Accuracy(2.0**-52), "tan": Accuracy(2.0**-51),
    "hypot": Accuracy(2.0**-51, LEAST), "asin": Accuracy(2.0**-51), "acos": Accuracy(2.0**-51), "atan": Accuracy(2.0**-51),
    "atan2": Accuracy(2.0**-51, LEAST), "sinh": Accuracy(2.0**-51), "cosh": Accuracy(2.0**-51),
    "erf": Accuracy(2.0**-51, LEAST), "asinh": Accuracy(2.0**-50), "acosh": Accuracy(2.0**-50),
    "atanh": Accuracy(2.0**-50, LEAST), "expm1": Accuracy(2.0**-51, LEAST), "cbrt": Accuracy(2.0**-52),
}  # fmt: skip

#: Half the distance from 1 to the next number, by dtype; the smallest error of a rounding near zero.
UNIT = {
    "float64": Accuracy(2.0**-53, 2.0**-1074), "float32": Accuracy(2.0**-24, 2.0**-150),
    "float16": Accuracy(2.0**-11, 2.0**-25), "bfloat16": Accuracy(2.0**-8, 2.0**-134),
    "float8_e4m3fn": Accuracy(2.0**-4, 2.0**-10),
    "float8_e5m2": Accuracy(2.0**-3, 2.0**-17), "float4_e2m1fn": Accuracy(2.0**-2, 2.0**-2),
    "float8_e8m0fnu": Accuracy(2.0**-1, 2.0**-128),  # half a step up; rounded upwards, results may be a whole one off
}  # fmt: skip


def promised(function: str, dtype: str = "float32") -> Accuracy | None:
    """The accuracy of a function whose result is rounded to ``dtype`` (that rounding left out); None: correctly rounded."""
    if dtype == "float64":
        return ACCURACY_DOUBLE.get(function)
    found = ACCURACY.get(function)
    if found is None or dtype == "float32":
        return found
    unit = UNIT.get(dtype, Accuracy(0.0))
    return Accuracy(found.relative + unit.relative, found.absolute + unit.absolute)


#: Relative error of x^y per unit of |y|·max(1, |log2 x|): y·log2(x) by a logarithm with error 2^-22, and 2^-22 for the power.
POWER_STEP = 2.0**-22
#: In float64 the logarithm has some bits more: the error is 2^-52 and that per unit.
POWER_STEP_DOUBLE = 2.0**-59


def power_accuracy(product: float, dtype: str = "float32") -> Accuracy:
    """The accuracy of x^y; ``product`` is |y|·max(1, |log2 |x||).  The error of the exponent grows with it."""
    if dtype == "float64":
        return Accuracy(2.0**-52 + POWER_STEP_DOUBLE * product, LEAST)
    return Accuracy(POWER_STEP * (1.0 + product), TINY)
