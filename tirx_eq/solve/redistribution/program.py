"""A conversion plan as a TIRx function, for the reference interpreter and for reading.

Registers are a local array of 32-bit words, one element per value of the plan.  Byte permutes are shifts and masks; a vector
or matrix access is written word by word, which is what it means.
"""

from __future__ import annotations

from typing import Any

from ...ir import PrimFunc
from ...redistribution.plan import Barrier, Choose, Get, Permute, Plan, Put, Shuffle, Term, matrix_place
from ..memory.access import WARP

_INFIX = {
    "add": "+", "mul": "*", "div": "//", "mod": "%", "and": "&", "or": "|", "xor": "^", "shl": "<<", "shr": ">>", "eq": "==",
    "lt": "<",
}  # fmt: skip
#: bytes of a word that are neighbours in memory, for transposed matrices
_PIECE = {"trans": 2, "trans8": 1}
_BARRIERS = {"warp": "Tx.cuda.warp_sync()", "cta": "Tx.cuda.cta_sync()"}


def program_of(plan: Plan, name: str = "convert") -> PrimFunc:
    """The function (A: uint32[threads, source registers], D: uint32[threads, destination registers])."""
    from ...script import parse_source

    return parse_source(source_of(plan, name), f"{name}.py")[name]


def source_of(plan: Plan, name: str = "convert") -> str:
    """Its source text."""
    lines = [f"tid = Tx.thread_id([{plan.threads}])", f'v = Tx.alloc_local(({plan.values},), "uint32")']
    accesses = [step for step in plan.steps if isinstance(step, (Put, Get))]
    unit = min([4, *(_PIECE.get(step.matrix, step.width) for step in accesses)])
    if plan.shared:
        lines.append(f's = Tx.alloc_shared([{-(-plan.shared // unit)}], "uint{8 * unit}")')
    lines += [f"v[{i}] = A[tid, {i}]" for i in range(plan.inputs)]
    for step in plan.steps:
        lines += _lines(step, unit)
    for i, value in enumerate(plan.outputs):
        lines.append(f"D[tid, {i}] = " + ("Tx.uint32(0)" if value is None else f"v[{value}]"))
    head = (
        "from tirx_eq.script import tirx as Tx\n\n\n@Tx.prim_func\n"
        f'def {name}(A: Tx.Buffer(({plan.threads}, {plan.inputs}), "uint32"), '
        f'D: Tx.Buffer(({plan.threads}, {len(plan.outputs)}), "uint32")):\n    Tx.device_entry()\n'
    )
    return head + "".join(f"    {line}\n" for line in lines)


def _lines(step: Any, unit: int) -> list[str]:
    """The statements of a step; shared memory is an array of words of ``unit`` bytes."""
    if isinstance(step, Permute):
        parts = []
        for i in range(4):
            digit = step.selector >> (4 * i) & 7
            source, byte = (step.a, digit) if digit < 4 else (step.b, digit - 4)
            part = f"((v[{source}] >> Tx.uint32({8 * byte})) & Tx.uint32(255))" if byte else f"(v[{source}] & Tx.uint32(255))"
            parts.append(f"({part} << Tx.uint32({8 * i}))" if i else part)
        return [f"v[{step.out}] = {' | '.join(parts)}"]
    if isinstance(step, Choose):
        return [f"v[{step.out}] = Tx.Select({text(step.condition)} == 1, v[{step.a}], v[{step.b}])"]
    if isinstance(step, Shuffle):
        return [f"v[{step.out}] = Tx.cuda.__shfl_sync(Tx.uint32(0xFFFFFFFF), v[{step.value}], {text(step.lane)}, {WARP})"]
    if isinstance(step, Barrier):
        return [_BARRIERS[step.scope]]
    words = step.words if isinstance(step, Put) else step.outs
    out = []
    for k, word in enumerate(words):
        for i in range(0, min(4, step.width), unit):
            at = f"s[{_address(step, 4 * k + i, unit)}]"
            if isinstance(step, Put):
                shifted = f"(v[{word}] >> Tx.uint32({8 * i}))" if i else f"v[{word}]"
                low = f'Tx.cast({shifted} & Tx.uint32({256**unit - 1}), "uint{8 * unit}")'
                out.append(f"{at} = {shifted if unit == 4 else low}")
                continue
            part = at if unit == 4 else f'Tx.cast({at}, "uint32")'
            out.append(f"v[{word}] = v[{word}] | ({part} << Tx.uint32({8 * i}))" if i else f"v[{word}] = {part}")
    if step.guard is not None:
        zero = [f"v[{word}] = Tx.uint32(0)" for word in words] if isinstance(step, Get) else []
        return [*zero, f"if {text(step.guard)}:", *(f"    {line}" for line in out)]
    return out


def _address(step: Put | Get, byte: int, unit: int) -> str:
    """The index of the unit that is ``byte`` bytes into a thread's access."""
    if step.matrix:
        giver, within = matrix_place(step, byte // 4, byte % 4)
        lane = ("add", ("mul", ("div", "tid", WARP), WARP), giver)
        start = f"{text(replaced(step.address, lane))} + {text(within)} + {step.offset}"
    else:
        start = f"{text(step.address)} + {step.offset + byte}"
    return f"({start}) // {unit}" if unit > 1 else start


def replaced(term: Term, tid: Term) -> Term:
    """The term with another thread number."""
    if term == "tid":
        return tid
    return (term[0], *(replaced(a, tid) for a in term[1:])) if isinstance(term, tuple) else term


def text(term: Term) -> str:
    """A term as Python."""
    if not isinstance(term, tuple):
        return str(term)
    op, *args = term
    return f"({text(args[0])} {_INFIX[op]} {text(args[1])})"
