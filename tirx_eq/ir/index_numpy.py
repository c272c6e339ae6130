"""Exact evaluation of neutral index expressions on arrays; see ``index.evaluate_many``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .index import MAX_BITS, MAX_SHIFT, EvaluationError, Term, postorder, show, too_big

_LIMIT = 1 << 62
Array = Any


class _Value:
    """An array, bounds of its entries as Python integers, and the points at which it has no value (or None)."""

    __slots__ = ("array", "bad", "hi", "lo")

    def __init__(self, array: Array, lo: int, hi: int, bad: Array = None) -> None:
        self.array, self.lo, self.hi, self.bad = array, lo, hi, bad


def _of(x: Any) -> _Value:
    a = np.asarray(x)
    if a.dtype != object:
        if a.dtype.kind not in "iub":
            raise EvaluationError(f"variables take integers, not {a.dtype}")
        if a.dtype == np.uint64:
            a = a.astype(object)
    if a.size == 0:
        return _Value(a.astype(np.int64), 0, 0)
    lo, hi = int(a.min()), int(a.max())
    return _Value(_sized(a, lo, hi), lo, hi)


def _sized(a: Array, lo: int, hi: int) -> Array:
    """``a`` as int64 if its bounds fit, as Python integers if not."""
    if -_LIMIT <= lo and hi <= _LIMIT:
        return a.astype(np.int64, copy=False)
    return a.astype(object)


def _or(a: Array, b: Array) -> Array:
    return b if a is None else a if b is None else a | b


def _wide(x: _Value, small: bool) -> Array:
    return x.array if small else x.array.astype(object)


def _ints(mask: Array) -> Array:
    return np.asarray(mask).astype(np.int64)


def _product(a: _Value, b: _Value) -> tuple[int, int]:
    if too_big(max(a.lo, a.hi, key=abs), max(b.lo, b.hi, key=abs)):
        raise EvaluationError(f"mul: a product may have more than {MAX_BITS} bits")
    p = [x * y for x in (a.lo, a.hi) for y in (b.lo, b.hi)]
    return min(p), max(p)


def _bits(a: _Value, b: _Value) -> tuple[int, int]:
    n = max(abs(v).bit_length() for v in (a.lo, a.hi, b.lo, b.hi))
    return -(1 << n), (1 << n) - 1


def _reach(a: _Value) -> tuple[int, int]:
    m = max(abs(a.lo), abs(a.hi)) + 1
    return -m, m


def _divide(op: str, a: _Value, b: _Value, bad: Array) -> _Value:
    zero = np.asarray(b.array == 0)
    divisor = b.array
    if zero.any():
        bad = _or(bad, zero)
        divisor = np.where(zero, 1, b.array)
    if op == "mod":
        m = max(abs(b.lo), abs(b.hi))
        return _Value(a.array % divisor, min(-m, 0), m, bad)
    if op == "div":
        return _Value(a.array // divisor, *_reach(a), bad)
    q = abs(a.array) // abs(divisor)
    q = np.where(np.asarray(a.array < 0) == np.asarray(divisor < 0), q, -q)
    if op == "tdiv":
        return _Value(q, *_reach(a), bad)
    return _Value(a.array - q * divisor, *_reach(a), bad)


def _shift(op: str, a: _Value, b: _Value, bad: Array) -> _Value:
    wrong = np.asarray(b.array < 0) | (np.asarray(b.array > MAX_SHIFT) if op == "shl" else False)
    amount = b.array
    if np.any(wrong):
        bad = _or(bad, wrong)
        amount = np.where(wrong, 0, b.array)
    top = min(max(b.hi, 0), MAX_SHIFT)
    if op == "shr":
        if a.array.dtype != object:
            return _Value(a.array >> np.minimum(amount, 63).astype(np.int64), *_reach(a), bad)
        return _Value(a.array >> amount, *_reach(a), bad)
    lo, hi = min(a.lo, a.lo << top), max(a.hi, a.hi << top)
    small = -_LIMIT <= lo and hi <= _LIMIT and top < 63
    left = a.array if small else a.array.astype(object)
    return _Value(left << (amount if small else amount.astype(object)), lo, hi, bad)


def _binary(op: str, a: _Value, b: _Value) -> _Value:
    bad = _or(a.bad, b.bad)
    if op in ("div", "mod", "tdiv", "tmod"):
        return _divide(op, a, b, bad)
    if op in ("shl", "shr"):
        return _shift(op, a, b, bad)
    if op in _COMPARE:
        return _Value(_ints(_COMPARE[op](a.array, b.array)), 0, 1, bad)
    if op == "add":
        lo, hi = a.lo + b.lo, a.hi + b.hi
    elif op == "sub":
        lo, hi = a.lo - b.hi, a.hi - b.lo
    elif op == "mul":
        lo, hi = _product(a, b)
    elif op in ("and", "or", "xor"):
        lo, hi = _bits(a, b)
    else:
        lo, hi = min(a.lo, b.lo), max(a.hi, b.hi)
    small = -_LIMIT <= lo and hi <= _LIMIT
    return _Value(_ARITH[op](_wide(a, small), _wide(b, small)), lo, hi, bad)


_COMPARE: dict[str, Any] = {
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "land": lambda a, b: np.asarray(a != 0) & np.asarray(b != 0),
    "lor": lambda a, b: np.asarray(a != 0) | np.asarray(b != 0),
}
_ARITH: dict[str, Any] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "min": np.minimum,
    "max": np.maximum,
}


def _select(c: _Value, a: _Value, b: _Value) -> _Value:
    taken = np.asarray(c.array != 0)
    bad = c.bad
    for branch, chosen in ((a, taken), (b, ~taken)):
        if branch.bad is not None:
            bad = _or(bad, branch.bad & chosen)
    lo, hi = min(a.lo, b.lo), max(a.hi, b.hi)
    small = -_LIMIT <= lo and hi <= _LIMIT
    return _Value(np.where(taken, _wide(a, small), _wide(b, small)), lo, hi, bad)


def evaluate_many(term: Term, env: Mapping[str, Array]) -> Array:
    """See ``index.evaluate_many``."""
    memo: dict[int, _Value] = {}
    leaves: dict[Term, _Value] = {}

    def value(t: Term) -> _Value:
        if isinstance(t, tuple):
            return memo[id(t)]
        if t not in leaves:
            if isinstance(t, str):
                if t not in env:
                    raise EvaluationError(f"variable '{t}' has no value")
                leaves[t] = _of(env[t])
            else:
                leaves[t] = _Value(_sized(np.asarray(t, dtype=object), t, t), t, t)
        return leaves[t]

    for t in postorder(term):
        if not isinstance(t, tuple):
            continue
        args = [value(a) for a in t[1:]]
        op = t[0]
        if op == "select":
            result = _select(*args)
        elif op == "neg":
            result = _Value(-args[0].array, -args[0].hi, -args[0].lo, args[0].bad)
        elif op == "lnot":
            result = _Value(_ints(args[0].array == 0), 0, 1, args[0].bad)
        else:
            result = _binary(op, *args)
        result.array = _sized(np.asarray(result.array), result.lo, result.hi)
        memo[id(t)] = result
    final = value(term)
    shape = np.broadcast_shapes(*[np.shape(v) for v in env.values()]) if env else ()
    if final.bad is not None and np.any(final.bad):
        where = np.argwhere(np.broadcast_to(final.bad, shape))[0]
        point = {k: int(np.broadcast_to(np.asarray(v), shape)[tuple(where)]) for k, v in env.items()}
        at = ", ".join(f"{k}={v}" for k, v in sorted(point.items()))
        raise EvaluationError(f"division by zero or shift amount out of range at {at} in {show(term, limit=120)}")
    return np.broadcast_to(final.array, np.broadcast_shapes(np.shape(final.array), shape))
