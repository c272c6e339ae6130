"""From calls to candidate programs by the rules of ``rules/lower*.egg``, and the choice among them by price.

Conditions are evaluated lazily, per call, for the rules that could apply to its op; what holds is asserted; the rules
run in one e-graph for the whole kernel; the cheapest candidate of each class is extracted.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from ..egraph.engine import Engine
from ..egraph.rules import Rule, read_files, rules_of
from ..errors import LoweringError, RuleError, Span
from .conditions import CONDITIONS, CONDITIONS_AT, MONOTONE, OPTIONS
from .context import CallContext
from .machine import Price
from .operations import EXCHANGE, EXCHANGED, FAMILIES
from .selection import Option, select
from .variants import VARIANTS

LOWER_FILES = (
    "lower.egg", "lower_copy.egg", "lower_async.egg", "lower_tmem.egg", "lower_elementwise.egg", "lower_gemm.egg",
    "lower_reduce.egg", "lower_registers.egg", "lower_cluster.egg", "lower_halves.egg",
)  # fmt: skip


TMA = ("tma_load", "tma_store", "tma_multicast", "tma_pair")
#: Names that TVM's dispatch has for variants that are called otherwise here.
DISPATCH_ALIASES = {
    "tcgen05": ("tcgen05", "tcgen05_ts", "tcgen05_ws_ts", "tcgen05_scaled", "tcgen05_scaled_ts", "tcgen05_ws"),
    "tma": TMA, "tma_auto": TMA, "tma_explicit": TMA,
    "tmem<->local": ("tcgen05_ld", "tcgen05_st", "tcgen05_ld_part", "tcgen05_st_part"),
    "smem->tmem": ("tcgen05_cp",), "ldstmatrix": ("ldmatrix", "stmatrix"),
    "mma.m16n8k*": ("mma_sync", "mma_sync_scaled"),
    "vec_auto": ("memory", "registers", "spread"),
    "fallback": ("memory", "registers", "spread", "move"),
    "reg": ("scalar", "packed"), "smem": ("scalar", "packed"), "local": ("serial", "packed", "three"), "shared": ("memory",),
    "packed_add_sum": ("packed",), "3input_maxmin": ("three",),
}  # fmt: skip


@dataclass(frozen=True)
class Premises:
    """What a lowering rule asks: its op and scope (None for any), conditions, and its parameter with conditions on it."""

    rule: Rule
    op: str
    scope: str | None
    holds: tuple[str, ...]
    parameter: str | None
    holds_at: tuple[str, ...]
    node: str

    @property
    def variant(self) -> str:
        """The name that ``dispatch=`` uses: the part of the rule's name after the op."""
        return self.rule.name.split("/", 1)[1]


@dataclass(frozen=True)
class Rejection:
    """Why a rule gave no candidate: a condition that failed, with the reason; ``value`` for a parameter's value."""

    condition: str
    reason: str
    value: int | None = None

    def __str__(self) -> str:
        at = f" (for {self.value})" if self.value is not None else ""
        return f"{self.condition}{at}: {self.reason}"


@dataclass(frozen=True)
class Candidate:
    """A program a call can become: the variant, its parameters and price; ``shares``: what it may have in common with other
    calls (a key) and the cycles that this costs the kernel once."""

    variant: str
    rule: str
    node: str
    values: tuple[int, ...]
    price: Price
    shares: tuple[tuple[Hashable, float], ...] = ()

    @property
    def cycles(self) -> float:
        return self.price.cycles()

    def describe(self) -> str:
        return VARIANTS[self.node].describe(self.values)


@dataclass(frozen=True)
class Choice:
    """What was decided for one call: the chosen candidate, all candidates (cheapest first), and rejections per rule.

    The chosen one needn't be the first: what it shares with other calls of the kernel may make up for its price.
    """

    context: CallContext
    chosen: Candidate
    candidates: tuple[Candidate, ...]
    rejected: dict[str, tuple[Rejection, ...]] = field(repr=False)


@lru_cache(maxsize=1)
def lowering_rules() -> tuple[Premises, ...]:
    """The lowering rules with their premises, read from the rule texts.

    Raises RuleError for a premise that names an unknown condition or parameter, or a rule of another shape.
    """
    return tuple(_premises(rule) for rule in rules_of(read_files(LOWER_FILES)))


def _premises(rule: Rule) -> Premises:
    op, scope, parameter, node = "", None, None, ""
    holds: list[str] = []
    holds_at: list[str] = []
    for fact in rule.form[1]:
        head = fact[0]
        if head == "call":
            op = fact[2].strip('"')
            scope = fact[3].strip('"') if fact[3].startswith('"') else None
        elif head == "may":
            parameter = fact[2].strip('"')
            if parameter not in OPTIONS:
                raise RuleError(f"rule {rule.name}: there is no parameter '{parameter}'")
        elif head in ("holds", "holds-at"):
            name = fact[2].strip('"')
            if name not in (CONDITIONS if head == "holds" else CONDITIONS_AT):
                raise RuleError(f"rule {rule.name}: there is no condition '{name}'")
            (holds if head == "holds" else holds_at).append(name)
        else:
            raise RuleError(f"rule {rule.name}: a lowering rule has no premise '{head}'; give the condition a name")
    for action in rule.form[2]:
        if action[0] != "union" or action[2][0] not in VARIANTS:
            raise RuleError(f"rule {rule.name}: it must add a candidate that has a variant")
        node = action[2][0]
    return Premises(rule, op, scope, tuple(holds), parameter, tuple(holds_at), node)


class Facts:
    """Conditions of one call, evaluated once and when first asked for."""

    def __init__(self, context: CallContext) -> None:
        self.context = context
        self.holds: dict[str, str | None] = {}
        self.holds_at: dict[tuple[str, int], str | None] = {}

    def check(self, name: str) -> str | None:
        if name not in self.holds:
            self.holds[name] = CONDITIONS[name](self.context)
        return self.holds[name]

    def check_at(self, name: str, value: int) -> str | None:
        key = (name, value)
        if key not in self.holds_at:
            implied = name in MONOTONE and self.holds_at.get((name, 2 * value), "") is None
            self.holds_at[key] = None if implied else CONDITIONS_AT[name](self.context, value)
        return self.holds_at[key]

    def rejections(self, p: Premises) -> tuple[tuple[Rejection, ...], list[int]]:
        """Why rule ``p`` fails (the first failing condition, or one per parameter value), and the values that pass."""
        if p.scope is not None and p.scope != self.context.scope:
            return (Rejection("the call's scope", f"it is {self.context.scope}, the variant needs {p.scope}"),), []
        for name in p.holds:
            if (reason := self.check(name)) is not None:
                return (Rejection(name, reason),), []
        if p.parameter is None:
            return (), []
        failed, passed = [], []
        for value in OPTIONS[p.parameter](self.context):
            wanted = self.context.call.config.get(_CONFIG_OF.get(p.parameter, ""))
            bits = self.context.outputs[0].bits if p.parameter == "bytes" else 8
            if wanted is not None and value * 8 != int(wanted) * bits:
                failed.append(Rejection("the call's config", f"vec_len={int(wanted)} asks for another width", value))
                continue
            for name in p.holds_at:
                if (reason := self.check_at(name, value)) is not None:
                    failed.append(Rejection(name, reason, value))
                    break
            else:
                passed.append(value)
        return tuple(failed), passed


def refusals(c: CallContext) -> dict[str, tuple[Rejection, ...]] | None:
    """Why each rule that might lower a call doesn't, by the rule's name; None if one does."""
    facts, refused = Facts(c), {}
    for p in applicable(c, lowering_rules()):
        failures, passed = facts.rejections(p)
        if passed or (p.parameter is None and not failures):
            return None
        refused[p.rule.name] = failures
    return refused


#: parameter -> the config key with which a call asks for a value (vec_len counts elements).
_CONFIG_OF = {"bytes": "vec_len", "lanes": "vec_len"}


def choose(contexts: Sequence[CallContext], without: frozenset[str] = frozenset()) -> list[Choice]:
    """The cheapest lowering of every call of a kernel, with no variant of ``without`` (nodes) where there is another.

    Raises LoweringError for a call without candidates, naming the failing condition of every variant, or an unknown or
    failing ``dispatch``.
    """
    if not contexts:
        return []
    rules = lowering_rules()
    tables: dict[str, list[tuple[int | str, ...]]] = {"call": [], "holds": [], "holds-at": [], "may": []}
    rejected: dict[int, dict[str, tuple[Rejection, ...]]] = {}
    for c in contexts:
        facts = Facts(c)
        rejected[c.index] = {}
        for p in applicable(c, rules):
            failures, passed = facts.rejections(p)
            rejected[c.index][p.rule.name] = failures
            tables["may"] += [(c.index, str(p.parameter), value) for value in passed]
        tables["call"] += [(c.index, name, c.scope) for name in _names(c)]
        tables["holds"] += [(c.index, name) for name, reason in facts.holds.items() if reason is None]
        tables["holds-at"] += [(c.index, n, v) for (n, v), reason in facts.holds_at.items() if reason is None]
    found = _saturate(tables)
    legal = [_candidates(c, found.get(c.index, []), rejected[c.index]) for c in contexts]
    legal = [[k for k in ks if k.node not in without] or ks for ks in legal]
    return [
        Choice(c, ks[k], tuple(ks), rejected[c.index]) for c, ks, k in zip(contexts, legal, _select(legal))
    ]


def _select(legal: Sequence[Sequence[Candidate]]) -> list[int]:
    """The candidate to take for each call: the least sum over the kernel, what calls have in common being paid once."""
    return select(*options_of(legal))


def options_of(legal: Sequence[Sequence[Candidate]]) -> tuple[list[list[Option]], dict[Hashable, float]]:
    """The candidates of calls as :func:`select` wants them, and the price of what they share."""
    shared = {key: cycles for candidates in legal for k in candidates for key, cycles in k.shares}
    options = [[Option(k.cycles, frozenset(key for key, _ in k.shares)) for k in candidates] for candidates in legal]
    return options, shared


def _shares(c: CallContext, node: str, values: tuple[int, ...]) -> tuple[tuple[Hashable, float], ...]:
    found = VARIANTS[node].shares
    return tuple(found(c, values).items()) if found is not None else ()


def applicable(c: CallContext, rules: Sequence[Premises]) -> list[Premises]:
    """The rules for the call's op, restricted by ``dispatch``."""
    mine = [p for p in rules if p.op in _names(c)]
    if not mine:
        known = sorted({*(p.op for p in rules), *FAMILIES} - {*FAMILIES.values(), EXCHANGE})
        raise LoweringError(
            f"no variant lowers '{c.op}'", hint=f"tile primitives with variants: {', '.join(known)}", span=c.span
        )
    if c.call.dispatch is None:
        return mine
    wanted = DISPATCH_ALIASES.get(c.call.dispatch, (c.call.dispatch,))
    named = [p for p in mine if p.variant in wanted]
    if not named:
        raise LoweringError(
            f"'{c.op}' has no variant '{c.call.dispatch}'",
            hint=f"variants: {', '.join(sorted({p.variant for p in mine}))}",
            span=c.span,
        )
    return named


def _names(c: CallContext) -> tuple[str, ...]:
    """What rules may call the op: its name, and its families if it has any."""
    found = (c.op, FAMILIES[c.op]) if c.op in FAMILIES else (c.op,)
    return (*found, EXCHANGE) if c.op in EXCHANGED else found


def _saturate(tables: dict[str, list[tuple[int | str, ...]]]) -> dict[int, list[tuple[str, tuple[int, ...]]]]:
    """Run the rules; per call the candidate e-nodes of its class, in a fixed order."""
    engine = Engine(source.text for source in read_files(LOWER_FILES))
    engine.load({name: sorted(set(rows), key=str) for name, rows in tables.items()})
    engine.saturate("lower", rounds=10, nodes=100_000)
    graph = engine.freeze(operators=("Lower", *VARIANTS))
    found: dict[int, list[tuple[str, tuple[int, ...]]]] = {}
    for nodes in graph.classes.values():
        calls = [n.args[0] for n in nodes if n.op == "Lower"]
        for call in calls:
            found[call] = sorted((n.op, tuple(n.args[1:])) for n in nodes if n.op != "Lower")
    return found


def _candidates(
    c: CallContext, nodes: list[tuple[str, tuple[int, ...]]], rejected: dict[str, tuple[Rejection, ...]]
) -> list[Candidate]:
    """The legal candidates of a call, cheapest first; raises NoCandidate if there is none."""
    allowed = {p.node: p for p in applicable(c, lowering_rules())}
    candidates = [
        Candidate(allowed[op].variant, allowed[op].rule.name, op, values, VARIANTS[op].price(c, values), _shares(c, op, values))
        for op, values in nodes
        if op in allowed
    ]
    if not candidates:
        raise _no_candidate(c, rejected)
    candidates.sort(key=lambda k: (k.cycles, k.node, tuple(-v for v in k.values)))
    return candidates


class NoCandidate(LoweringError):
    """No variant lowers a call; ``rejected`` tells per rule which condition failed, and why."""

    def __init__(self, message: str, rejected: dict[str, tuple[Rejection, ...]], span: Span | None) -> None:
        super().__init__(message, span=span)
        self.rejected = rejected


def _no_candidate(c: CallContext, rejected: dict[str, tuple[Rejection, ...]]) -> NoCandidate:
    lines = []
    for rule, failures in rejected.items():
        # One line per variant is what a reader needs: the failure that came furthest.
        shown = failures[-1] if failures else Rejection("its parameter", "no value was worth trying")
        lines.append(f"  {rule.split('/', 1)[1]}: {shown}")
    what = f"dispatch='{c.call.dispatch}'" if c.call.dispatch else "any variant"
    operands = ", ".join(f"{o.name}={o.buffer.name}{list(o.extents)}" for o in c.operands.values())
    return NoCandidate(
        f"'{c.op}' at {c.scope} scope can't be lowered by {what} ({operands}):\n" + "\n".join(lines), rejected, c.span
    )
