"""The device program: PTX instructions whose integer operands are still expressions.

Lowering turns statements and tile primitives into these nodes; all index expressions of the kernel are then simplified
together, and :mod:`tirx_eq.lower.code.emit` writes the PTX.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from ..errors import Span
from ..ir import Expr, Var
from ..ptx.tensormap import TensorMap
from .storage import Root


@dataclass(frozen=True, eq=False)
class Temp:
    """A virtual register that holds one value; ``type`` is a PTX register type (b32, b64, f32, pred …)."""

    type: str


@dataclass(frozen=True)
class Word:
    """One register of a local buffer: the ``index``-th word of ``array`` (its storage root)."""

    array: Root
    index: int


@dataclass(frozen=True)
class Index:
    """The value of an integer expression in a register of ``bits`` bits."""

    expr: Expr
    bits: int = 32


@dataclass(frozen=True)
class Value:
    """The value of a scalar expression of any dtype in a register that holds PTX type ``type``; ``imm``: or as a number."""

    expr: Expr
    type: str
    imm: bool = False


@dataclass(frozen=True)
class Memory:
    """The address ``root + offset``; ``offset`` in bytes, from the start of the root's storage.

    Of a ``cluster`` root it is a shared::cluster address in the CTA whose rank is the root's ``address``.
    """

    root: Root
    offset: Expr


@dataclass(frozen=True)
class Piece:
    """The ``bits`` bits at a place in memory, or in registers of a local root, read into a register."""

    memory: Memory
    bits: int


@dataclass(frozen=True)
class AddressOf:
    """The address of a place in memory as a number, for a register of PTX type ``type`` (64 bits: a generic address)."""

    memory: Memory
    type: str


@dataclass(frozen=True)
class Pointer:
    """An address of ``bits`` bits held in an integer expression (TMEM addresses: lane in bits 31-16, column in bits 15-0)."""

    expr: Expr
    bits: int = 32


@dataclass(frozen=True)
class Generic:
    """The generic address of a place in memory."""

    memory: Memory


@dataclass(frozen=True)
class At:
    """The memory ``offset`` bytes after the address in a register."""

    base: Temp
    offset: int = 0


@dataclass(frozen=True)
class MapAt:
    """``coords`` (innermost first) in the tensor map at the address ``map``; of a parameter its variable."""

    map: Expr
    coords: tuple[Expr, ...]


@dataclass(frozen=True)
class Special:
    """A special register, such as ``%clock64``."""

    name: str


@dataclass(frozen=True)
class Box:
    """A box of a tensor map at ``coords`` (elements, innermost first): an operand of tensor copies."""

    map: TensorMap
    coords: tuple[Expr, ...]


@dataclass(frozen=True)
class Kept:
    """A result that isn't wanted (``_``)."""


Operand = (
    Temp | Word | Index | Value | Memory | Piece | AddressOf | Pointer | Generic | At | Box | MapAt | Special | Kept
    | int | float | str | tuple["Operand", ...]
)  # fmt: skip


@dataclass(frozen=True)
class Instruction:
    """One PTX instruction, under the guard ``guard`` (negated if ``guard_negated``)."""

    opcode: str
    operands: tuple[Operand, ...] = ()
    guard: Temp | None = None
    guard_negated: bool = False
    comment: str = ""
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Routine:
    """Instructions that together compute one function, or one conversion (``cast``), of registers.

    ``arguments`` are of dtype ``source``, the result is of ``target``; a conversion may be of several lanes at once, one
    argument each.  Equations of a call take it as that function; what its instructions compute is tested by itself.
    """

    function: str
    source: str
    target: str
    result: Operand
    arguments: tuple[Operand, ...]
    body: tuple[Instruction, ...]


@dataclass(frozen=True)
class Define:
    """From here on (in this block) the variable has the value of the expression; ``bounds`` is its range if known."""

    var: Var
    value: Expr
    bounds: tuple[int, int] | None = None


@dataclass(frozen=True)
class Store:
    """The value of a scalar expression (of any dtype, loads and floating point too), or a register, is stored as ``dtype``.

    ``memory`` may be a local root: then its offset is constant and names a register, or part of one.
    """

    memory: Memory
    dtype: str
    value: Expr | Temp


@dataclass(frozen=True)
class Wait:
    """Wait until the phase of the mbarrier with this parity has completed; ``order`` is a PTX modifier or empty."""

    barrier: Memory
    parity: Index
    order: str = ""


@dataclass(frozen=True)
class TileCall:
    """The place of tile call number ``index``, until its lowering is chosen."""

    index: int


@dataclass(frozen=True)
class If:
    """``then`` where the condition holds (an expression, or a predicate register), else ``orelse``."""

    condition: Expr | Temp
    then: Block
    orelse: Block = ()


@dataclass(frozen=True)
class Loop:
    """``body`` for ``var`` in start, start+step, … below ``stop``; counted at run time."""

    var: Var
    start: Expr
    stop: Expr
    step: Expr
    body: Block


@dataclass(frozen=True)
class Repeat:
    """``body`` for ever, or as long as ``condition`` holds when one is given (tested before each round, after ``head``)."""

    body: Block
    condition: Expr | None = None
    head: Block = ()


@dataclass(frozen=True)
class Jump:
    """``break``, ``continue`` of a loop, or ``exit`` of the kernel; ``level`` loops further out than the innermost."""

    kind: str
    level: int = 0


@dataclass(frozen=True)
class Comment:
    """A line in the PTX that says what follows, with its place in the source."""

    text: str
    span: Span | None = None


Node = Instruction | Routine | Define | Store | Wait | If | Loop | Repeat | Jump | Comment | TileCall
Block = tuple[Node, ...]


def instruction(opcode: str, *operands: Operand, guard: Temp | None = None, comment: str = "") -> Instruction:
    """An instruction node."""
    return Instruction(opcode, operands, guard, comment=comment)


def walk(block: Block) -> Iterator[Node]:
    """Every node of a program, outer before inner, in order."""
    for node in block:
        yield node
        if isinstance(node, If):
            yield from walk(node.then)
            yield from walk(node.orelse)
        elif isinstance(node, (Loop, Repeat)):
            if isinstance(node, Repeat):
                yield from walk(node.head)
            yield from walk(node.body)
        elif isinstance(node, Routine):
            yield from node.body


def mapped(block: Block, change: Callable[[Node], Block]) -> Block:
    """The program with every node that has no blocks in it replaced by what ``change`` makes of it."""
    out: list[Node] = []
    for node in block:
        if isinstance(node, If):
            out.append(If(node.condition, mapped(node.then, change), mapped(node.orelse, change)))
        elif isinstance(node, Repeat):
            out.append(replace(node, head=mapped(node.head, change), body=mapped(node.body, change)))
        elif isinstance(node, Loop):
            out.append(replace(node, body=mapped(node.body, change)))
        else:
            out += change(node)
    return tuple(out)


def replace_calls(block: Block, bodies: dict[int, Block]) -> Block:
    """The program with each ``TileCall`` replaced by its body."""
    return mapped(block, lambda node: bodies[node.index] if isinstance(node, TileCall) else (node,))


def operand_exprs(operand: Operand) -> Iterator[Expr]:
    """The integer expressions in an operand."""
    if isinstance(operand, (Index, Value, Pointer)):
        yield operand.expr
    elif isinstance(operand, Memory):
        yield operand.offset
        if operand.root.space == "cluster":
            assert operand.root.address is not None
            yield operand.root.address
    elif isinstance(operand, (Piece, AddressOf, Generic)):
        yield from operand_exprs(operand.memory)
    elif isinstance(operand, MapAt):
        yield operand.map
        yield from operand.coords
    elif isinstance(operand, Box):
        yield from operand.coords
    elif isinstance(operand, tuple):
        for member in operand:
            yield from operand_exprs(member)


def node_exprs(node: Node) -> Iterator[Expr]:
    """The expressions in a node itself, not in its blocks."""
    if isinstance(node, Instruction):
        for operand in node.operands:
            yield from operand_exprs(operand)
    elif isinstance(node, Store):
        yield from operand_exprs(node.memory)
        if isinstance(node.value, Expr):
            yield node.value
    elif isinstance(node, Wait):
        yield from operand_exprs(node.barrier)
        yield node.parity.expr
    elif isinstance(node, Define):
        yield node.value
    elif isinstance(node, (If, Repeat)) and isinstance(node.condition, Expr):
        yield node.condition
    elif isinstance(node, Loop):
        yield from (node.start, node.stop, node.step)
