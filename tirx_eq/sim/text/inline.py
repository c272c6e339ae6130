"""Device functions are inlined before decoding: PTX calls pass everything in .param variables, so this is exact.

Recursion and calls through pointers have no finite inlining and are refused.
"""

from __future__ import annotations

from dataclasses import replace

from tirx_eq.errors import ParseError
from tirx_eq.sim.text.syntax import Function, Group, Instr, Label, Mem, Module, Not, Operand, Pair, Reg, Sym, Vec

MAX_DEPTH = 32
MAX_BODY = 1_000_000
#: Functions of the CUDA runtime that a kernel may call: name -> the instruction they become here.
RUNTIME = {"vprintf": (), "__assertfail": ("trap",), "__nanosleep": ()}


def inline(module: Module, function: Function, depth: int = 0) -> Function:
    """``function`` with every call replaced by the callee's body."""
    if not any(i.parts[0] == "call" for i in function.body):
        return function
    if depth > MAX_DEPTH:
        raise ParseError(f"PTX: calls in {function.name} are nested deeper than {MAX_DEPTH}: recursion is not supported")
    registers = list(function.registers)
    variables = list(function.variables)
    pieces: list[list[Instr]] = []
    starts: list[int] = []
    size = 0
    for number, instr in enumerate(function.body):
        starts.append(size)
        piece = [instr]
        if instr.parts[0] == "call":
            piece = expand(module, function, instr, depth, registers, variables, number, size)
        pieces.append(piece)
        size += len(piece)
        if size > MAX_BODY:
            raise ParseError(f"PTX: {function.name} grows beyond {MAX_BODY} instructions by inlining")
    starts.append(size)
    body: list[Instr] = []
    for instr, piece in zip(function.body, pieces):
        if instr.parts[0] == "call":
            body += piece
        else:
            body.append(replace(instr, operands=tuple(relabel(o, starts) for o in instr.operands)))
    return replace(function, registers=registers, variables=variables, body=body)


def relabel(operand: Operand, starts: list[int]) -> Operand:
    if isinstance(operand, Label):
        return Label(operand.name, starts[operand.target])
    return operand


def expand(module: Module, caller: Function, instr: Instr, depth: int, registers: list, variables: list, number: int,
           base: int) -> list[Instr]:
    """The instructions one call becomes; the callee's registers and variables are appended to the caller's."""
    operands = list(instr.operands)
    results: tuple[Operand, ...] = ()
    if operands and isinstance(operands[0], Group):
        first = operands.pop(0)
        assert isinstance(first, Group)
        results = first.items
    if not operands or not isinstance(operands[0], Sym):
        raise ParseError(f"PTX line {instr.line}: call through a pointer is not supported")
    name = operands.pop(0).name  # type: ignore[union-attr]
    arguments: tuple[Operand, ...] = ()
    if operands and isinstance(operands[0], Group):
        arguments = operands[0].items
    if name in RUNTIME:
        return [replace(instr, parts=RUNTIME[name], operands=())] if RUNTIME[name] else []
    callee = module.functions.get(name)
    if callee is None or not callee.defined:
        raise ParseError(f"PTX line {instr.line}: function {name} is not defined in this module")
    callee = inline(module, callee, depth + 1)
    if len(arguments) != len(callee.params) or len(results) != len(callee.results):
        raise ParseError(f"PTX line {instr.line}: {name} takes {len(callee.params)} arguments and gives "
                         f"{len(callee.results)} results")
    names: dict[str, str] = {}
    for formal, actual in zip([*callee.params, *callee.results], [*arguments, *results]):
        if not isinstance(actual, Sym):
            raise ParseError(f"PTX line {instr.line}: arguments of {name} must be .param variables")
        names[formal.name] = actual.name
    for variable in callee.variables:
        names[variable.name] = f"{variable.name}${caller.name}${depth}${number}"
        variables.append(replace(variable, name=names[variable.name]))
    offset = len(registers)
    registers += callee.registers
    body = []
    end = base + len(callee.body)

    def rename(operand: Operand) -> Operand:
        if isinstance(operand, Reg):
            return Reg(operand.index + offset, operand.name)
        if isinstance(operand, Sym):
            return Sym(names.get(operand.name, operand.name), operand.offset)
        if isinstance(operand, Label):
            return Label(operand.name, operand.target + base)
        if isinstance(operand, Vec):
            return Vec(tuple(rename(i) for i in operand.items))
        if isinstance(operand, Group):
            return Group(tuple(rename(i) for i in operand.items))
        if isinstance(operand, Mem):
            return Mem(rename(operand.base), operand.offset, tuple(rename(c) for c in operand.coords))
        if isinstance(operand, Pair):
            return Pair(rename(operand.first), rename(operand.second))
        if isinstance(operand, Not):
            return Not(rename(operand.operand))
        return operand
    for inner in callee.body:
        guard = (Reg(inner.guard[0].index + offset, inner.guard[0].name), inner.guard[1]) if inner.guard else None
        if inner.parts[0] == "ret":
            body.append(Instr(("bra",), (Label("return", end),), guard, inner.line))
        else:
            body.append(Instr(inner.parts, tuple(rename(o) for o in inner.operands), guard, inner.line))
    return body
