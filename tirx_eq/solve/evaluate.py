"""Candidates of a call under given layouts, by the compiler's own conditions and prices, each worked out once.

Conditions and prices are functions of a call's context.  The buffers of open layouts that they are given tell which layouts
were looked at; an answer then holds for every combination that agrees on these.  So the number of evaluations grows with
what conditions really depend on, not with the product of all candidates.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..errors import TirxError
from ..ir import Buffer, BufferRegion
from ..layout import Layout
from ..lower.candidates import _CONFIG_OF, Candidate, Premises, Rejection, applicable, lowering_rules
from ..lower.conditions import CONDITIONS, CONDITIONS_AT, MONOTONE, OPTIONS
from ..lower.context import CallContext, Operand
from ..lower.machine import Price
from ..lower.storage import SHARED_ALIGN
from ..lower.variants import VARIANTS


class _Reads:
    """Which unknowns' layouts have been looked at since the last question."""

    def __init__(self) -> None:
        self.seen: set[int] = set()


class TrackedBuffer(Buffer):
    """A buffer with a trial layout that notes when it is looked at."""

    @property
    def layout(self) -> Any:
        self.__dict__["_reads"].seen.add(self.__dict__["_unknown"])
        return self.__dict__["layout"]


def _tracked(buffer: Buffer, layout: Any, unknown: int, reads: _Reads) -> Buffer:
    made = object.__new__(TrackedBuffer)
    made.__dict__.update(buffer.__dict__)
    made.__dict__.update(layout=layout, _reads=reads, _unknown=unknown)
    return made


class _Memo(dict[Any, Any]):
    """A context's memo: what was looked at for a kept result counts again for who uses it."""

    def __init__(self, reads: _Reads) -> None:
        super().__init__()
        self.reads = reads
        self.needs: dict[Any, frozenset[int]] = {}

    def __setitem__(self, key: Any, value: Any) -> None:
        self.needs[key] = frozenset(self.reads.seen)
        super().__setitem__(key, value)

    def __getitem__(self, key: Any) -> Any:
        self.reads.seen |= self.needs.get(key, frozenset())
        return super().__getitem__(key)

    def __contains__(self, key: Any) -> bool:
        found = super().__contains__(key)
        if found:
            self.reads.seen |= self.needs[key]
        return found


Assignment = Mapping[int, Layout]


def _price(node: str, values: tuple[int, ...], c: CallContext) -> Price:
    return VARIANTS[node].price(c, values)


@dataclass(frozen=True)
class OpenOperand:
    """An operand whose buffer's layout is open: the unknown, and how the buffer's layout follows from it; ``allocated``: shared
    memory of its own, which the compiler places."""

    unknown: int
    layout_of: Callable[[Layout], Layout | str]
    allocated: bool = False


class CallTable:
    """Answers about one call; ``unknowns`` are those that its operands have, ascending."""

    def __init__(self, context: CallContext, opened: Mapping[str, OpenOperand], weight: int = 1) -> None:
        self.context = context
        self.opened = dict(opened)
        self.weight = weight
        self.unknowns = tuple(sorted({o.unknown for o in opened.values()}))
        self.rules = tuple(p for p in applicable(context, lowering_rules()))
        self._reads = _Reads()
        self._contexts: dict[tuple[Layout, ...], CallContext | str] = {}
        self._buffers: dict[tuple[str, Layout], Buffer] = {}
        self._answers: dict[Any, dict[frozenset[int], dict[tuple[Layout, ...], Any]]] = {}
        self.evaluations = 0

    # -- contexts ----------------------------------------------------------------------------------------------------

    def context_at(self, at: Assignment) -> CallContext | str:
        """The call with the layouts of ``at``, or why a view has none under them."""
        key = tuple(at[u] for u in self.unknowns)
        if key not in self._contexts:
            self._contexts[key] = self._context(at)
        return self._contexts[key]

    def _context(self, at: Assignment) -> CallContext | str:
        c = self.context
        operands: dict[str, Operand] = {}
        for name, o in c.operands.items():
            found = self.opened.get(name)
            if found is None:
                operands[name] = o
                continue
            layout = found.layout_of(at[found.unknown])
            if isinstance(layout, str):
                return f"'{o.buffer.name}': {layout}"
            buffer = self._buffer(o.buffer, found.unknown, layout)
            # Storage that grows with the layout begins where every swizzle's pattern does.
            root = dataclasses.replace(o.root, offset=0, align=SHARED_ALIGN) if found.allocated else o.root
            operands[name] = Operand(o.name, BufferRegion(buffer, o.region.region), root, o.storage)
        return dataclasses.replace(c, operands=operands, memo=_Memo(self._reads))

    def _buffer(self, buffer: Buffer, unknown: int, layout: Layout) -> Buffer:
        key = (str(id(buffer)), layout)
        if key not in self._buffers:
            self._buffers[key] = _tracked(buffer, layout, unknown, self._reads)
        return self._buffers[key]

    # -- questions ---------------------------------------------------------------------------------------------------

    def _ask(self, key: Any, at: Assignment, question: Callable[[CallContext], Any]) -> Any:
        tables = self._answers.setdefault(key, {})
        for needs, table in tables.items():
            part = tuple(at[u] for u in sorted(needs))
            if part in table:
                return table[part]
        c = self.context_at(at)
        if isinstance(c, str):
            needs, answer = frozenset(self.unknowns), c
        else:
            self._reads.seen = set()
            try:
                answer = question(c)
            except TirxError as error:
                answer = error.message
            needs = frozenset(self._reads.seen)
            self.evaluations += 1
        tables.setdefault(needs, {})[tuple(at[u] for u in sorted(needs))] = answer
        return answer

    def _peek(self, key: Any, at: Assignment, missing: Any) -> Any:
        for needs, table in self._answers.get(key, {}).items():
            part = tuple(at[u] for u in sorted(needs))
            if part in table:
                return table[part]
        return missing

    def holds(self, name: str, at: Assignment) -> str | None:
        """None if a condition holds, else why not."""
        found: str | None = self._ask(("holds", name), at, lambda c: CONDITIONS[name](c))
        return found

    def holds_at(self, name: str, value: int, at: Assignment) -> str | None:
        """The same for a condition with a parameter."""
        if name in MONOTONE and self._peek(("at", name, 2 * value), at, "unknown") is None:
            return None
        found: str | None = self._ask(("at", name, value), at, lambda c: CONDITIONS_AT[name](c, value))
        return found

    def options(self, p: Premises, at: Assignment) -> list[int]:
        """Values of a rule's parameter worth trying."""
        parameter = str(p.parameter)
        found = self._ask(("options", parameter), at, lambda c: list(OPTIONS[parameter](c)))
        return found if isinstance(found, list) else []

    def depends_on(self, key: Any) -> frozenset[int]:
        """The unknowns that any answer to a question has depended on so far."""
        return frozenset(u for needs in self._answers.get(key, {}) for u in needs)

    # -- candidates --------------------------------------------------------------------------------------------------

    def passes(self, p: Premises, at: Assignment) -> tuple[tuple[Rejection, ...], list[tuple[int, ...]]]:
        """As the compiler's choice does it: why a rule fails, and the parameters with which it holds."""
        c = self.context
        if p.scope is not None and p.scope != c.scope:
            return (Rejection("the call's scope", f"it is {c.scope}, the variant needs {p.scope}"),), []
        for name in p.holds:
            if (reason := self.holds(name, at)) is not None:
                return (Rejection(name, reason),), []
        if p.parameter is None:
            return (), [(c.index,)]
        failed: list[Rejection] = []
        passed: list[tuple[int, ...]] = []
        wanted = c.call.config.get(_CONFIG_OF.get(p.parameter, ""))
        for value in self.options(p, at):
            unit = c.outputs[0].bits // 8 if p.parameter == "bytes" else 1
            if wanted is not None and value != int(wanted) * unit:
                failed.append(Rejection("the call's config", f"vec_len={int(wanted)} asks for another width", value))
                continue
            for name in p.holds_at:
                if (reason := self.holds_at(name, value, at)) is not None:
                    failed.append(Rejection(name, reason, value))
                    break
            else:
                passed.append((c.index, value))
        return tuple(failed), passed

    def candidates(self, at: Assignment) -> list[Candidate]:
        """The candidate programs under the layouts, cheapest first; none if the call can't be lowered."""
        made = []
        for p in self.rules:
            _, passed = self.passes(p, at)
            for values in passed:
                price = self._ask(("price", p.node, values[1:]), at, partial(_price, p.node, values[1:]))
                if not isinstance(price, str):
                    made.append(Candidate(p.variant, p.rule.name, p.node, values[1:], price))
        made.sort(key=lambda k: (k.cycles, k.node, tuple(-v for v in k.values)))
        return made

    def rejections(self, at: Assignment) -> dict[str, tuple[Rejection, ...]]:
        """Per rule why it gives no candidate under the layouts."""
        return {p.rule.name: self.passes(p, at)[0] for p in self.rules}
