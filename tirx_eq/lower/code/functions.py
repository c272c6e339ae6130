"""PTX for functions of float32: for each the forms there are, with their accuracy; the cheapest that is accurate enough counts.

Errors of the instructions are those of PTX ISA 9.7.3: ex2 2^-22 relative, lg2 2^-22 (absolute between 0.5 and 2, else
relative), rcp 1 ulp, rsqrt 2^-22.9, sin and cos 2^-20.5 absolute between -pi and pi, tanh 2^-11 relative.  ``.ftz`` takes
subnormal arguments as zero and gives zero for subnormal results: that is right for ex2 (a subnormal argument makes no
difference, and promises leave out what is below 2^-126), for rcp where the argument is at least 1, and never for lg2,
whose result for a subnormal number is no smaller than others.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from ...ir.accuracy import LEAST_F32, TINY, Accuracy, promised
from ..machine import slots
from . import elementary

LOG2_E = 1.4426950408889634
LN_2 = 0.6931471805599453
LOG10_2 = 0.30102999566398120
LOG2_10 = 3.3219280948873623
#: 2·pi as a float32 and what that leaves out.
TWO_PI = 6.2831854820251465
TWO_PI_REST = -1.7484555314695172e-07


#: Exact, or correctly rounded.
CORRECT = Accuracy(0.0)


@dataclass(frozen=True)
class Form:
    """A recipe (see :mod:`recipes`) for one function of float32, and how accurate it is; ``narrow``: for arguments that are
    numbers of :data:`NARROW`, if that is another matter."""

    text: str
    accuracy: Accuracy = CORRECT
    narrow: Accuracy | None = None

    @property
    def cost(self) -> float:
        """Issue slots."""
        return sum(slots(part.split()[0]) for part in self.text.split(";"))


def _exp2_of(scale: float, sign: str = "") -> str:
    return f"mul.rn.f32 t a {sign}{scale}; ex2.approx.ftz.f32 d t"


#: 1 / (1 + 2^t): the divisor is at least 1, so rcp.approx.ftz has its full accuracy, and what it flushes is below 2^-126.
_LOGISTIC = f"mul.rn.f32 t a {-LOG2_E}; ex2.approx.ftz.f32 u t; add.rn.f32 v u 1.0; rcp.approx.ftz.f32"
#: x brought to -pi … pi in two steps; the first is exact but for one rounding.
_REDUCED = (
    f"mul.rn.f32 t a {1 / 6.283185307179586}; cvt.rni.f32.f32 k t; neg.f32 n k; fma.rn.f32 r n {TWO_PI} a; "
    f"fma.rn.f32 s n {TWO_PI_REST} r"
)
#: Abramowitz and Stegun 7.1.26: |error| <= 1.5e-7, besides the rounding of its few operations.
_ERF = (
    "abs.f32 m a; fma.rn.f32 q m 0.3275911 1.0; rcp.approx.ftz.f32 t q; fma.rn.f32 p t 1.061405429 -1.453152027; "
    "fma.rn.f32 p1 p t 1.421413741; fma.rn.f32 p2 p1 t -0.284496736; fma.rn.f32 p3 p2 t 0.254829592; mul.rn.f32 p4 p3 t; "
    f"mul.rn.f32 x m m; mul.rn.f32 y x {-LOG2_E}; ex2.approx.ftz.f32 e y; neg.f32 w p4; fma.rn.f32 z w e 1.0; "
    "copysign.f32 d a z"
)
#: |x|^y by the logarithm, then the sign of x for odd y, NaN for negative x and broken y, and 1 for y = 0 or x = 1.
_POWER = (
    "abs.f32 m a; lg2.approx.f32 l m; mul.rn.f32 t l b; ex2.approx.ftz.f32 r t; "
    "setp.eq.f32 unit:pred m 1.0; selp.f32 r0 1.0 r unit; "
    "cvt.rzi.f32.f32 w b; setp.neu.f32 broken:pred w b; mul.rn.f32 h w 0.5; cvt.rzi.f32.f32 g h; setp.neu.f32 odd:pred g h; "
    "copysign.f32 s a r0; selp.f32 s1 s r0 odd; selp.f32 r1 r0 s1 broken; "
    "setp.lt.and.f32 below:pred a 0.0 broken; setp.gt.and.f32 bad:pred a -inf below; selp.f32 r2 nan r1 bad; "
    "setp.eq.f32 one:pred a 1.0; setp.eq.or.f32 sure:pred b 0.0 one; selp.f32 d 1.0 r2 sure"
)

#: Function -> forms, in float32.
FORMS: dict[str, tuple[Form, ...]] = {
    "fdiv": (Form("div.rn.f32 d a b"),),
    "sqrt": (Form("sqrt.rn.f32 d a"),),
    "reciprocal": (
        Form("rcp.rn.f32 d a", Accuracy(2.0**-24)),
        Form("rcp.approx.f32 d a", Accuracy(2.0**-23)),
        # Infinite for subnormal arguments, zero where the result is subnormal: numbers of f16 are neither, nor are theirs.
        Form("rcp.approx.ftz.f32 d a", Accuracy(float("inf"), TINY), Accuracy(2.0**-23)),
    ),
    "rsqrt": (
        Form("rsqrt.approx.f32 d a", Accuracy(2.0**-22.9)),
        Form("rsqrt.approx.ftz.f32 d a", Accuracy(float("inf")), Accuracy(2.0**-22.9)),  # infinite for subnormal arguments
    ),
    "exp2": (Form("ex2.approx.f32 d a", Accuracy(2.0**-22)), Form("ex2.approx.ftz.f32 d a", Accuracy(2.0**-22, TINY))),
    "exp": (Form(_exp2_of(LOG2_E), Accuracy(2.0**-16, TINY)),),
    "exp10": (Form(_exp2_of(LOG2_10), Accuracy(2.0**-16, TINY)),),
    "log2": (
        Form("lg2.approx.f32 d a", Accuracy(2.0**-22, 2.0**-22)),
        Form("lg2.approx.ftz.f32 d a", Accuracy(float("inf")), Accuracy(2.0**-22, 2.0**-22)),  # infinite for subnormal ones
    ),
    "log": (Form(f"lg2.approx.f32 t a; mul.rn.f32 d t {LN_2}", Accuracy(2.0**-21, 2.0**-22)),),
    "log10": (Form(f"lg2.approx.f32 t a; mul.rn.f32 d t {LOG10_2}", Accuracy(2.0**-21, 2.0**-22)),),
    "log1p": (Form(f"add.rn.f32 u a 1.0; lg2.approx.ftz.f32 t u; mul.rn.f32 d t {LN_2}", Accuracy(2.0**-21, 2.0**-21)),),
    "sigmoid": (Form(f"{_LOGISTIC} d v", Accuracy(2.0**-16, TINY)),),
    "silu": (Form(f"{_LOGISTIC} w v; mul.rn.f32 d a w", Accuracy(2.0**-16, 2.0**-118)),),
    "tanh": (
        Form(
            f"mul.rn.f32 t a {2 * LOG2_E}; ex2.approx.ftz.f32 u t; add.rn.f32 v u 1.0; rcp.approx.ftz.f32 w v; "
            "fma.rn.f32 d w -2.0 1.0", Accuracy(2.0**-23, 2.0**-21),
        ),
        Form("tanh.approx.f32 d a", Accuracy(2.0**-11)),
    ),
    "erf": (Form(_ERF, Accuracy(2.0**-23, 2.0**-20)),),
    "sin": (
        Form(f"{_REDUCED}; sin.approx.f32 d s", Accuracy(2.0**-23, 2.0**-19)),
        Form("sin.approx.f32 d a", Accuracy(0.0, float("inf"))),  # beyond -pi … pi the error grows with the argument
    ),
    "cos": (
        Form(f"{_REDUCED}; cos.approx.f32 d s", Accuracy(2.0**-23, 2.0**-19)),
        Form("cos.approx.f32 d a", Accuracy(0.0, float("inf"))),
    ),
    "tan": (Form(elementary.TAN, Accuracy(2.0**-20)),),
    "asin": (Form(elementary.ASIN, Accuracy(2.0**-22)),), "acos": (Form(elementary.ACOS, Accuracy(2.0**-22)),),
    "atan": (Form(elementary.ATAN, Accuracy(2.0**-22)),), "atan2": (Form(elementary.ATAN2, Accuracy(2.0**-21, LEAST_F32)),),
    "sinh": (Form(elementary.SINH, Accuracy(2.0**-20)),), "cosh": (Form(elementary.COSH, Accuracy(2.0**-20)),),
    "asinh": (Form(elementary.ASINH, Accuracy(2.0**-21, 2.0**-21)),),
    "acosh": (Form(elementary.ACOSH, Accuracy(2.0**-21, 2.0**-21)),),
    "atanh": (Form(elementary.ATANH, Accuracy(2.0**-21, 2.0**-22)),),
    "hypot": (Form(elementary.HYPOT, Accuracy(2.0**-22, LEAST_F32)),), "fmod": (Form(elementary.FMOD),),
    "ldexp": (Form(elementary.LDEXP),), "nextafter": (Form(elementary.NEXTAFTER),),
    "pow": (Form(_POWER),),
    "floor": (Form("cvt.rmi.f32.f32 d a"),), "ceil": (Form("cvt.rpi.f32.f32 d a"),), "trunc": (Form("cvt.rzi.f32.f32 d a"),),
    "nearbyint": (Form("cvt.rni.f32.f32 d a"),),
    # Halves away from zero; rounding the sum towards zero keeps 0.49999997 below 1.
    "round": (Form("copysign.f32 h a 0.5; add.rz.f32 s a h; cvt.rzi.f32.f32 d s"),),
    "fabs": (Form("abs.f32 d a"),),
    "copysign": (Form("copysign.f32 d b a"),),
    "maximum3": (Form("max.f32 d a b c"),), "minimum3": (Form("min.f32 d a b c"),),
}  # fmt: skip


#: (function, dtype of argument and result) -> the instruction that has it; ``{v}`` is x2 for two lanes.  Errors (PTX ISA
#: 9.7.4, the result's rounding included): ex2 of bf16 2^-7, tanh of bf16 2^-8, both relative, which is what is promised there.
#: Those of f16 (2^-9.9, and 2^-10.987 absolute) are more than that: it goes through float32.
NARROW_FORMS: dict[tuple[str, str], str] = {
    ("exp2", "bfloat16"): "ex2.approx.ftz.bf16{v} d a", ("tanh", "bfloat16"): "tanh.approx.bf16{v} d a",
}  # fmt: skip

#: Formats whose numbers other than 0 are neither subnormal in float32 nor so large that their reciprocals are.
NARROW = ("float16", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn", "int8", "uint8", "int16", "uint16")


@cache
def form_of(function: str, result: str = "float32", argument: str = "float32") -> Form:
    """The cheapest form that is as accurate as promised for results in the dtype ``result``, of numbers of ``argument``."""
    wanted = promised(function, result)
    small = argument in NARROW

    def enough_so(f: Form) -> bool:
        accuracy = f.narrow if small and f.narrow is not None else f.accuracy
        return wanted is None or accuracy.within(wanted)

    enough = [f for f in FORMS[function] if enough_so(f)]
    return min(enough, key=lambda f: f.cost)


#: Functions whose forms hold for float64 too, with the type in their instructions changed.
WIDE = frozenset(("sqrt", "fabs", "floor", "ceil", "trunc", "nearbyint", "round", "copysign", "hypot"))
#: Other names that calls have for functions.
ALIASES = {
    "abs": "fabs", "power": "pow", "ptx.reduce3_max_f32": "maximum3", "ptx.reduce3_min_f32": "minimum3", "rcp": "reciprocal",
}  # fmt: skip
#: Calls that ask for an instruction by name.
INSTRUCTIONS = {
    "ptx.exp2": "ex2.approx.ftz.f32 d a", "ptx.rcp": "rcp.approx.ftz.f32 d a", "ptx.max_f32": "max.f32 d a b",
    "cuda.fdividef": "div.approx.f32 d a b",
}  # fmt: skip
#: Tests of a float, whose result is a predicate; ``{t}`` is the type.
TESTS = {
    "isnan": "setp.nan.{t} d a a", "isinf": "testp.infinite.{t} d a", "isfinite": "testp.finite.{t} d a",
}  # fmt: skip
#: Functions of integers of 32 or 64 bits; ``{n}`` is that number.
COUNTS = {"popcount": "popc.b{n}", "clz": "clz.b{n}"}
