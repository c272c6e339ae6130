"""Linear maps over GF(2) as lists of columns (integers): apply, solve, kernel, intersection."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..layout.linear import echelon, reduce_by


def apply(columns: Sequence[int], x: int) -> int:
    """The image of ``x``: the XOR of the columns of its set bits."""
    out = 0
    for j, column in enumerate(columns):
        if x >> j & 1:
            out ^= column
    return out


def units(mask: int) -> list[int]:
    """The unit vectors of a mask's bits, lowest first."""
    return [1 << i for i in range(mask.bit_length()) if mask >> i & 1]


class Solver:
    """Preimages under a map: ``solve(y)`` is some x with ``apply(columns, x) == y``, or None; ``kernel`` a basis of those
    that give 0."""

    def __init__(self, columns: Sequence[int]) -> None:
        self._basis: list[tuple[int, int]] = []  # (image, which columns make it), leading bits distinct
        self.kernel: list[int] = []
        for j, column in enumerate(columns):
            image, made = self._reduced(column, 1 << j)
            if image:
                self._basis.append((image, made))
                self._basis.sort(reverse=True)
            else:
                self.kernel.append(made)

    def _reduced(self, image: int, made: int = 0) -> tuple[int, int]:
        for other, how in self._basis:
            if image >> (other.bit_length() - 1) & 1:
                image, made = image ^ other, made ^ how
        return image, made

    @property
    def rank(self) -> int:
        return len(self._basis)

    def solve(self, y: int) -> int | None:
        image, made = self._reduced(y)
        return None if image else made


def rank(vectors: Iterable[int]) -> int:
    """Dimension of the span."""
    return len(echelon(list(vectors)))


def within(vectors: Sequence[int], condition: Sequence[int]) -> list[int]:
    """A basis of the combinations of ``vectors`` whose ``condition`` values (one per vector, linear) cancel to 0."""
    return [apply(vectors, x) for x in Solver(condition).kernel]


def intersection(a: Sequence[int], b: Sequence[int]) -> list[int]:
    """A basis of the common subspace of two spans."""
    a = echelon(a)
    return [v for v in (apply(a, x & ((1 << len(a)) - 1)) for x in Solver([*a, *echelon(b)]).kernel) if v]


def extend(chosen: Sequence[int], candidates: Iterable[int], most: int) -> list[int]:
    """``chosen`` with candidates added in order while they are independent, up to ``most`` in all."""
    out = list(chosen)
    basis = echelon(out)
    for v in candidates:
        if len(out) >= most:
            break
        if reduce_by(basis, v):
            out.append(v)
            basis = echelon([*basis, v])
    return out


def span(vectors: Sequence[int]) -> list[int]:
    """All combinations; the index of each is its coordinates."""
    out = [0]
    for v in vectors:
        out += [x ^ v for x in out]
    return out
