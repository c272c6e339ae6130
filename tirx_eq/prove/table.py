"""Index terms as one table of shared nodes with an interval each: what every procedure of the portfolio walks.

A node is ``(op, child, child, ...)`` with children as indices of earlier nodes, so all passes are loops in index
order: no recursion, whatever the nesting, and a subterm that many addresses share is looked at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..errors import ProofError
from ..ir.index import ARITY, MAX_BITS, MAX_SHIFT, too_big

Interval = tuple[int, int]
Ranges = Mapping[str, tuple[int, int]]
Node = tuple[Any, ...]

BOOLEAN = frozenset("lt le eq ne land lor lnot".split())
DIVISIONS = frozenset(("div", "mod", "tdiv", "tmod"))
SHIFTS = frozenset(("shl", "shr"))


class Table:
    """Interned nodes over variables with inclusive ``ranges``.

    ``interval[i]`` encloses node ``i``; ``partial[i]`` tells that evaluating node ``i`` may divide by zero or shift
    by a negative amount, as far as intervals can tell.  Raises ``ProofError`` for an undeclared name, an inverted
    range, an unknown operator, a wrong number of operands, or a value too big for any memory.
    """

    def __init__(self, ranges: Ranges) -> None:
        self.ranges = {n: (int(r[0]), int(r[1])) for n, r in ranges.items()}
        for name, (lo, hi) in self.ranges.items():
            if lo > hi:
                raise ProofError(
                    f"variable '{name}': the range {lo}..{hi} is empty",
                    hint="an empty range would make every claim true; give lo <= hi",
                )
        self.nodes: list[Node] = []
        self.interval: list[Interval] = []
        self.partial: list[bool] = []
        self._ids: dict[Node, int] = {}
        self._reach: dict[int, list[int]] = {}
        self._of_term: dict[int, tuple[Any, int]] = {}

    def add(self, term: Any) -> int:
        """The node of ``term`` (an ``int``, a name, or a nested prefix tuple)."""
        known = self._of_term.get(id(term))
        if known is not None:
            return known[1]
        done: list[int] = []
        todo: list[tuple[Any, bool]] = [(term, False)]
        while todo:
            t, ready = todo.pop()
            if not isinstance(t, tuple):
                done.append(self._leaf(t))
                continue
            known = self._of_term.get(id(t))
            if known is not None:
                done.append(known[1])
                continue
            if not ready:
                arity = ARITY.get(t[0]) if t else None
                if arity is None:
                    raise ProofError(f"index term: no operator {t[0] if t else '()'!r}")
                if len(t) != arity + 1:
                    raise ProofError(f"index term: '{t[0]}' takes {arity} operands, not {len(t) - 1}")
                todo.append((t, True))
                todo.extend((a, False) for a in reversed(t[1:]))
                continue
            n = len(t) - 1
            args = tuple(done[-n:])
            del done[-n:]
            i = self._intern((t[0], *args))
            self._of_term[id(t)] = (t, i)  # holding t keeps its id from being reused
            done.append(i)
        return done[0]

    def _leaf(self, t: Any) -> int:
        if isinstance(t, bool | int):
            return self._intern(("const", int(t)))
        if isinstance(t, str):
            if t not in self.ranges:
                raise ProofError(
                    f"index term: '{t}' has no range", hint=f"declared: {', '.join(sorted(self.ranges)) or 'none'}"
                )
            return self._intern(("var", t))
        raise ProofError(f"index term: {t!r} is neither a number, a name nor an operation")

    def _intern(self, node: Node) -> int:
        i = self._ids.get(node)
        if i is None:
            i = self._ids[node] = len(self.nodes)
            self.nodes.append(node)
            interval, own = self._bound(node)
            self.interval.append(interval)
            self.partial.append(own or any(self.partial[c] for c in self._taken(node)))
        return i

    def children(self, i: int) -> tuple[int, ...]:
        """Operands of node ``i``; none for a constant or a variable."""
        node = self.nodes[i]
        return () if node[0] in ("const", "var") else node[1:]

    def _taken(self, node: Node) -> tuple[int, ...]:
        """Operands that are evaluated: a select whose condition is decided evaluates one branch."""
        if node[0] in ("const", "var"):
            return ()
        if node[0] == "select":
            lo, hi = self.interval[node[1]]
            if lo > 0 or hi < 0:
                return (node[1], node[2])
            if lo == hi == 0:
                return (node[1], node[3])
        return node[1:]

    def own_partial(self, i: int) -> bool:
        """Whether node ``i`` itself (not an operand) may divide by zero or shift by a negative amount."""
        return self._bound(self.nodes[i])[1]

    def reach(self, root: int) -> list[int]:
        """Nodes that ``root`` evaluates, operands before users."""
        found = self._reach.get(root)
        if found is None:
            seen = {root}
            todo = [root]
            while todo:
                for c in self._taken(self.nodes[todo.pop()]):
                    if c not in seen:
                        seen.add(c)
                        todo.append(c)
            found = self._reach[root] = sorted(seen)
        return found

    def names(self, *roots: int) -> list[str]:
        """Variables that the roots evaluate, sorted."""
        return sorted({self.nodes[i][1] for r in roots for i in self.reach(r) if self.nodes[i][0] == "var"})

    def size(self, names: list[str]) -> int:
        """Number of points in the box of these variables."""
        points = 1
        for n in names:
            lo, hi = self.ranges[n]
            points *= hi - lo + 1
        return points

    def term(self, i: int) -> Any:
        """Node ``i`` as a term again (a tree: shared subterms are the same object, repeated)."""
        built: dict[int, Any] = {}
        todo = [i]
        while todo:
            j = todo[-1]
            node = self.nodes[j]
            missing = [c for c in self.children(j) if c not in built]
            if missing:
                todo.extend(missing)
                continue
            built[j] = node[1] if node[0] in ("const", "var") else (node[0], *(built[c] for c in node[1:]))
            todo.pop()
        return built[i]

    def _bound(self, node: Node) -> tuple[Interval, bool]:
        op = node[0]
        if op == "const":
            return (node[1], node[1]), False
        if op == "var":
            return self.ranges[node[1]], False
        args = [self.interval[c] for c in node[1:]]
        if op in DIVISIONS and args[1][0] <= 0 <= args[1][1]:
            pieces = [p for p in ((args[1][0], -1), (1, args[1][1])) if p[0] <= p[1]]
            if not pieces:
                return (0, 0), True
            both = [_BOUND[op](args[0], p) for p in pieces]
            return (min(b[0] for b in both), max(b[1] for b in both)), True
        if op == "mul" and too_big(max(args[0], key=abs), max(args[1], key=abs)):
            raise ProofError(f"index term: a product of more than {MAX_BITS} bits")
        if op in SHIFTS:
            lo, hi = args[1]
            if op == "shl" and hi > MAX_SHIFT:
                raise ProofError(f"index term: 'shl' by up to {hi} bits; at most {MAX_SHIFT} is supported")
            if lo < 0:
                return _BOUND[op](args[0], (0, max(0, hi))), True
        return _BOUND[op](*args), False


def trunc_div(a: int, b: int) -> int:
    """``a / b`` rounded towards zero, exact for all integers."""
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def _corners(f: Callable[[int, int], int], a: Interval, b: Interval) -> Interval:
    values = [f(x, y) for x in a for y in b]
    return min(values), max(values)


def _mod(a: Interval, b: Interval) -> Interval:
    if b[0] == b[1] and a[0] // b[0] == a[1] // b[0]:
        return a[0] % b[0], a[1] % b[0]
    if b[0] > 0:
        if a[0] >= 0:
            return (a[0] if a[1] < b[0] else 0), min(a[1], b[1] - 1)
        return 0, b[1] - 1
    return b[0] + 1, 0


def _tmod(a: Interval, b: Interval) -> Interval:
    if a[0] >= 0 and b[0] > 0:
        return _mod(a, b)
    most = max(abs(b[0]), abs(b[1])) - 1
    return -min(max(0, -a[0]), most), min(max(0, a[1]), most)


def _bits(*ends: int) -> int:
    """Bits that hold every end of an interval, sign apart."""
    return max((x if x >= 0 else ~x).bit_length() for x in ends)


def _and(a: Interval, b: Interval) -> Interval:
    if a[0] >= 0 and b[0] >= 0:
        return 0, min(a[1], b[1])
    if a[0] >= 0 or b[0] >= 0:
        return 0, a[1] if a[0] >= 0 else b[1]
    return -(1 << _bits(*a, *b)), max(a[1], b[1])


def _or(a: Interval, b: Interval) -> Interval:
    top = (1 << _bits(*a, *b)) - 1
    return (max(a[0], b[0]) if a[0] >= 0 and b[0] >= 0 else min(a[0], b[0])), top


def _xor(a: Interval, b: Interval) -> Interval:
    n = _bits(*a, *b)
    return (0 if a[0] >= 0 and b[0] >= 0 else -(1 << n)), (1 << n) - 1


def _truth(*, true: bool, false: bool) -> Interval:
    """Interval of a condition that is surely true, surely false, or open."""
    return (1, 1) if true else (0, 0) if false else (0, 1)


def _is(a: Interval, b: Interval) -> Interval:
    return _truth(true=a[0] == a[1] == b[0] == b[1], false=a[1] < b[0] or b[1] < a[0])


def _not(a: Interval) -> Interval:
    return 1 - a[1], 1 - a[0]


def _bool(a: Interval) -> Interval:
    return _truth(true=a[0] > 0 or a[1] < 0, false=a == (0, 0))


def _select(c: Interval, a: Interval, b: Interval) -> Interval:
    known = _bool(c)
    if known[0] == known[1]:
        return a if known[0] else b
    return min(a[0], b[0]), max(a[1], b[1])


_BOUND: dict[str, Callable[..., Interval]] = {
    "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "sub": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "neg": lambda a: (-a[1], -a[0]),
    "mul": lambda a, b: _corners(lambda x, y: x * y, a, b),
    "div": lambda a, b: _corners(lambda x, y: x // y, a, b),
    "mod": _mod,
    "tdiv": lambda a, b: _corners(trunc_div, a, b),
    "tmod": _tmod,
    "shl": lambda a, b: _corners(lambda x, y: x << y, a, b),
    "shr": lambda a, b: _corners(lambda x, y: x >> y, a, b),
    "and": _and,
    "or": _or,
    "xor": _xor,
    "min": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "max": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "lt": lambda a, b: _truth(true=a[1] < b[0], false=a[0] >= b[1]),
    "le": lambda a, b: _truth(true=a[1] <= b[0], false=a[0] > b[1]),
    "eq": _is,
    "ne": lambda a, b: _not(_is(a, b)),
    "land": lambda a, b: (min(_bool(a)[0], _bool(b)[0]), min(_bool(a)[1], _bool(b)[1])),
    "lor": lambda a, b: (max(_bool(a)[0], _bool(b)[0]), max(_bool(a)[1], _bool(b)[1])),
    "lnot": lambda a: _not(_bool(a)),
    "select": _select,
}
