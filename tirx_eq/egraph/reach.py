"""Which rules can fire at all: a rule whose left side needs an operator nobody builds need not be loaded.

Compiling a rule costs a tenth of a millisecond and every rule is searched each round, so a batch without comparisons
should not carry their rules.  This reads rule files faster than ``rules.read_forms`` because it keeps the text and only
looks for operators; the laws (one rule per line) make that possible and a test compares the two readers.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache

from ..resources import rules_dir
from .encode import OPERATORS
from .rules import read_forms

_NAME = re.compile(r':name "([^"]+)"')
_RULESET = re.compile(r":ruleset ([a-z]+)")
_OPERATOR = re.compile(r"\(([A-Z][A-Za-z]*)")
_PAREN = re.compile(r"[()]")
_LATE = frozenset({"alt", "final", "prune"})


@dataclass(frozen=True)
class Shape:
    """A rule's text, the operators its left side and conditions need, and those its right side builds."""

    name: str
    ruleset: str
    text: str
    needs: frozenset[str]
    builds: frozenset[str]


def _split(text: str) -> int:
    """Index just after the first operand of the form ``text``."""
    depth = 0
    start = text.index("(", 1)
    for m in _PAREN.finditer(text, start):
        depth += 1 if m.group() == "(" else -1
        if depth == 0:
            return m.end()
    return len(text)


def _operators(text: str) -> frozenset[str]:
    return OPERATORS.intersection(_OPERATOR.findall(text))


def _shape(line: str) -> Shape:
    cut = _split(line)
    left, rest = line[:cut], line[cut:]
    right, _, when = rest.partition(":when")
    name, ruleset = _NAME.search(rest), _RULESET.search(rest)
    assert name is not None and ruleset is not None, line
    return Shape(name.group(1), ruleset.group(1), line, _operators(left + when), _operators(right))


@lru_cache(maxsize=8)
def shapes(files: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[Shape, ...]]:
    """The forms that are not rules (sorts, functions, rulesets) as text, and every rule's shape, in file order."""
    plain: list[str] = []
    rules: list[Shape] = []
    for file in files:
        text = (rules_dir() / file).read_text()
        others = []
        for line in text.splitlines():
            if line.startswith(("(rewrite ", "(rule ")):
                rules.append(_shape(line))
            elif not line.startswith(";"):
                others.append(line)
        plain.extend(s.text for s in read_forms("\n".join(others), file))
    return tuple(plain), tuple(rules)


@lru_cache(maxsize=256)
def _reachable(files: tuple[str, ...], present: frozenset[str]) -> tuple[Shape, ...]:
    built = set(present) | {"K"}
    chosen: set[str] = set()
    candidates = list(shapes(files)[1])
    while True:
        waiting = []
        for shape in candidates:
            if shape.needs <= built:
                chosen.add(shape.name)
                # What the late phases build is only priced, except that they feed themselves.
                if shape.ruleset not in _LATE:
                    built |= shape.builds
            else:
                waiting.append(shape)
        if len(waiting) == len(candidates):
            return tuple(s for s in shapes(files)[1] if s.name in chosen)
        candidates = waiting


def reachable(files: tuple[str, ...], present: Collection[str]) -> tuple[Shape, ...]:
    """The rules that can fire when the input holds the operators ``present``, in file order."""
    return _reachable(files, frozenset(present))


def declarations(files: tuple[str, ...]) -> tuple[str, ...]:
    """Text of the forms that are not rules."""
    return shapes(files)[0]
