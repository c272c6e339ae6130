"""The axes that a layout may put elements on: memory (linear, TMEM) and threads (CTA, warp, lane …).

The registry is data.  ``scope`` is the widest group that the axis indexes within, ``subscope`` the unit it counts;
memory axes have neither.  A name that is not in the table is an error, since nothing could be said about it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..errors import LayoutError
from ..ir.node import node
from .value import Value, as_value


@dataclass(frozen=True)
class AxisInfo:
    """One row of the registry: ``kind`` is memory or thread, ``bits`` bounds nothing, ``doc`` is for people."""

    kind: str
    scope: str | None
    subscope: str | None
    extent: int | None
    doc: str


def _memory(doc: str, extent: int | None = None) -> AxisInfo:
    return AxisInfo("memory", None, None, extent, doc)


def _thread(scope: str, subscope: str, extent: int | None, doc: str) -> AxisInfo:
    return AxisInfo("thread", scope, subscope, extent, doc)


#: name -> what it is.  ``extent`` is the number of values the hardware has, if that is fixed.
AXES: dict[str, AxisInfo] = {
    "m": _memory("linear memory of the buffer's scope, in elements"),
    "TLane": _memory("tensor memory: lane (row) of a CTA's 128", 128),
    "TCol": _memory("tensor memory: column, in elements of the buffer's dtype"),
    "P": _memory("Trainium: partition"),
    "F": _memory("Trainium: free dimension"),
    "Bank": _memory("Trainium: PSUM bank"),
    "tx": _thread("cta", "thread", None, "thread of the CTA"),
    "warpid": _thread("cta", "warp", None, "warp of the CTA"),
    "laneid": _thread("warp", "thread", 32, "lane of the warp"),
    "wgid": _thread("cta", "warpgroup", None, "warpgroup (4 warps) of the CTA"),
    "tid_in_wg": _thread("warpgroup", "thread", 128, "thread of the warpgroup"),
    "wid_in_wg": _thread("warpgroup", "warp", 4, "warp of the warpgroup"),
    "cbx": _thread("cluster", "cta", None, "CTA of the cluster, x"),
    "cby": _thread("cluster", "cta", None, "CTA of the cluster, y"),
    "cbz": _thread("cluster", "cta", None, "CTA of the cluster, z"),
    "bx": _thread("kernel", "cta", None, "CTA of the grid, x"),
    "by": _thread("kernel", "cta", None, "CTA of the grid, y"),
    "bz": _thread("kernel", "cta", None, "CTA of the grid, z"),
}

#: axes whose values are parts of one CTA's thread number: tx = sum of axis * factor (in cta scope).
THREAD_FACTORS: dict[str, int] = {"tx": 1, "laneid": 1, "tid_in_wg": 1, "warpid": 32, "wid_in_wg": 32, "wgid": 128}


class _ByName(type):
    """``Axis.TLane`` is the axis of that name."""

    def __getattr__(cls, name: str) -> Any:
        if name in AXES:
            return _INTERNED[name]
        raise AttributeError(f"there is no axis '{name}'; the axes are {', '.join(AXES)}")


@node("layout.Axis")
class Axis(metaclass=_ByName):
    """A named axis; ``3 @ Axis.TCol`` puts a stride or an offset on it.  LayoutError if the name is not registered."""

    name: str

    def __post_init__(self) -> None:
        if self.name not in AXES:
            raise LayoutError(f"unknown axis '{self.name}'", hint=f"the axes are {', '.join(AXES)}")

    @staticmethod
    def get(name: Axis | str) -> Axis:
        """The axis of that name (an Axis is returned as it is)."""
        if isinstance(name, Axis):
            return name
        return _INTERNED.get(name) or Axis(name)

    @property
    def info(self) -> AxisInfo:
        return AXES[self.name]

    def is_memory(self) -> bool:
        """Whether it addresses memory (m, TLane, TCol …)."""
        return AXES[self.name].kind == "memory"

    def is_thread(self) -> bool:
        """Whether it names threads, warps or CTAs."""
        return AXES[self.name].kind == "thread"

    def get_scope(self) -> str | None:
        """Widest group the axis indexes within: kernel, cluster, cta, warpgroup, warp; None for memory."""
        return AXES[self.name].scope

    def get_subscope(self) -> str | None:
        """The unit the axis counts: cta, warpgroup, warp, thread; None for memory."""
        return AXES[self.name].subscope

    def __rmatmul__(self, value: Any) -> OnAxis:
        return OnAxis(as_value(value, f"what is put on axis {self.name}"), self)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"Axis.{self.name}"


@dataclass(frozen=True)
class OnAxis:
    """A stride or offset with its axis, as written ``n @ axis``."""

    value: Value
    axis: Axis

    def __neg__(self) -> OnAxis:
        return OnAxis(as_value(-self.value), self.axis)


_INTERNED: dict[str, Axis] = {name: Axis(name) for name in AXES}

m = _INTERNED["m"]
TLane = _INTERNED["TLane"]
TCol = _INTERNED["TCol"]
P = _INTERNED["P"]
F = _INTERNED["F"]
Bank = _INTERNED["Bank"]
tx = _INTERNED["tx"]
warpid = _INTERNED["warpid"]
laneid = _INTERNED["laneid"]
wgid = _INTERNED["wgid"]
tid_in_wg = _INTERNED["tid_in_wg"]
wid_in_wg = _INTERNED["wid_in_wg"]
cbx = _INTERNED["cbx"]
cby = _INTERNED["cby"]
cbz = _INTERNED["cbz"]
bx = _INTERNED["bx"]
by = _INTERNED["by"]
bz = _INTERNED["bz"]
