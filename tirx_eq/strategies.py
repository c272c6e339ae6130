"""Hypothesis strategies for property tests: index expressions, layouts, swizzles, kernels.

    from hypothesis import given
    import tirx_eq as te

    @given(te.strategies.prim_funcs())
    def test_mine(func): ...

Needs ``hypothesis`` (``pip install 'tirx-eq[test]'``).  Everything drawn is well formed: layouts admit their size,
kernels stay in bounds and have no races, so an error is a finding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from .ir.index import Term
from .layout import SwizzleLayout, TileLayout

if TYPE_CHECKING:
    from .ir import PrimFunc

__all__ = [
    "index_exprs", "permuted_layouts", "prim_funcs", "prim_sources", "swizzles", "tile_layouts", "tile_sources",
]  # fmt: skip

Ranges = Mapping[str, tuple[int, int]]

# -- index expressions ------------------------------------------------------------------------------------------------

_FREE = ("add", "sub", "min", "max", "and", "or", "xor", "lt", "le", "eq", "ne")


@st.composite
def index_exprs(
    draw: Any, max_leaves: int = 10, names: Sequence[str] = ("x", "y", "z")
) -> tuple[Term, dict[str, tuple[int, int]]]:
    """A neutral index expression and inclusive ranges of its variables; it has a value everywhere in them.

    Divisors are positive constants, shift counts constants below 8, multipliers constants.
    """
    ranges = {}
    for name in names:
        low = draw(st.sampled_from((0, 0, 0, -4, 1)))
        ranges[name] = (low, low + draw(st.sampled_from((0, 1, 3, 7, 15, 31, 127))))
    leaves = st.one_of(st.sampled_from(list(names)), st.integers(-9, 33))

    def extend(inner: st.SearchStrategy[Term]) -> st.SearchStrategy[Term]:
        return st.one_of(
            st.tuples(st.sampled_from(_FREE), inner, inner),
            st.tuples(st.sampled_from(("div", "mod", "tdiv", "tmod")), inner, st.integers(1, 33)),
            st.tuples(st.just("mul"), inner, st.sampled_from((-3, 2, 3, 4, 8, 12, 16, 64))),
            st.tuples(st.sampled_from(("shl", "shr")), inner, st.integers(0, 7)),
            st.tuples(st.just("select"), st.tuples(st.sampled_from(("lt", "le", "eq")), inner, inner), inner, inner),
        )  # fmt: skip

    return draw(st.recursive(leaves, extend, max_leaves=max_leaves)), ranges


# -- layouts ----------------------------------------------------------------------------------------------------------


@st.composite
def tile_layouts(draw: Any, max_iters: int = 4, axes: Sequence[str] = ("m",), replicas: bool = True) -> TileLayout:
    """A TileLayout of at most ``max_iters`` digits of extent 1 to 8, any strides (negative and 0 too), on ``axes``."""
    stride = st.sampled_from((0, 1, 1, 2, 3, 4, 8, 16, 64, -1, -2))
    axis = st.sampled_from(list(axes))
    digit = st.tuples(st.sampled_from((1, 2, 2, 3, 4, 8)), stride, axis)
    shard = draw(st.lists(digit, min_size=1, max_size=max_iters))
    replica = draw(st.lists(digit, max_size=2)) if replicas else []
    offset = draw(st.dictionaries(axis, st.integers(-4, 40), max_size=2))
    return TileLayout.from_iters(shard, replica, offset)


@st.composite
def swizzles(draw: Any, max_bits: int = 4) -> SwizzleLayout:
    """A SwizzleLayout whose three counts are at most ``max_bits`` (the last at least the second)."""
    length = draw(st.integers(0, max_bits))
    return SwizzleLayout(
        draw(st.integers(0, max_bits)), length, draw(st.integers(length, max_bits)), draw(st.booleans())
    )


@st.composite
def permuted_layouts(draw: Any, shape: Sequence[int]) -> TileLayout:
    """A compact TileLayout of ``shape``: each element in a place of its own, the digits in any order."""
    digits: list[int] = []
    for extent in shape:
        while extent % 2 == 0 and extent > 2 and draw(st.booleans()):
            digits.append(2)
            extent //= 2
        digits.append(extent)
    order = draw(st.permutations(range(len(digits))))
    strides = [0] * len(digits)
    step = 1
    for k in order:
        strides[k] = step
        step *= digits[k]
    return TileLayout.from_iters(list(zip(digits, strides)))


# -- kernels ----------------------------------------------------------------------------------------------------------

_HEADER = "from tirx_eq.script import tirx as Tx\n\n\n"


class _Body:
    """Draws the statements of a kernel in which each thread works on values ``x`` and ``y`` of one dtype."""

    def __init__(self, draw: Any, dtype: str, threads: int) -> None:
        self.draw = draw
        self.dtype = dtype
        self.threads = threads
        self.is_float = dtype.startswith(("float", "bfloat"))
        self.loops = 0

    def one(self, *options: Any) -> Any:
        return self.draw(st.sampled_from(options))

    def number(self) -> str:
        if self.is_float:
            return f"Tx.{self.dtype}({self.one(0.5, 1.0, -2.0, 3.0, 0.25)})"
        return f"Tx.{self.dtype}({self.draw(st.integers(0 if self.dtype[0] == 'u' else -9, 9))})"

    def value(self, depth: int, names: Sequence[str]) -> str:
        """An expression of the dtype."""
        if depth == 0:
            return self.one(*names, self.number())
        a, b = self.value(depth - 1, names), self.value(self.draw(st.integers(0, depth - 1)), names)
        forms = [f"({a} + {b})", f"({a} - {b})", f"Tx.min({a}, {b})", f"Tx.max({a}, {b})",
                 f"Tx.Select({self.condition(names)}, {a}, {b})"]  # fmt: skip
        if self.is_float:
            forms += [f"({a} * {b})", f"Tx.fabs({a})" if self.dtype == "float32" else a]
        else:
            k = self.one(2, 3, 4, 7, 16)
            forms += [f"({a} * {k})", f"({a} // {k})", f"({a} % {k})", f"({a} & {b})", f"({a} | {b})", f"({a} ^ {b})",
                      f"({a} << {self.one(1, 3)})", f"({a} >> {self.one(1, 4)})"]  # fmt: skip
        return self.one(*forms)

    def condition(self, names: Sequence[str]) -> str:
        left, right = self.one(*names), self.one(*names, self.number())
        return self.one(
            f"{left} {self.one('<', '<=', '>', '==', '!=')} {right}",
            f"t % {self.one(2, 3, 5)} == {self.one(0, 1)}",
            f"t < {self.one(1, 17, 32, 40)}",
        )

    def statements(self, budget: int, depth: int, uniform: bool) -> list[str]:
        """Lines of a block; ``uniform``: all threads of the CTA reach it, so a barrier may stand there."""
        lines: list[str] = []
        for _ in range(self.draw(st.integers(1, budget))):
            kinds = ["assign", "assign", "if", "loop"] if depth else ["assign"]
            if uniform:
                kinds.append("exchange")
            lines += getattr(self, "_" + self.one(*kinds))(depth)
        return lines

    def _assign(self, depth: int) -> list[str]:
        return [f"{self.one('x', 'y')} = {self.value(2, ('x', 'y'))}"]

    def _if(self, depth: int) -> list[str]:
        lines = [f"if {self.condition(('x', 'y'))}:", *_indent(self.statements(2, depth - 1, False))]
        if self.draw(st.booleans()):
            lines += ["else:", *_indent(self.statements(2, depth - 1, False))]
        return lines

    def _loop(self, depth: int) -> list[str]:
        k = f"k{self.loops}"
        self.loops += 1
        kind = self.one("serial", "unroll")
        body = self.statements(2, depth - 1, False)
        body.append(f"x = x + Tx.cast({k}, '{self.dtype}')")
        if kind == "serial" and self.draw(st.booleans()):
            body.append(f"if {self.condition(('x', 'y'))}:")
            body.append(f"    {self.one('break', 'continue')}")
            body.append(f"y = {self.value(1, ('x', 'y'))}")
        return [f"for {k} in Tx.{kind}({self.one(1, 2, 3)}):", *_indent(body)]

    def _exchange(self, depth: int) -> list[str]:
        partner = self.one(
            f"(t + {self.one(1, 5, 31)}) % {self.threads}", f"{self.threads - 1} - t", f"t // {self.one(2, 8)}"
        )
        return ["Tx.cuda.cta_sync()", "s[t] = x", "Tx.cuda.cta_sync()", f"y = s[{partner}]"]


def _indent(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


@st.composite
def prim_sources(draw: Any, dtypes: Sequence[str] = ("float32", "float16", "int32", "uint32")) -> str:
    """The source text of a small kernel ``kernel(A, B, C)``: one element of each per thread, scalar statements,
    branches, loops, and exchanges through shared memory between barriers."""
    dtype = draw(st.sampled_from(list(dtypes)))
    ctas, threads = draw(st.sampled_from((1, 2, 3))), draw(st.sampled_from((32, 64, 96, 128)))
    body = _Body(draw, dtype, threads)
    n = ctas * threads
    lines = [
        "Tx.device_entry()", f"c = Tx.cta_id([{ctas}])", f"t = Tx.thread_id([{threads}])",
        f"s = Tx.alloc_shared(({threads},), '{dtype}')", f"i = Tx.meta_var(c * {threads} + t)",
        f"x: Tx.{dtype} = A[i]", f"y: Tx.{dtype} = B[i]", *body.statements(4, 2, True),
        f"C[i] = {body.value(1, ('x', 'y'))}",
    ]  # fmt: skip
    buffers = ", ".join(f"{name}: Tx.Buffer(({n},), '{dtype}')" for name in "ABC")
    return "\n".join([f"{_HEADER}@Tx.prim_func", f"def kernel({buffers}):", *_indent(lines), ""])


_TILE_HEADER = """from tirx_eq.layout import S, TileLayout
from tirx_eq.script import tirx as Tx
from tirx_eq.script.tirx import tile


"""


@st.composite
def tile_sources(draw: Any, dtypes: Sequence[str] = ("float32", "float16", "int8")) -> str:
    """The source text of a kernel of tile primitives: a matrix goes through shared memory of a drawn layout, with
    element-wise operations (for floats) on the way; one element is looked at by itself."""
    dtype = draw(st.sampled_from(list(dtypes)))
    rows, columns = draw(st.sampled_from((8, 16, 32))), draw(st.sampled_from((32, 64)))
    threads = draw(st.sampled_from((32, 64, 128)))
    shape = f"({rows}, {columns})"
    layouts = [draw(permuted_layouts((rows, columns))).script("") for _ in range(2)]
    lines = [
        "Tx.device_entry()", f"t = Tx.thread_id([{threads}])",
        *(f"{name} = Tx.alloc_shared({shape}, '{dtype}', layout={layout})" for name, layout in zip("su", layouts)),
        "tile.cta.copy(s[:, :], A[:, :])", "tile.cta.copy(u[:, :], B[:, :])", "Tx.cuda.cta_sync()",
    ]  # fmt: skip
    if dtype.startswith("float"):
        for _ in range(draw(st.integers(0, 3))):
            op = draw(st.sampled_from(("add", "sub", "mul", "maximum", "minimum")))
            a, b = draw(st.permutations(("s", "u")))
            other = draw(st.sampled_from((f"{b}[:, :]", f"{b}[:, :]", f"Tx.{dtype}(0.5)")))
            lines += [f"tile.cta.{op}({a}[:, :], {a}[:, :], {other})", "Tx.cuda.cta_sync()"]
    lines += ["tile.cta.copy(C[:, :], s[:, :])", f"if t < {columns}:", f"    B[t % {rows}, t] = u[t % {rows}, t]"]
    buffers = ", ".join(f"{name}: Tx.Buffer({shape}, '{dtype}')" for name in "ABC")
    return "\n".join([f"{_TILE_HEADER}@Tx.prim_func", f"def kernel({buffers}):", *_indent(lines), ""])


def prim_funcs(dtypes: Sequence[str] = ("float32", "float16", "int32", "uint32")) -> st.SearchStrategy[PrimFunc]:
    """A small kernel ``kernel(A, B, C)``: A and B are read, C (and B, for tile copies) written.

    Some work element by element with branches, loops and exchanges through shared memory; the others take matrices
    through shared memory by tile primitives.
    """
    from .script import parse_function

    return st.one_of(prim_sources(dtypes), tile_sources()).map(parse_function)
