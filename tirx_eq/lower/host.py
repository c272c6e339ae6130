"""What is known when a kernel is launched: its scalar parameters, and extents of its arrays that are symbolic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..errors import LoweringError
from ..ir import Buffer, Cast, Expr, PrimFunc, Var, post_order_visit
from ..ir import dtype as dt
from ..ir.functor import ExprMutator
from ..ir.index import Term
from ..ir.index_ir import IndexScope, dtype_range
from .scope import bounds

PRIMES = (
    100003, 100019, 100043, 100049, 100057, 100069, 100103, 100109, 100129, 100151, 100153, 100169, 100183, 100189, 100193,
)  # fmt: skip


@dataclass(frozen=True)
class HostValues:
    """Integers that the host passes: ``scalars`` are parameters of the function, ``extents`` those that are found in arrays
    (variable -> array and dimension)."""

    scalars: tuple[Var, ...]
    extents: dict[Var, tuple[str, int]]

    @property
    def ranges(self) -> dict[Var, tuple[int, int]]:
        """Inclusive ranges: an extent isn't negative."""
        return {
            **{v: dtype_range(v.dtype) for v in self.scalars},
            **{v: (0, dtype_range(v.dtype)[1]) for v in self.extents},
        }

    def sample(self, which: int) -> dict[Var, int]:
        """Values at which addresses are compared, the first, second … choice: large primes, so that elements of different rows
        don't meet by chance."""
        ranges = self.ranges
        return {v: PRIMES[(3 * k + which) % len(PRIMES)] % (ranges[v][1] + 1) for k, v in enumerate(ranges)}

    def shape(self, buffer: Buffer) -> tuple[Term, ...]:
        """The extents of a parameter's array, outermost first."""
        return tuple(self.term(e, f"the shape of '{buffer.name}'") for e in buffer.shape)

    def term(self, e: Expr | int, what: str) -> Term:
        """A size as a term over the names of what the host passes.  Raises LoweringError if something else is in it."""
        if isinstance(e, int):
            return e
        plain: Expr = _WithoutCasts().visit(e)  # what is passed fits the type that the kernel has for it
        scope = IndexScope(bounds)
        for var, limits in self.ranges.items():
            if scope.name(var, limits) != var.name:
                raise LoweringError(f"two sizes that the host passes are called '{var.name}'")
        term = scope.term(plain)
        strange = [n for n, source in scope.sources.items() if source not in self.ranges]
        if strange:
            raise LoweringError(f"{what} depends on '{strange[0]}', which isn't known when the kernel is launched")
        return term


class _WithoutCasts(ExprMutator):
    """Conversions between integers taken out."""

    def visit_cast(self, value: Cast) -> Expr:
        inner: Expr = self.visit(value.value)
        return inner if dt.kind(inner.dtype) in ("int", "uint") and dt.kind(value.dtype) in ("int", "uint") else value


def host_values(func: PrimFunc) -> HostValues:
    """The integers that the host passes to a kernel."""
    scalars = tuple(
        p for p in func.params if p not in func.buffer_map and isinstance(p.dtype, str) and dt.kind(p.dtype) in ("int", "uint")
    )
    extents: dict[Var, tuple[str, int]] = {}
    for buffer in func.buffer_map.values():
        for d, e in enumerate(buffer.shape):
            if isinstance(e, Var) and e not in scalars:
                extents.setdefault(e, (buffer.name, d))
    for buffer, e in _sizes(func):
        for var in _variables(e):
            if var not in extents and var not in scalars:
                raise LoweringError(
                    f"'{var.name}' in the shape of '{buffer.name}' is neither an extent of its own nor a scalar parameter",
                    span=buffer.span,
                )
    return HostValues(scalars, extents)


def _sizes(func: PrimFunc) -> Iterator[tuple[Buffer, Expr]]:
    for buffer in func.buffer_map.values():
        for e in (*buffer.shape, *buffer.strides, buffer.elem_offset):
            yield buffer, e


def _variables(e: Expr) -> list[Var]:
    found: list[Var] = []

    def look(node: Any) -> None:
        if isinstance(node, Var):
            found.append(node)

    post_order_visit(e, look)
    return found
