"""Which conditions hold where a node of the program stands: of the branches and loops around it, and of what left before it.

A condition counts only if it is made of variables.  A variable gets its value at one node and keeps it until that node is
executed again, so a condition is forgotten where one of its variables is defined anew: after the node, after a branch in which
it stands, and in all of a loop that may execute it.  What is read from memory, or from a register that may be stored, is no
variable here: of a scalar in a register the lowering has made a variable for each value that it may have.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from ...ir import LE, LT, And, Expr, IntImm, Not, Or, Var, post_order_visit
from ...ir.arith import binary, logical_not
from ..program import Block, Comment, Define, If, Instruction, Jump, Loop, Node, Repeat, Routine, walk
from ..statement_parts import is_plain_index


@dataclass(frozen=True)
class Guard:
    """A condition that holds.  The program computes what it compares in ``bits`` bits; of others it says nothing."""

    condition: Expr
    bits: int = 64

    @cached_property
    def variables(self) -> frozenset[Var]:
        """The variables that it is made of."""
        return variables(self.condition)


#: Conditions that hold together.
Guards = tuple[Guard, ...]


def along(block: Block, guards: Guards) -> Iterator[tuple[Node, Guards]]:
    """The nodes of a block in order, each with the conditions that hold where it stands; ``guards`` hold where it begins."""
    for node in block:
        yield node, guards
        guards = _after(node, guards)


def inside(node: Node, guards: Guards) -> tuple[tuple[Block, Guards], ...]:
    """The blocks in a node that stands where ``guards`` hold, each with the conditions that hold where it begins.

    Of an ``If`` they are both branches, of a ``Repeat`` its head and its body, of a ``Loop`` its body, of a ``Routine`` its
    instructions.
    """
    if isinstance(node, If):
        return (node.then, guards + known(node.condition, True)), (node.orelse, guards + known(node.condition, False))
    if isinstance(node, Repeat):
        head = _kept(guards, (*node.head, *node.body))
        *_, (_, end) = along((*node.head, Comment("")), head)
        return (node.head, head), (node.body, end + known(node.condition, True))
    if isinstance(node, Loop):
        return ((node.body, _kept(guards, (node,)) + _counts(node)),)
    return ((node.body, guards),) if isinstance(node, Routine) else ()


def everywhere(block: Block, guards: Guards = ()) -> Iterator[tuple[Node, Guards]]:
    """Every node of a program with the conditions that hold where it stands, in the order of ``program.walk``."""
    for node, here in along(block, guards):
        yield node, here
        for inner, there in inside(node, here):
            yield from everywhere(inner, there)


def known(condition: object, holds: bool) -> Guards:
    """What is known of variables where a condition has that truth value: parts that all hold by themselves."""
    if not isinstance(condition, Expr) or isinstance(condition, IntImm):
        return ()
    if isinstance(condition, Not):
        return known(condition.a, not holds)
    if isinstance(condition, And if holds else Or):
        return known(condition.a, holds) + known(condition.b, holds)
    if not is_plain_index(condition):
        return ()
    return (Guard(condition if holds else logical_not(condition)),)


def leaves(block: Block) -> bool:
    """Whether what follows the block is never reached through it."""
    return any(map(_leaves, block))


def _leaves(node: Node) -> bool:
    if isinstance(node, If):
        return leaves(node.then) and leaves(node.orelse)
    return isinstance(node, Jump) or (isinstance(node, Instruction) and node.opcode == "trap" and node.guard is None)


def _after(node: Node, guards: Guards) -> Guards:
    more: Guards = ()
    if isinstance(node, If):
        more = known(node.condition, False) if leaves(node.then) else ()
        more += known(node.condition, True) if leaves(node.orelse) else ()
    return _kept(guards + more, (node,))


def _kept(guards: Guards, block: Block) -> Guards:
    """The conditions of whose variables nothing in the block defines one."""
    defined = _defined(block) if guards else frozenset()
    left = tuple(g for g in guards if not defined & g.variables) if defined else guards
    return guards if len(left) == len(guards) else left


def _defined(block: Block) -> frozenset[Var]:
    """The variables that get a value in the block."""
    if not any(isinstance(n, (Define, If, Loop, Repeat)) for n in block):
        return frozenset()
    return frozenset(n.var for n in walk(block) if isinstance(n, (Define, Loop)))


def _counts(loop: Loop) -> Guards:
    """That a loop's counter is between its ends, where these aren't constant (ranges tell of those)."""
    made = []
    for end, compare in ((loop.start, lambda e: binary(LE, e, loop.var)), (loop.stop, lambda e: binary(LT, loop.var, e))):
        if not isinstance(end, IntImm) and is_plain_index(end) and not variables(end) & _defined((loop,)):
            made.append(Guard(compare(end), 32))
    return tuple(made)


def variables(e: Expr) -> frozenset[Var]:
    """The variables in an expression."""
    found: set[Var] = set()
    post_order_visit(e, lambda node: found.add(node) if isinstance(node, Var) else None)
    return frozenset(found)
