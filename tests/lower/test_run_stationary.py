"""tcgen05.mma.ws: products that keep B in the tensor core, for every M and N it has, compared with numpy."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tirx_eq.errors import LoweringError
from tirx_eq.interp import interpret
from tirx_eq.lower.kernel import compile_function
from tirx_eq.lower.program import Instruction
from tirx_eq.script import parse_source

from .test_equation import lowered, verdict
from .test_run_gemm import SOURCE, integers, shared_layout

POLICIES = ("late", "early", "random")


def stationary(m: int, n: int, dtype: str = "float16", d: str = "float32", k: int = 64, config: str = "weight_stationary=True",
               layout: str = ""):  # fmt: skip
    """A product with accumulator layout D, E or G; each thread writes the part of a row that its lane holds."""
    width = n * m // 128
    text = SOURCE.replace("(128, {n})", "(128, {w})").replace("128, {n}", "128, {w}").replace("({n},)", "({w},)")
    text = text.replace('accum=False, dispatch="tcgen05"', f'accum=False, dispatch="tcgen05", {config}')
    load = (
        "Tx.wg.copy_async(view[:, :], lanes[:, :])\n    Tx.ptx.tcgen05.wait.ld()\n"
        f"    Tx.copy(D[tid % {m}, tid // {m} * {width} : tid // {m} * {width} + {width}], regs[:])"
    )
    values = {
        "a": dtype, "b": dtype, "d": d, "m": m, "n": n, "w": width, "ta": False, "tb": False,
        "a_shape": (m, k), "b_shape": (n, k),
        "a_layout": shared_layout(dtype, "128B", m, k, False), "b_layout": shared_layout(dtype, "128B", n, k, False),
        "d_layout": layout or f"TileLayout(S[({m}, {128 // m}, {width}) : (1 @ TLane, {m} @ TLane, 1 @ TCol)])", "load": load,
    }  # fmt: skip
    return parse_source(text.format(**values), "gemm.py")["gemm"]


@pytest.mark.parametrize(
    ("m", "n", "dtype", "d", "k"),
    [
        (32, 64, "float16", "float32", 64), (32, 256, "float16", "float32", 64), (64, 64, "bfloat16", "float32", 64),
        (64, 128, "float16", "float32", 128), (128, 64, "float16", "float32", 64), (64, 256, "float8_e4m3fn", "float32", 128),
        (32, 128, "int8", "int32", 128), (128, 128, "float32", "float32", 32),
    ],
)  # fmt: skip
def test_product(m, n, dtype, d, k):
    func = stationary(m, n, dtype, d, k)
    a, b = integers((m, k), dtype, 0), integers((n, k), dtype, 1)
    wanted = a.astype(np.float64) @ b.astype(np.float64).T
    zero = np.zeros((m, n), {"float32": np.float32, "float16": np.float16, "int32": np.int32}[d])
    np.testing.assert_array_equal(interpret(func, a, b, zero)["D"].astype(np.float64), wanted)
    made = compile_function(func)
    assert "tcgen05.mma.ws.cta_group::1.kind::" in made.ptx and not made.warnings
    for policy in POLICIES:
        result = made.simulate(a, b, zero, policy=policy)
        assert not result.faults, [str(f) for f in result.faults[:3]]
        np.testing.assert_array_equal(result.arrays["D"].astype(np.float64), wanted)


def test_a_layout_that_only_the_stationary_form_has():
    """With 64 rows in all 128 lanes no other form fits, so none needs to be asked for; with 128 rows the usual one is taken."""
    kernels = [compile_function(stationary(m, 64, config="cta_group=1")) for m in (64, 128)]
    chosen = [next(c.choice for c in k.calls if c.choice.context.op == "gemm_async") for k in kernels]
    assert [c.chosen.node for c in chosen] == ["Tcgen05MmaStationary", "Tcgen05Mma"]
    assert {k.node for k in chosen[1].candidates} == {"Tcgen05MmaStationary", "Tcgen05Mma"}


def test_refused():
    with pytest.raises(LoweringError, match="N = 32 is not permitted"):
        compile_function(stationary(32, 32))
    with pytest.raises(LoweringError, match=r"D\[0, 32\] is at lane 0, column 32; the tensor core puts it at lane 64"):
        compile_function(stationary(64, 64, layout="TileLayout(S[(64, 64) : (1 @ TLane, 1 @ TCol)])"))


def test_the_equation_tells_the_forms_apart():
    choices, bodies, program, rest = lowered(stationary(64, 64))
    choice = next(c for c in choices if c.chosen.node == "Tcgen05MmaStationary")
    body = bodies[choice.context.index]
    assert verdict(choice, body, bodies, program, rest).status == "equal"
    def plain(nodes):
        return tuple(
            dataclasses.replace(n, opcode=n.opcode.replace(".ws.", ".")) if isinstance(n, Instruction) else n for n in nodes
        )  # fmt: skip

    assert verdict(choice, plain(body), bodies, program, rest).status == "different"
