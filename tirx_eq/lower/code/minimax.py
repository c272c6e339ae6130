"""Where the polynomials of :mod:`coefficients` come from: minimax approximations by the exchange method of Remez.

Everything is computed in decimal arithmetic of 60 digits, from series and the standard library's ``exp`` and ``ln``; no
coefficient is taken from elsewhere.  ``python -m tirx_eq.lower.code.minimax`` writes the table anew; the tests compare it and
measure each polynomial's error by themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from pathlib import Path

import numpy as np

DIGITS = 60
#: Points at which the error is looked at between two exchanges, per coefficient.
GRID = 24

Function = Callable[[Decimal], Decimal]


def series(z: Decimal, term: Callable[[int], Decimal]) -> Decimal:
    """The sum of ``term(k) * z^k`` until it no longer changes."""
    total, power, k = Decimal(0), Decimal(1), 0
    while True:
        step = term(k) * power
        total += step
        if k > 3 and abs(step) < Decimal(10) ** -(DIGITS - 5):
            return total
        power, k = power * z, k + 1


def factorial(n: int) -> Decimal:
    made = Decimal(1)
    for k in range(2, n + 1):
        made *= k
    return made


def arctangent(z: Decimal) -> Decimal:
    """atan(sqrt(z)) / sqrt(z), by halving the angle until the series converges quickly."""
    x, halvings = z.sqrt(), 0
    if x == 0:
        return Decimal(1)
    t = x
    while t > Decimal("0.1"):
        t = t / (1 + (1 + t * t).sqrt())
        halvings += 1
    return t * series(t * t, lambda k: Decimal((-1) ** k) / (2 * k + 1)) * 2**halvings / x


def pi() -> Decimal:
    return 4 * arctangent(Decimal(1))


def ln2() -> Decimal:
    return Decimal(2).ln()


def arcsine(z: Decimal) -> Decimal:
    """asin(x) / x for z = x^2."""
    x = z.sqrt()
    if x == 0:
        return Decimal(1)
    t = z / (1 - z)
    return arctangent(t) * t.sqrt() / x


#: Where u is 0 in the polynomial of the complementary error function.
MIDDLE = Decimal("2.5")


def erf_ratio(z: Decimal) -> Decimal:
    """erf(x) / x for z = x^2."""
    return 2 / pi().sqrt() * series(z, lambda k: Decimal((-1) ** k) / (factorial(k) * (2 * k + 1)))


def scaled_erfc(x: Decimal) -> Decimal:
    """e^(x^2)·(1 - erf x) for positive x, by the series of e^(x^2)·erf x, whose terms are all positive."""
    total = term = x
    k = 0
    while term > Decimal(10) ** -DIGITS:
        k += 1
        term = term * 2 * x * x / (2 * k + 1)
        total += term
    return (x * x).exp() - 2 / pi().sqrt() * total


@dataclass(frozen=True)
class Fit:
    """A polynomial of ``degree`` for ``function`` on low … high, with the least greatest error times ``weight``.

    ``bits`` is the size of the numbers that its coefficients are rounded to.
    """

    name: str
    function: Function
    degree: int
    low: str
    high: str
    weight: Function
    bits: int
    meaning: str



#: What is approximated; arguments called z are squares.
FITS: tuple[Fit, ...] = (
    Fit("EXP", lambda r: series(r, lambda k: 1 / factorial(k + 2)), 9, "-0.3466", "0.3466", lambda r: r * r, 64,
        "(e^r - 1 - r) / r^2"),
    Fit("EXP2", lambda r: series(r * ln2(), lambda k: 1 / factorial(k + 2)) * ln2() * ln2(), 9, "-0.5", "0.5",
        lambda r: r * r, 64, "(2^r - 1 - r ln 2) / r^2"),
    Fit("LOG", lambda z: series(z, lambda k: Decimal(1) / (2 * k + 3)), 7, "0", "0.02945", lambda z: z, 64,
        "(atanh(s) / s - 1) / z with z = s^2"),
    Fit("SIN", lambda z: series(z, lambda k: Decimal((-1) ** (k + 1)) / factorial(2 * k + 3)), 5, "0", "0.6169",
        lambda z: z, 64, "(sin(x) / x - 1) / z with z = x^2"),
    Fit("COS", lambda z: series(z, lambda k: Decimal((-1) ** k) / factorial(2 * k + 4)), 5, "0", "0.6169", lambda z: z * z, 64,
        "(cos(x) - 1 + z / 2) / z^2 with z = x^2"),
    Fit("ATAN", lambda z: (arctangent(z) - 1) / z if z else -1 / Decimal(3), 10, "0", "0.1716", lambda z: z, 64,
        "(atan(x) / x - 1) / z with z = x^2"),
    Fit("ASIN", lambda z: (arcsine(z) - 1) / z if z else 1 / Decimal(6), 12, "0", "0.25", lambda z: z, 64,
        "(asin(x) / x - 1) / z with z = x^2"),
    Fit("SINH", lambda z: series(z, lambda k: 1 / factorial(2 * k + 3)), 6, "0", "1", lambda z: z, 64,
        "(sinh(x) / x - 1) / z with z = x^2"),
    Fit("ERF", erf_ratio, 12, "0", "1", lambda z: Decimal(1), 64, "erf(x) / x with z = x^2"),
    Fit("ERFCX", lambda u: scaled_erfc(MIDDLE * (1 + u) / (1 - u)), 17, "-0.4286", "0.4118", lambda u: Decimal(1), 64,
        "e^(x^2)·(1 - erf x) with u = (x - 5/2) / (x + 5/2)"),
    Fit("SIN_F32", lambda z: series(z, lambda k: Decimal((-1) ** (k + 1)) / factorial(2 * k + 3)), 3, "0", "0.6169",
        lambda z: z, 32, "(sin(x) / x - 1) / z with z = x^2"),
    Fit("COS_F32", lambda z: series(z, lambda k: Decimal((-1) ** k) / factorial(2 * k + 4)), 2, "0", "0.6169",
        lambda z: z * z, 32, "(cos(x) - 1 + z / 2) / z^2 with z = x^2"),
    Fit("ATAN_F32", lambda z: (arctangent(z) - 1) / z if z else -1 / Decimal(3), 7, "0", "1", lambda z: z, 32,
        "(atan(x) / x - 1) / z with z = x^2"),
    Fit("ASIN_F32", lambda z: (arcsine(z) - 1) / z if z else 1 / Decimal(6), 4, "0", "0.25", lambda z: z, 32,
        "(asin(x) / x - 1) / z with z = x^2"),
    Fit("SINH_F32", lambda z: series(z, lambda k: 1 / factorial(2 * k + 3)), 3, "0", "1", lambda z: z, 32,
        "(sinh(x) / x - 1) / z with z = x^2"),
)  # fmt: skip


def evaluate(coefficients: Sequence[Decimal], x: Decimal) -> Decimal:
    """Horner's rule; the constant coefficient comes first."""
    value = Decimal(0)
    for c in reversed(coefficients):
        value = value * x + c
    return value


def _solve(rows: list[list[Decimal]]) -> list[Decimal]:
    """The solution of linear equations, each row with its right side last."""
    n = len(rows)
    for k in range(n):
        pivot = max(range(k, n), key=lambda r: abs(rows[r][k]))
        rows[k], rows[pivot] = rows[pivot], rows[k]
        for r in range(n):
            if r != k and rows[r][k]:
                factor = rows[r][k] / rows[k][k]
                rows[r] = [a - factor * b for a, b in zip(rows[r], rows[k])]
    return [rows[k][n] / rows[k][k] for k in range(n)]


def remez(fit: Fit) -> tuple[list[Decimal], Decimal]:
    """The minimax polynomial (constant coefficient first) and its greatest weighted error."""
    low, high, unknowns = Decimal(fit.low), Decimal(fit.high), fit.degree + 2
    count = GRID * unknowns
    # Chebyshev points, closer together near the ends, where extrema are.
    spread = [Decimal(float(np.cos(np.pi * (k + 0.5) / count))) for k in range(count)][::-1]
    grid = [low + (high - low) * (1 + s) / 2 for s in spread]
    exact = [fit.function(x) for x in grid]
    weight = [fit.weight(x) or Decimal("1e-30") for x in grid]
    points = [round((k + 0.5) * count / unknowns) for k in range(unknowns)]
    for _ in range(30):
        rows = []
        for k, at in enumerate(points):
            powers = [grid[at] ** j if j else Decimal(1) for j in range(fit.degree + 1)]
            # weight may change sign with its argument: the error alternates in what is weighted.
            rows.append([*powers, Decimal((-1) ** k) / weight[at], exact[at]])
        *coefficients, level = _solve(rows)
        errors = [(evaluate(coefficients, x) - y) * w for x, y, w in zip(grid, exact, weight)]
        points = _extrema(errors, unknowns)
        if max(map(abs, errors)) <= abs(level) * Decimal("1.001"):
            break
    return coefficients, max(map(abs, errors))


def _extrema(errors: Sequence[Decimal], count: int) -> list[int]:
    """The place of the largest error of each run of equal sign; the ``count`` neighbouring runs with the largest of them."""
    runs: list[int] = []
    for k, e in enumerate(errors):
        if runs and (errors[runs[-1]] > 0) == (e > 0):
            if abs(e) > abs(errors[runs[-1]]):
                runs[-1] = k
        else:
            runs.append(k)
    while len(runs) > count:
        runs.pop(0 if abs(errors[runs[0]]) < abs(errors[runs[-1]]) else -1)
    return runs


def rounded(value: Decimal, bits: int) -> float:
    """The nearest float64 or float32."""
    return float(value) if bits == 64 else float(np.float32(float(value)))


def split(value: Decimal, bits: Sequence[int]) -> tuple[float, ...]:
    """A number as a sum of floats of so many bits each."""
    parts = []
    for size in bits:
        exponent = 0 if not value else int((abs(value).ln() / ln2()).to_integral_value(rounding="ROUND_FLOOR")) + 1
        unit = Decimal(2) ** (exponent - size)
        part = (value / unit).to_integral_value() * unit
        parts.append(float(part))
        value -= part
    return tuple(parts)


def constants() -> dict[str, tuple[tuple[float, ...], str]]:
    """Numbers in several parts: name -> (parts, what they add up to)."""
    two = ln2()
    return {
        "LN2": (split(two, (42, 53)), "ln 2; multiples of the first part by exponents are exact"),
        "LG2": (split(two / Decimal(10).ln(), (42, 53)), "log10 2, likewise"),
        "TWO_LOG2_E": (split(2 / two, (53, 53)), "2 log2 e"),
        "TWO_LG_E": (split(2 / Decimal(10).ln(), (53, 53)), "2 log10 e"),
        "LOG2_10": (split(Decimal(10).ln() / two, (53, 53)), "log2 10"),
        "LN10": (split(Decimal(10).ln(), (53, 53)), "ln 10"),
        "HALF_PI": (split(pi() / 2, (53, 53, 53)), "pi / 2"),
        "HALF_PI_F32": (split(pi() / 2, (24, 24, 24)), "pi / 2 in parts of 24 bits"),
        "LOG2_E_F32": (split(1 / two, (24, 24)), "log2 e in parts of 24 bits"),
        "LN2_F32": (split(two, (24, 24)), "ln 2 in parts of 24 bits"),
    }


def table() -> str:
    """The text of :mod:`coefficients`."""
    lines = [
        '"""Polynomials and constants of the functions, written by ``python -m tirx_eq.lower.code.minimax``."""', "",
        "from __future__ import annotations", "",
    ]  # fmt: skip
    with localcontext() as context:
        context.prec = DIGITS
        for fit in FITS:
            coefficients, error = remez(fit)
            lines.append(f"#: {fit.meaning} on {fit.low} … {fit.high}; weighted error 2^{float(error.ln() / ln2()):.1f}.")
            lines += _tuple(fit.name, [rounded(c, fit.bits) for c in coefficients])
        for name, (parts, meaning) in constants().items():
            lines.append(f"#: {meaning}.")
            lines += _tuple(name, parts)
    return "\n".join(lines) + "\n"


def _tuple(name: str, values: Sequence[float]) -> list[str]:
    return [f"{name}: tuple[float, ...] = (", *(f"    {v!r}," for v in values), ")"]


if __name__ == "__main__":
    (Path(__file__).parent / "coefficients.py").write_text(table())
