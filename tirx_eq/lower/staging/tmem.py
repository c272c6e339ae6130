"""Primitives on operands in tensor memory: through registers, since no instruction but those of the tensor core computes there.

Each such operand gets registers of the warps that make the call, one row (lane) per thread; it is brought there before the
call, and the result is put back after it.  ``copy`` between tensor memory and registers is the asynchronous copy and the wait
for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from ...ir import (
    LT,
    AllocBuffer,
    Buffer,
    BufferRegion,
    Evaluate,
    ExecScope,
    IfThenElse,
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
from ...ir import dtype as dt
from ...ir.arith import binary
from ...ir.op import TILE_PREFIX
from ...ir.stmt import seq
from ...ir.structural import structural_equal
from ...layout import TileLayout
from ..operations import REDUCTIONS
from ..sharing.threads import WARP, WARPGROUP, Launch
from .expand import barrier_between, expand
from .factors import shared_factor, shared_factors, unused
from .warpgroups import split_warpgroups

#: Scope -> lanes of tensor memory that its threads reach together, and the axis that counts the threads.
LANES = {"warp": (WARP, "laneid"), "warpgroup": (WARPGROUP, "tid_in_wg"), "cta": (WARPGROUP, "tx")}
#: Primitives that deal with tensor memory themselves.
NATIVE = frozenset(("copy_async", "gemm_async"))
MOVES = frozenset(("copy", "permute_layout"))


def stage_tensor_memory(func: PrimFunc, launch: Launch) -> PrimFunc:
    """The function with every primitive on tensor memory made of copies to and from registers, and one on registers.

    A tensor-memory transfer is made by whole warps, each for its own 32 lanes (PTX ISA 9.7.16.8); in a CTA of several
    warpgroups each has columns of its own, where they can be shared out evenly.  Calls that no whole warps make stay, and no
    variant will lower them.
    """
    stage = _Stage(launch)
    return stage.visit_prim_func(func)


class _Stage(StmtMutator):
    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.count = 0

    def visit_tile_primitive_call(self, value: TilePrimitiveCall) -> Stmt:
        if value.op.short_name == "copy_async" and _touches(value):
            parts = split_warpgroups(value, self.launch)
            return value if parts is None else seq(parts)
        if value.op.short_name in NATIVE or not _touches(value):
            return value
        if value.op.short_name == "compose_op":  # its parts have scopes of their own
            return seq(self._in_turn(value, expand(value, self.launch) or ()))
        scope = self._scope(value)
        if scope is None:
            return self._by_one_warpgroup(value)
        if (parts := expand(value, self.launch)) is not None:
            return seq(self._in_turn(value, parts))
        if scope == "cta" and not self._shared_out(value) and not any(r.buffer.scope == "local" for r in value.regions()):
            return self._by_one_warpgroup(value)
        return seq(self._staged(value))

    def _in_turn(self, value: TilePrimitiveCall, parts: Sequence[Stmt]) -> list[Stmt]:
        """Parts of a call; a CTA of several warpgroups may share them out differently, so each waits for the one before."""
        out: list[Stmt] = []
        for part in parts:
            if out and value.scope.kind == "cta" and self.launch.threads > WARPGROUP and isinstance(part, TilePrimitiveCall):
                names = ("ptx.tcgen05_fence_before_thread_sync", "cuda.cta_sync", "ptx.tcgen05_fence_after_thread_sync")
                out += [Evaluate(call(f"tirx.{name}", "void"), span=value.span) for name in names]
            out.append(self.visit(part))
        return out

    def _shared_out(self, value: TilePrimitiveCall) -> bool:
        """Whether the warpgroups of a CTA can have columns of their own of all that is as wide as the tile.

        What one stores no other may read meanwhile: sources are the destination itself, or in other buffers.
        """
        outputs = [r for r in value.dsts if isinstance(r, BufferRegion) and r.buffer.scope == "tmem"]
        others = [r for r in value.regions() if all(r is not out for out in outputs)]
        if any(r.buffer.data is out.buffer.data and not structural_equal(r, out) for r in others for out in outputs):
            return False
        held = [r for r in value.regions() if r.buffer.scope == "tmem"]
        shapes = [(r, rows) for r in held if (rows := _rows(r, WARPGROUP)) is not None]
        if value.op.short_name == "gemm" or any(len(rows) > 2 for _, rows in shapes):
            return False
        found = [(r, rows[1]) for r, rows in shapes]
        width = max((columns for _, columns in found), default=0)
        groups = self.launch.threads // WARPGROUP
        whole = all(n != width or (n % groups == 0 and n // groups * dt.storage_bits(r.dtype) % 32 == 0) for r, n in found)
        return whole and value.op.short_name not in REDUCTIONS

    def _scope(self, value: TilePrimitiveCall) -> str | None:
        """The scope at which the call's operands are moved, None if no whole warps make it."""
        scope = value.scope.kind
        if scope == "cta" and self.launch.threads == WARPGROUP:
            return "warpgroup"
        if scope == "cta" and self.launch.threads % WARPGROUP == 0:
            return "cta"
        return scope if scope in ("warp", "warpgroup") else None

    def _by_one_warpgroup(self, value: TilePrimitiveCall) -> Stmt:
        """A call of a CTA whose warps aren't whole warpgroups: the first warpgroup makes it, if others have no part of it."""
        few = value.scope.kind != "cta" or self.launch.threads < WARPGROUP
        if few or any(r.buffer.scope == "local" for r in value.regions()):
            return value
        mine = replace(value, scope=ExecScope("warpgroup"), span=value.span)
        return IfThenElse(binary(LT, self.launch.flat_tid(), const(WARPGROUP)), self.visit(mine), span=value.span)

    def _staged(self, value: TilePrimitiveCall) -> list[Stmt]:
        """Declarations, loads, the call on registers, the store."""
        spaces = [r.buffer.scope for r in value.regions()]
        scope = self._scope(value)
        assert scope is not None
        lanes, axis = LANES[scope]
        shared_out = scope == "cta" and self._shared_out(value)

        def move(dst: BufferRegion, src: BufferRegion) -> Stmt:
            op = Op.get(TILE_PREFIX + "copy_async")
            made = TilePrimitiveCall(op, (dst, src), scope=ExecScope(scope), span=value.span)
            parts = split_warpgroups(made, self.launch)
            return made if parts is None else seq(parts)

        if value.op.short_name in MOVES and sorted(spaces) == ["local", "tmem"]:
            return [move(*value.args), _wait(value, loading=spaces[0] == "local")]
        if value.op.short_name in MOVES and spaces == ["tmem", "tmem"] and (rows := _rows(value.args[1], lanes)) is not None:
            dst, src = value.args
            held = self._registers(src, axis, rows, shared_out)
            loaded = [move(held, src), _wait(value, loading=True)]
            return [AllocBuffer(held.buffer, span=value.span), *loaded, move(dst, held), _wait(value, loading=False)]
        before: list[Stmt] = []
        after: list[Stmt] = []
        args = []
        names = value.signature.operands
        waits = False
        gathered: list[Stmt] = []
        for name, arg in zip(names, value.args):
            if name in shared_factors(value) and isinstance(arg, BufferRegion) and arg.buffer.scope == "tmem":
                self.count += 1
                factor = shared_factor(value, arg, self.launch, lanes, axis, f"staged_{arg.buffer.name}_{self.count}")
                if factor is not None:
                    before += [*factor.declared, move(factor.held, factor.whole)]
                    gathered += factor.stores
                    args.append(factor.region)
                    waits = True
                    continue
            if unused(value, name):
                args.append(arg)
                continue
            if not (isinstance(arg, BufferRegion) and arg.buffer.scope == "tmem") or (rows := _rows(arg, lanes)) is None:
                args.append(arg)
                continue
            held = self._registers(arg, axis, rows, shared_out)
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
        # Whoever stores the factors of the next call waits until all have read these.
        done = barrier_between(value, "shared", self.launch) if gathered else []
        return [*before, *gathered, replace(value, args=tuple(args), span=value.span), *done, *after]

    def _registers(self, region: BufferRegion, axis: str, extents: tuple[int, ...], shared_out: bool) -> BufferRegion:
        """Registers of the threads along an axis, a row for each; of several warpgroups, each has as many columns of its own,
        if they are ``shared_out`` and fill whole columns of tensor memory, else all of them."""
        self.count += 1
        name = f"staged_{region.buffer.name}_{self.count}"
        data = Var(name, PointerType(PrimType(region.buffer.dtype), "local"))
        rows, *row = extents
        inner = [(e, prod(row[k + 1 :]), "m") for k, e in enumerate(row)]
        layout = TileLayout.from_iters([(rows, 1, axis), *inner])
        groups = self.launch.threads // WARPGROUP
        if axis == "tx":
            mine, rest = divmod(row[0], groups)
            if shared_out and not rest and mine * dt.storage_bits(region.buffer.dtype) % 32 == 0:
                layout = TileLayout.from_iters([(rows, 1, axis), (groups, WARPGROUP, axis), (mine, 1, "m")])
            else:
                layout = TileLayout.from_iters([(rows, 1, axis), *inner], [(groups, WARPGROUP, axis)])
        shape = tuple(const(e) for e in extents)
        return Buffer(data, region.buffer.dtype, shape, name=name, layout=layout, span=region.buffer.span).full_region()


def _touches(value: TilePrimitiveCall) -> bool:
    """Whether an operand of a call, or of one that it is composed of, is in tensor memory."""
    if any(r.buffer.scope == "tmem" for r in value.regions()):
        return True
    return any(isinstance(a, TilePrimitiveCall) and _touches(a) for a in value.args)


def _rows(region: BufferRegion, lanes: int) -> tuple[int, ...] | None:
    """(lanes, extents of a row) of a region with this many rows, else None."""
    extents = region.const_extents()
    if extents is None:
        return None
    big = [e for e in extents if e != 1]
    if big == [lanes]:
        return lanes, 1
    return tuple(big) if len(big) > 1 and big[0] == lanes else None


def _accumulates(value: TilePrimitiveCall) -> bool:
    if "accum" not in value.signature.flags:
        return False
    flag = value.operand("accum")
    return bool(flag.value if isinstance(flag, IntImm) else flag)


def _wait(value: TilePrimitiveCall, loading: bool) -> Stmt:
    return Evaluate(call(f"tirx.ptx.tcgen05_wait_{'ld' if loading else 'st'}", "void"), span=value.span)
