"""The named barriers of a CTA (PTX ISA: 16, of which 0 is everybody's): those that a kernel uses, and those left over.

A warpgroup that must wait for itself between parts of a call takes a barrier that the kernel doesn't use.  Which ones these are
is known when the whole kernel is lowered; until then the number is :data:`FREE` less the number of the warpgroup.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..errors import LoweringError, Span
from ..ir import Expr, IntImm, PrimType, Var, const, substitute
from .program import Block, Index, Instruction, Node, Operand, Value, mapped, operand_exprs, walk
from .sharing.threads import WARPGROUP, Launch
from .statement_parts import uses

LAST_BARRIER = 15
#: The barrier of the first warpgroup; those of the others are below it.
FREE = Var("free_barrier", PrimType("int32"))


def own_barrier(launch: Launch) -> Expr:
    """The number of a barrier for the threads of a warpgroup, until :func:`with_barriers` puts it in."""
    return FREE - launch.flat_tid() // WARPGROUP if launch.threads > WARPGROUP else FREE + 0


def barriers_of(block: Block, limits: Callable[[Expr], tuple[int, int]]) -> frozenset[int]:
    """The numbers that instructions on named barriers may name, of 1 to 15; ``limits`` gives the ends of an expression."""
    found: set[int] = set()
    for node in walk(block):
        for number in _numbers(node):
            if isinstance(number, Expr) and uses(number, FREE):
                continue
            low, high = (number, number) if isinstance(number, int) else limits(number)
            found |= set(range(max(1, low), min(LAST_BARRIER, high) + 1))
    return frozenset(found)


def first_free(used: frozenset[int], units: int) -> int | None:
    """The number of the first warpgroup's barrier, those of the other ``units`` below it; None if not as many in a row are
    left."""
    for first in range(LAST_BARRIER, units - 1, -1):
        if not used & set(range(first - units + 1, first + 1)):
            return first
    return None


def with_barriers(program: Block, used: frozenset[int], launch: Launch) -> Block:
    """The program with numbers for the barriers of warpgroups.  Raises LoweringError if the kernel leaves too few."""
    waiting = [n for n in walk(program) if any(isinstance(e, Expr) and uses(e, FREE) for e in _numbers(n))]
    if not waiting:
        return program
    units = max(1, launch.threads // WARPGROUP)
    first = first_free(used, units)
    if first is None:
        raise LoweringError(
            f"the threads of a warpgroup must wait between parts of a call: {units} of the barriers 1 to {LAST_BARRIER} in a "
            f"row are needed for that, and the kernel uses {_listed(used)}",
            hint="use fewer named barriers, with constant numbers, or make the call at CTA scope", span=_span(waiting[0]),
        )

    def change(node: Node) -> Block:
        if not any(isinstance(e, Expr) and uses(e, FREE) for e in _numbers(node)):
            return (node,)
        assert isinstance(node, Instruction)
        operands = tuple(_with_number(o, first) for o in node.operands)
        return (Instruction(node.opcode, operands, node.guard, node.guard_negated, node.comment, node.span),)

    return mapped(program, change)


def _numbers(node: Node) -> Iterator[int | Expr]:
    """The number of the barrier that an instruction names."""
    if not isinstance(node, Instruction) or not node.opcode.startswith(("bar.", "barrier.")):
        return
    if node.opcode.startswith(("bar.warp.", "barrier.cluster.")):
        return
    operand = node.operands[1 if ".red" in node.opcode else 0]
    if isinstance(operand, int):
        yield operand
    for e in operand_exprs(operand):
        yield e.value if isinstance(e, IntImm) else e


def _with_number(operand: Operand, first: int) -> Operand:
    if isinstance(operand, (Index, Value)) and uses(operand.expr, FREE):
        changed: Expr = substitute(operand.expr, {FREE: const(first)})
        return Index(changed) if isinstance(operand, Index) else Value(changed, operand.type, operand.imm)
    return operand


def _span(node: Node) -> Span | None:
    return node.span if isinstance(node, Instruction) else None


def _listed(used: frozenset[int]) -> str:
    return "any of them" if len(used) == LAST_BARRIER else ", ".join(map(str, sorted(used)))
