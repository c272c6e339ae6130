"""For every tile primitive a call with several legal variants, of which neither the first nor the widest is the cheapest.

First-match, by the order of the rules and the widest parameter first, would take another than the one that is taken.
"""

from __future__ import annotations

import pytest

from tirx_eq.ir.op import TILE_PRIMITIVES
from tirx_eq.lower.candidates import Candidate, Choice, choose, lowering_rules
from tirx_eq.lower.conditions import OPTIONS
from tirx_eq.lower.sharing.threads import find_launch
from tirx_eq.lower.statements import Lowerer
from tirx_eq.lower.storage import plan

from .kernels import kernel
from .product_kernels import register_product
from .test_run_stationary import stationary
from .test_selection import PIECES, PIECES_PARAMS

#: Two rows of shared memory for 128 threads: one element each keeps all of them busy, vectors only some.
HEAD = """
tid = Tx.thread_id([128])
s = Tx.alloc_shared((64, 64), "float32")
d = Tx.alloc_shared((64, 64), "float32")
h = Tx.alloc_shared((64, 64), "float16")
m = Tx.alloc_shared((64, 1), "float32")
r = Tx.alloc_local((64,), "float32")
o = Tx.alloc_local((1,), "float32")
"""
D, X, Y = "d[0:2, :]", "s[0:2, :]", "s[2:4, :]"
UNARY = ("permute_layout", "reciprocal", "silu", "zero", "sqrt", "exp", "exp2", "log2")
BINARY = ("add", "sub", "mul", "fdiv", "maximum", "minimum")
CALLS = {
    **{op: f"Tx.cta.{op}({D}, {X})" for op in UNARY},
    **{op: f"Tx.cta.{op}({D}, {X}, {Y})" for op in BINARY},
    "copy": f"Tx.cta.copy({D}, {X})",
    "cast": f"Tx.cta.cast(h[0:2, :], {X})",
    "fill": f"Tx.cta.fill({D}, 1.0)",
    "memset": f"Tx.cta.memset({D}, 1.0)",
    "fma": f"Tx.cta.fma({D}, {X}, {Y}, 2.0)",
    "select": f"Tx.cta.select({D}, {X}, {Y}, lambda i, j: j < 8)",
    "binary_chain": f'Tx.cta.binary_chain({D}, {X}, {Y}, 3.0, "sub", "mul")',
    "sum": "Tx.sum(o[:], r[:])",
    "max": "Tx.max(o[:], r[:])",
    "min": "Tx.cta.min(m[:, :], s[:, :], axes=(1,))",
    "reduce_negate": 'Tx.cta.reduce_negate(m[:, :], s[:, :], "max", axes=(1,))',
    "unary_reduce": f'Tx.cta.unary_reduce({D}, m[0:2, :], {X}, "exp", "sum", reduce_axes=(1,))',
    "binary_reduce": f'Tx.cta.binary_reduce({D}, m[0:2, :], {X}, {Y}, "add", "sum", reduce_axes=(1,))',
    "compose_op": f"with Tx.compose_op():\n    Tx.cta.add({D}, {X}, 1.0)\n    Tx.cta.mul({D}, {D}, 2.0)",
}


def choices(func) -> list[Choice]:
    lowerer = Lowerer(func, find_launch(func), plan(func), "sm_100a")
    lowerer.run()
    return choose(lowerer.contexts)


def first_match(choice: Choice) -> Candidate:
    """What the first rule that applies would give, with the first of its parameters that passes."""
    order = {p.rule.name: (i, p) for i, p in enumerate(lowering_rules())}

    def place(k: Candidate) -> tuple[int, int]:
        i, premises = order[k.rule]
        options = OPTIONS[premises.parameter](choice.context) if premises.parameter else []
        return i, options.index(k.values[0]) if options else 0

    return min(choice.candidates, key=place)


def is_telling(choice: Choice) -> bool:
    """Whether the cheapest is taken, and is neither the first nor the widest."""
    chosen, rivals = choice.chosen, [k for k in choice.candidates if k.node == choice.chosen.node and k.values]
    widest = max(rivals, key=lambda k: k.values) if len(rivals) > 1 else None
    assert chosen.cycles == min(k.cycles for k in choice.candidates)
    return chosen is not first_match(choice) and chosen is not widest and chosen.cycles < first_match(choice).cycles


def call(op: str):
    return kernel(HEAD + CALLS[op], 'A: Tx.Buffer((64, 64), "float32")')


@pytest.mark.parametrize("op", sorted(CALLS))
def test_the_cheapest_is_neither_the_first_nor_the_widest(op):
    found = choices(call(op))
    assert any(is_telling(c) for c in found), [[(k.describe(), k.cycles) for k in c.candidates] for c in found]


def test_a_product_of_the_tensor_core_in_its_usual_form():
    """With 128 rows the weight-stationary form is legal too, and its rule comes first."""
    found = next(c for c in choices(stationary(128, 64, config="cta_group=1")) if c.context.op == "gemm_async")
    assert [k.node for k in found.candidates] == ["Tcgen05Mma", "Tcgen05MmaStationary"]
    assert first_match(found).node == "Tcgen05MmaStationary" and is_telling(found)


def test_a_product_of_fragments_that_adds_to_its_addend():
    """The product may be formed by itself and then added to C, which is the first rule; to begin with C is cheaper."""
    found = next(c for c in choices(register_product((16, 8, 8), ("float16", "float16", "float32"))) if c.context.op == "gemm")
    assert [k.node for k in found.candidates] == ["MmaSync", "MmaSyncScaled"]
    assert first_match(found).node == "MmaSyncScaled" and is_telling(found)


def test_tensor_copies_take_the_map_that_others_need():
    """copy_async: of two legal tensor maps not that which the call alone would take, but the one that is paid once."""
    found = [c for c in choices(kernel(PIECES, PIECES_PARAMS)) if c.context.op == "copy_async"]
    first = found[0]
    assert len(first.candidates) > 1 and first.chosen is not first_match(first) and first.chosen is not first.candidates[0]
    assert len({c.chosen.values for c in found}) == 1


#: Registers whose threads need each other's values: ways that differ in scratch, barriers, shuffles and vectors.
ACROSS = {
    "sum over warps": "v = r.view(128, 64, layout=TileLayout(S[(128, 64):(1 @ tx, 1)]))\n"
    "u = o.view(1, layout=TileLayout(S[(1,):(1,)]))\nTx.cta.sum(u[:], v[:, :], axes=[0, 1])",
    "rows to columns": "v = r.view(128, 64, layout=TileLayout(S[(128, 64):(1 @ tx, 1)]))\n"
    "e = Tx.alloc_local((64,), 'float32')\n"
    "u = e.view(128, 64, layout=TileLayout(S[(64, 2, 64):(1, 64 @ tx, 1 @ tx)]))\nTx.cta.copy(u[:, :], v[:, :])",
}


@pytest.mark.parametrize("what", sorted(ACROSS))
def test_values_of_other_threads(what):
    """The first rule and way that apply are legal, and dearer than what is taken."""
    (found,) = choices(kernel(HEAD + ACROSS[what], 'A: Tx.Buffer((64, 64), "float32")', "from tirx_eq.layout import tx\n"))
    assert found.chosen.cycles == min(k.cycles for k in found.candidates) < first_match(found).cycles


ELSEWHERE = {"gemm", "copy_async", "gemm_async"}


def test_every_primitive_has_such_a_call():
    assert {p.name for p in TILE_PRIMITIVES} == set(CALLS) | ELSEWHERE
