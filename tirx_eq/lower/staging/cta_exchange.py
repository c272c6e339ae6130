"""Calls of a cluster for which a CTA needs what others have: through shared memory, which CTAs of a cluster read of each other.

Every CTA makes its part of the destination piece by piece; a source is read in the CTA that has the piece (``mapa``, ``ld`` in
``shared::cluster``).  What is in registers or tensor memory is put into shared memory first.  A reduction over elements of
several CTAs is one of each CTA's own, then one of these results, which each CTA collects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Any

from ...ir import (
    EQ,
    AllocBuffer,
    Bind,
    Buffer,
    BufferLoad,
    BufferRegion,
    DeclBuffer,
    Evaluate,
    ExecScope,
    Expr,
    IfThenElse,
    LambdaExpr,
    Op,
    PointerType,
    PrimType,
    Range,
    Stmt,
    TilePrimitiveCall,
    Var,
    call,
    const,
    substitute,
)
from ...ir.arith import binary
from ...ir.op import TILE_PREFIX
from ...ir.stmt import seq
from ...layout import TileLayout
from ..operations import FAMILIES
from ..sharing.cta_parts import CtaHeld, conjunction, cta_held, is_per_cta, varies, writers
from ..sharing.cta_spread import AXES, CtaSpread, at_cta, cta_points
from ..sharing.iteration import Iteration, iteration_of
from ..sharing.threads import Launch

#: Pieces, and so reads of other CTAs' memory, of one call at most.
MAX_PIECES = 64


@dataclass
class Exchange:
    """What the statements of one function are made with; ``count`` numbers the buffers made."""

    launch: Launch
    spread: Callable[[Buffer], CtaSpread | str]
    remote: Callable[[Buffer], bool]
    count: int = 0

    def across(self, value: TilePrimitiveCall, environment: dict[Var, Expr]) -> list[Stmt] | None:
        """The statements of a CTA for a call that needs other CTAs' parts; None if these can't be had."""
        regions = {n: a for n, a in zip(value.signature.operands, value.args) if isinstance(a, BufferRegion)}
        kind = FAMILIES.get(value.op.short_name, value.op.short_name)
        if kind not in ("map", "copy", "reduce", "gemm") or value.config.keys() - {"vec_len"}:
            return None
        if any(self.remote(r.buffer) for r in regions.values()):
            return None
        iteration = iteration_of(value)
        if isinstance(iteration, str):
            return None
        wide = frozenset(a for a, x in AXES.items() if self.launch.cluster["xyz".index(x)] > 1)
        if any(varies(r, wide, self.launch, environment) for r in regions.values()):
            return None
        held: dict[str, CtaHeld] = {}
        for n, r in regions.items():
            if not is_per_cta(r.buffer):
                continue
            spread = self.spread(r.buffer)
            found = cta_held(spread, r, iteration.axes[n], self.launch) if isinstance(spread, CtaSpread) else spread
            if isinstance(found, str):
                return None
            held[n] = found
        made = ClusterCall(self, value, regions, held, iteration)
        if kind == "gemm":
            from .cta_products import multiplied  # which is made of these

            return multiplied(made)
        return (made.reduced() or made.brought()) if kind == "reduce" else made.gathered()

    def shared(self, what: str, dtype: str, shape: Sequence[int]) -> Buffer:
        """A buffer in shared memory."""
        self.count += 1
        name = f"{what}_{self.count}"
        data = Var(name, PointerType(PrimType(dtype), "shared"))
        return Buffer(data, dtype, tuple(const(e) for e in shape), name=name)

    def seen(self, buffer: Buffer, rank: Expr) -> tuple[list[Stmt], Buffer]:
        """Declarations of the view of a buffer of the CTA with a rank, and the view."""
        self.count += 1
        first = BufferLoad(buffer, tuple(const(0) for _ in buffer.shape))
        at = call("tirx.ptx.map_shared_rank", "handle", call("tirx.address_of", "handle", first), rank)
        there = Var(f"{buffer.name}_of_{self.count}", PointerType(PrimType(buffer.dtype), "shared"))
        view = replace(buffer, data=there, name=there.name, elem_offset=const(0))
        return [Bind(there, call("tirx.reinterpret", "handle", at)), DeclBuffer(view, there)], view


@dataclass
class ClusterCall:
    """One call: its regions and what of them is held by CTAs."""

    x: Exchange
    value: TilePrimitiveCall
    regions: dict[str, BufferRegion]
    held: dict[str, CtaHeld]
    iteration: Iteration

    @property
    def dst(self) -> str:
        return self.value.signature.outputs[0]

    # -- element-wise -----------------------------------------------------------------------------------------------

    def gathered(self) -> list[Stmt] | None:
        """The call piece by piece, each piece of a source in the CTA that has it.

        A CTA makes its part of the destination; of one in global memory, what it has of the first source for which that
        is each part once.
        """
        lead, guard = self._lead()
        if lead is None:
            return None
        dst = self.held[lead]
        foreign = {n: dims for n, h in self.held.items() if n != lead and (dims := self._foreign(n, h, dst))}
        extents = dict(zip(self.iteration.axes[self.dst], self.regions[self.dst].const_extents() or ()))
        base: dict[int, Expr] = {along: cut.number * cut.size for along, cut in dst.cuts.items()}
        length = {a: dst.cuts[a].size if a in dst.cuts else e for a, e in extents.items() if a is not None}
        piece = dict(length)
        for n, dims in foreign.items():
            for d in dims:
                along = self.iteration.axes[n][d]
                if along is not None and along in self.held[n].cuts:
                    size = self.held[n].cuts[along].size
                    if along not in piece or max(piece[along], size) % min(piece[along], size):
                        return None
                    piece[along] = min(piece[along], size)
        if prod(length[a] // piece[a] for a in piece) > MAX_PIECES:
            return None
        if any(self.regions[n].buffer.data is self.regions[self.dst].buffer.data for n in foreign):
            return None  # a CTA would write what others read
        works = [guard is None or at_cta(guard, self.x.launch, cta) for cta in cta_points(self.x.launch)]
        own = [h for n, h in self.held.items() if n != lead and n not in foreign]
        if any(w and not at_cta(e, self.x.launch, cta) for h in own for e in h.conditions
               for w, cta in zip(works, cta_points(self.x.launch))):  # fmt: skip
            return None
        before, sources, after = self._reachable(foreign)
        body: list[Stmt] = []
        for step in product(*(range(length[a] // piece[a]) for a in piece)):
            at = {a: k * piece[a] for a, k in zip(piece, step)}
            where = {a: base.get(a, const(0)) + at[a] for a in piece}
            args: dict[str, BufferRegion] = {}
            for n, r in self.regions.items():
                if n in sources:
                    seen = self._piece_elsewhere(n, foreign[n], sources[n], at, where, piece, guard)
                    if seen is None:
                        return None
                    args[n] = seen[0]
                    body += seen[1]
                else:
                    args[n] = self._piece(n, r, at, where, piece)
            body.append(self._call(args, where))
        return [*before, *(body if guard is None else [IfThenElse(guard, seq(body))]), *after]

    def _lead(self) -> tuple[str | None, Expr | None]:
        """The operand whose parts the CTAs work on, and which of them do."""
        if self.dst in self.held:
            return self.dst, conjunction(self.held[self.dst].conditions)
        for n, h in self.held.items():
            found = writers({n: h}, {a: (n, cut) for a, cut in h.cuts.items()}, self.x.launch)
            if not isinstance(found, str):
                return n, conjunction(found)
        return None, None

    def _foreign(self, n: str, h: CtaHeld, lead: CtaHeld) -> list[int]:
        """Dimensions of a source whose block in this CTA isn't that of the lead."""
        found = []
        for d, digits in enumerate(h.spread.blocks):
            along = self.iteration.axes[n][d]
            mine, other = (h.cuts.get(along), lead.cuts.get(along)) if along is not None else (None, None)
            same = mine is not None and other is not None and (mine.key, mine.size) == (other.key, other.size)
            if digits and not same:
                found.append(d)
        return found

    def _reachable(self, foreign: dict[str, list[int]]) -> tuple[list[Stmt], dict[str, BufferRegion], list[Stmt]]:
        """Statements that put foreign sources into shared memory, where each then is, and what follows the reading."""
        before: list[Stmt] = []
        sources: dict[str, BufferRegion] = {}
        for n in foreign:
            h = self.held[n]
            if h.region.buffer.scope.startswith("shared"):
                sources[n] = h.region
                continue
            held = self.x.shared(f"of_{h.spread.buffer.name}", h.region.dtype, h.region.const_extents() or ())
            sources[n] = held.full_region()
            put = cta_scope_call(self.value, "copy", (sources[n], h.region))
            guard = conjunction(h.conditions)
            before += [AllocBuffer(held), put if guard is None else IfThenElse(guard, put)]
        wait = [self.sync()] if before else []
        return [*before, *wait], sources, wait

    def sync(self) -> Stmt:
        return Evaluate(call("tirx.cuda.cluster_sync", "void"), span=self.value.span)

    def _piece_elsewhere(
        self, n: str, dims: list[int], source: BufferRegion, at: dict[int, int], where: dict[int, Expr], piece: dict[int, int],
        guard: Expr | None,
    ) -> tuple[BufferRegion, list[Stmt]] | None:  # fmt: skip
        h, axes = self.held[n], self.iteration.axes[n]
        blocks: dict[int, Expr] = {}
        ranges = list(source.region)
        for d, along in enumerate(axes):
            cut = h.cuts.get(along) if along is not None else None
            if d in dims:
                first = h.first[d]
                blocks[d] = const(first) if cut is None else where[along] // cut.size + first  # type: ignore[index]
            if along is None or along not in piece:
                continue
            inside: Any = where[along]
            if cut is not None:
                inside = inside % cut.size if d in dims else at[along]
            ranges[d] = Range(source.region[d].min + inside, const(piece[along]))
        rank = rank_with(h.spread, blocks, self.x.launch)
        if not has_them(h, blocks, rank, guard, self.x.launch):
            return None
        declared, view = self.x.seen(source.buffer, rank)
        return BufferRegion(view, tuple(ranges), span=source.span), declared

    def _piece(
        self, n: str, r: BufferRegion, at: dict[int, int], where: dict[int, Expr], piece: dict[int, int]
    ) -> BufferRegion:
        """A piece of an operand that this CTA has, or everybody."""
        mine = self.held[n].region if n in self.held else r
        cuts = self.held[n].cuts if n in self.held else {}
        ranges = list(mine.region)
        for d, along in enumerate(self.iteration.axes[n]):
            if along is not None and along in piece:
                low = at[along] if along in cuts else where[along]
                ranges[d] = Range(ranges[d].min + low, const(piece[along]))
        return BufferRegion(mine.buffer, tuple(ranges), span=r.span)

    def _call(self, regions: dict[str, BufferRegion], where: dict[int, Expr]) -> TilePrimitiveCall:
        args: list[Any] = []
        for name, arg in zip(self.value.signature.operands, self.value.args):
            if isinstance(arg, LambdaExpr):
                lead = self.iteration.axes[self.dst]
                shifts = {v: v + where[a] for v, a in zip(arg.vars, lead) if a is not None}
                arg = LambdaExpr(arg.vars, substitute(arg.body, shifts))
            args.append(regions.get(name, arg))
        return replace(self.value, scope=ExecScope("cta"), args=tuple(args), span=self.value.span)

    # -- reductions -------------------------------------------------------------------------------------------------

    def reduced(self) -> list[Stmt] | None:
        """Each CTA reduces what it has; the results of those that have parts of the same rows are collected and reduced."""
        src = self.held.get("src")
        if src is None:
            return None
        axes, launch = self.iteration.axes, self.x.launch
        kept = {a: cut for a, cut in src.cuts.items() if a not in self.iteration.summed}
        met: dict[int, int] = {}  # dimension of the source -> blocks of it that CTAs have results of
        for dim, digits in enumerate(src.spread.blocks):
            along = axes["src"][dim]
            if digits and along not in kept:
                met[dim] = src.cuts[along].count if along in src.cuts else 1
        if not met:
            return None
        dst = self.held.get("dst")
        extents = self.regions["dst"].const_extents() or ()
        own: dict[int, tuple[Expr, int]] = {}  # what of a CTA's result goes to its destination
        guard: Expr | None = None
        if dst is not None:
            for d, a in enumerate(axes["dst"]):
                cut = dst.cuts.get(a) if a is not None else None
                if a in kept and (cut is None or (cut.key, cut.size) != (kept[a].key, kept[a].size)):
                    return None
                if cut is not None and a not in kept:
                    own[d] = (cut.number * cut.size, cut.size)
            guard = conjunction(dst.conditions)
        else:
            first = [binary(EQ, cut.number, 0) for a, cut in src.cuts.items() if a not in kept]
            found = writers({"src": src}, {a: ("src", cut) for a, cut in kept.items()}, launch, first)
            if isinstance(found, str):
                return None
            guard = conjunction(found)
        part = tuple(kept[a].size if a in kept else e for a, e in zip(axes["dst"], extents))
        dtype = self.regions["src"].dtype
        mine = self.x.shared("results", dtype, part)
        count = prod(met.values())
        every = self.x.shared("all_results", dtype, (count, *part))
        op = _operation(self.value)
        args = (mine.full_region(), src.region, self.value.operand("axes"), const(False))
        partly: Stmt = cta_scope_call(self.value, op, args)
        has = conjunction(src.conditions)
        if has is not None:
            partly = IfThenElse(has, partly)
        collected = self.collected(src, met, mine, every, guard)
        if collected is None:
            return None
        steps: list[Stmt] = [AllocBuffer(mine), AllocBuffer(every), partly, *collected]
        ranges = [Range(const(0), const(count))]
        for d, e in enumerate(part):
            low, size = own.get(d, (const(0), e))
            ranges.append(Range(low, const(size)))
        into = dst.region if dst is not None else self.stored(kept)
        last = replace(
            self.value, args=(into, BufferRegion(every, tuple(ranges)), const(0), *self.value.args[3:]),
            scope=ExecScope("cta"), span=self.value.span,
        )  # fmt: skip
        return [*steps, last if guard is None else IfThenElse(guard, last)]

    def brought(self) -> list[Stmt] | None:
        """Calls of the cluster: the reduction into shared memory that has the rows where the source has them, and what brings
        its results to the destination."""
        src = self.held.get("src")
        if src is None or "dst" not in self.held:
            return None
        extents = self.regions["dst"].const_extents() or ()
        axes = self.iteration.axes
        kept = [src.cuts.get(a) if a is not None and a not in self.iteration.summed else None for a in axes["dst"]]
        sizes = [e if cut is None else cut.size for e, cut in zip(extents, kept)]
        shard: list[tuple[int, int, str]] = []
        for d, cut in enumerate(kept):
            if cut is not None:
                digits = src.spread.blocks[axes["src"].index(axes["dst"][d])]
                if cut.count != prod(x.extent for x in digits):
                    return None
                shard += [(x.extent, x.stride, x.axis) for x in digits]
            shard.append((sizes[d], prod(sizes[d + 1 :]), "m"))
        if not any(kept):
            return None
        copies = [(x.extent, x.stride, x.axis) for x in src.spread.copies]
        results = self.x.shared("rows", self.regions["src"].dtype, extents)
        results = replace(results, layout=TileLayout.from_iters(shard, copies, dict(src.spread.offset)))
        value, region, accumulates = self.value, results.full_region(), self.value.args[3]
        first = replace(value, args=(region, value.args[1], value.args[2], const(False), *value.args[4:]), span=value.span)
        then = _of_cluster(value, "copy", (value.args[0], region))
        if getattr(accumulates, "value", accumulates):
            then = _of_cluster(value, COMBINE[_operation(value)], (value.args[0], value.args[0], region))
        return [AllocBuffer(results), first, self.sync(), then, self.sync()]

    def collected(
        self, source: CtaHeld, met: dict[int, int], mine: Buffer, every: Buffer, guard: Expr | None
    ) -> list[Stmt] | None:
        """Statements that bring to ``every`` the results ``mine`` of all CTAs that have blocks of some dimensions of a source
        (``met``: how many); None if the CTAs that work (``guard``) don't all find them."""
        steps: list[Stmt] = [self.sync()]
        for k, blocks in enumerate(product(*map(range, met.values()))):
            chosen = {d: const(block + source.first[d]) for d, block in zip(met, blocks)}
            rank = rank_with(source.spread, chosen, self.x.launch)
            if not has_them(source, chosen, rank, guard, self.x.launch):
                return None
            declared, view = self.x.seen(mine, rank)
            to = BufferRegion(every, (Range(const(k), const(1)), *every.full_region().region[1:]))
            steps += [*declared, cta_scope_call(self.value, "copy", (to, view.full_region()))]
        return [*steps, self.sync()]

    def stored(self, kept: dict[int, Any]) -> BufferRegion:
        """The part of a result in global memory that a CTA makes."""
        r = self.regions[self.dst]
        ranges = [
            Range(p.min + kept[a].number * kept[a].size, const(kept[a].size)) if a in kept else p
            for p, a in zip(r.region, self.iteration.axes[self.dst])
        ]
        return BufferRegion(r.buffer, tuple(ranges), span=r.span)


def _operation(value: TilePrimitiveCall) -> str:
    """sum, max or min."""
    if value.op.short_name != "reduce_negate":
        return value.op.short_name
    op = value.operand("reduce_op")
    return op.short_name if isinstance(op, Op) else str(op)


#: What brings another value to a reduction's result.
COMBINE = {"sum": "add", "max": "maximum", "min": "minimum"}


def _of_cluster(value: TilePrimitiveCall, op: str, args: tuple[Any, ...]) -> TilePrimitiveCall:
    return TilePrimitiveCall(Op.get(TILE_PREFIX + op), args, scope=value.scope, span=value.span)


def cta_scope_call(value: TilePrimitiveCall, op: str, args: tuple[Any, ...]) -> TilePrimitiveCall:
    return TilePrimitiveCall(Op.get(TILE_PREFIX + op), args, scope=ExecScope("cta"), span=value.span)


def has_them(h: CtaHeld, blocks: dict[int, Expr], rank: Expr, guard: Expr | None, launch: Launch) -> bool:
    """Whether in every CTA that works the rank is that of a CTA which has the given blocks, and otherwise what this one has."""
    ctas = cta_points(launch)
    for cta in ctas:
        if guard is not None and not at_cta(guard, launch, cta):
            continue
        number = at_cta(rank, launch, cta)
        if not 0 <= number < len(ctas) or not all(at_cta(e, launch, ctas[number]) for e in h.spread.present(launch)):
            return False
        for dim in range(len(h.spread.blocks)):
            wanted = at_cta(blocks[dim] if dim in blocks else h.spread.block(dim, launch), launch, cta)
            if at_cta(h.spread.block(dim, launch), launch, ctas[number]) != wanted:
                return False
    return True


def rank_with(s: CtaSpread, blocks: dict[int, Expr], launch: Launch) -> Expr:
    """The rank of the CTA that has the given blocks of some dimensions, and otherwise what this CTA has."""
    total: Expr = const(0)
    size = 1
    for axis, x in AXES.items():
        own, chosen = launch.cta_in_cluster(x), const(dict(s.offset).get(axis, 0))
        rest = sum(d.axis == axis for d in s.digits())
        named = rest > 0
        for dim, block in blocks.items():
            below = 1
            for d in reversed(s.blocks[dim]):
                if d.axis == axis:
                    digit = (block // below if below > 1 else block) % d.extent
                    own, chosen, rest = own + (digit - s.value(d, launch)) * d.stride, chosen + digit * d.stride, rest - 1
                below *= d.extent
        total = total + (chosen if named and not rest else own) * size
        size *= launch.cluster["xyz".index(x)]
    return total
