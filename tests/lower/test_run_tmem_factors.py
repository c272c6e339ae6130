"""Products with A in tensor memory, scaled, weight-stationary and of a pair of CTAs, compared with numpy exactly."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tirx_eq.errors import LoweringError
from tirx_eq.interp import interpret
from tirx_eq.ir import dtype as dt
from tirx_eq.lower.kernel import compile_function
from tirx_eq.ptx.ptxas import find_tool

from .test_equation import lowered, mutants, verdict
from .tmem_factor_kernels import Product

POLICIES = ("late", "early", "random")
FP4, E4M3, E5M2, UE8M0 = "float4_e2m1fn", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"


def check(p: Product, policies=POLICIES, assemble: bool = False) -> None:
    """The kernel in the simulator and the interpreter, against numpy: small integers and powers of two, so exact."""
    rng = np.random.default_rng(7)
    low = 0 if p.a.startswith("u") or p.b.startswith("u") else -2
    a, b = (rng.integers(low, 3, shape).astype(dt.numpy_dtype(t)) for shape, t in (((p.m, p.k), p.a), ((p.n, p.k), p.b)))
    wide = [x.astype(np.float64) for x in (a, b)]
    cells = np.zeros((128 * p.group, 8), np.int32)
    if p.sf:
        factors = [rng.choice([0.5, 1.0, 2.0, 4.0], (len(x), p.k // p.block)).astype(dt.numpy_dtype(p.sf)) for x in (a, b)]
        cells = p.factor_image(*factors)
        wide = [x * np.repeat(f.astype(np.float64), p.block, axis=1) for x, f in zip(wide, factors)]
    func = p.function()
    made = compile_function(func)
    assert not made.warnings
    if assemble and find_tool("ptxas"):
        assert made.assemble().spill_stores == 0
    given = (p.a_image(a), b, cells, np.zeros((128 * p.group, p.n // p.blocks), dt.numpy_dtype(p.d)))
    wanted = wide[0] @ wide[1].T
    np.testing.assert_array_equal(p.result(np.asarray(interpret(func, *given)["D"])), wanted)
    for policy in policies:
        result = made.simulate(*given, policy=policy)
        assert not result.faults, [str(f) for f in result.faults[:3]]
        np.testing.assert_array_equal(p.result(result.arrays["D"]).astype(np.float64), wanted)


STATIONARY = [
    Product("float16", "float16", m=32, n=64), Product("float16", "float16", m=64, n=128),
    Product("bfloat16", "bfloat16", m=128), Product("float32", "float32", m=32, k=32),
    Product(E4M3, E5M2, m=64, k=128), Product(E5M2, E4M3, m=32, k=128), Product("int8", "uint8", "int32", m=64, k=128),
    Product("uint8", "int8", "int32", m=32, n=256, k=128), Product("int8", "int8", "int32", m=128, k=128),
]  # fmt: skip


@pytest.mark.parametrize("p", STATIONARY, ids=lambda p: f"{p.a}-{p.m}x{p.n}")
def test_weight_stationary(p):
    check(dataclasses.replace(p, stationary=True), POLICIES if p == STATIONARY[0] else ("late",), p.m == 32)


SCALES = [(E4M3, E4M3, UE8M0, 32), (E4M3, E5M2, UE8M0, 32), (E5M2, E4M3, UE8M0, 32), (FP4, FP4, UE8M0, 32),
          (FP4, FP4, UE8M0, 16), (FP4, FP4, E4M3, 16)]  # fmt: skip


def scaled(a: str, b: str, sf: str, block: int, **options) -> Product:
    return Product(a, b, k=128 * 8 // dt.bits(a), sf=sf, block=block, **options)


@pytest.mark.parametrize("kind", SCALES, ids=str)
def test_block_scaled_with_a_in_tensor_memory(kind):
    check(scaled(*kind), POLICIES if kind[:2] == (E4M3, E5M2) else ("late",), assemble=True)


@pytest.mark.parametrize("a_in_tmem", [False, True])
@pytest.mark.parametrize("m", [128, 256])
@pytest.mark.parametrize("kind", SCALES[1::2], ids=str)
def test_block_scaled_by_a_pair(kind, m, a_in_tmem):
    """M = 128 keeps the halves of N, and their factors, in the halves of the lanes."""
    policies = ("early", "random") if kind[0] == E4M3 else ("late",)
    check(scaled(*kind, m=m, n=128, group=2, a_in_tmem=a_in_tmem), policies, a_in_tmem and m == 128)


@pytest.mark.parametrize("p", [Product(m=256, group=2), Product(m=128, group=2), Product(m=64), Product(m=128),
                               Product("int8", "int8", "int32", m=128, k=128, group=2)])  # fmt: skip
def test_dense_with_a_in_tensor_memory(p):
    check(p, ("late", "random"), assemble=p.group == 2)


@pytest.mark.parametrize("p", [scaled(*SCALES[-1], m=128, n=128, group=2), scaled(*SCALES[0]), Product(m=64, stationary=True)],
                         ids=["pair", "scaled", "stationary"])  # fmt: skip
def test_every_mutant_breaks_the_equation(p):
    choices, bodies, program, rest = lowered(p.function())
    choice = next(c for c in choices if c.context.op == "gemm_async")
    body = bodies[choice.context.index]
    assert verdict(choice, body, bodies, program, rest).status == "equal"
    kinds = dict(reversed(list(mutants(body))))
    assert len(kinds) >= 5
    for what, mutant in kinds.items():
        assert verdict(choice, mutant, bodies, program, rest).status == "different", what


@pytest.mark.parametrize(("p", "change"), [
    (scaled(*SCALES[0], m=128, n=128, group=2), "S[(2, 2, 32, 4) : (64 @ TLane"),
    (Product(m=128, group=2), "] + R[2 : 64 @ TLane]"),
])  # fmt: skip
def test_what_the_halves_of_the_lanes_need(p, change):
    """M = 128 of a pair: factors of B, and copies of A, by halves of the lanes."""
    wrong = change.replace("64 @ TLane", "8 @ TCol") if "S[" in change else "]"
    with pytest.raises(LoweringError, match=r"the tensor core reads lane|needs a replica"):
        compile_function(p.function((change, wrong)))
