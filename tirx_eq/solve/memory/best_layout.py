"""``te.best_layout``: the swizzle or padding of a shared buffer under which its accesses need the fewest wavefronts.

Families, each finite and generated:

* ``hardware``: row-major and the 128, 64 and 32-byte swizzle modes and core matrices, all that tensor copies (TMA) and
  matrix descriptors can name;
* ``xor``: ``SwizzleLayout(per_element, swizzle_len, atom_len)`` of either kind and up to 5 bits over row-major;
* ``padding``: row-major with a row pitch of up to 128 bytes more (banks repeat after that);
* ``matrix``: any invertible matrix over GF(2) that leaves vectors whole (``swizzle_synthesis``).

An answer comes with its proof: it attains a bound that no layout at all can beat, or every other member was counted, or
(matrix) z3 found no member that is better.  ``best_layout_check.recheck`` repeats the argument with other code.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

from ...errors import LayoutError
from ...ir import dtype as dt
from ...layout import ComposeLayout, Iter, Layout, SwizzleLayout, SwizzleMode, TileLayout, mma_shared_layout
from ...layout.value import is_power_of_two
from ...prove.verdict import Unsat
from ...redistribution.swizzle_synthesis import RLIMIT, Phase, XorMatrix, matrix_of, synthesise
from .access import AnyAccess, EngineAccess, Lanes, as_access, count_wavefronts, element_bits, lanes_of

if TYPE_CHECKING:
    import numpy as np

FAMILIES = ("hardware", "xor", "padding", "matrix")
#: most bytes of shared memory that a layout may take (sm_100: 227 KB)
MAX_BYTES = 232_448
MAX_SWIZZLE_BITS = 5


@dataclass(frozen=True)
class Member:
    """A layout of a family: ``label`` says which, ``engines`` what besides warps can use it."""

    family: str
    label: str
    layout: Layout | XorMatrix
    engines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Scored:
    """A member with its wavefronts per access, their weighted total, and the bytes it takes."""

    member: Member
    wavefronts: tuple[int, ...]
    total: int
    bytes: int


@dataclass(frozen=True)
class Excluded:
    """A member that can't be used, and why."""

    label: str
    reason: str


@dataclass(frozen=True)
class Optimality:
    """Why nothing in ``families`` is better.

    ``kind``: ``"lower bound"`` (the total is what the bytes alone need), ``"exhaustive"`` (``totals`` lists every member);
    for matrices besides that ``"subspaces"`` (each phase, alone, needs what it gets under any bank map) or
    ``"unsatisfiable"`` (z3's refutation of one wavefront less); ``"open"`` (z3 gave up; ``bound`` is what is known).
    """

    kind: str
    families: tuple[str, ...]
    bound: int
    statement: str
    totals: tuple[tuple[str, int], ...] = field(default=(), repr=False)
    unsat: Unsat | None = None


@dataclass(frozen=True)
class BestLayout:
    """``layout`` with its wavefronts per access (in the order given) and the fewest possible (``ideal``); weights counted
    in ``total``.  ``runner_ups``: the next best members of other cost or family."""

    layout: Layout | XorMatrix
    family: str
    label: str
    shape: tuple[int, ...]
    dtype: str
    accesses: tuple[AnyAccess, ...] = field(repr=False)
    wavefronts: tuple[int, ...]
    ideal: tuple[int, ...]
    total: int
    bytes: int
    proof: Optimality
    runner_ups: tuple[Scored, ...] = field(default=(), repr=False)
    excluded: tuple[Excluded, ...] = field(default=(), repr=False)

    @property
    def conflict_free(self) -> bool:
        return self.wavefronts == self.ideal

    def to_json(self) -> dict[str, Any]:
        """JSON-able data; per access name, wavefronts, ideal, weight."""
        return {
            "layout": self.layout.script(prefix=""), "family": self.family, "label": self.label, "shape": list(self.shape),
            "dtype": self.dtype, "total": self.total, "bytes": self.bytes, "conflict_free": self.conflict_free,
            "accesses": [
                {"name": a.name, "weight": a.weight, "wavefronts": w, "ideal": i}
                for a, w, i in zip(self.accesses, self.wavefronts, self.ideal)
            ],
            "proof": {
                "kind": self.proof.kind, "families": list(self.proof.families), "bound": self.proof.bound,
                "statement": self.proof.statement, "members": len(self.proof.totals),
            },
            "runner_ups": [
                {"label": s.member.label, "family": s.member.family, "total": s.total, "bytes": s.bytes}
                for s in self.runner_ups
            ],
            "excluded": [{"label": e.label, "reason": e.reason} for e in self.excluded],
        }  # fmt: skip


# -- families ----------------------------------------------------------------------------------------------------------


def _row_major(shape: Sequence[int], pitch: int) -> TileLayout:
    """Rows ``pitch`` elements apart, leading dimensions dense."""
    iters, stride = [Iter(shape[-1], 1)], pitch
    for extent in reversed(shape[:-1]):
        iters.insert(0, Iter(extent, stride))
        stride *= extent
    return TileLayout(tuple(iters))


def hardware_family(shape: Sequence[int], dtype: Any) -> Iterator[Member | Excluded]:
    """What TMA and matrix descriptors can name, simplest first; TMA needs rows of whole 16 bytes."""
    row = Member("hardware", "row-major", _row_major(shape, shape[-1]), ("tma",))
    if shape[-1] * element_bits(dtype) % 128:
        row = Member("hardware", "row-major", row.layout)
    yield row
    for mode in (SwizzleMode(3), SwizzleMode(2), SwizzleMode(1), SwizzleMode(0)):
        label = f"{mode.span_bytes}-byte swizzle" if mode.value else "core matrices of 8 rows x 16 bytes"
        try:
            yield Member("hardware", label, mma_shared_layout(dtype, mode, shape), ("tma", "mma") if mode.value else ("mma",))
        except LayoutError as error:
            yield Excluded(label, error.message)


def xor_family(shape: Sequence[int]) -> Iterator[Member]:
    """All swizzles (the identity too) whose bits lie within the buffer's addresses; where rows aren't a power of two long,
    also with the pitch rounded up to one."""
    pitches = [shape[-1]]
    if not is_power_of_two(shape[-1]):
        pitches.append(1 << shape[-1].bit_length())
    for pitch in pitches:
        tile = _row_major(shape, pitch)
        note = "" if pitch == shape[-1] else f" over a pitch of {pitch}"
        width = (int(tile.span("m")) - 1).bit_length()  # type: ignore[arg-type]
        yield Member("xor", f"row-major{note}", tile)
        for count in range(1, min(MAX_SWIZZLE_BITS, width) + 1):
            for inner in (True, False):
                for shift in range(count, width - count + 1):
                    for low in range(width - shift - count + 1):
                        swizzle = SwizzleLayout(low, count, shift, inner)
                        yield Member("xor", f"{swizzle.script('')}{note}", ComposeLayout(swizzle, tile))


def padding_family(shape: Sequence[int], bits: int) -> Iterator[Member]:
    """Row pitches from the row's length to 128 bytes more; banks repeat there, so a longer pitch conflicts no less."""
    columns = shape[-1]
    for extra in range(max(1, 1024 // bits)):
        yield Member("padding", f"row pitch {columns + extra}", _row_major(shape, columns + extra))


# -- counting ----------------------------------------------------------------------------------------------------------


class _Counter:
    """Scores members for one question."""

    def __init__(self, shape: tuple[int, ...], dtype: str, accesses: Sequence[AnyAccess]) -> None:
        import numpy as np

        self.shape, self.dtype, self.accesses = shape, dtype, tuple(accesses)
        self.bits = element_bits(dtype)
        self.total = prod(shape)
        self.lanes: list[Lanes | None] = [
            None if isinstance(a, EngineAccess) else lanes_of(a, shape, dtype) for a in self.accesses
        ]
        self.engine = -(-self.total * self.bits // 1024)
        self.engines = sorted({a.engine for a in self.accesses if isinstance(a, EngineAccess)})
        self.ideal = tuple(self.engine if x is None else x.least(self.bits) for x in self.lanes)
        self.weights = tuple(a.weight for a in self.accesses)
        self.bound = sum(w * i for w, i in zip(self.weights, self.ideal))
        warps = [x for x in self.lanes if x is not None]
        starts = [np.array(x.starts, dtype=np.int64) for x in warps]
        vectors = [np.full(len(x.starts), x.access.vector) for x in warps]
        self._starts = np.concatenate([*starts, np.zeros(0, dtype=np.int64)])
        self._vector = np.concatenate([*vectors, np.zeros(0, dtype=np.int64)]).astype(np.int64)
        self._width = self._vector * self.bits // 8
        self._owner = np.repeat(np.arange(len(warps)), [len(x.starts) for x in warps])
        self._names = [x.access.name for x in warps]
        #: every element of every lane's vector, and the lane it belongs to
        self._lane = np.repeat(np.arange(len(self._starts)), self._vector)
        ends = np.cumsum(self._vector)
        self._step = np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - self._vector, self._vector)
        self._element = np.maximum(self._starts, 0)[self._lane] + self._step

    def score(self, members: Sequence[Member]) -> tuple[list[Scored], list[Excluded]]:
        """Wavefronts of every member that serves all accesses; the others with the reason."""
        import numpy as np

        fit: list[Member] = []
        excluded: list[Excluded] = []
        spans: list[int] = []
        places: list[np.ndarray] = []
        for m in members:
            found = self._places(m)
            if isinstance(found, str):
                excluded.append(Excluded(m.label, found))
                continue
            fit.append(m)
            spans.append(found[0])
            places.append(found[1])
        if not fit:
            return [], excluded
        table = np.array(places, dtype=np.int64)
        counts = np.zeros((len(self.lanes), len(fit)), dtype=np.int64)
        number = 0
        for k, x in enumerate(self.lanes):
            if x is None:
                counts[k] = self.engine
                continue
            counts[k] = count_wavefronts(table[:, self._owner == number], x.width)
            number += 1
        scored = []
        for i, m in enumerate(fit):
            mine = tuple(int(c) for c in counts[:, i])
            scored.append(Scored(m, mine, sum(w * n for w, n in zip(self.weights, mine)), -(-spans[i] * self.bits // 8)))
        return scored, excluded

    def _places(self, m: Member) -> str | tuple[int, np.ndarray]:
        """(span in elements, byte address of every lane, -1 where inactive), or why the member can't be used."""
        import numpy as np

        for engine in self.engines:
            if engine not in m.engines:
                return f"{'a tensor copy' if engine == 'tma' else 'a matrix descriptor'} can't name it"
        span = m.layout.span("m")
        if not isinstance(span, int) or span * self.bits > 8 * MAX_BYTES:
            return f"it takes {span} elements, more than {MAX_BYTES} bytes"
        at = m.layout.evaluate(self._element).get("m", np.zeros_like(self._element))
        first = at[self._step == 0]
        active = self._starts >= 0
        torn = active[self._lane] & (at != first[self._lane] + self._step)
        address = first * self.bits // 8
        crooked = active & ((first * self.bits % 8 != 0) | (address % self._width != 0))
        if torn.any():
            return self._complaint(int(self._lane[np.argmax(torn)]), "elements aren't neighbours")
        if crooked.any():
            lane = int(np.argmax(crooked))
            return self._complaint(lane, f"address isn't a multiple of {int(self._width[lane])} bytes")
        return span, np.where(active, address, -1)

    def _complaint(self, lane: int, what: str) -> str:
        owner = int(self._owner[lane])
        number = lane - int((self._owner < owner).sum())
        return f"access '{self._names[owner]}': lane {number}'s {what}"

    def phases(self, padded: Sequence[int]) -> tuple[int, int, int, list[Phase]] | None:
        """(word bits, kept low bits, word bit - element bit, phases) for matrices; None if lanes aren't aligned."""
        index = _padded_index(self.shape, padded)
        elements = (prod(padded) - 1).bit_length()
        shift = (self.bits // 32).bit_length() - 1 if self.bits >= 32 else -((32 // self.bits).bit_length() - 1)
        widest = max((x.width for x in self.lanes if x is not None), default=4)
        kept = max(0, (widest // 4).bit_length() - 1)
        phases = []
        for x, w in zip(self.lanes, self.weights):
            if x is None:
                continue
            for starts in x.phases:
                words: set[int] = set()
                for s in starts:
                    byte = index(s) * self.bits // 8
                    if byte % x.width or index(s + x.access.vector - 1) != index(s) + x.access.vector - 1:
                        return None
                    words.update(range(byte // 4, byte // 4 + max(1, x.width // 4)))
                if words:
                    phases.append(Phase(tuple(sorted(words)), w))
        return max(0, elements + shift), kept, shift, phases


def _padded_index(shape: Sequence[int], padded: Sequence[int]) -> Any:
    def index(flat: int) -> int:
        out, stride = 0, 1
        for extent, wide in zip(reversed(shape), reversed(padded)):
            flat, c = divmod(flat, extent)
            out += c * stride
            stride *= wide
        return out

    return index


# -- the question ------------------------------------------------------------------------------------------------------


def best_layout(
    shape: Sequence[int], dtype: Any, accesses: Sequence[Any], *, family: str | Sequence[str] = "auto", rlimit: int = RLIMIT
) -> BestLayout:
    """The layout of a shared buffer of ``shape`` with the fewest weighted wavefronts over ``accesses``.

    ``accesses``: :class:`~tirx_eq.solve.memory.access.WarpAccess` (lanes' coordinates, predicates, vectors, weights),
    ``EngineAccess`` (TMA, matrix descriptors), ``layout.conflicts.Access``, or names (``"row"``, ``"column:8"``,
    ``"ldmatrix"``, ``"tma"``, ``"mma"``); ``(access, weight)`` too.  ``family``: one or several of ``hardware``, ``xor``,
    ``padding``, ``matrix``; ``auto`` is all.  Among equals the one of fewest bytes wins, then the simplest family.

    Raises LayoutError for an access that leaves the buffer, an unknown family, or if no member serves all accesses (the
    reasons are listed).
    """
    dims = tuple(int(e) for e in shape)
    if not dims or any(e < 1 for e in dims):
        raise LayoutError(f"best_layout: the shape {dims} isn't one of positive extents")
    if len(dims) == 1:
        dims = (1, *dims)
    name = dt.normalize(dtype)
    if not accesses:
        raise LayoutError("best_layout needs at least one access")
    chosen = FAMILIES if family == "auto" else (family,) if isinstance(family, str) else tuple(family)
    for f in chosen:
        if f not in FAMILIES:
            raise LayoutError(f"best_layout: unknown family '{f}'", hint=f"one of {', '.join(FAMILIES)}, or auto")
    given = [as_access(a, tuple(shape), name) for a in accesses]
    if len(shape) == 1:
        given = [_in_rows(a) for a in given]
    counter = _Counter(dims, name, given)
    scored: list[Scored] = []
    excluded: list[Excluded] = []
    for f in chosen:
        if f == "matrix":
            continue
        found = list(_members(f, counter))
        excluded += [m for m in found if isinstance(m, Excluded)]
        good, bad = counter.score([m for m in found if isinstance(m, Member)])
        scored += good
        excluded += bad
    unsat: Unsat | None = None
    decided, attained = True, bool(scored) and min(s.total for s in scored) == counter.bound
    if "matrix" in chosen and not attained:
        made = _synthesised(counter, min((s.total for s in scored if s.member.family == "xor"), default=None), rlimit)
        if isinstance(made, Excluded):
            excluded.append(made)
        else:
            member, decided, unsat = made
            good, bad = counter.score([member])
            scored += good
            excluded += bad
    if not scored:
        reasons = "\n".join(f"  {e.label}: {e.reason}" for e in excluded[:8])
        raise LayoutError(f"best_layout: no layout of {', '.join(chosen)} serves all accesses of {dims} {name}:\n{reasons}")
    ranked = sorted(scored, key=lambda s: (s.total, s.bytes, FAMILIES.index(s.member.family)))  # stable: simplest first
    best = ranked[0]
    proof = _proof(counter, chosen, best, scored, decided, unsat, attained)
    return BestLayout(
        best.member.layout, best.member.family, best.member.label, dims, name, counter.accesses, best.wavefronts, counter.ideal,
        best.total, best.bytes, proof, _runner_ups(ranked), tuple(excluded),
    )  # fmt: skip


def _in_rows(a: AnyAccess) -> AnyAccess:
    from dataclasses import replace

    if isinstance(a, EngineAccess):
        return a
    return replace(a, lanes=tuple(None if c is None else (0, *c) for c in a.lanes))


def _members(family: str, counter: _Counter) -> Iterator[Member | Excluded]:
    if family == "hardware":
        yield from hardware_family(counter.shape, counter.dtype)
    elif family == "xor":
        yield from xor_family(counter.shape)
    else:
        yield from padding_family(counter.shape, counter.bits)


def _synthesised(counter: _Counter, incumbent: int | None, rlimit: int) -> tuple[Member, bool, Unsat | None] | Excluded:
    if counter.engines:
        return Excluded("synthesised matrices", "engines can't name them")
    padded = tuple(1 << (e - 1).bit_length() for e in counter.shape)
    found = counter.phases(padded)
    if found is None:
        return Excluded("synthesised matrices", "a lane's vector isn't aligned in the index")
    bits, kept, shift, phases = found
    made = synthesise(bits, kept, phases, incumbent if padded == counter.shape else None, rlimit=rlimit)
    matrix = matrix_of(made.rows, bits, shift, counter.shape, padded)
    layout = matrix.layout()
    label = f"synthesised: {matrix.script('')}"
    return Member("matrix", label, matrix if layout is None else layout), made.decided, made.proof


def _proof(
    counter: _Counter, chosen: tuple[str, ...], best: Scored, scored: Sequence[Scored], decided: bool, unsat: Unsat | None,
    attained: bool,
) -> Optimality:  # fmt: skip
    totals = tuple((s.member.label, s.total) for s in scored)
    if best.total == counter.bound:
        text = f"{best.total} weighted wavefronts are what the bytes of each phase need (128 bytes each): no layout needs fewer"
        return Optimality("lower bound", chosen, counter.bound, text, totals)
    if "matrix" in chosen and not attained and not decided:
        text = f"z3 gave up below {best.total}; at least {counter.bound} are needed"
        return Optimality("open", chosen, counter.bound, text, totals)
    text = f"all {len(totals)} members were counted, none needs fewer than {best.total}"
    if unsat is not None:
        return Optimality("unsatisfiable", chosen, best.total, f"{text}; no matrix over GF(2) does (z3)", totals, unsat)
    if any(s.member.family == "matrix" for s in scored):
        text += "; no matrix over GF(2) does, since each phase alone needs what it gets"
        return Optimality("subspaces", chosen, best.total, text, totals)
    return Optimality("exhaustive", chosen, best.total, text, totals)


def _runner_ups(ranked: Sequence[Scored], most: int = 5) -> tuple[Scored, ...]:
    """The next best: one per (family, wavefronts per access)."""
    seen = {(ranked[0].member.family, ranked[0].wavefronts)}
    out: list[Scored] = []
    for s in ranked[1:]:
        key = (s.member.family, s.wavefronts)
        if key not in seen and len(out) < most:
            seen.add(key)
            out.append(s)
    return tuple(out)
