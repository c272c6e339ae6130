"""Every index expression of a function, replaced by a cheaper equal one where that is proved and fits its width.

What is assumed is what TVM's own analyses assume: signed 32- and 64-bit index arithmetic of the *given* program doesn't
overflow.  A new expression may be emitted only if each value that a division, comparison or the result depends on is
exact at its width: proved by intervals, or a value that the given expression computes too.  Sums, products and bit
operations in between may wrap, since they are right modulo two to the width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .. import ir
from ..egraph.narrow import about
from ..errors import TirxError
from ..ir import dtype as dt
from ..ir.index import Term, names, postorder, show
from ..ir.index_ir import IndexScope, dtype_range
from ..ir.node import fields, replace
from ..prove.table import Table
from .known import Declared
from .pure import is_index, is_pure, loads

#: Operators that are right modulo 2**width if their operands are.
_WRAPPING = ("add", "sub", "mul", "neg", "and", "or", "xor")
#: An e-graph per group of this many expressions, so that a large kernel doesn't make one large graph.
GROUP = 64


@dataclass(frozen=True)
class Rewrite:
    """One expression before and after, as terms, with operator costs and what proved them equal."""

    before: Term
    after: Term
    cost_in: int
    cost: int
    validated_by: str
    dtype: str

    def __str__(self) -> str:
        return f"{show(self.before)} -> {show(self.after)} ({self.cost_in} -> {self.cost}, {self.validated_by})"


@dataclass(frozen=True)
class RewriteReport:
    """What was done to a function: ``sites`` index expressions, ``rewrites`` of them, total operator costs."""

    sites: int
    rewrites: tuple[Rewrite, ...]
    cost_in: int
    cost: int


@dataclass(frozen=True)
class _Site:
    expr: ir.Expr
    term: Term
    assume: tuple[Term, ...]


class Collect(Declared):
    """The largest integer expressions of a function with the conditions that hold where they stand."""

    def __init__(self) -> None:
        super().__init__()
        self.assume: tuple[Term, ...] = ()
        self.sites: dict[tuple[int, tuple[Term, ...]], _Site] = {}

    def visit(self, value: Any) -> None:
        if isinstance(value, ir.Expr) and not isinstance(value, ir.Var) and is_index(value):
            if is_pure(value):
                self._site(value)
                for load in loads(value):  # their indices are expressions of their own
                    self.access(load.buffer, load.indices, load)
                    self.visit(load.indices)
                return
        super().visit(value)

    __call__ = visit

    def visit_prim_func(self, value: ir.PrimFunc) -> None:
        self.learn(value)
        super().visit_prim_func(value)

    def access(self, buffer: ir.Buffer, indices: tuple[ir.Expr, ...], where: Any) -> None:
        """Called for each load and store, under the facts that hold there."""

    def visit_buffer_load(self, value: ir.BufferLoad) -> None:
        self.access(value.buffer, value.indices, value)
        self.visit_children(value)

    def visit_buffer_store(self, value: ir.BufferStore) -> None:
        self.access(value.buffer, value.indices, value)
        self.visit_children(value)

    def _site(self, value: ir.Expr) -> None:
        term = self.scope.term(value)
        if isinstance(term, tuple):
            self.sites.setdefault((id(value), self.assume), _Site(value, term, self.assume))
        for part in _opaque(value, {self.scope.sources[n] for n in names(term)}):
            self._site(part)  # what a term has as a variable is arithmetic of its own

    def known(self, condition: ir.Expr, holds: bool) -> tuple[Term, ...]:
        """The condition as a fact, if nothing it depends on can change: no loads but of scalars stored once."""
        if not self.fixed(condition):
            return ()
        term = self.scope.term(condition)
        return (term if holds else ("lnot", term),) if isinstance(term, tuple) else ()

    def _under(self, facts: tuple[Term, ...], body: Any) -> None:
        before, self.assume = self.assume, self.assume + facts
        self.visit(body)
        self.assume = before

    def visit_if_then_else(self, value: ir.IfThenElse) -> None:
        self.visit(value.condition)
        self._under(self.known(value.condition, True), value.then_case)
        if value.else_case is not None:
            self._under(self.known(value.condition, False), value.else_case)


def emittable(
    before: Term, after: Term, ranges: dict[str, tuple[int, int]], dtype: str, signed_ok: bool = True,
    *, width: str | None = None, given: set[str] | None = None,
) -> bool:  # fmt: skip
    """Whether ``after`` computed at ``dtype`` gives what ``before`` computed at ``dtype`` gives.

    ``signed_ok``: the nodes of ``before`` don't overflow a signed width (TVM's assumption).  See the module text.
    ``width`` is the type of the numbers in a condition; ``given`` are the texts of the terms that the program computes
    exactly in a signed type which that type holds, all of ``before`` if it isn't given.
    """
    kind = dt.kind(dtype)
    low, high = dtype_range(dtype if kind != "bool" else width or "int32")
    table = Table(ranges)
    table.add(before)
    assumed = kind != "uint" and signed_ok
    if not assumed:
        given = set()
    elif given is None:
        given = {show(t) for t in postorder(before)}

    def right(term: Term) -> bool:
        """Whether the value computed is the true one, modulo two to the width unless it decides something."""
        exact: dict[str, bool] = {}
        modular: dict[str, bool] = {}
        for t in postorder(term):
            key, i = show(t), table.add(t)
            fits = low <= table.interval[i][0] and table.interval[i][1] <= high
            children = [show(c) for c in t[1:]] if isinstance(t, tuple) else []
            wrapping = isinstance(t, tuple) and (t[0] in _WRAPPING or (t[0] == "shl" and isinstance(t[2], int)))
            modular[key] = all((modular if wrapping else exact)[c] for c in children)
            exact[key] = modular[key] and (fits or key in given)
        root = show(term)
        return modular[root] if kind != "bool" else exact[root]

    # Two terms that are equal, each right modulo two to the width, are equal at that width however they wrap.
    return right(after) and (assumed or right(before))


def operations(e: ir.Expr) -> int:
    """What an expression costs as it is written, equal parts once: the table of costs, and one for each conversion and load."""
    seen: set[ir.Expr] = set()

    def count(value: Any) -> int:
        if isinstance(value, tuple):
            return sum(count(v) for v in value)
        if not isinstance(value, ir.Expr) or isinstance(value, (ir.Var, ir.IntImm)) or value in seen:
            return 0
        seen.add(value)
        return _price(value) + sum(count(v) for _, v in fields(value))

    return count(e)


def _price(e: ir.Expr) -> int:
    from ..egraph.cost import DEFAULT

    if isinstance(e, (ir.FloorDiv, ir.FloorMod, ir.Div, ir.Mod)):
        return DEFAULT.divide(e.b.value if isinstance(e.b, ir.IntImm) else None)
    if isinstance(e, ir.Mul):
        return DEFAULT.times(next((x.value for x in (e.a, e.b) if isinstance(x, ir.IntImm)), None))
    return 1


def rewrite_indices(func: ir.PrimFunc) -> tuple[ir.PrimFunc, RewriteReport]:
    """``func`` with its index expressions simplified, and what was done; the function itself if nothing was."""
    collect = Collect()
    collect.visit(func)
    scope = collect.scope
    groups: dict[tuple[Term, ...], list[_Site]] = {}
    for site in collect.sites.values():
        relevant = about(tuple(f for f in site.assume if _fits(scope, f)), site.term)
        if _fits(scope, site.term):
            groups.setdefault(relevant, []).append(site)

    replaced: dict[tuple[ir.Expr, tuple[Term, ...]], ir.Expr] = {}
    rewrites: list[Rewrite] = []
    cost_in = cost = 0
    for assume, sites in groups.items():
        done = _solved(collect, list({show(s.term): s.term for s in sites}.values()), assume)
        for site in sites:
            found = done.get(show(site.term))
            if found is None:
                continue
            cost_in += found.cost_in
            made = _better(scope, site, found)
            cost += found.cost_in if made is None else made[1]
            if made is not None:
                replaced[site.expr, site.assume] = made[0]
                parts = (site.term, found.expr, found.cost_in, made[1], found.validated_by, site.expr.dtype)
                rewrites.append(Rewrite(*parts))
    report = RewriteReport(len(collect.sites), tuple(rewrites), cost_in, cost)
    return (_replace(func, collect, replaced) if replaced else func), report


def _solved(collect: Collect, terms: list[Term], assume: tuple[Term, ...]) -> dict[str, Any]:
    """Results for terms under ``assume``, by their text: an e-graph for each group of terms."""
    from ..egraph.simplify import simplify_all

    done: dict[str, Any] = {}
    for start in range(0, len(terms), GROUP):
        part = terms[start : start + GROUP]
        facts = tuple(dict.fromkeys(f for t in part for f in collect.facts(t) if _fits(collect.scope, f)))
        used = set().union(*(names(t) for t in (*part, *assume, *facts)))
        ranges = {n: collect.scope.ranges[n] for n in sorted(used)}
        try:
            results = simplify_all(part, ranges, assume=(*assume, *facts))
        except TirxError:  # a fact that contradicts the ranges: code that never runs
            continue
        done |= {show(t): r for t, r in zip(part, results)}
    return done


def _fits(scope: IndexScope, term: Term) -> bool:
    """Whether the ranges of a term's variables are within signed 64 bits, as the simplifier's are."""
    low, high = dtype_range("int64")
    return all(low <= scope.ranges[n][0] and scope.ranges[n][1] <= high for n in names(term))


def _opaque(value: ir.Expr, sources: set[ir.Expr]) -> list[ir.Expr]:
    """Arithmetic inside ``value`` that its term has as a variable: what is converted, unsigned sums that may wrap."""
    found: list[ir.Expr] = []

    def look(e: Any, top: bool) -> None:
        if isinstance(e, tuple):
            for x in e:
                look(x, False)
        elif isinstance(e, ir.Expr) and not isinstance(e, (ir.Var, ir.BufferLoad)):
            if e in sources and (isinstance(e, ir.Cast) or top):
                found.extend(x for _, v in fields(e) for x in (v if isinstance(v, tuple) else (v,)) if _arithmetic(x))
            elif e in sources:
                found.append(e)
            else:
                for _, v in fields(e):
                    look(v, False)

    look(value, True)
    return found


def _arithmetic(e: Any) -> bool:
    return isinstance(e, ir.Expr) and not isinstance(e, (ir.Var, ir.BufferLoad)) and is_index(e)


def _better(scope: IndexScope, site: _Site, found: Any) -> tuple[ir.Expr, int] | None:
    """The expression to put in the place of a site and its cost, if it is cheaper there and safe at its width."""
    if found.cost >= found.cost_in:
        return None
    used = {n: scope.ranges[n] for n in sorted(names(site.term) | names(found.expr))}
    into = site.expr.dtype
    for dtype in dict.fromkeys((into, *_wider(scope, found.expr, into))):
        try:
            width = scope.width(found.expr) if dtype == "bool" else dtype
            if not emittable(site.term, found.expr, used, dtype, width=width, given=_computed(scope, site.expr, width)):
                continue
            made, tested = scope.built(found.expr, dtype)
            made = ir.arith.cast(into, made)
        except TirxError:
            continue
        if made.dtype == into and found.cost + tested < found.cost_in and operations(made) < operations(site.expr):
            return made, found.cost + tested
    return None


def _computed(scope: IndexScope, value: ir.Expr, width: str) -> set[str]:
    """Texts of the terms that ``value`` computes in signed types that ``width`` holds."""
    kind, bits, _ = dt.parse(width)
    found: set[str] = set()

    def look(e: Any) -> None:
        if isinstance(e, tuple):
            for x in e:
                look(x)
        elif isinstance(e, ir.Expr) and is_index(e):
            own, size, _ = dt.parse(e.dtype)
            if own == "int" and size <= bits:
                found.add(show(scope.term(e)))
            if not isinstance(e, (ir.Var, ir.BufferLoad)):
                for _, v in fields(e):
                    look(v)

    if kind == "int":
        look(value)
    return found


def _wider(scope: IndexScope, term: Term, into: str) -> list[str]:
    """The unsigned type of variables of ``term``, if a conversion from it keeps what is right modulo two to the width."""
    kind, bits, _ = dt.parse(into)
    unsigned = f"uint{bits}"
    return [unsigned] if kind == "int" and any(scope.sources[n].dtype == unsigned for n in names(term)) else []


def _replace(
    func: ir.PrimFunc, collect: Collect, replaced: dict[tuple[ir.Expr, tuple[Term, ...]], ir.Expr]
) -> ir.PrimFunc:
    """The function with the sites replaced; the walk repeats the collector's, so the same facts hold at each place."""

    class Replace(ir.StmtMutator):
        def __init__(self) -> None:
            self.assume: tuple[Term, ...] = ()

        def visit(self, value: Any) -> Any:
            if isinstance(value, ir.Expr):
                value = replaced.get((value, self.assume), value)
            return super().visit(value)

        __call__ = visit

        def visit_if_then_else(self, value: ir.IfThenElse) -> Any:
            condition = self.visit(value.condition)
            cases = []
            for holds, case in ((True, value.then_case), (False, value.else_case)):
                before = self.assume
                self.assume = before + collect.known(value.condition, holds)
                cases.append(None if case is None else self.visit(case))
                self.assume = before
            return replace(value, condition=condition, then_case=cases[0], else_case=cases[1])

    return func.with_body(Replace().visit(func.body))
