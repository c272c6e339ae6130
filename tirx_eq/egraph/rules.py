"""The rule files as data: every rule of ``rules/*.egg`` with its name, text, place and digest.

A rule is one egglog form, ``(rewrite lhs rhs …)`` or ``(rule (facts…) (actions…) …)``, and carries
``:name "family/rule"``.  A comment line ``;@ tag tag …`` directly above gives tags.  The same text is run by the
engine, proved by ``tirx_eq.prove`` and listed by the command line, so this reader keeps the text untouched.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..errors import RuleError, Span
from ..resources import rules_dir

Form = int | str | list[Any]
"""An s-expression: integers, symbols, strings (with their quotes), nested lists."""

_TOKEN = re.compile(r';[^\n]*|\(|\)|"[^"\n]*"|[^\s()";]+|"')
_INT = re.compile(r"-?[0-9]+\Z")


@dataclass(frozen=True)
class Source:
    """One top-level form of a rule file: its nested lists, its text, and the line it starts on."""

    form: Form
    text: str
    file: str
    line: int
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rule:
    """One named rule.  ``digest`` is of the form, so layout and comments do not change it."""

    name: str
    family: str
    form: list[Any]
    text: str
    file: str
    line: int
    tags: tuple[str, ...]
    digest: str

    @property
    def kind(self) -> str:
        """``rewrite`` or ``rule``."""
        return str(self.form[0])

    def option(self, key: str) -> Form | None:
        """Value of an option such as ``:when`` or ``:ruleset``, or None."""
        return self.form[self.form.index(key) + 1] if key in self.form else None

    @property
    def ruleset(self) -> str:
        return str(self.option(":ruleset") or "")


def read_forms(text: str, file: str = "<rules>") -> list[Source]:
    """The top-level forms of rule text.  Raises ``ParseError``-like ``RuleError`` with the line at fault."""
    out: list[Source] = []
    open_forms: list[tuple[list[Any], int]] = []
    tags: tuple[str, ...] = ()

    def fail(message: str, at: int) -> RuleError:
        line = text.count("\n", 0, at) + 1
        column = at - text.rfind("\n", 0, at)
        return RuleError(message, span=Span(file, line, column, text=text.splitlines()[line - 1]))

    for match in _TOKEN.finditer(text):
        token, at = match.group(), match.start()
        if token[0] == ";":
            if token.startswith(";@") and not open_forms:
                tags = tuple(token[2:].split())
            continue
        if token == '"':
            raise fail("a string that never ends", at)
        if token == "(":
            open_forms.append(([], at))
            continue
        if token == ")":
            if not open_forms:
                raise fail("')' without '('", at)
            form, start = open_forms.pop()
            if open_forms:
                open_forms[-1][0].append(form)
            else:
                line = text.count("\n", 0, start) + 1
                out.append(Source(form, text[start : match.end()], file, line, tags))
                tags = ()
            continue
        if not open_forms:
            raise fail(f"'{token}' outside any form", at)
        open_forms[-1][0].append(int(token) if _INT.match(token) else token)
    if open_forms:
        raise fail("'(' is never closed", open_forms[-1][1])
    return out


def show_form(form: Form) -> str:
    """Text of a form on one line."""
    return "(" + " ".join(show_form(f) for f in form) + ")" if isinstance(form, list) else str(form)


def rules_of(sources: Iterable[Source]) -> list[Rule]:
    """The rules among ``sources``; other forms (sorts, functions, rulesets) are passed over.

    Raises ``RuleError`` for a rule without name or ruleset, a name used twice, or a form the loader does not admit.
    """
    out: list[Rule] = []
    seen: dict[str, Source] = {}
    for s in sources:
        span = Span(s.file, s.line, 1, text=s.text.splitlines()[0])
        head = s.form[0] if isinstance(s.form, list) and s.form else ""
        if head in ("birewrite",):
            raise RuleError("birewrite hides a second rule behind one name; write both directions", span=span)
        if head not in ("rewrite", "rule"):
            continue
        assert isinstance(s.form, list)
        name = s.form[s.form.index(":name") + 1].strip('"') if ":name" in s.form else ""
        if "/" not in name:
            raise RuleError('a rule needs :name "family/rule"', span=span)
        if ":ruleset" not in s.form:
            raise RuleError(f"rule {name} is in no :ruleset", span=span)
        if name in seen:
            raise RuleError(f"rule {name} is already at {seen[name].file}:{seen[name].line}", span=span)
        seen[name] = s
        digest = hashlib.sha256(show_form(s.form).encode()).hexdigest()[:16]
        out.append(Rule(name, name.split("/")[0], s.form, s.text, s.file, s.line, s.tags, digest))
    return out


INDEX_FILES = (
    "ops.egg", "ana.egg", "order.egg", "fold.egg", "linear.egg", "divmod.egg", "bits.egg",
    "symbolic.egg", "trunc.egg", "minmax.egg", "compare.egg", "select.egg", "final.egg",
)  # fmt: skip
"""Rule files of index arithmetic, in the order they are loaded; ``ops.egg`` first, it declares the sort."""

CONGRUENCE_FILE = "congruence.egg"
"""Congruences, loaded where there are assumptions: nothing else says more of a residue than alignment and constants do."""

STRENGTH_FILE = "strength.egg"
"""Forms for extraction only, loaded on request."""


@lru_cache(maxsize=16)
def read_files(files: tuple[str, ...]) -> tuple[Source, ...]:
    """All forms of the named files of the rules folder, in order."""
    out: list[Source] = []
    for name in files:
        path: Path = rules_dir() / name
        if not path.is_file():
            raise RuleError(f"rule file {name} is missing")
        out.extend(read_forms(path.read_text(), name))
    return tuple(out)


def load_rules(files: tuple[str, ...] = (*INDEX_FILES, CONGRUENCE_FILE, STRENGTH_FILE)) -> list[Rule]:
    """Every rule of the named files (default: index arithmetic)."""
    return rules_of(read_files(files))
