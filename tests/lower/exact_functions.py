"""Functions to 45 digits, from the standard library's decimal arithmetic and series: what float64 results are held against."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from decimal import Decimal, localcontext
from functools import cache

DIGITS = 45
TWO = Decimal(2)


@cache
def pi() -> Decimal:
    """By Machin's formula, to some digits more than remainders of large arguments need."""
    with localcontext() as context:
        context.prec = DIGITS + 30

        def atan_of_inverse(n: int) -> Decimal:
            total, power, k = Decimal(0), 1 / Decimal(n), 0
            while abs(power) > Decimal(10) ** -(DIGITS + 28):
                total += power / (2 * k + 1) * (-1) ** k
                power, k = power / (n * n), k + 1
            return total

        return 16 * atan_of_inverse(5) - 4 * atan_of_inverse(239)


def _sine_cosine(x: Decimal) -> tuple[Decimal, Decimal]:
    with localcontext() as context:
        context.prec = DIGITS + 25
        turns = (x / (2 * pi())).to_integral_value()
        r = x - turns * 2 * pi()
        sine, cosine, term = Decimal(0), Decimal(0), Decimal(1)
        k = 0
        while k < 6 or abs(term) > Decimal(10) ** -(DIGITS + 20):
            if k % 2:
                sine += term * (-1) ** (k // 2)
            else:
                cosine += term * (-1) ** (k // 2)
            k += 1
            term = term * r / k
    return sine, cosine


def _exp(x: Decimal) -> Decimal:
    """e^x; what is far beyond any float64 is cut there."""
    return max(min(x, Decimal(20_000)), Decimal(-20_000)).exp()


def _power(x: Decimal, y: Decimal) -> Decimal:
    sign = -1 if x < 0 and y % 2 else 1
    return sign * _exp(y * abs(x).ln())


def _tanh(x: Decimal) -> Decimal:
    if abs(x) < Decimal("1e-8"):
        return x - x**3 / 3 + 2 * x**5 / 15
    grown = _exp(2 * x)
    return (grown - 1) / (grown + 1)


def _log1p(x: Decimal) -> Decimal:
    if abs(x) < Decimal("1e-12"):
        return x - x**2 / 2 + x**3 / 3 - x**4 / 4
    return (1 + x).ln()


def _expm1(x: Decimal) -> Decimal:
    return x + x * x / 2 + x**3 / 6 if abs(x) < Decimal("1e-15") else _exp(x) - 1


def _cbrt(x: Decimal) -> Decimal:
    return (abs(x).ln() / 3).exp().copy_sign(x) if x else x


def _atan(x: Decimal) -> Decimal:
    """The angle, halved until its series converges quickly."""
    t, halvings = abs(x), 0
    while t > Decimal("0.05"):
        t, halvings = t / (1 + (1 + t * t).sqrt()), halvings + 1
    total, power, k = Decimal(0), t, 0
    while abs(power) > abs(total) * Decimal(10) ** -(DIGITS + 5):
        total += power / (2 * k + 1) * (-1) ** k
        power, k = power * t * t, k + 1
    return (total * 2**halvings).copy_sign(x)


def _atan2(y: Decimal, x: Decimal) -> Decimal:
    angle = _atan(y / x) if x else (pi() / 2).copy_sign(y)
    return angle if x >= 0 else angle + pi().copy_sign(y)


def _asin(x: Decimal) -> Decimal:
    return _atan(x / ((1 - x) * (1 + x)).sqrt()) if abs(x) != 1 else (pi() / 2).copy_sign(x)


def _acos(x: Decimal) -> Decimal:
    return 2 * _atan(((1 - x) / (1 + x)).sqrt()) if x > -1 else pi()


def _sinh(x: Decimal) -> Decimal:
    if abs(x) > Decimal("1e-3"):
        return (_exp(x) - _exp(-x)) / 2
    return sum((x ** (2 * k + 1) / math.factorial(2 * k + 1) for k in range(9)), Decimal(0))


def _asinh(x: Decimal) -> Decimal:
    with localcontext() as context:
        context.prec = 3 * DIGITS
        return x if abs(x) < Decimal("1e-60") else (abs(x) + (x * x + 1).sqrt()).ln().copy_sign(x)


def _acosh(x: Decimal) -> Decimal:
    with localcontext() as context:
        context.prec = 3 * DIGITS
        return (x + (x * x - 1).sqrt()).ln()


def _atanh(x: Decimal) -> Decimal:
    with localcontext() as context:
        context.prec = 3 * DIGITS
        if abs(x) == 1:
            return Decimal("Infinity").copy_sign(x)
        return x if abs(x) < Decimal("1e-60") else ((1 + x) / (1 - x)).ln() / 2


def _erf(x: Decimal) -> Decimal:
    if abs(x) > 12:
        return Decimal(1).copy_sign(x)
    with localcontext() as context:
        context.prec = 2 * DIGITS
        total = term = x
        k = 0
        while abs(term) > abs(total) * Decimal(10) ** -DIGITS:
            k += 1
            term = term * 2 * x * x / (2 * k + 1)
            total += term
        return total * 2 / pi().sqrt() * (-x * x).exp()


FUNCTIONS: dict[str, Callable[..., Decimal]] = {
    "exp": _exp, "exp2": lambda x: _exp(x * TWO.ln()), "exp10": lambda x: _exp(x * Decimal(10).ln()),
    "log": lambda x: x.ln(), "log2": lambda x: x.ln() / TWO.ln(), "log10": lambda x: x.log10(), "log1p": _log1p,
    "sin": lambda x: _sine_cosine(x)[0], "cos": lambda x: _sine_cosine(x)[1],
    "tan": lambda x: _sine_cosine(x)[0] / _sine_cosine(x)[1], "tanh": _tanh,
    "rsqrt": lambda x: 1 / x.sqrt(), "reciprocal": lambda x: 1 / x, "sqrt": lambda x: x.sqrt(),
    "hypot": lambda x, y: (x * x + y * y).sqrt(),
    "sigmoid": lambda x: 1 / (1 + _exp(-x)), "silu": lambda x: x / (1 + _exp(-x)), "pow": _power,
    "atan": _atan, "atan2": _atan2, "asin": _asin, "acos": _acos, "sinh": _sinh, "cosh": lambda x: (_exp(x) + _exp(-x)) / 2,
    "erf": _erf, "asinh": _asinh, "acosh": _acosh, "atanh": _atanh,
    "expm1": _expm1, "cbrt": _cbrt,
}  # fmt: skip


def error(function: str, got: float, *arguments: float) -> tuple[float, float]:
    """(|got - exact|, |exact|) for finite arguments; the exact value may be beyond float64's range (then it is infinite)."""
    with localcontext() as context:
        context.prec = DIGITS
        context.Emax, context.Emin = 10**8, -(10**8)
        exact = FUNCTIONS[function](*(Decimal(a) for a in arguments))
        largest = Decimal(sys.float_info.max)
        if math.isinf(got):
            ends = abs(exact) >= largest * (1 + Decimal(2) ** -54) and (exact > 0) == (got > 0)
            return (0.0 if ends else math.inf), math.inf
        return float(abs(Decimal(got) - exact)), float(abs(exact)) if abs(exact) < largest else math.inf
