"""Many unrelated expressions at once: normal forms, cut into pieces, each distinct piece simplified once.

``simplify.simplify_all`` is for the expressions of one kernel, which share variables and subterms; this is for corpora
and for the command line's ``--jsonl``, where every row has variables of its own.
"""

from __future__ import annotations

import contextlib
import gc
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from ..errors import TirxError
from ..ir.index import EvaluationError, Ranges, Term, postorder, variables_checked
from . import encode, extract
from .branches import forget as forget_branches
from .branches import with_branches
from .cost import DEFAULT, CostTable
from .directed.direct import direct
from .directed.plain import plain
from .encode import WIDE, Encoder, TooBig
from .joint import solve_under
from .linear import Form
from .normal import Normal
from .pieces import Cutter, Part, Piece, field, settled
from .result import Simplified, checked_equal, choose
from .saturation import DEFAULT_BUDGET, Budget, saturate
from .table import TermTable

MEMO_SIZE = 50_000
_memo: OrderedDict[tuple[Piece, tuple[CostTable, bool, bool]], tuple[Term, tuple[str, ...]]] = OrderedDict()
"""Result for a piece, its variables being integers wrapped as ``("var", i)``; and the rules that fired in its batch."""


def forget() -> None:
    """Empty the memos of pieces and branches (for measurements)."""
    _memo.clear()
    forget_branches()


def simplify_rows(
    rows: Iterable[tuple[Term, Ranges]],
    *,
    table: CostTable = DEFAULT,
    budget: Budget = DEFAULT_BUDGET,
    optimal: bool = False,
    check_result: bool = True,
    traced: bool = False,
) -> list[Simplified | TirxError]:
    """Simplify each ``(term, ranges)`` by itself, all in one e-graph; a row at fault gives its error, not the batch's.

    ``optimal`` adds strength-reduced forms and extracts exactly, piece by piece.  ``traced`` sends every piece to the
    e-graph, also those whose term can be constructed, so that ``steps`` names the rules.
    """
    with _collector_paused():
        work = _Batch(table, optimal, constructing=table == DEFAULT and not optimal and not traced)
        results: list[Simplified | TirxError | None] = []
        for term, ranges in rows:
            try:
                work.add(term, ranges)
                results.append(None)
            except TirxError as error:
                work.skip()
                results.append(error)
        work.add_branches(len(results))
        work.solve(budget)
        return [work.finish(i, check_result) if r is None else r for i, r in enumerate(results)]


@contextlib.contextmanager
def _collector_paused() -> Iterator[None]:
    """No garbage collection inside: terms, forms and e-nodes are trees, and collecting among them takes a fifth of the time."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


class _Batch:
    def __init__(self, costs: CostTable, optimal: bool, constructing: bool = False) -> None:
        self.costs = costs
        self.optimal = optimal
        self.constructing = constructing
        self.context = (costs, optimal, constructing)
        self.terms = TermTable(costs)
        self.source, self.target = Encoder(WIDE), Encoder()
        self.normal = Normal(self.source, self.target)
        self.cutter = Cutter(self.normal.linear)
        self.rows: list[tuple[Term, Ranges, int, Form | None, list[Part], dict[int, str]] | None] = []
        self.jobs: dict[Piece, None] = {}
        self.selecting: set[int] = set()
        """Rows that hold a selection."""
        self.others: dict[int, int] = {}
        """For rows with a second form, simplified inside its branches: where that is."""
        self._encoded: dict[tuple[int, tuple[tuple[int, int], ...]], int] = {}

    def skip(self) -> None:
        self.rows.append(None)

    def add(self, term: Term, ranges: Ranges) -> None:
        root = self.terms.add(term)
        numbers, names = self.terms.reach(root)
        self.terms.cost(root, numbers)
        for name in names:
            bounds = ranges.get(name)
            if bounds is None or bounds[0] > bounds[1]:
                variables_checked([term], ranges)
        form: Form | None = None
        parts: list[Part] = []
        back: dict[int, str] = {}
        try:
            form = self.normal.form(self._encode(numbers, names, ranges, back))
            parts = self.cutter.cut(form)
            if self.optimal and form[0] and len(parts) == 1:
                # The constant may cancel inside the only part; the memo is worth less than the operation.
                parts, form = [self.cutter.whole(form)], (0, form[1])
        except TooBig:
            form = None
        except EvaluationError:
            with contextlib.suppress(TooBig):
                Encoder(WIDE).add_term(term, ranges)  # raises the same error with the text of the operation
            raise
        for part in parts:
            if (self.optimal or not settled(part.piece)) and (part.piece, self.context) not in _memo:
                self.jobs[part.piece] = None
        self.rows.append((term, ranges, root, form, parts, back))

    def add_branches(self, count: int) -> None:
        """For the first ``count`` rows a second form where the conditions of their selections simplify the branches."""
        wanted = [(i, self.rows[i]) for i in sorted(self.selecting) if i < count]
        rows = [(i, row[0], row[1]) for i, row in wanted if row is not None and row[3] is not None]
        found = with_branches([(term, ranges) for _, term, ranges in rows], partial(solve_under, table=self.costs))
        for (i, _, ranges), term in zip(rows, found):
            if term is not None:
                try:
                    self.add(term, ranges)
                    self.others[i] = len(self.rows) - 1
                except TirxError:
                    continue

    def _encode(self, numbers: Sequence[int], names: Sequence[str], ranges: Ranges, back: dict[int, str]) -> int:
        """Source node of a term, its variables numbered in the order met so that rows of one shape share all work.

        ``numbers`` are its subterms, operands first; the last is the term.
        """
        memo: dict[int, int] = {}
        source, keys = self.source, self.terms.keys
        for i, name in enumerate(names):
            lo, hi = ranges[name]
            alias = f"v{i}:{lo}:{hi}"
            memo[self.terms.add(name)] = source.variable(alias, lo, hi)
            if lo < hi:
                back[self.target.node("V", alias, lo, hi)] = name
        for n in numbers:
            key = keys[n]
            if type(key) is tuple:
                if key[0] == "select":
                    self.selecting.add(len(self.rows))
                memo[n] = source.apply(key[0], [memo[a] for a in key[1:]], key[0])
            elif type(key) is int:
                memo[n] = source.number(key)
        return memo[numbers[-1]]

    def solve(self, budget: Budget) -> None:
        """Find the terms of the pieces not known yet, those that can't be constructed in the e-graph, and remember them."""
        if self.constructing:
            for piece in list(self.jobs):
                constructed = direct(piece)
                if constructed is not None:
                    _memo[piece, self.context] = constructed, ()
                    del self.jobs[piece]
        if self.jobs:
            self._saturate(budget)
        while len(_memo) > MEMO_SIZE:
            _memo.popitem(last=False)

    def _saturate(self, budget: Budget) -> None:
        encoder = Encoder()
        roots = [_load(piece, encoder) for piece in self.jobs]
        done = saturate(encoder, roots, budget, strength=self.optimal)
        classes: dict[int, int] = dict(done.graph.tables["root"])
        pieces = [p for r, p in enumerate(self.jobs) if r in classes]  # the others have numbers too big for the e-graph
        wanted = [classes[r] for r in range(len(roots)) if r in classes]
        picked = choose(done.graph, [[w] for w in wanted], self.costs, self.optimal)
        memo: dict[int, Term] = {}
        for piece, root, choice in zip(pieces, wanted, picked):
            term = extract.build(root, choice, encode.decode, {} if self.optimal else memo)
            _memo[piece, self.context] = term, done.fired

    def finish(self, i: int, checked: bool) -> Simplified:
        """The result for row ``i``: the cheapest of its forms that is no dearer than the row and, if asked, proved equal."""
        row = self.rows[i]
        assert row is not None
        term, ranges, root = row[:3]
        cost_in = self.terms.cost(root)
        found = [self._form(k) for k in (i, self.others.get(i)) if k is not None]
        for cost, number, after, steps in sorted([f for f in found if f is not None], key=lambda f: f[0]):
            if number == root or cost > cost_in:
                continue
            if not checked:
                return Simplified(after, cost, cost_in, steps, "unchecked")
            decided_by = checked_equal(term, after, ranges)
            if decided_by is not None:
                return Simplified(after, cost, cost_in, steps, decided_by)
        return Simplified(term, cost_in, cost_in, (), "identity")

    def _form(self, i: int) -> tuple[int, int, Term, tuple[str, ...]] | None:
        """Cost, number, text and rules of what row ``i`` became; None for a row beyond the encoder."""
        row = self.rows[i]
        assert row is not None
        _, _, _, form, parts, back = row
        if form is None:
            return None
        after, steps = self._sum(form[0], parts, back)
        number = self.terms.add(after)
        return self.terms.cost(number), number, after, steps

    def _sum(self, constant: int, parts: list[Part], back: dict[int, str]) -> tuple[Term, tuple[str, ...]]:
        plus: list[Term] = []
        minus: list[Term] = []
        steps: list[str] = []
        for part in parts:
            known = _memo.get((part.piece, self.context))
            names = [back[v] for v in part.variables]
            if known is None:
                value = (field(part.piece, names[0]) if names else None) or plain(part.piece, names)
            else:
                value = _rename(known[0], names)
                steps.extend(known[1])
            # A constant inside a piece's result joins the outer one.
            sign = -1 if part.negative else 1
            if type(value) is tuple and value[0] in ("add", "sub"):
                if type(value[2]) is int:
                    constant += sign * (value[2] if value[0] == "add" else -value[2])
                    value = value[1]
                elif type(value[1]) is int:
                    constant += sign * value[1]
                    value, sign = value[2], sign if value[0] == "add" else -sign
            if type(value) is int:
                constant += sign * value
            else:
                (plus if sign > 0 else minus).append(value)
        if constant:
            for i, value in enumerate(plus):
                inside = _constant_inside(value, constant)
                if inside is not None:
                    plus[i], constant = inside, 0
                    break
        out: Term
        if plus:
            out = plus[0]
            for p in plus[1:]:
                out = ("add", out, p)
        elif minus and constant == 0:
            out = ("mul", minus.pop(0), -1)
        else:
            out = constant
            constant = 0
        for m in minus:
            out = ("sub", out, m)
        if constant:
            out = ("add", out, constant) if constant > 0 else ("sub", out, -constant)
        return out, tuple(dict.fromkeys(steps))


def _constant_inside(value: Term, constant: int) -> Term | None:
    """``value + constant`` where a quotient with a constant in its dividend takes it in for free."""
    if type(value) is not tuple or value[0] not in ("div", "shr") or type(value[2]) is not int:
        return None
    inner, shift = value[1], constant * (value[2] if value[0] == "div" else 1 << value[2])
    if type(inner) is not tuple or inner[0] not in ("add", "sub"):
        return None
    if type(inner[2]) is int:
        c = shift + (inner[2] if inner[0] == "add" else -inner[2])
        dividend: Term = inner[1] if c == 0 else ("add", inner[1], c) if c > 0 else ("sub", inner[1], -c)
    elif type(inner[1]) is int:
        dividend = (inner[0], inner[1] + shift, inner[2])
    else:
        return None
    return (value[0], dividend, value[2])


def _load(piece: Piece, encoder: Encoder) -> int:
    """Node of a piece in the encoder of the jobs; its variables are named by number and range."""
    nodes: list[int] = []
    for key in piece:
        op = key[0]
        if op == "V":
            nodes.append(encoder.node("V", f"{key[1]}:{key[2]}:{key[3]}", key[2], key[3]))
        elif op == "K":
            nodes.append(encoder.node(*key))
        elif op[-1] == "K":
            nodes.append(encoder.node(op, nodes[key[1]], key[2]))
        else:
            nodes.append(encoder.node(op, *[nodes[a] for a in key[1:]]))
    return nodes[-1]


def _rename(term: Term, names: list[str]) -> Term:
    """``term`` with the job's variable names (``number:low:high``) replaced; sharing is kept."""
    memo: dict[int, Term] = {}

    def walk(t: Term) -> Term:
        if type(t) is str:
            return names[int(t[: t.index(":")])]
        if type(t) is not tuple:
            return t
        known = memo.get(id(t))
        if known is None:
            known = memo[id(t)] = (t[0], *[walk(a) for a in t[1:]])
        return known

    try:
        return walk(term)
    except RecursionError:
        for t in postorder(term):
            walk(t)
        return walk(term)
