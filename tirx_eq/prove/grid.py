"""Exhaustive evaluation on a whole box of integer points, one numpy operation per node.

Every variable has its own array axis, so a subterm is computed only over the variables it has.  Arrays are int64 where
the interval of the node proves that nothing can wrap, and Python integers otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .table import DIVISIONS, SHIFTS, Table

Array = Any  # numpy array of int64, or of Python integers (dtype object)
_SAFE = 1 << 62


def box_axes(table: Table, names: Sequence[str]) -> dict[str, Array]:
    """Values of each variable along its own axis, in the order of ``names``."""
    axes = {}
    for k, name in enumerate(names):
        lo, hi = table.ranges[name]
        shape = [1] * len(names)
        shape[k] = hi - lo + 1
        values = np.arange(lo, hi + 1, dtype=np.int64) if _fits((lo, hi)) else np.array(range(lo, hi + 1), dtype=object)
        axes[name] = values.reshape(shape)
    return axes


def sample_points(table: Table, names: Sequence[str], count: int = 96, seed: int = 20) -> dict[str, Array]:
    """Corners first, then pseudo-random points (fixed seed), as one array per variable."""
    rng = np.random.default_rng(seed)
    points = {}
    for name in names:
        lo, hi = table.ranges[name]
        if not _fits((lo, hi)) or hi - lo >= _SAFE:
            spread = [lo + int(f * (hi - lo)) for f in rng.random(count)]
            points[name] = np.array([lo, hi, lo, hi, min(lo + 1, hi), max(lo, hi - 1), *spread], dtype=object)
            continue
        edge = np.array([lo, hi, lo, hi, min(lo + 1, hi), max(lo, hi - 1)], dtype=np.int64)
        points[name] = np.concatenate([edge, rng.integers(lo, hi, size=count, endpoint=True)])
    return points


class Values:
    """Evaluation of one or more roots over given points; ``ok`` is None where every point has a value."""

    def __init__(self, table: Table, points: dict[str, Array]) -> None:
        self.table = table
        self.points = points

    def run(self, roots: Sequence[int]) -> list[tuple[Array, Array | None]]:
        """(values, defined-mask or None) of each root, both broadcastable to the box."""
        table = self.table
        order = sorted({i for r in roots for i in table.reach(r)})
        users: dict[int, int] = dict.fromkeys(roots, 1)
        for i in order:
            for c in table.children(i):
                users[c] = users.get(c, 0) + 1
        out: dict[int, tuple[Array, Array | None]] = {}
        for i in order:
            out[i] = self._node(i, out)
            for c in table.children(i):
                users[c] -= 1
                if not users[c]:
                    out.pop(c, None)
        return [out[r] for r in roots]

    def _node(self, i: int, out: dict[int, tuple[Array, Array | None]]) -> tuple[Array, Array | None]:
        table = self.table
        op, *args = table.nodes[i]
        if op == "var":
            return self.points[args[0]], None
        lo, hi = table.interval[i]
        if lo == hi and not table.partial[i]:
            return np.array(lo, dtype=np.int64 if _fits((lo, hi)) else object), None
        if op == "select":
            return self._select(i, args, out)
        ok = None
        for a in args:
            ok = both(ok, out[a][1])
        x = [out[a][0] for a in args]
        if op in DIVISIONS and table.interval[args[1]][0] <= 0 <= table.interval[args[1]][1]:
            ok = both(ok, x[1] != 0)
            x[1] = np.where(x[1] == 0, 1, x[1])
        if op in SHIFTS and table.interval[args[1]][0] < 0:
            ok = both(ok, x[1] >= 0)
            x[1] = np.where(x[1] < 0, 0, x[1])
        narrow = _fits((lo, hi)) and all(_fits(table.interval[a]) for a in args)
        if op == "shl":
            narrow = narrow and table.interval[args[1]][1] < 63
        if not narrow:
            x = [v.astype(object) for v in x]
        value = _NUMPY[op](*x)
        if narrow:
            value = value.astype(np.int64, copy=False)
        elif _fits((lo, hi)):
            value = np.asarray(value).astype(np.int64)
        return value, ok

    def _select(self, i: int, args: list[int], out: dict[int, tuple[Array, Array | None]]) -> tuple[Array, Array | None]:
        c, ok = out[args[0]]
        taken = c != 0
        if args[1] not in out or args[2] not in out:  # the condition is decided: only one branch was evaluated
            branch = out[args[1]] if args[1] in out else out[args[2]]
            return branch[0], both(ok, branch[1])
        (a, ok_a), (b, ok_b) = out[args[1]], out[args[2]]
        if ok_a is not None or ok_b is not None:
            yes = ok_a if ok_a is not None else np.array(True)
            no = ok_b if ok_b is not None else np.array(True)
            ok = both(ok, np.where(taken, yes, no))
        return np.where(taken, a, b), ok


def both(a: Array | None, b: Array | None) -> Array | None:
    """Conjunction of masks, None meaning "everywhere"."""
    return b if a is None else a if b is None else a & b


def first_true(mask: Array, points: dict[str, Array]) -> dict[str, int] | None:
    """The first point (in the order of the box) at which ``mask`` holds."""
    shape = np.broadcast_shapes(np.shape(mask), *(np.shape(v) for v in points.values()))
    full = np.broadcast_to(mask, shape)
    where = int(np.argmax(full))
    index = np.unravel_index(where, shape) if shape else ()
    if not full[index]:
        return None
    return {n: int(np.broadcast_to(v, shape)[index]) for n, v in points.items()}


def _fits(interval: tuple[int, int]) -> bool:
    return -_SAFE < interval[0] and interval[1] < _SAFE


def _trunc(a: Array, b: Array) -> Array:
    q = abs(a) // abs(b)
    return np.where((a < 0) == (b < 0), q, -q)


def _shr(a: Array, b: Array) -> Array:
    return a >> (b if a.dtype == object or b.dtype == object else np.minimum(b, 63))


_NUMPY: dict[str, Callable[..., Array]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "neg": lambda a: -a,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "tdiv": _trunc,
    "tmod": lambda a, b: a - b * _trunc(a, b),
    "shl": lambda a, b: a << b,
    "shr": _shr,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "min": np.minimum,
    "max": np.maximum,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "land": lambda a, b: (a != 0) & (b != 0),
    "lor": lambda a, b: (a != 0) | (b != 0),
    "lnot": lambda a: a == 0,
}
