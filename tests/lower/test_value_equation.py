"""The value equation: it holds for what is emitted, and a change to the emitted code breaks it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tirx_eq.errors import ProofError
from tirx_eq.lower.equations import symbols
from tirx_eq.lower.equations.values import value_equation
from tirx_eq.lower.indices import Indices
from tirx_eq.lower.program import Instruction, Memory, replace_calls

from .kernels import kernel
from .test_equation import lowered
from .test_run_elementwise import IDS
from .value_kernels import AXES, value_kernel

F32 = "float32"
SUBJECTS = {
    "sub": lambda: value_kernel("sub({D}, {A}, {B})", dict.fromkeys("DAB", (F32, "global", 16)), "cta"),
    "packed fma": lambda: value_kernel("fma({D}, {A}, {B}, {C})", dict.fromkeys("DABC", (F32, "registers", 16)), "thread"),
    "silu": lambda: value_kernel("silu({D}, {A})", dict.fromkeys("DA", ("float16", "registers", 4)), "thread"),
    "cast": lambda: value_kernel("cast({D}, {A})", {"D": ("float8_e4m3fn", "global", 16), "A": (F32, "global", 16)}, "cta"),
    "sum": lambda: value_kernel("sum({D}, {A})", {"D": (F32, "global", 1), "A": (F32, "registers", 8)}, "thread"),
    "max over lanes": lambda: kernel(
        IDS + 'a = Tx.alloc_local((2,), "float32")\nr = Tx.alloc_local((2,), "float32")\nTx.copy(a[:], A[tid, :])\n'
        "v = a.view(32, 2, layout=TileLayout(S[(32, 2):(1 @ laneid, 1)]))\nTx.warp.max(r[:], v[:, :], axes=0)\n"
        "Tx.copy(D[tid, :], r[:])",
        'A: Tx.Buffer((128, 2), "float32"), D: Tx.Buffer((128, 2), "float32")', AXES),
}  # fmt: skip
#: one opcode taken for another
CONFUSED = {
    "sub.rn.f32": "add.rn.f32", "sub.rn.f32x2": "add.rn.f32x2", "fma.rn.f32x2": None, "max.f32": "min.f32", "ex2.approx.f32":
    "lg2.approx.f32", "add.rn.f32x2": "mul.rn.f32x2", "add.rn.f32": "mul.rn.f32", "cvt.rn.f16x2.f32": "cvt.rn.bf16x2.f32",
    "cvt.rn.satfinite.e4m3x2.f32": "cvt.rn.satfinite.e5m2x2.f32", "rcp.approx.f32": "sqrt.rn.f32",
}  # fmt: skip


def mutants(body):
    """Bodies that differ in one instruction: another opcode, operands swapped, an address or a lane off, or left out."""
    for i, node in enumerate(body):
        if not isinstance(node, Instruction):
            continue

        def at(new, i=i):
            return (*body[:i], *new, *body[i + 1 :])

        if CONFUSED.get(node.opcode):
            yield f"{node.opcode} confused", at([dataclasses.replace(node, opcode=CONFUSED[node.opcode])])
        if node.opcode.startswith(("sub", "cvt.rn.f16x2", "cvt.rn.satfinite")):
            d, a, b = node.operands
            yield f"{node.opcode} swapped", at([dataclasses.replace(node, operands=(d, b, a))])
        if node.opcode.startswith("fma"):
            d, a, b, c = node.operands
            yield f"{node.opcode} rotated", at([dataclasses.replace(node, operands=(d, c, a, b))])
        if node.opcode.startswith("shfl"):
            yield "another lane", at([dataclasses.replace(node, operands=(*node.operands[:2], 0, *node.operands[3:]))])
        for k, o in enumerate(node.operands):
            if isinstance(o, Memory):
                moved = (*node.operands[:k], dataclasses.replace(o, offset=o.offset + 4), *node.operands[k + 1 :])
                yield f"{node.opcode} moved", at([dataclasses.replace(node, operands=moved)])
        if node.opcode.startswith("st."):
            yield f"{node.opcode} left out", at([])


@pytest.mark.parametrize("what", SUBJECTS)
def test_every_mutant_breaks_the_equation(what):
    choices, bodies, program, rest = lowered(SUBJECTS[what]())
    choice = next(c for c in choices if c.context.op not in ("copy",))
    index = choice.context.index

    def verdict(body):
        indices = Indices(replace_calls(program, {**bodies, index: body}), *rest)
        return value_equation(choice.context, body, indices)

    assert verdict(bodies[index]).status == "equal"
    kinds: dict[str, tuple] = {}
    for kind, mutant in mutants(bodies[index]):
        kinds.setdefault(kind, mutant)
    assert kinds
    for kind, mutant in kinds.items():
        try:
            found = verdict(mutant)
        except ProofError:
            continue  # such as a value read as another format
        assert found.status == "different", kind


def sym(k: int, fmt: str = "f32") -> symbols.Sym:
    return symbols.Sym(symbols.atom("x", np.array([k])), fmt, fmt)


def same(a: symbols.Sym, b: symbols.Sym) -> bool:
    return bool((a.key() == b.key()).all())


def test_symbols_know_arithmetic_but_not_more():
    a, b, c = sym(1), sym(2), sym(3)
    plus, times, minus = symbols.plus, symbols.times, symbols.minus
    assert same(plus(a, plus(b, c)), plus(plus(c, a), b))
    assert same(times(a, plus(b, c)), plus(times(b, a), times(a, c)))
    assert same(times(minus(a, b), symbols.inverse(minus(a, b))), symbols.number(1, "f32"))
    assert not same(minus(a, b), minus(b, a)) and not same(plus(a, a), a)
    assert same(symbols.extreme("max", a, b, c), symbols.extreme("max", c, symbols.extreme("max", b, a)))
    assert not same(symbols.extreme("max", a, b), symbols.extreme("min", a, b))
    assert not same(symbols.extreme("max", a, b), symbols.extreme("max", a, b, c))


def test_symbols_know_what_rounds():
    a = sym(1)
    half = symbols.rounded(a, "f16")
    assert not same(half, a)
    assert same(symbols.rounded(symbols.rounded(half, "f32"), "f16"), half), "a half is a half"
    assert not same(symbols.rounded(symbols.rounded(a, "bf16"), "f16"), half)
    assert same(symbols.rounded(sym(1, "e4m3"), "f16"), sym(1, "e4m3")), "every e4m3 is a half"
    assert not same(symbols.rounded(sym(1, "s32"), "s16"), sym(1, "s32"))
    assert same(symbols.number(0.75, "f32"), symbols.number(0.75, "f16"))
