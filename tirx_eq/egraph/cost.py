"""What an index expression costs: one table, paid once per shared term.

The default is the table of the design: units of one integer add on the GPU's integer pipe.  A machine model replaces
it by passing its own ``CostTable``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..ir.index import SCALAR, EvaluationError, Term, postorder

_DIVISIONS = frozenset({"div", "mod", "tdiv", "tmod"})


def is_pow2(n: int) -> bool:
    """Whether ``n`` is 1, 2, 4, 8, …"""
    return n > 0 and n & (n - 1) == 0


@dataclass(frozen=True)
class CostTable:
    """Cost per operation: ``op`` for add, bits, shifts, min/max, comparison, select; the rest by operand."""

    op: int = 1
    mul_pow2: int = 1
    mul: int = 4
    div_pow2: int = 1
    div_const: int = 20
    div_var: int = 40

    def times(self, factor: int | None) -> int:
        """Cost of a multiplication by a constant, or by a variable (``None``)."""
        if factor is None:
            return self.mul
        return 0 if factor in (0, 1) else self.mul_pow2 if is_pow2(abs(factor)) else self.mul

    def divide(self, divisor: int | None) -> int:
        """Cost of a division or modulus by a constant, or by a variable (``None``)."""
        if divisor is None:
            return self.div_var
        return 0 if divisor == 1 else self.div_pow2 if is_pow2(divisor) else self.div_const

    def node(self, op: str, args: Sequence[int | None]) -> int:
        """Cost of one operation whose constant operands are given, the others ``None``."""
        if op == "mul":
            return self.times(next((a for a in args if a is not None), None))
        if op in _DIVISIONS:
            return self.divide(args[1])
        return self.op


DEFAULT = CostTable()


def cost(terms: Term | Iterable[Term], table: CostTable = DEFAULT) -> int:
    """Cost of the DAG of one term, or of several together when ``terms`` is a list (or another non-tuple iterable).

    Structurally equal subterms are paid once; subterms without variables are computed at compile time and free.
    """
    roots: list[Term] = [terms] if isinstance(terms, int | str | tuple) else list(terms)
    numbers: dict[tuple[object, ...], int] = {}
    of: dict[int, int] = {}
    constant: dict[int, int] = {}
    total = 0

    def number(t: Term) -> int:
        if isinstance(t, tuple):
            return of[id(t)]
        n = numbers.setdefault((type(t).__name__, t), len(numbers))
        if isinstance(t, int):
            constant[n] = t
        return n

    for t in postorder(*roots):
        if not isinstance(t, tuple):
            continue
        children = [number(a) for a in t[1:]]
        key = (t[0], *children)
        known = numbers.get(key)
        if known is not None:
            of[id(t)] = known
            continue
        n = of[id(t)] = numbers.setdefault(key, len(numbers))
        values = [constant.get(c) for c in children]
        folded = _fold(t[0], values)
        if folded is not None:
            constant[n] = folded
        elif not _closed(values):
            total += table.node(t[0], values)
    return total


def _closed(values: Sequence[int | None]) -> bool:
    return all(v is not None for v in values)


def _fold(op: str, values: Sequence[int | None]) -> int | None:
    """Value of an operation on constants, or ``None`` if an operand is not constant or there is no value."""
    if not _closed(values):
        return None
    if op == "select":
        return values[1] if values[0] else values[2]
    try:
        return SCALAR[op](*values)
    except EvaluationError:
        return None
