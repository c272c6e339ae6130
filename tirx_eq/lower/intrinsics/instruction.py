"""PTX instructions that a kernel writes itself (``tirx.ptx.instruction``), as TVM 0.27 has them.

The call is ``(entry, opcode, operands…, modifiers…, flags)``: ``entry`` and ``modifiers`` are what TVM calls them (for the
way back), ``opcode`` is the instruction with its modifiers, and ``flags`` says which operands are left out (``s3``) and whether
the last one is a predicate for the whole instruction (``pred``).  What each operand must be, the instruction table knows.
"""

from __future__ import annotations

from typing import Any

from ...errors import LoweringError
from ...ir import Call, IntImm, StringImm
from ..program import Instruction, Kept, Temp, Value
from .assemble import Assembly, Given
from .places import is_zero

INSTRUCTION = "tirx.ptx.instruction"


def raw_instruction(call: Call, work: Assembly) -> None:
    """Append the instruction of such a call."""
    opcode, operands, flags = parts(call)
    work.what = f"ptx.{opcode}"
    guard = None
    if "pred" in flags:
        *operands, condition = operands
        if not is_zero(condition) and isinstance(condition, IntImm):
            guard = None
        else:
            guard = Temp("pred")
            work.nodes.append(Instruction("setp.ne.s32", (guard, Value(condition, "s32"), 0)))
    given = _with_sinks(operands, flags)
    work.add(opcode, given, guard)


def parts(call: Call) -> tuple[str, list[Any], list[str]]:
    """(opcode, operands, flags) of a call."""
    opcode = call.args[1]
    last = call.args[-1]
    if not isinstance(opcode, StringImm) or not isinstance(last, StringImm):
        raise LoweringError("a PTX instruction without its opcode or flags", span=call.span)
    operands = [a for a in call.args[2:-1] if not isinstance(a, StringImm)]
    return opcode.value, operands, [f for f in last.value.split(",") if f]


def _with_sinks(operands: list[Any], flags: list[str]) -> list[Given]:
    """The operands, with those that are left out in their places."""
    sunk = {int(f[1:]) for f in flags if f[:1] == "s" and f[1:].isdigit()}
    made: list[Given] = []
    rest = list(operands)
    while rest or len(made) in sunk:
        made.append(Given(Kept()) if len(made) in sunk else Given(rest.pop(0)))
    return made
