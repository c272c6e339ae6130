"""Primitives on operands in tensor memory: through registers, since no instruction but those of the tensor core computes there.

Each such operand gets registers of the warps that make the call, one row (lane) per thread; it is brought there before the
call, and the result is put back after it.  ``copy`` between tensor memory and registers is the asynchronous copy and the wait
for it.
"""

from __future__ import annotations

from dataclasses import replace

from ..ir import (
    AllocBuffer,
    Buffer,
    BufferRegion,
    Evaluate,
    ExecScope,
    IntImm,
    Op,
    PointerType,
    PrimFunc,
    PrimType,
    Stmt,
    StmtMutator,
    TilePrimitiveCall,
    Var,
    call,
    const,
)
from ..ir.op import TILE_PREFIX
from ..ir.stmt import seq
from ..layout import TileLayout
from .expand import expand
from .sharing.threads import WARP, WARPGROUP, Launch

#: Scope -> lanes of tensor memory that its threads reach together, and the axis that counts the threads.
LANES = {"warp": (WARP, "laneid"), "warpgroup": (WARPGROUP, "tid_in_wg")}
#: Primitives that deal with tensor memory themselves.
NATIVE = frozenset(("copy_async", "gemm_async"))
MOVES = frozenset(("copy", "permute_layout"))


def stage_tensor_memory(func: PrimFunc, launch: Launch) -> PrimFunc:
    """The function with every primitive on tensor memory made of copies to and from registers, and one on registers.

    A tensor-memory transfer is made by whole warps, each for its own 32 lanes (PTX ISA 9.7.16.8).  Calls that neither a warp
    nor a warpgroup makes stay, and no variant will lower them.
    """
    stage = _Stage(launch)
    return stage.visit_prim_func(func)


class _Stage(StmtMutator):
    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.count = 0

    def visit_tile_primitive_call(self, value: TilePrimitiveCall) -> Stmt:
        if value.op.short_name in NATIVE or not _touches(value):
            return value
        if value.op.short_name == "compose_op":  # its parts have scopes of their own
            return seq(self.visit(part) for part in value.args)
        if self._scope(value) is None:
            return value
        if (parts := expand(value, self.launch)) is not None:
            return seq(self.visit(part) for part in parts)
        return seq(self._staged(value))

    def _scope(self, value: TilePrimitiveCall) -> str | None:
        """The scope at which the call's operands are moved, None if no whole warps make it."""
        scope = value.scope.kind
        if scope == "cta" and self.launch.threads == WARPGROUP:
            return "warpgroup"
        return scope if scope in LANES else None

    def _staged(self, value: TilePrimitiveCall) -> list[Stmt]:
        """Declarations, loads, the call on registers, the store."""
        spaces = [r.buffer.scope for r in value.regions()]
        scope = self._scope(value)
        assert scope is not None
        lanes, axis = LANES[scope]

        def move(dst: BufferRegion, src: BufferRegion) -> Stmt:
            op = Op.get(TILE_PREFIX + "copy_async")
            return TilePrimitiveCall(op, (dst, src), scope=ExecScope(scope), span=value.span)

        if value.op.short_name in MOVES and sorted(spaces) == ["local", "tmem"]:
            return [move(*value.args), _wait(value, loading=spaces[0] == "local")]
        if value.op.short_name in MOVES and spaces == ["tmem", "tmem"] and (rows := _rows(value.args[1], lanes)) is not None:
            dst, src = value.args
            held = self._registers(src, axis, *rows)
            loaded = [move(held, src), _wait(value, loading=True)]
            return [AllocBuffer(held.buffer, span=value.span), *loaded, move(dst, held), _wait(value, loading=False)]
        before: list[Stmt] = []
        after: list[Stmt] = []
        args = []
        names = value.signature.operands
        waits = False
        for name, arg in zip(names, value.args):
            if not (isinstance(arg, BufferRegion) and arg.buffer.scope == "tmem") or (rows := _rows(arg, lanes)) is None:
                args.append(arg)
                continue
            held = self._registers(arg, axis, *rows)
            before.append(AllocBuffer(held.buffer, span=value.span))
            args.append(held)
            output = name in value.signature.outputs
            if not output or _accumulates(value):
                before.append(move(held, arg))
                waits = True
            if output:
                after += [move(arg, held), _wait(value, loading=False)]
        if waits:
            before.append(_wait(value, loading=True))
        return [*before, replace(value, args=tuple(args), span=value.span), *after]

    def _registers(self, region: BufferRegion, axis: str, rows: int, columns: int) -> BufferRegion:
        """Registers of the threads along an axis, a row for each."""
        self.count += 1
        name = f"staged_{region.buffer.name}_{self.count}"
        data = Var(name, PointerType(PrimType(region.buffer.dtype), "local"))
        layout = TileLayout.from_iters([(rows, 1, axis), (columns, 1, "m")])
        shape = (const(rows), const(columns))
        return Buffer(data, region.buffer.dtype, shape, name=name, layout=layout, span=region.buffer.span).full_region()


def _touches(value: TilePrimitiveCall) -> bool:
    """Whether an operand of a call, or of one that it is composed of, is in tensor memory."""
    if any(r.buffer.scope == "tmem" for r in value.regions()):
        return True
    return any(isinstance(a, TilePrimitiveCall) and _touches(a) for a in value.args)


def _rows(region: BufferRegion, lanes: int) -> tuple[int, int] | None:
    """(lanes, columns) of a region with this many rows, else None."""
    extents = region.const_extents()
    if extents is None:
        return None
    big = [e for e in extents if e != 1]
    if big == [lanes]:
        return lanes, 1
    return (big[0], big[1]) if len(big) == 2 and big[0] == lanes else None


def _accumulates(value: TilePrimitiveCall) -> bool:
    if "accum" not in value.signature.flags:
        return False
    flag = value.operand("accum")
    return bool(flag.value if isinstance(flag, IntImm) else flag)


def _wait(value: TilePrimitiveCall, loading: bool) -> Stmt:
    return Evaluate(call(f"tirx.ptx.tcgen05_wait_{'ld' if loading else 'st'}", "void"), span=value.span)
