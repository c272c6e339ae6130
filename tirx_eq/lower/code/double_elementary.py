"""PTX for circular, hyperbolic and other functions of float64 that :mod:`double` hasn't: the same means.

One division at most brings an argument into a polynomial's range; selections instead of branches choose the case.  ``fmod`` is
exact: every one of its steps is.
"""

from __future__ import annotations

import re

from .coefficients import ASIN, ATAN, ERF, ERFCX, HALF_PI, LN2, SINH
from .double import DOUBLE, LEAST_NORMAL, LOG1P, LOG2_E, SCALE_UP, exp_reduced, horner, mantissa, power_of_two, scaled

_HALF = (HALF_PI[0], HALF_PI[1])
_WHOLE = (2 * HALF_PI[0], 2 * HALF_PI[1])
_QUARTER = (HALF_PI[0] / 2, HALF_PI[1] / 2)
#: tan(pi/8) and its inverse, between which an angle is taken from pi/4.
LOW, HIGH = 0.41421356237309503, 2.414213562373095


def _odd(name: str, x: str, coefficients: tuple[float, ...], z: str = "z") -> str:
    """x + x·z·P(z) into ``name``, where z = x^2 is there."""
    return f"{horner('p', z, coefficients)}; mul.rn.f64 zp {z} p; fma.rn.f64 {name} zp {x} {x}"


def _taken_from(result: str, parts: tuple[float, float], value: str) -> str:
    """A constant in two parts less a value."""
    return f"sub.rn.f64 {result}0 {parts[0]!r} {value}; add.rn.f64 {result} {result}0 {parts[1]!r}"


#: The angle v of m >= 0: 0, pi/4 or pi/2 and that of m, (m - 1) / (m + 1) or -1 / m.
_ANGLE = (
    f"setp.gt.f64 mid:pred m {LOW!r}; setp.gt.f64 far:pred m {HIGH!r}; sub.rn.f64 u0 m 1.0; add.rn.f64 l0 m 1.0; "
    "selp.f64 u1 u0 m mid; selp.f64 l1 l0 1.0 mid; selp.f64 u -1.0 u1 far; selp.f64 l m l1 far; div.rn.f64 x u l; "
    f"mul.rn.f64 z x x; {_odd('y', 'x', ATAN)}; selp.f64 h1 {_QUARTER[0]!r} 0.0 mid; selp.f64 h {_HALF[0]!r} h1 far; "
    f"selp.f64 r1 {_QUARTER[1]!r} 0.0 mid; selp.f64 r {_HALF[1]!r} r1 far; add.rn.f64 y1 y r; add.rn.f64 v h y1"
)
_ATAN = f"abs.f64 m a; {_ANGLE}; copysign.f64 o a v; setp.eq.f64 nought:pred a 0.0; selp.f64 d a o nought"
#: The angle of (b, a): that of the smaller over the larger magnitude, then mirrored to where the signs say.
_ATAN2 = (
    "abs.f64 ya a; abs.f64 xa b; max.f64 large xa ya; min.f64 less xa ya; div.rn.f64 q0 less large; "
    "setp.eq.f64 same:pred less large; selp.f64 q1 1.0 q0 same; setp.eq.f64 zero:pred large 0.0; selp.f64 m 0.0 q1 zero; "
    f"{_ANGLE}; setp.gt.f64 steep:pred ya xa; {_taken_from('s', _HALF, 'v')}; selp.f64 t s v steep; "
    f"copysign.f64 side b 1.0; setp.lt.f64 left:pred side 0.0; {_taken_from('w', _WHOLE, 't')}; selp.f64 o1 w t left; "
    "copysign.f64 o a o1; setp.nan.f64 lost:pred a b; selp.f64 d nan o lost"
)
#: Beyond 1/2: asin m = pi/2 - 2 asin sqrt((1 - m) / 2); of numbers beyond 1 there is no root.
_ARC = (
    "abs.f64 m a; setp.gt.f64 big:pred m 0.5; fma.rn.f64 h m -0.5 0.5; sqrt.rn.f64 s h; selp.f64 x s m big; "
    f"mul.rn.f64 z0 m m; selp.f64 z h z0 big; {_odd('y', 'x', ASIN)}; add.rn.f64 y2 y y"
)
_ASIN = f"{_ARC}; {_taken_from('w', _HALF, 'y2')}; selp.f64 v w y big; copysign.f64 d a v"
_ACOS = (
    f"{_ARC}; copysign.f64 ys a y; {_taken_from('near', _HALF, 'ys')}; {_taken_from('far', _WHOLE, 'y2')}; "
    "setp.lt.f64 left:pred a 0.0; selp.f64 end far y2 left; selp.f64 d end near big"
)
#: half = e^|a| / 2, whose exponent is one less: it is finite where e^|a| isn't any more; i = 1 / half.
_HALF_POWER = (
    f"abs.f64 m a; min.f64 t m 720.0; {exp_reduced('t', LOG2_E, LN2)}; fma.rn.f64 e1 q r 1.0; fma.rn.f64 pp e1 r 1.0; "
    f"sub.rn.f64 k1 k 1.0; {scaled('pp', 'k1', 'half')}; rcp.rn.f64 i half; setp.nan.f64 lost:pred a a"
)
_SINH = (
    f"{_HALF_POWER}; fma.rn.f64 long i -0.25 half; mul.rn.f64 z m m; {_odd('short', 'm', SINH)}; "
    "setp.lt.f64 small:pred m 1.0; selp.f64 v1 short long small; copysign.f64 o a v1; selp.f64 d a o lost"
)
_COSH = f"{_HALF_POWER}; fma.rn.f64 o i 0.25 half; selp.f64 d a o lost"
#: x·P(x^2) up to 1; beyond, 1 - e^(-x^2)·Q(u), with u = (x - 5/2) / (x + 5/2); from 6 on nothing of that is left.
_ERF = (
    f"abs.f64 m a; min.f64 t m 6.0; mul.rn.f64 z t t; {horner('near', 'z', ERF)}; mul.rn.f64 v0 m near; sub.rn.f64 u0 t 2.5; "
    f"add.rn.f64 l0 t 2.5; div.rn.f64 u u0 l0; {horner('g', 'u', ERFCX)}; neg.f64 zn z; {exp_reduced('zn', LOG2_E, LN2)}; "
    f"fma.rn.f64 e1 q r 1.0; fma.rn.f64 pp e1 r 1.0; cvt.rni.s32.f64 n:b32 k; {power_of_two('n', 'f')}; mul.rn.f64 e pp f; "
    "mul.rn.f64 c g e; sub.rn.f64 v1 1.0 c; setp.gt.f64 big:pred m 1.0; selp.f64 v2 v1 v0 big; copysign.f64 o a v2; "
    "setp.nan.f64 lost:pred a a; selp.f64 d a o lost"
)
#: From here on a square is nothing beside a fourth power's root: asinh m = acosh m = log 2m.
LARGE = 2.0**60


def _log1p_of(argument: str, result: str) -> str:
    return re.sub(r"\b([ad])\b", lambda word: argument if word[0] == "a" else result, LOG1P)


#: log(1 + w), with w = e^|…| - 1 formed without loss where it is small.
_ASINH = (
    "abs.f64 ma a; mul.rn.f64 sq ma ma; add.rn.f64 sq1 sq 1.0; sqrt.rn.f64 root sq1; add.rn.f64 over root 1.0; "
    f"div.rn.f64 part1 sq over; add.rn.f64 w1 ma part1; setp.gt.f64 big1:pred ma {LARGE!r}; selp.f64 w2 ma w1 big1; "
    f"{_log1p_of('w2', 'l1')}; selp.f64 more {LN2[0] + LN2[1]!r} 0.0 big1; add.rn.f64 v1 l1 more; copysign.f64 d a v1"
)
_ACOSH = (
    "sub.rn.f64 ma a 1.0; add.rn.f64 ma2 ma 2.0; mul.rn.f64 sq ma ma2; sqrt.rn.f64 root sq; add.rn.f64 w1 ma root; "
    f"setp.gt.f64 big1:pred a {LARGE!r}; selp.f64 w2 a w1 big1; {_log1p_of('w2', 'l1')}; "
    f"selp.f64 more {LN2[0] + LN2[1]!r} 0.0 big1; add.rn.f64 v1 l1 more; setp.lt.f64 under:pred a 1.0; selp.f64 d nan v1 under"
)
_ATANH = (
    "abs.f64 ma a; sub.rn.f64 left1 1.0 ma; add.rn.f64 twice ma ma; div.rn.f64 w2 twice left1; "
    f"{_log1p_of('w2', 'l1')}; mul.rn.f64 v1 l1 0.5; copysign.f64 v2 a v1; setp.gt.f64 out:pred ma 1.0; selp.f64 d nan v2 out"
)
#: e^a - 1 = 2^k·(e^r - 1) + (2^k - 1), both halved so that 2^k is a number wherever the sum is.
_EXPM1 = (
    f"max.f64 x0 a -60.0; min.f64 x x0 710.0; {exp_reduced('x', LOG2_E, LN2)}; mul.rn.f64 r2 r r; fma.rn.f64 e q r2 r; "
    f"cvt.rni.s32.f64 n:b32 k; sub.s32 n1:b32 n 1; {power_of_two('n1', 'g')}; sub.rn.f64 h g 0.5; fma.rn.f64 t g e h; "
    "add.rn.f64 o t t; abs.f64 ma a; setp.lt.f64 small:pred ma 5.551115123125783e-17; selp.f64 o1 a o small; "
    "setp.nan.f64 broken:pred a a; selp.f64 d a o1 broken"
)
#: The root of the mantissa, brought to 2^-1.5 … 2^1.5 so that three divides the exponent: to 21 bits by logarithm and power,
#: then two steps of Newton's, the last from the exact remainder.
_CBRT = (
    f"abs.f64 ma a; {mantissa('ma')}; mul.rn.f64 k3 k {1 / 3!r}; cvt.rni.f64.f64 j k3; fma.rn.f64 left j -3.0 k; "
    f"cvt.rni.s32.f64 nl:b32 left; {power_of_two('nl', 'f')}; mul.rn.f64 w m f; cvt.rn.f32.f64 s0:f32 w; "
    "lg2.approx.f32 s1:f32 s0; mul.rn.f32 s2:f32 s1 0.3333333432674408; ex2.approx.ftz.f32 s3:f32 s2; cvt.f64.f32 y0 s3; "
    "mul.rn.f64 t y0 y0; neg.f64 tn t; fma.rn.f64 r tn y0 w; mul.rn.f64 t3 t 3.0; div.rn.f64 c r t3; add.rn.f64 y1 y0 c; "
    "mul.rn.f64 v y1 y1; neg.f64 vn v; fma.rn.f64 low y1 y1 vn; fma.rn.f64 q vn y1 w; neg.f64 ln low; fma.rn.f64 q1 ln y1 q; "
    f"div.rn.f64 c1 q1 t3; add.rn.f64 y2 y1 c1; cvt.rni.s32.f64 nj:b32 j; {power_of_two('nj', 'g')}; mul.rn.f64 o y2 g; "
    "copysign.f64 o1 a o; setp.eq.f64 zero:pred a 0.0; selp.f64 o2 a o1 zero; setp.geu.f64 top1:pred ma inf; "
    "selp.f64 d a o2 top1"
)
#: Bits of the quotient that one step of fmod takes off; exponents differ by 2098 at most.
STEP, STEPS = 49, 42


def _apart(x: str, s: str) -> str:
    """m and e of a positive number: m · 2^(e - 1023), 1 <= m < 2; subnormal ones too."""
    return (
        f"setp.lt.f64 small{s}:pred {x} {LEAST_NORMAL!r}; mul.rn.f64 y{s} {x} {SCALE_UP!r}; selp.f64 z{s} y{s} {x} small{s}; "
        f"mov.b64 {{lo{s}:b32,hi{s}:b32}} z{s}; shr.u32 e0{s}:b32 hi{s} 20; and.b32 h{s}:b32 hi{s} {(1 << 20) - 1}; "
        f"or.b32 g{s}:b32 h{s} {1023 << 20}; mov.b64 m{s} {{lo{s},g{s}}}; sub.s32 e1{s}:b32 e0{s} 54; "
        f"selp.b32 e{s}:b32 e1{s} e0{s} small{s}"
    )


def _fmod() -> str:
    """The remainder r of |a|'s mantissa, shifted up by 49 bits at a time, by |b|'s mantissa y.

    The quotient is rounded to the nearest integer, with an error below 1/4: so |r| stays below 3/4·y, is a multiple of y's last
    bit, and each fma is exact.  A step beyond the last leaves r as it is, but for a multiple of y.
    """
    lines = [
        f"abs.f64 m a; abs.f64 n b; {_apart('m', 'a')}; {_apart('n', 'b')}; sub.s32 apart:b32 ea eb; max.s32 c:b32 apart 0; "
        f"div.s32 whole:b32 c {STEP}; mul.lo.s32 most:b32 whole {STEP}; sub.s32 first:b32 c most; "
        f"{power_of_two('first', 'f')}; "
        "rcp.rn.f64 i0 mb; neg.f64 i i0; mul.rn.f64 s ma f; mul.rn.f64 t s i; cvt.rni.f64.f64 q t; fma.rn.f64 r0 q mb s"
    ]
    for k in range(STEPS):
        lines.append(
            f"setp.gt.s32 on{k}:pred whole {k}; selp.f64 f{k} {2.0**STEP!r} 1.0 on{k}; mul.rn.f64 s{k} r{k} f{k}; "
            f"mul.rn.f64 t{k} s{k} i; cvt.rni.f64.f64 q{k} t{k}; fma.rn.f64 r{k + 1} q{k} mb s{k}"
        )
    lines.append(
        f"add.rn.f64 up r{STEPS} mb; setp.lt.f64 below:pred r{STEPS} 0.0; selp.f64 r up r{STEPS} below; "
        f"sub.s32 e:b32 eb 1023; shr.s32 e1:b32 e 1; sub.s32 e2:b32 e e1; {power_of_two('e1', 'g')}; "
        f"{power_of_two('e2', 'h')}; "
        "mul.rn.f64 o0 r g; mul.rn.f64 o1 o0 h; setp.lt.f64 less:pred m n; selp.f64 o2 m o1 less; copysign.f64 o3 a o2; "
        "setp.eq.f64 endless:pred n inf; selp.f64 o4 a o3 endless; setp.eq.f64 zero:pred n 0.0; selp.f64 o5 nan o4 zero; "
        "setp.geu.f64 top:pred m inf; selp.f64 o6 nan o5 top; setp.eq.f64 nought:pred m 0.0; selp.f64 o7 a o6 nought; "
        "selp.f64 o8 nan o7 zero; setp.nan.f64 lost:pred b b; selp.f64 d nan o8 lost"
    )
    return "; ".join(lines)


#: Function -> recipe in float64; those of tile primitives are in :data:`~.double.DOUBLE`.
SCALAR_DOUBLE: dict[str, str] = {
    **DOUBLE, "atan": _ATAN, "atan2": _ATAN2, "asin": _ASIN, "acos": _ACOS, "sinh": _SINH, "cosh": _COSH, "erf": _ERF,
    "asinh": _ASINH, "acosh": _ACOSH, "atanh": _ATANH, "expm1": _EXPM1, "cbrt": _CBRT,
    "fmod": _fmod(),
}  # fmt: skip
#: Functions that narrower floats have by way of float64 only.
DOUBLE_ONLY = frozenset(("expm1", "cbrt"))
