"""Primitives on operands in tensor memory: through registers, since no instruction but those of the tensor core computes there.

Each such operand gets registers of the warpgroup, one row (lane) per thread; it is brought there before the call, and the
result is put back after it.  ``copy`` between tensor memory and registers is the asynchronous copy and the wait for it.
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
from .sharing.threads import WARPGROUP, Launch

#: Primitives that deal with tensor memory themselves.
NATIVE = frozenset(("copy_async", "gemm_async"))
MOVES = frozenset(("copy", "permute_layout"))


def stage_tensor_memory(func: PrimFunc, launch: Launch) -> PrimFunc:
    """The function with every primitive on tensor memory made of copies to and from registers, and one on registers.

    Calls that no warpgroup makes stay: a tensor-memory transfer is made by the warps of a warpgroup, each for its own lanes
    (PTX ISA 9.7.16.8), so no variant will lower them.
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
        if not self._by_warpgroup(value):
            return value
        if (parts := expand(value, self.launch)) is not None:
            return seq(self.visit(part) for part in parts)
        return seq(self._staged(value))

    def _by_warpgroup(self, value: TilePrimitiveCall) -> bool:
        scope = value.scope.kind
        return scope == "warpgroup" or (scope == "cta" and self.launch.threads == WARPGROUP)

    def _staged(self, value: TilePrimitiveCall) -> list[Stmt]:
        """Declarations, loads, the call on registers, the store."""
        spaces = [r.buffer.scope for r in value.regions()]
        if value.op.short_name in MOVES and sorted(spaces) == ["local", "tmem"]:
            return [_move(value, *value.args), _wait(value, loading=spaces[0] == "local")]
        if value.op.short_name in MOVES and spaces == ["tmem", "tmem"] and (rows := _rows(value.args[1])) is not None:
            dst, src = value.args
            held = self._registers(src, *rows)
            loaded = [_move(value, held, src), _wait(value, loading=True)]
            return [AllocBuffer(held.buffer, span=value.span), *loaded, _move(value, dst, held), _wait(value, loading=False)]
        before: list[Stmt] = []
        after: list[Stmt] = []
        args = []
        names = value.signature.operands
        waits = False
        for name, arg in zip(names, value.args):
            if not (isinstance(arg, BufferRegion) and arg.buffer.scope == "tmem") or (rows := _rows(arg)) is None:
                args.append(arg)
                continue
            held = self._registers(arg, *rows)
            before.append(AllocBuffer(held.buffer, span=value.span))
            args.append(held)
            output = name in value.signature.outputs
            if not output or _accumulates(value):
                before.append(_move(value, held, arg))
                waits = True
            if output:
                after += [_move(value, arg, held), _wait(value, loading=False)]
        if waits:
            before.append(_wait(value, loading=True))
        return [*before, replace(value, args=tuple(args), span=value.span), *after]

    def _registers(self, region: BufferRegion, rows: int, columns: int) -> BufferRegion:
        """Registers of the warpgroup with a row per thread."""
        self.count += 1
        name = f"staged_{region.buffer.name}_{self.count}"
        data = Var(name, PointerType(PrimType(region.buffer.dtype), "local"))
        layout = TileLayout.from_iters([(rows, 1, "tid_in_wg"), (columns, 1, "m")])
        shape = (const(rows), const(columns))
        return Buffer(data, region.buffer.dtype, shape, name=name, layout=layout, span=region.buffer.span).full_region()


def _touches(value: TilePrimitiveCall) -> bool:
    """Whether an operand of a call, or of one that it is composed of, is in tensor memory."""
    if any(r.buffer.scope == "tmem" for r in value.regions()):
        return True
    return any(isinstance(a, TilePrimitiveCall) and _touches(a) for a in value.args)


def _rows(region: BufferRegion) -> tuple[int, int] | None:
    """(lanes, columns) of a region that covers all lanes, else None."""
    extents = region.const_extents()
    if extents is None:
        return None
    big = [e for e in extents if e != 1]
    if len(big) == 1 and big[0] == WARPGROUP:
        return WARPGROUP, 1
    return (big[0], big[1]) if len(big) == 2 and big[0] == WARPGROUP else None


def _accumulates(value: TilePrimitiveCall) -> bool:
    if "accum" not in value.signature.flags:
        return False
    flag = value.operand("accum")
    return bool(flag.value if isinstance(flag, IntImm) else flag)


def _move(value: TilePrimitiveCall, dst: BufferRegion, src: BufferRegion) -> Stmt:
    """An asynchronous copy by the warpgroup."""
    return TilePrimitiveCall(
        Op.get(TILE_PREFIX + "copy_async"), (dst, src), scope=ExecScope("warpgroup"), span=value.span
    )


def _wait(value: TilePrimitiveCall, loading: bool) -> Stmt:
    return Evaluate(call(f"tirx.ptx.tcgen05_wait_{'ld' if loading else 'st'}", "void"), span=value.span)
