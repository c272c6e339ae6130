"""Element-wise primitives on registers in different layouts: through an exchange of registers, the cheapest that there is."""

from __future__ import annotations

import numpy as np
import pytest

from tirx_eq.interp.run import interpret
from tirx_eq.ir import dtype as dt
from tirx_eq.lower.candidates import NoCandidate
from tirx_eq.lower.kernel import compile_function

from .kernels import kernel

AXES = "from tirx_eq.layout import laneid, warpid, wid_in_wg, tx\n"
EXCHANGES = {"Shuffle", "Exchange", "ExchangeOnce"}
ROWS, TURNED = "S[(128, 8):(1 @ tx, 1)]", "S[(8, 16, 8):(1, 8 @ tx, 1 @ tx)]"
#: scope -> (threads, rows, a layout, another)
SCOPES = {
    "cta": (128, 128, ROWS, TURNED),
    "wg": (256, 128, ROWS.replace("tx", "tid_in_wg"), TURNED.replace("tx", "tid_in_wg")),
    "warp": (64, 32, "S[(32, 8):(1 @ laneid, 1)]", "S[(8, 4, 8):(1, 8 @ laneid, 1 @ laneid)]"),
}  # fmt: skip


def registers(statement: str, scope: str = "cta", dtypes: str = "fff", sizes=(8, 8, 8), before: str = "", loop: bool = False):
    """``statement`` on va, vb, vc (b in the other layout) of a scope, a from A, b from B, c from C and back to C."""
    threads, rows, first, second = SCOPES[scope]
    names = {"f": "float32", "h": "float16", "b": "bfloat16", "d": "float64", "i": "int32", "u": "uint8"}
    layouts = {"a": first, "b": second, "c": first}
    lines = [f"t = Tx.thread_id([{threads}])", f"w = Tx.warp_id([{threads // 32}])"]
    lines += [f"g = Tx.warpgroup_id([{threads // 128}])"] if scope == "wg" else []
    for name, code, size in zip("abc", dtypes, sizes):
        lines.append(f'{name} = Tx.alloc_local(({size},), "{names[code]}")')
        lines.append(f"Tx.copy({name}[:], {name.upper()}[t, :])")
        lines.append(f"v{name} = {name}.view({rows}, 8, layout=TileLayout({layouts[name]}))")
    guard = {"wg": "if g == 1:\n    ", "warp": "if w == 1:\n    "}.get(scope, "")
    guard += "for k in Tx.serial(2):\n" + ("        " if guard else "    ") if loop else ""
    lines += [before] if before else []
    lines += [f"{guard}Tx.{scope}.{statement}", "Tx.copy(C[t, :], c[:])"]
    params = ", ".join(f'{n.upper()}: Tx.Buffer(({threads}, {s}), "{names[d]}")' for n, d, s in zip("abc", dtypes, sizes))
    return kernel("\n".join(lines), params, AXES)


def check(func, policies=("late",)):
    made = compile_function(func)
    made.assemble()
    given = []
    for k, p in enumerate(func.params):
        b = func.buffer_map[p]
        low = 0 if b.dtype == "uint8" else -50
        given.append(np.random.default_rng(k).integers(low, 50, b.const_shape()).astype(dt.numpy_dtype(b.dtype)))
    wanted = interpret(func, *given)
    for policy in policies:
        result = made.simulate(*given, policy=policy, seed=1)
        assert not result.faults, [str(f) for f in result.faults[:3]]
        for name, value in wanted.items():
            got = np.asarray(result.arrays[name])
            np.testing.assert_array_equal(got.astype(np.float64), np.asarray(value).astype(np.float64))
    assert all(call.equation.status == "equal" for call in made.calls)
    return made


def shared_calls(made):
    return [k.choice.chosen.node for k in made.calls if k.choice.context.scope != "thread"]


@pytest.mark.parametrize(("scope", "dtypes"), [("cta", "fff"), ("wg", "hhh"), ("warp", "ddd"), ("warp", "uuu"), ("cta", "hhh")])
def test_sum_of_two_layouts(scope, dtypes):
    made = check(registers("add(vc[:, :], va[:, :], vb[:, :])", scope, dtypes))
    first, second = shared_calls(made)
    assert first in EXCHANGES and second in ("Map", "MapPacked")


def test_under_every_policy_and_in_a_loop():
    check(registers("fma(vc[:, :], va[:, :], vb[:, :], vc[:, :])", loop=True), ("late", "early", "random"))


@pytest.mark.parametrize(
    ("statement", "dtypes"),
    [
        ("select(vc[:, :], va[:, :], vb[:, :], lambda i, j: i + j < 60)", "fff"),
        ("cast(vc[:, :], vb[:, :])", "fhf"), ("cast(vc[:, :], vb[:, :])", "ffh"), ("maximum(vc[:, :], vb[:, :], 3.0)", "ffb"),
        ('binary_chain(vc[:, :], va[:, :], op0="add", operand0=1.0, op1="mul", operand1=vb[:, :])', "fff"),
        ("mul(vc[:, :], vb[:, :], vb[:, :])", "fff"), ("add(va[:, :], va[:, :], vb[:, :])", "iii"),
    ],
)
def test_operations(statement, dtypes):
    if statement.startswith("add(va"):
        statement = statement.replace("va", "vc")
    made = check(registers(statement, dtypes=dtypes))
    assert EXCHANGES & set(shared_calls(made))


def test_the_cheaper_layout_is_taken():
    """Two operands in the other layout: the result is exchanged, once, and not the operands; and the narrower side is."""
    made = check(registers("add(vc[:, :], vb[:, :], vd[:, :])", before='d = Tx.alloc_local((8,), "float32")\n'
                           f"vd = d.view(128, 8, layout=TileLayout({TURNED}))\nTx.fill(d[:], 2.0)"))  # fmt: skip
    assert [n in EXCHANGES for n in shared_calls(made)] == [False, True]
    wide = check(registers("cast(vc[:, :], vb[:, :])", dtypes="ffh"))
    narrow = check(registers("cast(vc[:, :], vb[:, :])", dtypes="fhf"))
    assert [n in EXCHANGES for n in shared_calls(wide)] == [False, True]  # halves after the conversion
    assert [n in EXCHANGES for n in shared_calls(narrow)] == [True, False]  # before it


def test_a_row_for_all_and_parts_of_tiles():
    """A factor for each row, held by other threads; and a region that is part of the registers."""
    row = 'd = Tx.alloc_local((1,), "float32")\nTx.copy(d[:], A[t, 0:1])\n'
    row += "vd = d.view(128, 1, layout=TileLayout(S[(2, 64, 1):(1 @ tx, 2 @ tx, 1)]))"
    made = check(registers("mul(vc[:, :], va[:, :], vd[:, :])", before=row))
    assert [n in EXCHANGES for n in shared_calls(made)] == [True, False]
    part = 'e = Tx.alloc_local((16,), "float32")\nTx.fill(e[:], 3.0)\n'
    part += "ve = e.view(128, 16, layout=TileLayout(S[(128, 16):(1 @ tx, 1)]))"
    made = check(registers("add(ve[:, 4:12], ve[:, 4:12], vb[:, :])\nTx.copy(c[:], e[2:10])", before=part))
    assert [n in EXCHANGES for n in shared_calls(made)] == [True, False]


def test_into_memory():
    made = check(registers("add(C[:, :], va[:, :], vb[:, :])".replace("C[:, :]", "S[:, :]"),
                           before='S = Tx.alloc_shared([128, 8], "float32")')
                 )  # fmt: skip
    assert EXCHANGES & set(shared_calls(made))


def test_what_other_warps_have():
    with pytest.raises(NoCandidate, match="more threads than a warp has"):
        compile_function(registers(
            "add(vc[:, :], va[:, :], vd[:, :])", "warp",
            before="vd = b.view(32, 8, layout=TileLayout(S[(2, 16, 8):(1 @ warpid, 1 @ laneid, 1)]))"))  # fmt: skip
