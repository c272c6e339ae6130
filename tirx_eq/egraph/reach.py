"""Which rules can fire at all: a rule whose left side needs an operator nobody builds need not be loaded.

Compiling a rule costs a tenth of a millisecond and every rule is searched each round, so a batch without comparisons
should not carry their rules.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import Any

from .encode import OPERATORS
from .rules import Rule, load_rules, read_files


def _operators(form: Any) -> frozenset[str]:
    found: set[str] = set()
    stack = [form]
    while stack:
        f = stack.pop()
        if isinstance(f, list):
            if f and isinstance(f[0], str) and f[0] in OPERATORS:
                found.add(f[0])
            stack.extend(f)
    return frozenset(found)


@lru_cache(maxsize=8)
def _shapes(files: tuple[str, ...]) -> tuple[tuple[Rule, frozenset[str], frozenset[str]], ...]:
    """Each rule with the operators it needs and those it can build."""
    out = []
    for rule in load_rules(files):
        needed = _operators(rule.form[1])
        when = rule.option(":when")
        if when is not None:
            needed |= _operators(when)
        out.append((rule, needed, _operators(rule.form[2])))
    return tuple(out)


def declarations(files: tuple[str, ...]) -> list[str]:
    """Text of the forms that are not rules: sorts, functions, rulesets."""
    return [
        s.text for s in read_files(files) if isinstance(s.form, list) and s.form[0] not in ("rule", "rewrite")
    ]


@lru_cache(maxsize=64)
def _reachable(files: tuple[str, ...], present: frozenset[str]) -> tuple[Rule, ...]:
    built = set(present) | {"K"}
    chosen: set[str] = set()
    while True:
        before = len(chosen)
        for rule, needed, makes in _shapes(files):
            if rule.name not in chosen and needed <= built:
                chosen.add(rule.name)
                if rule.ruleset != "prune":
                    built |= makes
        if len(chosen) == before:
            return tuple(rule for rule, _, _ in _shapes(files) if rule.name in chosen)


def reachable(files: tuple[str, ...], present: Collection[str]) -> tuple[Rule, ...]:
    """The rules that can fire when the input holds the operators ``present``, in file order."""
    return _reachable(files, frozenset(present))
