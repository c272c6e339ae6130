"""PTX for circular, hyperbolic and other functions of float32 that have no instruction, by polynomials of :mod:`coefficients`.

Where an argument is large it is brought into the polynomial's range first; selections instead of branches choose the case.
Errors stated with the forms (:mod:`functions`) include those of ``ex2.approx`` and ``lg2.approx`` (PTX ISA 9.7.3).
"""

from __future__ import annotations

from .coefficients import ASIN_F32, ATAN_F32, COS_F32, HALF_PI_F32, LN2_F32, LOG2_E_F32, SIN_F32, SINH_F32
from .double import horner

PI = 2 * HALF_PI_F32[0]
PI_REST = 2 * HALF_PI_F32[1]
LN2 = LN2_F32[0]
#: Squares beyond it may be infinite.
LARGE = 2.0**60


def _odd(name: str, x: str, coefficients: tuple[float, ...], z: str = "z") -> str:
    """x + x·z·P(z) into ``name``, where z = x^2 is there."""
    return f"{horner('p', z, coefficients, 'f32')}; mul.rn.f32 zp {z} p; fma.rn.f32 {name} zp {x} {x}"


def _taken_from(result: str, parts: tuple[float, float], value: str) -> str:
    """A constant in two parts less a value."""
    return f"sub.rn.f32 {result}0 {parts[0]!r} {value}; add.rn.f32 {result} {result}0 {parts[1]!r}"


_QUARTER = (HALF_PI_F32[0], HALF_PI_F32[1])
_HALF_TURN = (PI, PI_REST)

ATAN = (
    "abs.f32 m a; setp.gt.f32 big:pred m 1.0; rcp.rn.f32 i m; selp.f32 x i m big; mul.rn.f32 z x x; "
    f"{_odd('y', 'x', ATAN_F32)}; {_taken_from('w', _QUARTER, 'y')}; selp.f32 v w y big; copysign.f32 d a v"
)
#: The angle of (b, a): that of the smaller over the larger magnitude, then mirrored to where the signs say.
ATAN2 = (
    "abs.f32 y a; abs.f32 x b; max.f32 l x y; min.f32 s x y; div.rn.f32 q0 s l; setp.eq.f32 same:pred s l; "
    "selp.f32 q1 1.0 q0 same; setp.eq.f32 zero:pred l 0.0; selp.f32 q 0.0 q1 zero; mul.rn.f32 z q q; "
    f"{_odd('r', 'q', ATAN_F32)}; setp.gt.f32 steep:pred y x; {_taken_from('u', _QUARTER, 'r')}; selp.f32 v u r steep; "
    f"copysign.f32 side b 1.0; setp.lt.f32 left:pred side 0.0; {_taken_from('w', _HALF_TURN, 'v')}; selp.f32 t w v left; "
    "copysign.f32 o a t; setp.nan.f32 lost:pred a b; selp.f32 d nan o lost"
)
#: Beyond 1/2: asin m = pi/2 - 2 asin sqrt((1 - m) / 2); of numbers beyond 1 there is no root.
_ARC = (
    "abs.f32 m a; setp.gt.f32 big:pred m 0.5; fma.rn.f32 h m -0.5 0.5; sqrt.rn.f32 s h; selp.f32 x s m big; "
    f"mul.rn.f32 z0 m m; selp.f32 z h z0 big; {_odd('y', 'x', ASIN_F32)}; add.rn.f32 y2 y y"
)
ASIN = f"{_ARC}; {_taken_from('w', _QUARTER, 'y2')}; selp.f32 v w y big; copysign.f32 d a v"
ACOS = (
    f"{_ARC}; copysign.f32 ys a y; {_taken_from('near', _QUARTER, 'ys')}; {_taken_from('far', _HALF_TURN, 'y2')}; "
    "setp.lt.f32 left:pred a 0.0; selp.f32 end far y2 left; selp.f32 d end near big"
)
#: half = e^|a| / 2: the fraction of the exponent by ex2, its whole part put into the exponent's bits.
_HALF_POWER = (
    f"abs.f32 m a; min.f32 t m 90.0; mul.rn.f32 w t {LOG2_E_F32[0]!r}; cvt.rni.f32.f32 k w; fma.rn.f32 f1 k {-LN2_F32[0]!r} t; "
    f"fma.rn.f32 f k {-LN2_F32[1]!r} f1; mul.rn.f32 e0 f {LOG2_E_F32[0]!r}; ex2.approx.ftz.f32 e e0; "
    "cvt.rni.s32.f32 n:b32 k; add.s32 n1:b32 n 125; shl.b32 n2:b32 n1 23; mov.b32 g n2; mul.rn.f32 h0 e g; "
    "add.rn.f32 half h0 h0; rcp.approx.ftz.f32 i half; setp.nan.f32 lost:pred a a"
)
SINH = (
    f"{_HALF_POWER}; fma.rn.f32 long i -0.25 half; mul.rn.f32 z m m; {_odd('short', 'm', SINH_F32)}; "
    "setp.lt.f32 small:pred m 1.0; selp.f32 v short long small; copysign.f32 o a v; selp.f32 d a o lost"
)
COSH = f"{_HALF_POWER}; fma.rn.f32 o i 0.25 half; selp.f32 d a o lost"
#: Logarithms of m + sqrt(m^2 ± 1); of large numbers that is 2 m.
_LOG_OF = (
    f"selp.f32 u m u0 big; lg2.approx.f32 l u; selp.f32 one 1.0 0.0 big; add.rn.f32 l1 l one; mul.rn.f32 v l1 {LN2!r}"
)
ASINH = (
    f"abs.f32 m a; setp.gt.f32 big:pred m {LARGE!r}; fma.rn.f32 q m m 1.0; sqrt.rn.f32 s q; add.rn.f32 u0 m s; {_LOG_OF}; "
    "copysign.f32 d a v"
)
ACOSH = (
    f"mov.f32 m a; setp.gt.f32 big:pred m {LARGE!r}; sub.rn.f32 q0 m 1.0; add.rn.f32 q1 m 1.0; mul.rn.f32 q q0 q1; "
    f"sqrt.rn.f32 s q; add.rn.f32 u0 m s; {_LOG_OF}; setp.lt.f32 below:pred a 1.0; selp.f32 d nan v below"
)
ATANH = (
    "add.rn.f32 p a 1.0; sub.rn.f32 q 1.0 a; div.rn.f32 r p q; lg2.approx.f32 l r; "
    f"mul.rn.f32 v l {LN2 / 2!r}; setp.eq.f32 nought:pred a 0.0; selp.f32 d a v nought"
)
HYPOT = (
    "abs.f32 x a; abs.f32 y b; max.f32 l x y; min.f32 s x y; div.rn.f32 q s l; fma.rn.f32 t q q 1.0; sqrt.rn.f32 r t; "
    "mul.rn.f32 o l r; setp.eq.f32 zero:pred l 0.0; selp.f32 o1 0.0 o zero; setp.nan.f32 lost:pred a b; "
    "selp.f32 o2 nan o1 lost; setp.eq.f32 endless:pred l inf; selp.f32 d inf o2 endless"
)
#: Quarter turns as sin and cos have them: a = k · pi/2 + x, the first difference exact.
TAN = (
    f"mul.rn.f32 w a {2 / 3.141592653589793!r}; cvt.rni.f32.f32 k w; neg.f32 kn k; fma.rn.f32 r kn {HALF_PI_F32[0]!r} a; "
    f"fma.rn.f32 r1 kn {HALF_PI_F32[1]!r} r; fma.rn.f32 x kn {HALF_PI_F32[2]!r} r1; mul.rn.f32 z x x; "
    f"{_odd('sine', 'x', SIN_F32)}; {horner('q', 'z', COS_F32, 'f32')}; fma.rn.f32 u z -0.5 1.0; mul.rn.f32 z2 z z; "
    "fma.rn.f32 cosine z2 q u; cvt.rni.s32.f32 n:b32 k; and.b32 odd:b32 n 1; setp.ne.s32 other:pred odd 0; "
    "selp.f32 above cosine sine other; selp.f32 under sine cosine other; div.rn.f32 v above under; neg.f32 vn v; "
    "selp.f32 o vn v other; setp.eq.f32 nought:pred a 0.0; selp.f32 d a o nought"
)
#: Bits of the quotient that one step of fmod takes off; float32 has quotients of up to 277 bits.
STEP = 47


def _fmod() -> str:
    """The remainder in float64, where every step is exact: |a| less multiples of |b|·2^(47 k), k = 5 … 0.

    The quotient, a product with the reciprocal, may be one too large or too small: what is below 0 or not below the divisor
    is mended at once.
    """
    lines = ["abs.f32 m a; abs.f32 n b; cvt.f64.f32 r6:f64 m; cvt.f64.f32 y:f64 n; rcp.rn.f64 i:f64 y"]
    for k in range(5, -1, -1):
        before, scale = f"r{k + 1}", float(2.0 ** (STEP * k))
        lines.append(
            f"mul.rn.f64 y{k}:f64 y {scale!r}; mul.rn.f64 i{k}:f64 i {1 / scale!r}; mul.rn.f64 t{k}:f64 {before} i{k}; "
            f"cvt.rzi.f64.f64 q{k}:f64 t{k}; neg.f64 n{k}:f64 q{k}; fma.rn.f64 u{k}:f64 n{k} y{k} {before}; "
            f"add.rn.f64 v{k}:f64 u{k} y{k}; setp.lt.f64 low{k}:pred u{k} 0.0; selp.f64 w{k}:f64 v{k} u{k} low{k}; "
            f"sub.rn.f64 x{k}:f64 w{k} y{k}; setp.ge.f64 high{k}:pred w{k} y{k}; selp.f64 r{k}:f64 x{k} w{k} high{k}"
        )
    lines.append(
        "cvt.rn.f32.f64 o r0; copysign.f32 o1 a o; setp.eq.f32 endless:pred n inf; selp.f32 o2 a o1 endless; "
        "setp.eq.f32 zero:pred n 0.0; selp.f32 o3 nan o2 zero; setp.geu.f32 top:pred m inf; selp.f32 o4 nan o3 top; "
        "setp.nan.f32 lost:pred b b; selp.f32 d nan o4 lost"
    )
    return "; ".join(lines)


FMOD = _fmod()
#: By float64, which has room for all exponents: rounded once.
LDEXP = (
    "cvt.f64.f32 w:f64 a; max.s32 n0:b32 b -300; min.s32 n1:b32 n0 300; add.s32 n2:b32 n1 1023; shl.b32 h:b32 n2 20; "
    "mov.b32 l:b32 0; mov.b64 s:f64 {l,h}; mul.rn.f64 r:f64 w s; cvt.rn.f32.f64 d r"
)
#: Bits of neighbours differ by 1, upwards away from zero; from zero it is the least subnormal number with b's sign.
NEXTAFTER = (
    "mov.b32 n:b32 a; setp.gt.f32 up:pred b a; selp.b32 s:b32 1 -1 up; neg.s32 t:b32 s; setp.lt.f32 below:pred a 0.0; "
    f"selp.b32 v:b32 t s below; add.s32 w:b32 n v; mov.b32 o w; copysign.f32 least b {2.0**-149!r}; "
    "setp.eq.f32 zero:pred a 0.0; selp.f32 o1 least o zero; setp.eq.f32 same:pred a b; selp.f32 o2 b o1 same; "
    "setp.nan.f32 lost:pred a b; selp.f32 d nan o2 lost"
)
