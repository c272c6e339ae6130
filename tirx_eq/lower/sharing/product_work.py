"""Products of matrices element by element: which thread computes which elements, and where it finds the factors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..context import CallContext, Operand
from ..product import Product, product_of, uses_addend
from .holders import SCOPE_BITS, held, unit_of
from .work import Work, active_threads, owned_work, shared_work

Array = np.ndarray
#: Multiplications of one thread: beyond, the straight-line program would be too long.
MAX_TERMS = 2048


@dataclass(frozen=True, eq=False)
class ProductWork:
    """``work`` shares out the elements of D; ``registers[name][element numbers of all threads]`` is the byte of an operand in
    registers (slot by slot and depth by depth)."""

    work: Work
    product: Product
    registers: dict[str, dict[bytes, int]]

    def elements(self, name: str, slot: int, depth: int) -> Array:
        """The element of A, B or C that each thread needs for its slot, at one depth."""
        mine = np.maximum(self.work.elements[:, slot], 0)
        row, column = mine // self.product.n, mine % self.product.n
        if name == "A":
            return self.product.a_element(row, np.full_like(row, depth))
        return self.product.b_element(np.full_like(row, depth), column) if name == "B" else mine


def product_work(c: CallContext) -> ProductWork | str:
    """How a product is computed element by element, or why it can't be."""
    return c.once("product work", lambda: _product_work(c))


def _product_work(c: CallContext) -> ProductWork | str:
    product = product_of(c)
    if isinstance(product, str):
        return product
    d = c.outputs[0]
    work = owned_work(c, d, 1) if d.root.space == "local" else shared_work(c, 1)
    if isinstance(work, str):
        return work
    if work.steps * product.k > MAX_TERMS:
        return f"each thread would multiply {work.steps * product.k} times"
    if any(work.coords(k) is None for k in range(work.steps)):
        return "the elements that threads hold don't follow from the bits of their numbers"
    found = ProductWork(work, product, {})
    names = "ABC" if uses_addend(c) else "AB"
    for name in names:
        o = c.operands[name]
        if o.root.space != "local":
            continue
        places = _register_places(c, o, found, name)
        if isinstance(places, str):
            return places
        found.registers[name] = places
    return found


def _register_places(c: CallContext, o: Operand, found: ProductWork, name: str) -> dict[bytes, int] | str:
    where = held(o, unit_of(o))
    if isinstance(where, str):
        return where
    if where.mask & ~SCOPE_BITS[c.scope]:
        return f"'{name}' is spread over more threads than a {c.scope} has"
    if o.root.word_bits == 64 != o.bits:
        return f"'{name}' has elements of {o.bits} bits in registers of 64"
    threads = active_threads(c)
    places: dict[bytes, int] = {}
    for slot in range(found.work.steps):
        for depth in range(found.product.k if name != "C" else 1):
            elements = found.elements(name, slot, depth)
            if elements.tobytes() in places:
                continue
            byte = where.find(threads, elements)
            if (byte < 0).any():
                t = int(np.flatnonzero(byte < 0)[0])
                return f"thread {int(threads[t])} needs element {int(elements[t])} of '{name}', but doesn't hold it"
            if (byte != byte[0]).any():
                return f"threads hold their elements of '{name}' in different registers"
            places[elements.tobytes()] = int(byte[0])
    return places
