"""PTX for functions of float64: argument reduction, a polynomial, reconstruction; no tables, no branches.

The double-precision unit adds, multiplies, divides and takes roots (PTX ISA 9.7.3); everything else is made of fma here.
Where a sum would lose bits that matter, its error is computed too (the second operand of a sum taken back out, the rest of a
product by fma) and added to a small term.  Polynomials are those of :mod:`coefficients`.  Accuracies are promises that the
tests check against decimal arithmetic of 50 digits: (:data:`tirx_eq.ir.accuracy.ACCURACY_DOUBLE`).
"""

from __future__ import annotations

from collections.abc import Sequence

from .coefficients import COS, EXP, EXP2, HALF_PI, LG2, LN2, LN10, LOG, LOG2_10, SIN, TWO_LG_E, TWO_LOG2_E

LOG2_E = TWO_LOG2_E[0] / 2
#: Exponents beyond this give infinity or zero whatever the fraction.
FAR = 1100.0
#: High word of sqrt(1/2): mantissas are brought to sqrt(1/2) … sqrt(2), so that logarithms near 1 lose nothing.
HALF_ROOT = 0x3FE6A09E
LEAST_NORMAL = 2.0**-1022
SCALE_UP = 2.0**54


def horner(result: str, x: str, coefficients: Sequence[float], kind: str = "f64") -> str:
    """The polynomial (constant coefficient first) of ``x`` into ``result``."""
    *rest, second, first = coefficients
    lines = [f"fma.rn.{kind} {result}{len(rest)} {x} {first!r} {second!r}"]
    for k in range(len(rest) - 1, -1, -1):
        lines.append(f"fma.rn.{kind} {result}{k} {result}{k + 1} {x} {rest[k]!r}")
    last, _, operands = lines[-1].partition(f" {result}0 ")
    return "; ".join([*lines[:-1], f"{last} {result} {operands}"])


def power_of_two(count: str, result: str) -> str:
    """2^count for an integer register, as a float64: its exponent is built in the high word."""
    return (
        f"add.s32 {result}e:b32 {count} 1023; shl.b32 {result}h:b32 {result}e:b32 20; mov.b32 {result}l:b32 0; "
        f"mov.b64 {result} {{{result}l:b32,{result}h:b32}}"
    )


def scaled(value: str, whole: str, result: str) -> str:
    """value · 2^whole in two factors, so that only the last product is rounded, also where it is subnormal."""
    return (
        f"cvt.rni.s32.f64 n:b32 {whole}; shr.s32 n1:b32 n 1; sub.s32 n2:b32 n n1; {power_of_two('n1', 'f')}; "
        f"{power_of_two('n2', 'g')}; mul.rn.f64 {result}f {value} f; mul.rn.f64 {result} {result}f g"
    )


def _bounded(argument: str, result: str, limit: float = FAR) -> str:
    return f"max.f64 {result}0 {argument} {-limit!r}; min.f64 {result} {result}0 {limit!r}"


def exp_reduced(argument: str, scale: float, parts: Sequence[float]) -> str:
    """k = round(scale · argument), r = argument - k · (parts), q = (e^r - 1 - r) / r^2."""
    return (
        f"mul.rn.f64 w {argument} {scale!r}; cvt.rni.f64.f64 k w; fma.rn.f64 v k {-parts[0]!r} {argument}; "
        f"fma.rn.f64 r k {-parts[1]!r} v; {horner('q', 'r', EXP)}"
    )


def exp_of(argument: str, result: str) -> str:
    """e^argument; NaN stays NaN."""
    return (
        f"{_bounded(argument, 'x')}; {exp_reduced('x', LOG2_E, LN2)}; fma.rn.f64 p1 q r 1.0; fma.rn.f64 p p1 r 1.0; "
        f"{scaled('p', 'k', 'm')}; setp.nan.f64 broken:pred {argument} {argument}; selp.f64 {result} {argument} m broken"
    )


def _exp2() -> str:
    return (
        f"{_bounded('a', 'x')}; cvt.rni.f64.f64 k x; sub.rn.f64 r x k; {horner('q', 'r', EXP2)}; "
        f"fma.rn.f64 p1 q r {LN2[0] + LN2[1]!r}; fma.rn.f64 p p1 r 1.0; {scaled('p', 'k', 'm')}; "
        "setp.nan.f64 broken:pred a a; selp.f64 d a m broken"
    )


def _exp10() -> str:
    """10^a = 2^k · e^r with k = round(a log2 10) and r = (a - k log10 2) ln 10; the product is taken in two parts."""
    return (
        f"{_bounded('a', 'x', 400.0)}; mul.rn.f64 w x {LOG2_10[0]!r}; cvt.rni.f64.f64 k w; fma.rn.f64 v k {-LG2[0]!r} x; "
        f"fma.rn.f64 u k {-LG2[1]!r} v; mul.rn.f64 r u {LN10[0]!r}; neg.f64 rn r; fma.rn.f64 e1 u {LN10[0]!r} rn; "
        f"fma.rn.f64 e u {LN10[1]!r} e1; {horner('q', 'r', EXP)}; mul.rn.f64 r2 r r; fma.rn.f64 e2 q r2 e; "
        f"add.rn.f64 e3 e2 r; add.rn.f64 p e3 1.0; {scaled('p', 'k', 'm')}; "
        "setp.nan.f64 broken:pred a a; selp.f64 d a m broken"
    )


def mantissa(argument: str) -> str:
    """k and m with argument = m · 2^k, sqrt(1/2) <= m < sqrt(2), for positive arguments, subnormal ones too."""
    return (
        f"setp.lt.f64 small:pred {argument} {LEAST_NORMAL!r}; mul.rn.f64 y1 {argument} {SCALE_UP!r}; "
        f"selp.f64 y y1 {argument} small; mov.b64 {{lo:b32,hi:b32}} y; sub.s32 h1:b32 hi {HALF_ROOT}; shr.s32 n1:b32 h1 20; "
        "shl.b32 n2:b32 n1 20; sub.s32 h2:b32 hi n2; mov.b64 m {lo,h2}; sub.s32 n3:b32 n1 54; selp.b32 n:b32 n3 n1 small; "
        "cvt.rn.f64.s32 k n"
    )


#: s + e = (m - 1) / (m + 1) far beyond 53 bits, and w = e + s · z · R(z): log m = 2 (s + w), with |w| small against s.
_ATANH = (
    "sub.rn.f64 f m 1.0; add.rn.f64 u m 1.0; sub.rn.f64 u1 u 1.0; sub.rn.f64 u2 m u1; rcp.rn.f64 i u; mul.rn.f64 s f i; "
    "neg.f64 sn s; fma.rn.f64 e1 sn u f; fma.rn.f64 e2 sn u2 e1; mul.rn.f64 e e2 i; mul.rn.f64 z s s; "
    f"{horner('p', 'z', LOG)}; mul.rn.f64 zp z p; fma.rn.f64 w s zp e"
)


def _logarithm(argument: str, unit: Sequence[float], factor: Sequence[float]) -> str:
    """big and rest: the logarithm of a positive number as a sum; ``unit`` is that of 2, ``factor`` twice that of e."""
    return (
        f"{mantissa(argument)}; {_ATANH}; mul.rn.f64 t s {factor[0]!r}; neg.f64 tn t; fma.rn.f64 t1 s {factor[0]!r} tn; "
        f"fma.rn.f64 t2 s {factor[1]!r} t1; fma.rn.f64 t3 w {factor[0]!r} t2; mul.rn.f64 whole k {unit[0]!r}; "
        "add.rn.f64 big whole t; sub.rn.f64 part big whole; sub.rn.f64 lost t part; add.rn.f64 less t3 lost; "
        f"fma.rn.f64 rest k {unit[1]!r} less"
    )


#: 0 has the logarithm -inf, negative numbers none, infinity and NaN are their own.
_EDGES = (
    "setp.eq.f64 zero:pred {x} 0.0; selp.f64 o1 -inf o zero; setp.lt.f64 below:pred {x} 0.0; selp.f64 o2 nan o1 below; "
    "setp.geu.f64 top:pred {x} inf"
)


def _log(unit: Sequence[float], factor: Sequence[float]) -> str:
    return f"{_logarithm('a', unit, factor)}; add.rn.f64 o big rest; {_EDGES.format(x='a')}; selp.f64 d a o2 top"


#: log(1 + a): the logarithm of the rounded sum, and what the sum leaves out over it; of 0 it is that zero.
LOG1P = (
    "add.rn.f64 g a 1.0; sub.rn.f64 g1 g 1.0; sub.rn.f64 g2 a g1; sub.rn.f64 g3 g g1; sub.rn.f64 g4 1.0 g3; "
    f"add.rn.f64 g5 g2 g4; {_logarithm('g', LN2, (2.0, 0.0))}; div.rn.f64 g6 g5 g; add.rn.f64 g7 rest g6; add.rn.f64 o big g7; "
    f"{_EDGES.format(x='g')}; selp.f64 o3 g o2 top; setp.eq.f64 nought:pred a 0.0; selp.f64 d a o3 nought"
)


def _sign_flipped(value: str, count: str, result: str) -> str:
    """The value with its sign changed where bit 1 of ``count`` is set."""
    return (
        f"and.b32 bit:b32 {count} 2; setp.ne.s32 turn:pred bit 0; neg.f64 {value}n {value}; "
        f"selp.f64 {result} {value}n {value} turn"
    )


#: a = quadrants · pi/2 + (x + l), the remainder in two parts; exact to 2^-106 or so for |a| <= 2^30.
_QUADRANT = (
    f"mul.rn.f64 y a {2 / 3.141592653589793!r}; cvt.rni.f64.f64 k y; neg.f64 kn k; fma.rn.f64 r kn {HALF_PI[0]!r} a; "
    f"mul.rn.f64 w k {HALF_PI[1]!r}; neg.f64 wn w; fma.rn.f64 w1 k {HALF_PI[1]!r} wn; sub.rn.f64 x r w; sub.rn.f64 x1 x r; "
    "sub.rn.f64 x2 x x1; sub.rn.f64 x3 r x2; add.rn.f64 x4 w x1; sub.rn.f64 x5 x3 x4; sub.rn.f64 x6 x5 w1; "
    f"fma.rn.f64 l kn {HALF_PI[2]!r} x6; cvt.rni.s32.f64 n:b32 k; mul.rn.f64 z x x; "
    # sine of the remainder
    f"{horner('sp', 'z', SIN)}; mul.rn.f64 s1 z sp; fma.rn.f64 s2 z -0.5 1.0; mul.rn.f64 s3 l s2; fma.rn.f64 s4 s1 x s3; "
    "add.rn.f64 sine x s4; "
    # cosine: 1 - z/2 with what it leaves out
    f"{horner('cp', 'z', COS)}; fma.rn.f64 u z -0.5 1.0; sub.rn.f64 u1 u 1.0; fma.rn.f64 u2 z -0.5 0.0; sub.rn.f64 u3 u2 u1; "
    "mul.rn.f64 c1 z cp; neg.f64 xn x; fma.rn.f64 c2 xn l u3; fma.rn.f64 c3 c1 z c2; add.rn.f64 cosine u c3"
)
_SIN = (
    f"{_QUADRANT}; and.b32 odd:b32 n 1; setp.ne.s32 other:pred odd 0; selp.f64 v cosine sine other; "
    f"{_sign_flipped('v', 'n', 'o')}; setp.eq.f64 nought:pred a 0.0; selp.f64 d a o nought"
)
_COS = (
    f"{_QUADRANT}; and.b32 odd:b32 n 1; setp.ne.s32 other:pred odd 0; selp.f64 v sine cosine other; add.s32 n1:b32 n 1; "
    + _sign_flipped("v", "n1", "d")
)
_TAN = (
    f"{_QUADRANT}; and.b32 odd:b32 n 1; setp.ne.s32 other:pred odd 0; selp.f64 above cosine sine other; "
    "selp.f64 under sine cosine other; div.rn.f64 v above under; neg.f64 vn v; selp.f64 o vn v other; "
    "setp.eq.f64 nought:pred a 0.0; selp.f64 d a o nought"
)
#: tanh |a| = t / (t + 2) with t = e^(2|a|) - 1, which is formed without loss where it is small.
_TANH = (
    "abs.f64 a1 a; add.rn.f64 a2 a1 a1; min.f64 x a2 44.0; "
    f"{exp_reduced('x', LOG2_E, LN2)}; mul.rn.f64 r2 r r; fma.rn.f64 e q r2 r; cvt.rni.s32.f64 n:b32 k; "
    f"{power_of_two('n', 'g')}; sub.rn.f64 g1 g 1.0; fma.rn.f64 t g e g1; add.rn.f64 t2 t 2.0; div.rn.f64 o t t2; "
    "copysign.f64 o2 a o; setp.nan.f64 broken:pred a a; selp.f64 d a o2 broken"
)
#: e^-|a|, which never overflows; the logistic function is 1 or it, over 1 + it.
_LOGISTIC = (
    f"abs.f64 a1 a; neg.f64 a2 a1; {exp_of('a2', 'ea')}; add.rn.f64 under ea 1.0; setp.lt.f64 below:pred a 0.0; "
    "selp.f64 above ea 1.0 below"
)
#: |a|^b = 2^(b log2 |a|), logarithm and product in two parts each; then the cases that C lists.
_POWER = (
    f"abs.f64 a1 a; {_logarithm('a1', (1.0, 0.0), TWO_LOG2_E)}; add.rn.f64 h big rest; sub.rn.f64 i1 h big; "
    "sub.rn.f64 i2 rest i1; mul.rn.f64 p0 b h; neg.f64 pn p0; fma.rn.f64 p1 b h pn; fma.rn.f64 p2 b i2 p1; "
    f"{_bounded('p0', 'x')}; cvt.rni.f64.f64 j x; sub.rn.f64 r0 x j; setp.eq.f64 inside:pred x p0; selp.f64 p3 p2 0.0 inside; "
    f"add.rn.f64 r r0 p3; {horner('q', 'r', EXP2)}; fma.rn.f64 v1 q r {LN2[0] + LN2[1]!r}; fma.rn.f64 v v1 r 1.0; "
    f"{scaled('v', 'j', 'o')}; "
    # 0 and infinity to a power
    "setp.eq.f64 zero:pred a1 0.0; setp.eq.f64 endless:pred a1 inf; setp.lt.f64 under:pred b 0.0; "
    "selp.f64 z1 inf 0.0 under; selp.f64 z2 0.0 inf under; selp.f64 o1 z1 o zero; selp.f64 o2 z2 o1 endless; "
    # infinity as the exponent: of 1 the power is 1
    "abs.f64 b1 b; setp.eq.f64 far:pred b1 inf; setp.gt.f64 above:pred a1 1.0; selp.f64 y1 z2 z1 above; "
    "selp.f64 o3 y1 o2 far; setp.eq.f64 unit:pred a1 1.0; selp.f64 o4 1.0 o3 unit; "
    # the sign for odd exponents; negative numbers have no broken powers
    "cvt.rzi.f64.f64 b2 b; setp.neu.f64 broken:pred b2 b; mul.rn.f64 b3 b 0.5; cvt.rzi.f64.f64 b4 b3; "
    "setp.neu.f64 odd:pred b4 b3; copysign.f64 o5 a o4; selp.f64 o6 o5 o4 odd; selp.f64 o7 o4 o6 broken; "
    "setp.lt.and.f64 below:pred a 0.0 broken; setp.gt.and.f64 bad:pred a -inf below; selp.f64 o8 nan o7 bad; "
    "setp.nan.f64 lost1:pred a b; selp.f64 o9 nan o8 lost1; setp.eq.f64 one:pred a 1.0; setp.eq.or.f64 sure:pred b 0.0 one; "
    "selp.f64 d 1.0 o9 sure"
)

#: Function -> recipe (see :mod:`recipes`) in float64.
DOUBLE: dict[str, str] = {
    "exp": exp_of("a", "d"), "exp2": _exp2(), "exp10": _exp10(),
    "log": _log(LN2, (2.0, 0.0)), "log2": _log((1.0, 0.0), TWO_LOG2_E), "log10": _log(LG2, TWO_LG_E), "log1p": LOG1P,
    "sin": _SIN, "cos": _COS, "tan": _TAN, "tanh": _TANH, "rsqrt": "sqrt.rn.f64 t a; rcp.rn.f64 d t",
    "sigmoid": f"{_LOGISTIC}; div.rn.f64 d above under",
    "silu": f"{_LOGISTIC}; mul.rn.f64 t a above; div.rn.f64 d t under",
    "pow": _POWER,
}  # fmt: skip
