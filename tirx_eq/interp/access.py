"""Reading and writing buffers: single elements per thread, and regions per unit of threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import TirxError
from ..ir import Buffer, BufferRegion, Expr, IntImm
from ..ir import dtype as dt
from ..layout.hardware import container_shift
from .ctas import CTA_AXES, rows_of
from .faults import InterpreterError, OutOfBounds, UndefinedRead, WriteConflict
from .memory import Pointer, Storage
from .places import DIGITS, coordinates, digits_of, free_numbers, thread_number

if TYPE_CHECKING:
    from .machine import Machine

Array = Any
ALL_DIGITS = frozenset(DIGITS)
TMEM_LANES = 128
TMEM_COLUMNS = 512
#: Digits of the thread number that one unit of a scope has in common.
SCOPE_DIGITS: dict[str, frozenset[str]] = {
    "thread": ALL_DIGITS, "warp": frozenset(("wg", "wid")), "warpgroup": frozenset(("wg",)), "cta": frozenset(),
    "cluster": frozenset(),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Units:
    """The units of threads that execute a tile primitive, each once.

    ``threads``: all that take part; ``unit``: per participant, the number of its unit; ``first``: one thread of each
    unit; ``fixed``: the digits that the threads of a unit share (of their numbers, and of their CTA's place in the
    cluster); ``group``: per thread of the wave, the unit of the *scope* (-1: takes no part); ``rows``: the CTA whose
    memory each unit works on; ``within_cta``: the scope is no wider than a CTA.
    """

    threads: Array
    unit: Array
    first: Array
    fixed: frozenset[str]
    group: Array
    rows: Array
    within_cta: bool = True

    @property
    def count(self) -> int:
        return len(self.first)

    def in_ctas(self, rows: Array) -> Units:
        """The same units working on the memory of other CTAs."""
        return Units(self.threads, self.unit, self.first, self.fixed, self.group, rows, self.within_cta)


@dataclass(frozen=True, eq=False)
class Place:
    """Elements in storage: rows and bit offsets, and where they are meant (``valid`` None: everywhere)."""

    storage: Storage
    rows: Array
    bit: Array
    valid: Array = None


class Access:
    """The memory operations of a machine."""

    def __init__(self, machine: Machine) -> None:
        self.m = machine

    # -- common -----------------------------------------------------------------------------------------------------

    def base(self, buffer: Buffer, threads: Array) -> Pointer:
        """Where the storage of a buffer starts, per thread."""
        found = self.m.roots.get(buffer.data)
        if found is not None:
            rows: Array = np.int64(0)
            if found.space == "shared":
                rows = self.m.wave.cta[threads]
            elif found.space == "local":
                rows = threads
            return Pointer(found, rows, np.int64(0))
        pointer = self.m.env.get(buffer.data)
        if isinstance(pointer, Pointer):
            return pointer.at(threads)
        raise InterpreterError(
            f"buffer '{buffer.name}' is used, but it has no storage", hint="allocate or declare it first"
        )

    def units(self, threads: Array, scope: str, fixed: frozenset[str] = frozenset()) -> Units:
        """The units of a scope among the active threads, refined so that their threads share the digits ``fixed``."""
        common = SCOPE_DIGITS[scope] if scope == "cluster" else SCOPE_DIGITS[scope] | frozenset(CTA_AXES)
        key = self._key(threads, common, scope)
        group = np.full(self.m.wave.size, -1, dtype=np.int64)
        group[threads] = key
        if scope == "cluster":
            self._whole_clusters(threads)
        fine = self._key(threads, common | fixed, scope)
        _, first, unit = np.unique(fine, return_index=True, return_inverse=True)
        reps = threads[first]
        return Units(
            threads, unit.reshape(-1), reps, common | fixed, group, self.m.wave.cta[reps], scope != "cluster"
        )

    def _whole_clusters(self, threads: Array) -> None:
        size = self.m.wave.geometry.cluster_size
        here = np.unique(self.m.wave.cta[threads])
        clusters, count = np.unique(here // size, return_counts=True)
        if np.any(count != size):
            at = int(np.argmax(count != size))
            raise InterpreterError(
                f"a call of a cluster is reached by {int(count[at])} of the {size} CTAs of cluster {int(clusters[at])}"
            )

    def _key(self, threads: Array, digits: frozenset[str], scope: str = "cta") -> Array:
        tid = self.m.wave.tid[threads]
        key = self.m.wave.cta[threads].astype(np.int64)
        if scope == "cluster":
            key = key // self.m.wave.geometry.cluster_size
        parts = {"wg": (tid // 128, 8), "wid": (tid // 32 % 4, 4), "lane": (tid % 32, 32)}
        wave = self.m.wave
        for axis, at, extent in zip(CTA_AXES, wave.in_cluster_xyz, wave.geometry.cluster):
            parts[axis] = (at[wave.cta[threads]], extent)
        for name in sorted(digits if scope == "cluster" else digits - frozenset(CTA_AXES)):
            value, count = parts[name]
            key = key * count + value
        return key

    def uniform(self, e: Any, units: Units, what: str) -> Array:
        """The value of an expression per unit; all threads of a unit must agree."""
        value = np.asarray(self.m.value(e, units.threads))
        if value.ndim == 0:
            return np.broadcast_to(value, (units.count,))
        mine = value[np.searchsorted(units.threads, units.first)]
        bad = np.flatnonzero(value != mine[units.unit])
        if len(bad):
            t = units.threads[bad[0]]
            here, there = self.m.wave.describe(int(t)), self.m.wave.describe(int(units.first[units.unit[bad[0]]]))
            raise InterpreterError(
                f"{what} is not the same for all threads that execute the call together: "
                f"{value[bad[0]]} in {here}, {mine[units.unit[bad[0]]]} in {there}"
            )
        return mine

    def _in_shape(self, buffer: Buffer, shape: Sequence[int], coords: Sequence[Array], threads: Array) -> Array | None:
        """Which elements lie outside of the shape; None if none does."""
        outside: Array = None
        for c, extent in zip(coords, shape):
            if np.size(c) and (np.min(c) < 0 or np.max(c) >= extent):
                bad = (c < 0) | (c >= extent)
                outside = bad if outside is None else outside | bad
        return outside

    def _fail(
        self, error: type[TirxError], text: str, buffer: Buffer, coords: Sequence[Array], bad: Array, threads: Array
    ) -> None:
        """Raise ``error`` for the first bad element; threads vary along the dimension ``threads`` is aligned with."""
        bad = np.asarray(bad)
        full = np.broadcast_arrays(bad, *coords, threads)
        at = np.unravel_index(int(np.argmax(full[0])), full[0].shape) if full[0].ndim else ()
        element = f"'{buffer.name}[{', '.join(str(int(c[at])) for c in full[1:-1])}]'"
        raise error(f"{text.format(element)} by {self.m.wave.describe(int(full[-1][at]))}")

    # -- one element per thread -------------------------------------------------------------------------------------

    def element(self, buffer: Buffer, indices: Sequence[Expr], threads: Array) -> tuple[list[Array], list[Place], str]:
        """Coordinates, places (one per replica) and dtype of ``buffer[indices]`` for each thread."""
        coords = [self._index(i, threads) for i in indices]
        shape, layout, strides = self.m.concrete(buffer)
        outside = self._in_shape(buffer, shape, coords, threads)
        if outside is not None:
            text = f"{{}} is outside of the shape {list(shape)}, accessed"
            self._fail(OutOfBounds, text, buffer, coords, outside, threads)
        if buffer.scope == "tmem":
            raise InterpreterError(
                f"an element of tensor memory buffer '{buffer.name}' can't be accessed by itself",
                hint="copy a region of it",
            )
        base = self.base(buffer, threads)
        offset = np.asarray(self.m.value(buffer.elem_offset, threads))
        bits = dt.storage_bits(buffer.dtype)
        places = []
        for point in coordinates(shape, layout, strides, coords):
            axes = set(point) - {"m"}
            if axes:
                if base.storage.space != "local" and not (base.storage.space == "shared" and axes <= set(CTA_AXES)):
                    raise InterpreterError(
                        f"buffer '{buffer.name}' isn't in registers, but its layout uses axis {min(axes)}"
                    )
                self._own(buffer, layout, point, coords, threads)
            m = point.get("m", np.int64(0)) + offset
            places.append(Place(base.storage, base.rows, m * bits + np.asarray(base.byte) * 8))
        for p in places:
            outside = p.storage.outside(p.bit, buffer.dtype)
            if np.any(outside):
                self._fail(
                    OutOfBounds,
                    f"{{}} is outside of the {p.storage.size} bytes of its storage, accessed",
                    buffer,
                    coords,
                    outside,
                    threads,
                )
        return coords, places, buffer.dtype

    def _own(
        self, buffer: Buffer, layout: Any, point: dict[str, Array], coords: Sequence[Array], threads: Array
    ) -> None:
        """A thread reaches only its own registers, and its CTA's part, by itself."""
        covered = digits_of(layout)
        mine = self.m.wave.tid[threads]
        part = sum(((mine // DIGITS[d][0]) % (DIGITS[d][1] or 1 << 20)) * DIGITS[d][0] for d in covered)
        wrong = thread_number(point, buffer.name) != part
        if np.any(wrong):
            self._fail(OutOfBounds, "{} is in another thread's registers, accessed", buffer, coords, wrong, threads)
        for axis, at in zip(CTA_AXES, self.m.wave.in_cluster_xyz):
            wrong = np.asarray(point.get(axis, at[self.m.wave.cta[threads]])) != at[self.m.wave.cta[threads]]
            if np.any(wrong):
                self._fail(OutOfBounds, "{} is in another CTA's part, accessed", buffer, coords, wrong, threads)

    def _index(self, e: Expr, threads: Array) -> Array:
        if isinstance(e, IntImm):
            return np.int64(e.value)
        return np.asarray(self.m.value(e, threads)).astype(np.int64)

    def load(self, buffer: Buffer, indices: Sequence[Expr], threads: Array) -> Array:
        """``buffer[indices]`` in each thread; with a Ramp as last index the lanes come first."""
        coords, places, dtype = self.element(buffer, indices, threads)
        value, undefined = places[0].storage.read(places[0].rows, places[0].bit, dtype)
        if np.any(undefined):
            self._fail(UndefinedRead, "{} was never written, but is read", buffer, coords, undefined, threads)
        return value

    def store(self, buffer: Buffer, indices: Sequence[Expr], value: Array, threads: Array) -> None:
        """``buffer[indices] = value`` in each thread."""
        coords, places, dtype = self.element(buffer, indices, threads)
        width = len(threads)
        for p in places:
            shape = np.broadcast_shapes(np.shape(p.bit), np.shape(value), (width,))
            bit = np.broadcast_to(p.bit, shape)
            rows = np.broadcast_to(p.rows, shape)
            wrong = p.storage.write(rows, bit, value, dtype)
            if np.any(wrong):
                self._fail(
                    WriteConflict,
                    "different values are written at once to {}, one of them",
                    buffer,
                    coords,
                    wrong,
                    threads,
                )

    # -- regions ----------------------------------------------------------------------------------------------------

    def extents(self, region: BufferRegion, units: Units) -> tuple[int, ...]:
        """The extents of a region, the same for all units."""
        out = []
        for r in region.region:
            if isinstance(r.extent, IntImm):
                out.append(int(r.extent))
                continue
            found = np.unique(self.uniform(r.extent, units, f"an extent of the region of '{region.buffer.name}'"))
            if len(found) != 1:
                raise InterpreterError(f"the region of '{region.buffer.name}' has extents that differ between threads")
            out.append(int(found[0]))
        return tuple(out)

    def points(self, region: BufferRegion, units: Units) -> list[Array]:
        """Buffer coordinates of a region's elements: per dimension an array (units, …) that broadcasts."""
        extents = self.extents(region, units)
        coords = []
        for d, (r, extent) in enumerate(zip(region.region, extents)):
            low = np.asarray(self.uniform(r.min, units, f"the start of the region of '{region.buffer.name}'")).astype(
                np.int64
            )
            shape = [1] * (len(extents) + 1)
            shape[d + 1] = extent
            coords.append(low.reshape(-1, *[1] * len(extents)) + np.arange(extent).reshape(shape))
        return coords

    def places(
        self, region: BufferRegion, units: Units, clip: bool = False
    ) -> tuple[list[Array], list[Place], Array | None]:
        """Coordinates, places and (with ``clip``) the elements outside of the buffer, which are then left out."""
        buffer = region.buffer
        coords = self.points(region, units)
        shape, layout, strides = self.m.concrete(buffer)
        along = units.first.reshape(-1, *[1] * len(coords))
        outside = self._in_shape(buffer, shape, coords, along)
        if outside is not None:
            if not clip:
                self._fail(
                    OutOfBounds, f"{{}} is outside of the shape {list(shape)}, accessed", buffer, coords, outside, along
                )
            coords = [np.clip(c, 0, e - 1) for c, e in zip(coords, shape)]
        points = coordinates(shape, layout, strides, coords)
        full = (units.count, *(c.shape[d + 1] for d, c in enumerate(coords)))
        if buffer.scope == "tmem":
            made = [q for p in points for q in self._tmem_places(buffer, p, units, full)]
        else:
            made = [q for p in points for q in self._memory_places(buffer, layout, p, units, full)]
        for p in made:
            bad = p.storage.outside(p.bit, buffer.dtype)
            bad = bad if p.valid is None else bad & p.valid
            if np.any(bad):
                self._fail(
                    OutOfBounds,
                    f"{{}} is outside of the {p.storage.size} bytes of its storage, accessed",
                    buffer,
                    coords,
                    bad,
                    along,
                )
        return coords, made, outside

    def _tmem_places(
        self, buffer: Buffer, point: dict[str, Array], units: Units, full: tuple[int, ...]
    ) -> list[Place]:
        extra = set(point) - {"TLane", "TCol", *CTA_AXES}
        if extra:
            raise InterpreterError(f"tensor memory buffer '{buffer.name}': its layout uses axis {min(extra)}")
        if not buffer.allocated_addr:
            raise InterpreterError(f"tensor memory buffer '{buffer.name}' has no address", hint="give allocated_addr")
        offset = self.uniform(buffer.elem_offset, units, f"the offset of '{buffer.name}'")
        inner = [1] * (len(full) - 1)
        made = []
        for rows in rows_of(self.m.wave, point, units, inner, buffer.name):
            address = self._in_each_cta(buffer.allocated_addr[0], units, rows, f"the address of '{buffer.name}'")
            lane = point.get("TLane", np.int64(0)) + (address >> 16)
            column = point.get("TCol", np.int64(0)) + np.asarray(offset).reshape(-1, *inner)
            bit = column * dt.storage_bits(buffer.dtype) + (address & 0xFFFF) * 32
            if dt.storage_bits(buffer.dtype) == 4:
                bit = bit + self._container_shift(buffer)
            lane, bit = np.broadcast_to(lane, full), np.broadcast_to(bit, full)
            if lane.size and (lane.min() < 0 or lane.max() >= TMEM_LANES):
                raise OutOfBounds(
                    f"tensor memory buffer '{buffer.name}' reaches lane {int(lane.max())}; there are {TMEM_LANES}"
                )
            if bit.size and (bit.min() < 0 or bit.max() >= TMEM_COLUMNS * 32):
                raise OutOfBounds(
                    f"tensor memory buffer '{buffer.name}' reaches column {int(bit.max()) // 32}; there are {TMEM_COLUMNS}"
                )
            self.m.tmem_allocated(buffer, np.broadcast_to(rows, full), bit // 32)
            made.append(Place(self.m.tmem, rows * TMEM_LANES + lane, bit))
        return made

    def _in_each_cta(self, e: Expr, units: Units, rows: Array, what: str) -> Array:
        """The value of an expression in the CTAs given: the same for all threads there that execute the call."""
        if units.within_cta:
            return self.uniform(e, units, what).astype(np.int64).reshape(-1, *[1] * (np.ndim(rows) - 1))
        value = np.broadcast_to(np.asarray(self.m.value(e, units.threads)).astype(np.int64), units.threads.shape)
        cta = self.m.wave.cta[units.threads]
        known = np.zeros(self.m.wave.rows, dtype=np.int64)
        known[cta] = value
        if np.any(known[cta] != value):
            raise InterpreterError(f"{what} is not the same for all threads of a CTA that execute the call")
        return known[rows]

    def _container_shift(self, buffer: Buffer) -> int:
        """Bits from where the layout counts an element to the element."""
        shape = [e.value for e in buffer.shape if isinstance(e, IntImm)]
        if len(shape) < len(buffer.shape) or buffer.layout is None:
            return 0
        return container_shift(buffer.dtype, buffer.layout, tuple(shape))

    def _memory_places(
        self, buffer: Buffer, layout: Any, point: dict[str, Array], units: Units, full: tuple[int, ...]
    ) -> list[Place]:
        inner = [1] * (len(full) - 1)
        base = self.base(buffer, units.first)
        start = np.asarray(base.byte).reshape(-1, *inner) if np.ndim(base.byte) else base.byte
        offset = np.asarray(self.uniform(buffer.elem_offset, units, f"the offset of '{buffer.name}'")).reshape(
            -1, *inner
        )
        bit = (point.get("m", np.int64(0)) + offset) * dt.storage_bits(buffer.dtype) + start * 8
        bit = np.broadcast_to(bit, full)
        if base.storage.space == "local":
            return self._register_places(buffer, layout, point, units, base.storage, bit)
        mine = base.storage.space == "shared" and np.array_equal(base.rows, self.m.wave.cta[units.first])
        axes = set(point) - {"m"} - (set(CTA_AXES) if mine else set())
        if axes:
            where = "in the memory of each CTA" if axes <= set(CTA_AXES) else "in registers"
            raise InterpreterError(f"buffer '{buffer.name}' isn't {where}, but its layout uses axis {min(axes)}")
        if not mine:
            rows = np.asarray(base.rows)
            return [Place(base.storage, rows.reshape(-1, *inner) if rows.ndim else rows, bit)]
        return [Place(base.storage, rows, bit) for rows in rows_of(self.m.wave, point, units, inner, buffer.name)]

    def _register_places(
        self, buffer: Buffer, layout: Any, point: dict[str, Array], units: Units, storage: Storage, bit: Array
    ) -> list[Place]:
        """Elements in registers: held by the threads whose digits the layout names, and by all others that are free."""
        full, inner = bit.shape, [1] * (bit.ndim - 1)
        threads = self.m.wave.geometry.threads
        covered = digits_of(layout)
        number = np.broadcast_to(thread_number(point, buffer.name), full)
        tid = self.m.wave.tid[units.first]
        for d in (units.fixed - covered) & ALL_DIGITS:
            weight, count = DIGITS[d]
            number = number + (tid // weight % (count or 1 << 20) * weight).reshape(-1, *inner)
        free = ALL_DIGITS - covered - units.fixed
        group = units.group[units.first].reshape(-1, *inner)
        made, any_valid = [], np.zeros(full, dtype=bool)
        for row in rows_of(self.m.wave, point, units, inner, buffer.name):
            for extra in free_numbers(free, threads):
                holder = number + extra
                inside = (holder >= 0) & (holder < threads)
                thread = row * threads + np.where(inside, holder, 0)
                valid = inside & (units.group[thread] == group)
                any_valid |= valid
                made.append(Place(storage, thread, bit, None if valid.all() else valid))
        if not any_valid.all():
            at = np.unravel_index(int(np.argmin(any_valid)), full)
            raise InterpreterError(
                f"a part of '{buffer.name}' is in the registers of thread {int(number[at])}, which "
                f"takes no part in the call (executed by {self.m.wave.describe(int(units.first[at[0]]))} …)"
            )
        return made

    def read(self, region: BufferRegion, units: Units, *, fill: float | None = None) -> Array:
        """Values of a region per unit: (units, *extents).  With ``fill``, elements outside of the buffer are that."""
        buffer = region.buffer
        coords, places, outside = self.places(region, units, clip=fill is not None)
        along = units.first.reshape(-1, *[1] * len(coords))
        value: Array = None
        seen: Array = None
        for p in places:
            found, undefined = p.storage.read(p.rows, p.bit, buffer.dtype)
            valid = np.ones(found.shape, dtype=bool) if p.valid is None else p.valid
            if outside is not None:
                undefined = undefined & ~outside
            if np.any(undefined & valid):
                self._fail(UndefinedRead, "{} was never written, but is read", buffer, coords, undefined & valid, along)
            if value is None:
                value, seen = found, valid
                continue
            same = (found == value) | ((found != found) & (value != value))
            if np.any(seen & valid & ~same):
                self._fail(
                    InterpreterError, "the copies of {} differ; read", buffer, coords, seen & valid & ~same, along
                )
            value = np.where(seen, value, found)
            seen = seen | valid
        if outside is not None:
            value = np.where(outside, np.asarray(fill).astype(value.dtype), value)
        return value

    def write(self, region: BufferRegion, units: Units, value: Array, *, clip: bool = False) -> None:
        """Store values (units, *extents) to all places of a region; ``clip`` drops what is outside of the buffer."""
        buffer = region.buffer
        coords, places, outside = self.places(region, units, clip=clip)
        along = units.first.reshape(-1, *[1] * len(coords))
        full = places[0].bit.shape
        value = np.broadcast_to(value, full)
        for p in places:
            keep = p.valid
            if outside is not None:
                keep = ~outside if keep is None else keep & ~outside
            if keep is None:
                wrong = p.storage.write(p.rows, p.bit, value, buffer.dtype)
                if np.any(wrong):
                    self._fail(
                        WriteConflict,
                        "different values are written at once to {}, one of them",
                        buffer,
                        coords,
                        wrong,
                        along,
                    )
                continue
            rows = np.broadcast_to(p.rows, full)
            p.storage.write(rows[keep], p.bit[keep], value[keep], buffer.dtype)
