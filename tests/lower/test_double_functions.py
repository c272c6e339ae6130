"""Functions of float64: in the simulator, against decimal arithmetic of 45 digits; edges against C's rules."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tirx_eq.errors import ProofError
from tirx_eq.ir.accuracy import ACCURACY_DOUBLE, power_accuracy
from tirx_eq.lower.code import coefficients, minimax, recipes
from tirx_eq.lower.code.double import DOUBLE
from tirx_eq.lower.code.double_elementary import SCALAR_DOUBLE
from tirx_eq.lower.kernel import compile_function
from tirx_eq.ptx.ptxas import assemble, find_tool

from .exact_functions import error
from .test_functions import COUNT, compiled, evaluate
from .value_kernels import COLUMNS, ROWS, run, value_kernel

LOGARITHMS = ("log", "log2", "log10", "rsqrt")
CIRCULAR = ("sin", "cos", "tan")
NAMES = [f for f in ACCURACY_DOUBLE if f not in ("silu", "reciprocal", "rcp", "hypot", "atan2")]
EDGES = (
    0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 5e-324, -5e-324, 2.2250738585072014e-308, 1e-310, 0.5, 1 + 2.0**-52,
    1 - 2.0**-53, 1.7976931348623157e308, 709.782712893384, 709.7827128933841, -708.4, -745.13, -745.2, 1024.0,
    1023.9999999999999, -1074.0, -1075.0, 308.2, 308.3, -323.3, -324.0, 2.0**30,
    1.5707963267948966, 3.141592653589793, 355.0, 2.0**-27, 1e-9, 22.0,
)  # fmt: skip
#: |results| that are exact: the sum of the C standard's rules for these functions at their edges.
AT_EDGES = {
    "exp": {0.0: 1.0, np.inf: np.inf, -np.inf: 0.0}, "exp2": {0.0: 1.0, 1024.0: np.inf, -1074.0: 5e-324, -1075.0: 0.0},
    "exp10": {np.inf: np.inf, -np.inf: 0.0}, "log": {0.0: -np.inf, 1.0: 0.0, np.inf: np.inf},
    "log2": {5e-324: -1074.0, 0.0: -np.inf, 1024.0: 10.0}, "log10": {0.0: -np.inf}, "log1p": {-1.0: -np.inf, np.inf: np.inf},
    "sin": {np.inf: np.nan, 0.0: 0.0}, "cos": {np.inf: np.nan, 0.0: 1.0}, "tan": {np.inf: np.nan},
    "tanh": {np.inf: 1.0, -np.inf: -1.0, 5e-324: 5e-324}, "rsqrt": {0.0: np.inf, np.inf: 0.0},
    "sigmoid": {np.inf: 1.0, -np.inf: 0.0, 0.0: 0.5},
    "atan": {np.inf: np.pi / 2, -np.inf: -np.pi / 2, 1.0: np.pi / 4, 5e-324: 5e-324}, "asin": {1.0: np.pi / 2, np.inf: np.nan},
    "acos": {1.0: 0.0, -1.0: np.pi, 0.0: np.pi / 2, -np.inf: np.nan},
    "sinh": {np.inf: np.inf, -np.inf: -np.inf, 5e-324: 5e-324},
    "asinh": {np.inf: np.inf, -np.inf: -np.inf, 5e-324: 5e-324}, "acosh": {1.0: 0.0, 0.5: np.nan, np.inf: np.inf, 0.0: np.nan},
    "atanh": {1.0: np.inf, -1.0: -np.inf, 1.5707963267948966: np.nan, 5e-324: 5e-324},
    "expm1": {np.inf: np.inf, -np.inf: -1.0, 5e-324: 5e-324}, "cbrt": {np.inf: np.inf, -np.inf: -np.inf, 1.0: 1.0, -1.0: -1.0},
    "cosh": {np.inf: np.inf, -np.inf: np.inf, 0.0: 1.0}, "erf": {np.inf: 1.0, -np.inf: -1.0, 22.0: 1.0},
}  # fmt: skip


def arguments(function: str) -> np.ndarray:
    rng = np.random.default_rng(23)
    half = (COUNT - len(EDGES)) // 2
    near = rng.standard_normal(half) * {"exp": 300.0, "exp2": 400.0, "exp10": 120.0, "erf": 2.5}.get(
        function, 300.0 if function in ("sinh", "cosh", "expm1") else 6.0)
    near[::4] = 1 + rng.standard_normal(len(near[::4])) * 2.0**-12
    wide = np.exp2(rng.uniform(-60, 29, COUNT - half - len(EDGES))) * rng.choice([-1, 1], COUNT - half - len(EDGES))
    x = np.concatenate([near, wide, EDGES])
    if function in CIRCULAR:
        multiples = np.rint(rng.uniform(1, 2.0**29, half // 2)) * (np.pi / 2)
        x[: half // 2] = multiples
        x[np.isfinite(x) & (np.abs(x) > 2.0**30)] = 3
    if function == "acosh":
        return np.where(np.isfinite(x) & (x < 1) & (x != 0) & (x != 0.5), 1 + np.abs(x), x)
    if function in ("asin", "acos", "atanh"):
        x[: half // 2] = np.cos(rng.uniform(0, np.pi, half // 2))
        x[half // 2 : half] = 1 - np.exp2(rng.uniform(-53, -1, half - half // 2))
    if function == "cbrt":
        x[: half // 2] = np.exp2(rng.uniform(-1074, 1023, half // 2))
        x[half // 2 : half] = np.rint(x[half // 2 : half] * 50) ** 3
    return np.abs(x) if function in LOGARITHMS else x


def check(function: str, got: np.ndarray, accuracies: list, *given: np.ndarray) -> float:
    """Every finite argument's result is within its accuracy; the largest error in units of 2^-53."""
    worst = 0.0
    for k, (value, accuracy) in enumerate(zip(got.tolist(), accuracies)):
        point = [float(g[k]) for g in given]
        if not np.all(np.isfinite(point)) or np.isnan(value):
            continue
        away, exact = error(function, value, *point)
        assert away <= accuracy.relative * exact + accuracy.absolute, (function, point, value, away)
        worst = max(worst, away / exact * 2.0**53 if 1e-300 < exact < np.inf else 0.0)
    return worst


@pytest.mark.parametrize("function", NAMES)
def test_functions_of_float64(function):
    x = arguments(function)
    got = evaluate(f"C[i] = Tx.{function}(A[i])", x)
    domain = (x > -1) if function == "log1p" else np.isfinite(x)
    if function in ("asin", "acos", "atanh", "acosh"):
        domain = x >= 1 if function == "acosh" else np.abs(x) <= 1
    inside = domain & np.isfinite(x) & ~((x == 0) & np.isin(function, LOGARITHMS))
    assert not np.isnan(got[inside]).any()
    worst = check(function, np.where(inside, got, np.nan), [ACCURACY_DOUBLE[function]] * COUNT, x)
    assert 0.5 < worst  # the measure sees roundings
    assert np.isnan(got[np.isnan(x)]).all()
    for at, value in AT_EDGES[function].items():
        np.testing.assert_array_equal(got[x == at], value, err_msg=f"{function}({at})")
    zero = (x == 0) & ~np.signbit(x) if function in LOGARITHMS else x == 0
    if function in ("sin", "tan", "tanh", "log1p", "atan", "asin", "sinh", "erf", "asinh", "atanh", "expm1", "cbrt"):
        np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(x[zero]))


@pytest.mark.parametrize("function", ["log", "log2", "log10", "rsqrt", "log1p"])
def test_negative_numbers_have_no_logarithm(function):
    x = -np.exp2(np.linspace(1, 1000, COUNT))
    x[0] = -np.inf
    assert np.isnan(evaluate(f"C[i] = Tx.{function}(A[i])", x)).all()


def test_powers_of_float64():
    rng = np.random.default_rng(7)
    x, y = np.exp2(rng.uniform(-30, 30, COUNT)), rng.uniform(-30, 30, COUNT)
    x[::3] *= -1
    y[::3] = np.rint(y[::3])
    x[1::3] = 1 + rng.standard_normal(len(x[1::3])) * 2.0**-20
    y[1::3] = rng.uniform(-1, 1, len(y[1::3])) * 2.0**25
    with np.errstate(all="ignore"):
        product = np.abs(y) * np.maximum(1, np.abs(np.log2(np.abs(x))))
    got = evaluate("C[i] = Tx.pow(A[i], B[i])", x, y)
    check("pow", got, [power_accuracy(float(p), "float64") for p in product], x, y)


def test_edges_of_powers():
    special = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, np.inf, -np.inf, np.nan, 5e-324, 2.0**53, -1e300)
    x, y = (np.resize(v.ravel(), COUNT) for v in np.meshgrid(special, special))
    with np.errstate(all="ignore"):
        wanted = np.power(x, y)
    got = evaluate("C[i] = Tx.pow(A[i], B[i])", x, y)
    np.testing.assert_allclose(got, wanted, rtol=2.0**-51)
    np.testing.assert_array_equal(np.signbit(got[wanted == 0]), np.signbit(wanted[wanted == 0]))


def test_hypotenuses():
    rng = np.random.default_rng(6)
    x, y = (np.exp2(rng.uniform(-1050, 1023, COUNT)) for _ in range(2))
    x[::2] = y[::2] * rng.uniform(-3, 3, len(x[::2]))
    edges = (0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, 1.7e308)
    x[:49], y[:49] = (v.ravel() for v in np.meshgrid(edges, edges))
    got = evaluate("C[i] = Tx.hypot(A[i], B[i])", x, y)
    check("hypot", got[49:], [ACCURACY_DOUBLE["hypot"]] * (COUNT - 49), x[49:], y[49:])
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(got[:49], np.hypot(x[:49], y[:49]), rtol=2.0**-50)


def test_angles_of_two_numbers():
    rng = np.random.default_rng(8)
    y, x = (np.exp2(rng.uniform(-30, 30, COUNT)) * rng.choice([-1, 1], COUNT) for _ in range(2))
    y[::3] = x[::3] * rng.uniform(-3, 3, len(x[::3]))
    y[1::7] = np.exp2(rng.uniform(-1070, 1000, len(y[1::7])))
    special = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan)
    y[:49], x[:49] = (v.ravel() for v in np.meshgrid(special, special))
    got = evaluate("C[i] = Tx.atan2(A[i], B[i])", y, x)
    check("atan2", got[49:], [ACCURACY_DOUBLE["atan2"]] * (COUNT - 49), y[49:], x[49:])
    wanted = np.arctan2(y[:49], x[:49])
    np.testing.assert_allclose(got[:49], wanted, rtol=2.0**-51)
    np.testing.assert_array_equal(np.signbit(got[:49][wanted == 0]), np.signbit(wanted[wanted == 0]))


def test_remainders_are_exact():
    rng = np.random.default_rng(9)
    x, y = (np.exp2(rng.uniform(-1074, 1023, COUNT)) * rng.choice([-1, 1], COUNT) for _ in range(2))
    y[::2] = x[::2] * np.exp2(rng.uniform(-60, 2, len(x[::2])))
    x[1::5] = np.rint(rng.uniform(0, 2.0**53, len(x[1::5])))
    y[1::5] = np.rint(rng.uniform(1, 1000, len(x[1::5])))
    special = (0.0, -0.0, 1.0, -2.0, np.inf, -np.inf, np.nan, 5e-324, 1.7976931348623157e308, 3.0, 2.2250738585072014e-308)
    x[:121], y[:121] = (v.ravel() for v in np.meshgrid(special, special))
    got = evaluate("C[i] = Tx.fmod(A[i], B[i])", x, y)
    with np.errstate(all="ignore"):
        wanted = np.fmod(x, y)
    np.testing.assert_array_equal(got, wanted)
    np.testing.assert_array_equal(np.signbit(got[wanted == 0]), np.signbit(wanted[wanted == 0]))


TILES = ("exp", "exp2", "log2", "reciprocal", "silu", "sqrt")


@pytest.mark.parametrize("function", TILES)
def test_tile_primitives_of_float64(function):
    place, scope = (("registers", "thread"), ("shared", "warp"), ("global", "cta"))[TILES.index(function) % 3]
    x = np.abs(np.random.default_rng(3).standard_normal((ROWS, COLUMNS)) * 40) + 2.0**-30
    if function in ("exp", "exp2", "silu"):
        x[::2] *= -1
    func = value_kernel(f"{function}({{D}}, {{A}})", dict.fromkeys("DA", ("float64", place, COLUMNS)), scope)
    got = run(func, np.zeros_like(x), x)["D"]
    accuracy = ACCURACY_DOUBLE.get(function, ACCURACY_DOUBLE["reciprocal"])
    check(function, got[:8].ravel(), [accuracy] * (8 * COLUMNS), x[:8].ravel())


def test_the_equation_tells_functions_apart(monkeypatch):
    """exp in place of exp2 is found by the equation; the instructions inside are what the tests above execute."""
    from tirx_eq.lower.code import lanes

    func = value_kernel("exp2({D}, {A})", dict.fromkeys("DA", ("float64", "global", COLUMNS)), "cta")
    compile_function(func)
    plain = lanes.Routine
    monkeypatch.setattr(lanes, "Routine", lambda name, *rest: plain("exp" if name == "exp2" else name, *rest))
    with pytest.raises(ProofError, match="exp2"):
        compile_function(func)


def test_a_wrong_coefficient_is_seen(monkeypatch):
    broken = SCALAR_DOUBLE["exp"].replace(repr(coefficients.EXP[3]), repr(coefficients.EXP[3] * (1 + 2.0**-30)))
    assert broken != SCALAR_DOUBLE["exp"]
    monkeypatch.setitem(SCALAR_DOUBLE, "exp", broken)
    x = arguments("exp")
    with pytest.raises(AssertionError):
        check("exp", evaluate("C[i] = Tx.exp(A[i])", x), [ACCURACY_DOUBLE["exp"]] * COUNT, x)


def test_the_table_is_what_the_script_computes():
    assert Path(coefficients.__file__).read_text() == minimax.table()


def test_polynomials_are_as_near_as_they_say():
    """The error of each polynomial with its rounded coefficients, at points that the fit didn't use."""
    from decimal import Decimal, localcontext

    bounds = {
        "EXP": 56, "EXP2": 56, "LOG": 60, "SIN": 56, "COS": 59, "SIN_F32": 26, "COS_F32": 29, "ATAN_F32": 25, "ASIN_F32": 26,
        "SINH_F32": 26, "ATAN": 56, "ASIN": 56, "SINH": 55, "ERF": 52, "ERFCX": 52,
    }  # fmt: skip
    with localcontext() as context:
        context.prec = minimax.DIGITS
        for fit in minimax.FITS:
            low, high = Decimal(fit.low), Decimal(fit.high)
            given = [Decimal(c) for c in getattr(coefficients, fit.name)]
            for k in range(101):
                x = low + (high - low) * k / 100
                away = abs((minimax.evaluate(given, x) - fit.function(x)) * fit.weight(x))
                assert away <= Decimal(2) ** -bounds[fit.name], (fit.name, x, float(away))


@pytest.mark.skipif(find_tool("ptxas") is None, reason="PTXAS IS NOT INSTALLED: nothing assembled")
def test_every_recipe_assembles():
    body = "\n".join(f"C[i] = C[i] + Tx.{f}(A[i])" for f in NAMES) + "\nC[i] = C[i] + Tx.pow(A[i], B[i])"
    assert assemble(compiled(body, "float64").ptx, "sm_100a").spill_stores == 0


def test_every_function_has_a_promise():
    assert set(SCALAR_DOUBLE) <= {*ACCURACY_DOUBLE, "pow", "fmod"}
    assert all(("silu" == f or (f, "float64") in recipes.ROUTINES) for f in DOUBLE)
