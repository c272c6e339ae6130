"""The instructions of an intrinsic call."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from ...errors import LoweringError
from ...ir import NE, BufferLoad, Call, Expr, FloatImm, IntImm, Var, const, post_order_visit
from ...ir import dtype as dt
from ...ir.intrinsics import bound_arguments
from ..program import Block, If, Kept, Special, Temp
from ..scope import folded
from .assemble import Assembly, Given, Register
from .instruction import INSTRUCTION, raw_instruction
from .language import Arguments, Line, choose, constant, opcode
from .places import Places
from .table import REFUSED, TEMPLATES, raw_operands

_NUMBER = re.compile(r"-?(0x[0-9a-fA-F]+|\d+(\.\d+)?)$")
_WORD = re.compile(r"(?P<star>\^?\*)?(?P<caret>\^)?(?P<and>&)?(?P<name>\w+)(@(?P<rank>\w+))?(\+(?P<offset>\d+))?$")


def is_lowered(name: str) -> bool:
    """Whether calls of an operator have templates."""
    return name in TEMPLATES or name == INSTRUCTION


def arguments(call: Call) -> dict[str, Any]:
    """The arguments of an intrinsic call by parameter name; absent ones are None."""
    found = raw_operands(call)
    if found is None:
        found = {} if ".iket_" in call.op.name else bound_arguments(call)
    if found is None:
        raise LoweringError(f"the operands of '{call.op.name}' are not those of the intrinsic", span=call.span)
    return dict(found)


def lower_call(call: Call, places: Places) -> tuple[Block, Temp | None]:
    """The instructions of a call, and the register of its value if it has one.

    Raises LoweringError for an intrinsic without PTX here, or an argument that must be constant or an address and isn't.
    """
    call = replace(call, args=tuple(_number(a) for a in call.args))
    name = call.op.name
    work = Assembly(places, name)
    if name == INSTRUCTION:
        raw_instruction(call, work)
        return tuple(work.nodes), None
    templates = TEMPLATES.get(name)
    if templates is None:
        why = f": {REFUSED[name]}" if name in REFUSED else ""
        raise LoweringError(f"there is no PTX for the intrinsic '{name}'{why}", span=call.span)
    given: dict[str, Any] = {**arguments(call), "result": call.dtype}
    for template in templates:
        if template.derive is not None:
            given.update(template.derive(given))
    chosen = choose(templates, given)
    if chosen is None:
        raise LoweringError(f"'{name}' is not lowered with these arguments ({_shown(given)})", span=call.span)
    for line in chosen.lines(given):
        _add(work, line, given)
    return _predicated(given, tuple(work.nodes)), work.temps.get("%d")


def _shown(given: Arguments) -> str:
    return ", ".join(f"{k}={constant(v)}" for k, v in given.items() if constant(v) not in (None, ""))


def _add(work: Assembly, line: Line, given: Arguments) -> None:
    operands: list[Given] = []
    for word in line.operands:
        operands += _operand(word, given, work)
    guard, negated = line.guard.removeprefix("!"), line.guard.startswith("!")
    try:
        work.add(opcode(line.opcode, work.what, given), operands, work.temps[guard] if guard else None, negated)
    except KeyError as missing:
        raise LoweringError(f"the template of '{work.what}' reads {missing} before it is written") from None


def _operand(word: str, given: Arguments, work: Assembly) -> list[Given]:
    """What a word of a template stands for; none for an optional one that is absent."""
    role = "value"
    if word.startswith("["):
        word, role = word[1:-1], "memory"
    if word == "_":
        return [Given(Kept())]
    if word.startswith("<"):
        name = word[1:-1]
        return [Given(Special(str(constant(given[name])) if name in given else f"%{name}"))]
    if word.startswith("%"):
        name, _, declared = word.partition(":")
        name, _, offset = name.partition("+")
        return [Given(Register(name, declared), role, offset=int(offset or 0))]
    if _NUMBER.match(word):
        return [Given(float(word) if "." in word else int(word, 0))]
    word, asked, flag = word.partition("?")
    found = _WORD.match(word)
    if found is None:
        raise LoweringError(f"the template of '{work.what}' has the operand '{word}'")
    name = found["name"]
    if name not in given:
        raise LoweringError(f"the template of '{work.what}' names '{name}', which is no argument")
    if asked and (given[name] is None if not flag else constant(given.get(flag)) in (None, 0, "", False)):
        return []
    if found["caret"] or found["star"] == "^*":
        role = "pointee"
    elif found["and"]:
        role = "address"
    rank = given[found["rank"]] if found["rank"] else None
    members = given[name] if found["star"] else (given[name],)
    return [Given(m, role, rank, int(found["offset"] or 0), name) for m in members]


def _predicated(given: Arguments, made: Block) -> Block:
    """The instructions, where the argument ``pred`` of an effect holds if there is one."""
    pred = given.get("pred")
    if pred is None or given["result"] != "void" or constant(pred) == 1:
        return made
    assert isinstance(pred, Expr)
    return (If(pred if pred.dtype == "bool" else NE(pred, const(0, pred.dtype)), made),)





def _number(e: Any) -> Any:
    """An integer expression of constants (``1 - k`` in a round of an unrolled loop) as a number, anything else as it is."""
    if not isinstance(e, Expr) or isinstance(e, IntImm) or dt.kind(e.dtype) not in ("int", "uint"):
        return e
    unknown: list[Any] = []
    post_order_visit(e, lambda n: unknown.append(n) if isinstance(n, (Var, BufferLoad, Call, FloatImm)) else None)
    return e if unknown else folded(e)
