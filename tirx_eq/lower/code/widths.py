"""How many bits an index term needs: the range of its value and of everything computed on the way."""

from __future__ import annotations

from collections.abc import Mapping

from ...errors import LoweringError
from ...ir.index import Term, names
from ...prove.table import Table

_LEAST, _MOST, _UNSIGNED = -(1 << 63), (1 << 63) - 1, (1 << 64) - 1
#: Operators whose value modulo 2^64 depends on that of their operands alone.
_SUMS = frozenset(("add", "sub", "mul", "neg"))
#: The same of bits.
_BITS = frozenset(("add", "sub", "mul", "shl", "and", "or", "xor"))


class Widths:
    """Ranges and widths of terms over variables with inclusive ``ranges``.

    ``typed`` collects the terms that 64 bits may not hold and that no arithmetic modulo 2^64 gives exactly (a quotient, a
    minimum of such): they are computed as their 64-bit type says, which is right unless the kernel itself overflows.
    """

    def __init__(self, ranges: Mapping[str, tuple[int, int]], typed: dict[Term, None] | None = None) -> None:
        self._table = Table(ranges)
        self.typed: dict[Term, None] = {} if typed is None else typed

    def bounds(self, term: Term) -> tuple[int, int]:
        """The least and the greatest value; of one that reaches beyond 64 bits, what its type holds."""
        low, high = self._interval(term)
        if _in_64_bits(low, high):
            return low, high
        kind = self._type(term)
        if not kind:
            return low, high
        least, most = (_LEAST, _MOST) if kind == "s" else (0, _UNSIGNED)
        return max(low, least), min(high, most)

    def _interval(self, term: Term) -> tuple[int, int]:
        return self._table.interval[self._table.add(term)]

    def fits(self, term: Term, bits: int) -> bool:
        """Whether the term can be computed exactly and given in ``bits`` bits."""
        low, high = self._interval(term)
        if bits == 32 and not (-(1 << 31) <= low and high < 1 << 32):
            return False
        return _in_64_bits(*self._reach(term))

    def reaches_beyond(self, term: Term, bits: int) -> bool:
        """Whether more than ``bits`` bits are needed to compute the term exactly."""
        low, high = self._reach(term)
        return not ((-(1 << (bits - 1)) <= low and high < 1 << (bits - 1)) or (low >= 0 and high < 1 << bits))

    def _reach(self, term: Term) -> tuple[int, int]:
        """The least and greatest of all intermediate values."""
        low = high = 0
        todo = [term]
        while todo:
            t = todo.pop()
            a, b = self._interval(t)
            low, high = min(low, a), max(high, b)
            if isinstance(t, tuple):
                todo += t[1:]
        return low, high

    def width(self, term: Term) -> int:
        """32 if every intermediate value fits a signed, or every one an unsigned, 32-bit integer; else 64.

        Sums and products may wrap around on the way: the result is right modulo 2^64, and that is what addresses are.
        """
        low, high = self._reach(term)
        if -(1 << 31) <= low and high < 1 << 31:
            return 32
        if low >= 0 and high < 1 << 32:
            return 32
        if not self.is_exact_modulo(term):
            if not self._type(term):
                raise LoweringError(
                    f"an index expression reaches {low}..{high}, beyond 64 bits, and signed and unsigned variables are in it"
                )
            self.typed[term] = None
        return 64

    def is_exact_modulo(self, term: Term) -> bool:
        """Whether 64-bit arithmetic gives the term modulo 2^64: what isn't a sum or product must not overflow."""
        if isinstance(term, tuple) and term[0] in _SUMS:
            return all(map(self.is_exact_modulo, term[1:]))
        return _in_64_bits(*self._reach(term))

    def is_exact(self, term: Term) -> bool:
        """Whether the term can be computed modulo 2^64: sums, products and bits of what 64 bits hold."""
        if isinstance(term, tuple) and term[0] in _BITS:
            return all(map(self.is_exact, term[1:]))
        return _in_64_bits(*self._reach(term))

    def _type(self, term: Term) -> str:
        """The 64-bit type of a term that reaches beyond: ``s`` or ``u`` as all its variables have it, else empty."""
        leaves = [self._interval(n) for n in (names(term) if isinstance(term, tuple) else (term,))]
        if all(_LEAST <= low and high <= _MOST for low, high in leaves):
            return "s"
        return "u" if all(0 <= low and high <= _UNSIGNED for low, high in leaves) else ""


def _in_64_bits(low: int, high: int) -> bool:
    return (low >= _LEAST and high <= _MOST) or (low >= 0 and high <= _UNSIGNED)
