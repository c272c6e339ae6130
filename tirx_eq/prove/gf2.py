"""Terms read as affine maps over GF(2): decides power-of-two index arithmetic of any size in microseconds.

A non-negative node becomes rows, one per output bit: an integer whose bit 0 is the constant and whose bit ``j + 1``
is input bit ``j``.  Linearity is never assumed: each operator computes its exact rows or says that there are none
(an addition that carries, say).  A node without rows may still be an *input* of its users: it then stands for any
value of its interval, which is sound for "equal" and is not used for "different".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .table import Table
from .verdict import Matrix

Rows = tuple[int, ...]


def conj(a: int, b: int) -> int | None:
    """Row of ``a and b`` if that is affine."""
    if a == 0 or b == 0 or a == b ^ 1:
        return 0
    if a == b or b == 1:
        return a
    return b if a == 1 else None


def add_rows(a: Rows, b: Rows, width: int) -> Rows | None:
    """Rows of ``a + b`` modulo ``2**width`` by a ripple of exact full adders; None as soon as a carry isn't affine."""
    out, carry = [], 0
    for i in range(width):
        x = a[i] if i < len(a) else 0
        y = b[i] if i < len(b) else 0
        c1 = conj(x, y)
        c2 = conj(x ^ y, carry)
        if c1 is None or c2 is None:
            return None
        out.append(x ^ y ^ carry)
        carry = c1 ^ c2  # never both: a generated carry leaves x ^ y = 0
    return tuple(out)


def sub_rows(a: Rows, b: Rows, width: int) -> Rows | None:
    """Rows of ``a - b`` modulo ``2**width``; None as soon as a borrow isn't affine."""
    out, borrow = [], 0
    for i in range(width):
        x = a[i] if i < len(a) else 0
        y = b[i] if i < len(b) else 0
        b1 = conj(x ^ 1, y)
        b2 = conj(x ^ y ^ 1, borrow)
        if b1 is None or b2 is None:
            return None
        out.append(x ^ y ^ borrow)
        borrow = b1 ^ b2
    return tuple(out)


def trim(rows: Sequence[int]) -> Rows:
    """Rows without the zero bits above the highest used one."""
    n = len(rows)
    while n and rows[n - 1] == 0:
        n -= 1
    return tuple(rows[:n])


MAX_INPUTS = 2048  # rows are masks over the input bits; a term with more would make every operation slow


class BitView:
    """Rows of the nodes of a ``Table``, computed on demand and kept."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.inputs: list[tuple[int, int]] = []  # (node, bit) of input bit j
        self._rows: dict[int, Rows | None] = {}

    def rows(self, root: int) -> Rows | None:
        """Rows of ``root``; None if it may be negative or cannot be given any."""
        if root not in self._rows:
            for i in self.table.reach(root):
                if i not in self._rows:
                    self._rows[i] = self._node(i)
        return self._rows[root]

    def _node(self, i: int) -> Rows | None:
        lo, hi = self.table.interval[i]
        if lo < 0:
            return None
        if lo == hi:
            return constant(lo)
        node = self.table.nodes[i]
        make = _ROWS.get(node[0])
        found = make(self, i, node[1:]) if make else None
        return self.fresh(i) if found is None else trim(found[: hi.bit_length()])

    def fresh(self, i: int) -> Rows | None:
        """Node ``i`` as an input: one new input bit per bit of its upper bound; None if there are too many."""
        start = len(self.inputs)
        if start > MAX_INPUTS:
            return None
        width = self.table.interval[i][1].bit_length()
        self.inputs.extend((i, b) for b in range(width))
        return tuple(2 << (start + b) for b in range(width))

    def operand(self, i: int) -> Rows | None:
        return self._rows.get(i)

    def literal(self, i: int) -> int | None:
        lo, hi = self.table.interval[i]
        return lo if lo == hi else None

    def matrix(self, rows: Rows, show: Callable[[object], str]) -> Matrix:
        """``rows`` as a certificate that names only the inputs it uses."""
        used = 0
        for r in rows:
            used |= r
        keep = [j for j in range(len(self.inputs)) if used >> (j + 1) & 1]
        names = tuple((show(self.table.term(self.inputs[j][0])), self.inputs[j][1]) for j in keep)
        packed = tuple((r & 1) | sum((r >> (j + 1) & 1) << (k + 1) for k, j in enumerate(keep)) for r in rows)
        return Matrix(names, packed)

    def difference(self, a: Rows, b: Rows) -> dict[str, int] | None:
        """A point of the variables at which unequal rows differ; None if an input is not a variable."""
        width = max(len(a), len(b))
        x, y = a + (0,) * (width - len(a)), b + (0,) * (width - len(b))
        d = next(r ^ s for r, s in zip(x, y) if r != s)
        flip = None if d & 1 else (d & -d).bit_length() - 2
        point: dict[str, int] = {}
        used = 0
        for r in (*a, *b):
            used |= r
        for j, (node, bit) in enumerate(self.inputs):
            if not used >> (j + 1) & 1:
                continue
            what = self.table.nodes[node]
            if what[0] != "var":
                return None
            point[what[1]] = point.get(what[1], 0) | ((1 << bit) if j == flip else 0)
        return point


def constant(value: int) -> Rows:
    """Rows of a non-negative constant."""
    return tuple(value >> i & 1 for i in range(value.bit_length()))


def _width(view: BitView, i: int) -> int:
    return view.table.interval[i][1].bit_length()


def _add(view: BitView, i: int, args: tuple[int, ...]) -> Rows | None:
    a, b = view.operand(args[0]), view.operand(args[1])
    if a is not None and b is not None:
        return add_rows(a, b, _width(view, i))
    for known, other in ((a, args[1]), (b, args[0])):  # x + (-c) is x - c
        value = view.literal(other)
        if known is not None and value is not None:
            return sub_rows(known, constant(-value), _width(view, i))
    return None


def _sub(view: BitView, i: int, args: tuple[int, ...]) -> Rows | None:
    a, b = view.operand(args[0]), view.operand(args[1])
    if a is None or b is None:
        return None
    return sub_rows(a, b, _width(view, i))


def _mul(view: BitView, i: int, args: tuple[int, ...]) -> Rows | None:
    for x, k in (args, args[::-1]):
        rows, factor = view.operand(x), view.literal(k)
        if rows is None or factor is None or factor < 0:
            continue
        total: Rows | None = ()
        for s in range(factor.bit_length()):
            if factor >> s & 1 and total is not None:
                total = add_rows(total, (0,) * s + rows, _width(view, i))
        return total
    return None


def _power(view: BitView, k: int) -> int | None:
    """s if node k is the constant 2**s."""
    value = view.literal(k)
    return value.bit_length() - 1 if value is not None and value > 0 and value & (value - 1) == 0 else None


def _div(view: BitView, i: int, args: tuple[int, ...]) -> Rows | None:
    rows, s = view.operand(args[0]), _power(view, args[1])
    return None if rows is None or s is None else rows[s:]


def _mod(view: BitView, i: int, args: tuple[int, ...]) -> Rows | None:
    rows, s = view.operand(args[0]), _power(view, args[1])
    return None if rows is None or s is None else rows[:s]


def _shl(view: BitView, i: int, args: tuple[int, ...]) -> Rows | None:
    rows, s = view.operand(args[0]), view.literal(args[1])
    return None if rows is None or s is None or s < 0 else (0,) * s + rows


def _shr(view: BitView, i: int, args: tuple[int, ...]) -> Rows | None:
    rows, s = view.operand(args[0]), view.literal(args[1])
    return None if rows is None or s is None or s < 0 else rows[s:]


def _pairs(view: BitView, args: tuple[int, ...]) -> list[tuple[int, int]] | None:
    a, b = view.operand(args[0]), view.operand(args[1])
    if a is None or b is None:
        return None
    n = max(len(a), len(b))
    return list(zip(a + (0,) * (n - len(a)), b + (0,) * (n - len(b))))


def _and(view: BitView, i: int, args: tuple[int, ...]) -> Rows | None:
    pairs = _pairs(view, args)
    if pairs is None:
        return None
    out = [conj(x, y) for x, y in pairs]
    return None if None in out else tuple(x for x in out if x is not None)


def _or(view: BitView, i: int, args: tuple[int, ...]) -> Rows | None:
    both, pairs = _and(view, i, args), _pairs(view, args)
    if both is None or pairs is None:
        return None
    return tuple(x ^ y ^ z for (x, y), z in zip(pairs, both))


def _xor(view: BitView, i: int, args: tuple[int, ...]) -> Rows | None:
    pairs = _pairs(view, args)
    return None if pairs is None else tuple(x ^ y for x, y in pairs)


def _boolean(combine: Callable[[BitView, int, tuple[int, ...]], Rows | None]) -> Callable[..., Rows | None]:
    """The bit operation, where both operands are single bits."""

    def rows(view: BitView, i: int, args: tuple[int, ...]) -> Rows | None:
        if any(view.table.interval[a][1] > 1 or view.table.interval[a][0] < 0 for a in args):
            return None
        return combine(view, i, args)

    return rows


def _lnot(view: BitView, i: int, args: tuple[int, ...]) -> Rows | None:
    rows = view.operand(args[0])
    return None if rows is None or len(rows) > 1 else ((rows[0] if rows else 0) ^ 1,)


def _same(view: BitView, args: tuple[int, ...]) -> int | None:
    """The row of ``a == b`` where that is affine: the sides differ in at most one bit position."""
    pairs = _pairs(view, args)
    if pairs is None:
        return None
    apart = {x ^ y for x, y in pairs} - {0}
    if 1 in apart:
        return 0
    return 1 if not apart else apart.pop() ^ 1 if len(apart) == 1 else None


def _eq(view: BitView, i: int, args: tuple[int, ...]) -> Rows | None:
    row = _same(view, args)
    return None if row is None else (row,)


def _ne(view: BitView, i: int, args: tuple[int, ...]) -> Rows | None:
    row = _same(view, args)
    return None if row is None else (row ^ 1,)


def _select(view: BitView, i: int, args: tuple[int, ...]) -> Rows | None:
    lo, hi = view.table.interval[args[0]]
    if lo > 0 or hi < 0:
        return view.operand(args[1])
    return view.operand(args[2]) if lo == hi == 0 else None


_ROWS: dict[str, Callable[[BitView, int, tuple[int, ...]], Rows | None]] = {
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "div": _div,
    "mod": _mod,
    "tdiv": _div,  # both truncations agree with flooring on non-negative operands, and rows exist only for those
    "tmod": _mod,
    "shl": _shl,
    "shr": _shr,
    "and": _and,
    "or": _or,
    "xor": _xor,
    "land": _boolean(_and),
    "lor": _boolean(_or),
    "lnot": _lnot,
    "eq": _eq,
    "ne": _ne,
    "select": _select,
}
