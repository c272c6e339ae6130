"""Neutral index expressions: plain nested tuples with one mathematical meaning.

    term := int | name | (op, term, ...)          text: ``(add (mul i 64) j)``

Integers are mathematical.  ``div``/``mod`` round towards minus infinity, ``tdiv``/``tmod`` towards zero, ``shr`` is
arithmetic, ``and``/``or``/``xor`` act on the infinite two's complement, comparisons and ``land``/``lor``/``lnot`` give
0 or 1, ``(select c a b)`` is ``a`` when ``c`` is not 0 and only then needs ``a``.  Division by zero and a negative
shift amount have no value.

Terms may share subterms and may be thousands of levels deep, so nothing here recurses and every walk visits a shared
tuple once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import ParseError, Span, TirxError

if TYPE_CHECKING:
    import numpy as np

Term = int | str | tuple[Any, ...]
Ranges = Mapping[str, tuple[int, int]]

MAX_SHIFT = 4096
"""Shift amounts above this are refused: the value would have more bits than any address and could fill memory."""
MAX_BITS = 1 << 16
"""Products of more bits are refused: squares of squares would fill any memory."""
MAX_BITS = 1 << 16
"""Products with more bits are refused: a square of a square of … fills any memory."""


class EvaluationError(TirxError):
    """An expression has no value at a point (division by zero, negative shift), or a variable has none."""


def _divisor(op: str, b: int) -> None:
    if b == 0:
        raise EvaluationError(f"{op}: division by zero")


def _amount(op: str, b: int) -> None:
    if b < 0:
        raise EvaluationError(f"{op}: shift amount {b} is negative")


def _mul(a: int, b: int) -> int:
    if too_big(a, b):
        raise EvaluationError(f"mul: the product has more than {MAX_BITS} bits")
    return a * b


def too_big(a: int, b: int) -> bool:
    """Whether ``a * b`` may have more than ``MAX_BITS`` bits."""
    return a.bit_length() + b.bit_length() > MAX_BITS


def _div(a: int, b: int) -> int:
    _divisor("div", b)
    return a // b


def _mod(a: int, b: int) -> int:
    _divisor("mod", b)
    return a % b


def _tdiv(a: int, b: int) -> int:
    _divisor("tdiv", b)
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def _tmod(a: int, b: int) -> int:
    _divisor("tmod", b)
    r = abs(a) % abs(b)
    return -r if a < 0 else r


def _shl(a: int, b: int) -> int:
    _amount("shl", b)
    if b > MAX_SHIFT and a:
        raise EvaluationError(f"shl: shift amount {b} is above {MAX_SHIFT}")
    return a << b if a else 0


def _shr(a: int, b: int) -> int:
    _amount("shr", b)
    return a >> b


SCALAR: dict[str, Callable[..., int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": _mul,
    "div": _div,
    "mod": _mod,
    "tdiv": _tdiv,
    "tmod": _tmod,
    "shl": _shl,
    "shr": _shr,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "min": min,
    "max": max,
    "lt": lambda a, b: int(a < b),
    "le": lambda a, b: int(a <= b),
    "eq": lambda a, b: int(a == b),
    "ne": lambda a, b: int(a != b),
    "land": lambda a, b: int(a != 0 and b != 0),
    "lor": lambda a, b: int(a != 0 or b != 0),
    "lnot": lambda a: int(a == 0),
    "neg": lambda a: -a,
}
"""Meaning of every operator but ``select``, on Python integers."""

ARITY: dict[str, int] = {**dict.fromkeys(SCALAR, 2), "lnot": 1, "neg": 1, "select": 3}
"""Operands each operator takes."""

_TOKEN = re.compile(r"[()]|[^\s()]+")
_INT = re.compile(r"[+-]?[0-9]+\Z")
_NAME = re.compile(r"[A-Za-z_][\w.:$@]*\Z")


def as_term(value: Term) -> Term:
    """A term as it is, or the one that a text in parentheses denotes (a name has none).  ParseError as for ``parse``."""
    return parse(value) if isinstance(value, str) and value.lstrip().startswith("(") else value


def parse(text: str, *, file: str = "<expression>") -> Term:
    """The term that ``text`` denotes.  Raises ``ParseError`` with line and column for anything else."""

    def fail(message: str, start: int, end: int) -> ParseError:
        line = text.count("\n", 0, start) + 1
        begin = text.rfind("\n", 0, start) + 1
        stop = text.find("\n", begin)
        source = text[begin : len(text) if stop < 0 else stop]
        return ParseError(message, span=Span(file, line, start - begin + 1, end - begin + 1, source))

    open_forms: list[tuple[list[Any], int]] = []
    done: Term | None = None
    for match in _TOKEN.finditer(text):
        token, start, end = match.group(), match.start(), match.end()
        if done is not None:
            raise fail(f"'{token}' after the end of the expression", start, end)
        if open_forms and not open_forms[-1][0] and token not in ARITY:
            known = ", ".join(sorted(ARITY))
            raise fail(f"'{token}' where an operator is expected; operators are {known}", start, end)
        if token == "(":
            open_forms.append(([], start))
            continue
        value: Term
        if token == ")":
            if not open_forms:
                raise fail("')' without '('", start, end)
            form, begin = open_forms.pop()
            op, args = form[0], form[1:]
            if len(args) != ARITY[op]:
                raise fail(f"{op} takes {ARITY[op]} operands, not {len(args)}", begin, end)
            value = tuple(form)
        elif _INT.match(token):
            if len(token) > 1000:
                raise fail(f"integer of {len(token)} digits", start, end)
            value = int(token)
        elif _NAME.match(token):
            value = token
        else:
            raise fail(f"'{token}' is neither an integer nor a name", start, end)
        if open_forms:
            open_forms[-1][0].append(value)
        else:
            done = value
    if open_forms:
        raise fail("'(' is never closed", open_forms[-1][1], open_forms[-1][1] + 1)
    if done is None:
        raise fail("empty expression", 0, 1)
    return done


def show(term: Term, *, limit: int | None = None) -> str:
    """Text of ``term``; ``parse(show(t)) == t``.

    A term that shares subterms has a text that repeats them; ``limit`` cuts the text off after so many characters.
    """
    out: list[str] = []
    stack: list[Any] = [term]
    length = 0
    while stack:
        t = stack.pop()
        if isinstance(t, tuple):
            out.append("(" + t[0])
            stack.append(_CLOSE)
            stack.extend(reversed(t[1:]))
        elif t is _CLOSE:
            out[-1] += ")"
        else:
            out.append(str(t))
        if limit is not None:
            length += len(out[-1]) + 1
            if length > limit:
                return " ".join(out)[: limit - 1] + "…"
    return " ".join(out)


_CLOSE = object()


def check(term: Term) -> None:
    """Raise ``ParseError`` unless ``term`` is built from known operators with the right number of operands."""
    for t in postorder(term):
        if isinstance(t, tuple):
            if not t or t[0] not in ARITY:
                raise ParseError(f"'{t[0] if t else ()}' is not an operator of index expressions")
            if len(t) - 1 != ARITY[t[0]]:
                raise ParseError(f"{t[0]} takes {ARITY[t[0]]} operands, not {len(t) - 1}")
        elif isinstance(t, bool) or not isinstance(t, int | str):
            raise ParseError(f"{t!r} is neither an integer nor a name")


def postorder(*terms: Term) -> Iterator[Term]:
    """Every subterm after its operands; a tuple object met again is not repeated, leaves may be."""
    seen: set[int] = set()
    stack: list[tuple[Term, bool]] = [(t, False) for t in reversed(terms)]
    while stack:
        t, ready = stack.pop()
        if not isinstance(t, tuple):
            yield t
        elif ready:
            yield t
        elif id(t) not in seen:
            seen.add(id(t))
            stack.append((t, True))
            stack.extend((a, False) for a in reversed(t[1:]))


def tree_size(*terms: Term) -> int:
    """Operations of ``terms`` as trees: one that is shared counts for every path to it.

    Hashing and comparing terms takes as long, so whoever does that to terms of strangers asks this first.
    """
    sizes: dict[int, int] = {}
    for t in postorder(*terms):
        if isinstance(t, tuple):
            sizes[id(t)] = 1 + sum([sizes[id(a)] for a in t[1:] if isinstance(a, tuple)])
    return sum([sizes[id(t)] for t in terms if isinstance(t, tuple)])


def names(*terms: Term) -> set[str]:
    """Names of the variables in ``terms``."""
    found: set[str] = set()
    seen: set[int] = set()
    todo = list(terms)
    while todo:
        t = todo.pop()
        if isinstance(t, str):
            found.add(t)
        elif isinstance(t, tuple) and id(t) not in seen:
            seen.add(id(t))
            todo.extend(t[1:])
    return found


def substitute(term: Term, values: Mapping[str, Term]) -> Term:
    """``term`` with each variable in ``values`` replaced, all at once; sharing is kept."""
    memo: dict[int, Term] = {}

    def now(t: Term) -> Term:
        if isinstance(t, tuple):
            return memo[id(t)]
        return values.get(t, t) if isinstance(t, str) else t

    for t in postorder(term):
        if isinstance(t, tuple):
            args = [now(a) for a in t[1:]]
            same = all(a is b for a, b in zip(args, t[1:]))
            memo[id(t)] = t if same else (t[0], *args)
    return now(term)


def evaluate(term: Term, env: Mapping[str, int]) -> int:
    """Value of ``term`` where variables have the values of ``env``.

    Raises ``EvaluationError`` for a variable without value, division by zero, or a negative shift amount.  The operand
    that a ``select`` does not take is never evaluated.
    """
    memo: dict[int, int] = {}
    stack: list[Term] = [term]

    def value(t: Term) -> int | None:
        if isinstance(t, tuple):
            return memo.get(id(t))
        if isinstance(t, str):
            if t not in env:
                raise EvaluationError(f"variable '{t}' has no value")
            return env[t]
        return t

    while stack:
        t = stack[-1]
        if not isinstance(t, tuple) or id(t) in memo:
            stack.pop()
            continue
        if t[0] == "select":
            condition = value(t[1])
            needed = t[1] if condition is None else (t[2] if condition else t[3])
            result = None if condition is None else value(needed)
            if result is None:
                stack.append(needed)
                continue
        else:
            args = [value(a) for a in t[1:]]
            missing = [a for a, v in zip(t[1:], args) if v is None]
            if missing:
                stack.extend(missing)
                continue
            try:
                result = SCALAR[t[0]](*args)
            except EvaluationError as error:
                where = ", ".join(f"{k}={env[k]}" for k in sorted(names(t)) if k in env)
                raise EvaluationError(
                    f"{error.message} in {show(t, limit=120)}" + (f" at {where}" if where else "")
                ) from None
        memo[id(t)] = result
        stack.pop()
    final = value(term)
    assert final is not None
    return final


def evaluate_many(term: Term, env: Mapping[str, np.ndarray | int]) -> np.ndarray:
    """Values of ``term`` at many points: every variable an integer array (or an integer), shapes broadcast.

    Exact: int64 where the values are known to fit, Python integers otherwise.  Raises ``EvaluationError`` naming the
    first point at which there is no value.
    """
    from .index_numpy import evaluate_many as run

    return run(term, env)


def variables_checked(terms: Sequence[Term], ranges: Ranges) -> None:
    """Raise ``EvaluationError`` unless every variable of ``terms`` has a non-empty inclusive range."""
    for name in sorted(names(*terms)):
        if name not in ranges:
            raise EvaluationError(f"variable '{name}' has no range", hint=f"declare it, as in {name}=0:63")
        lo, hi = ranges[name]
        if lo > hi:
            raise EvaluationError(
                f"range of '{name}' is empty: {lo}..{hi}", hint="a range is LOW:HIGH, both included"
            )
