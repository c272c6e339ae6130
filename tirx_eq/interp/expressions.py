"""Values of expressions, for a set of threads at once.

A value is an array over the threads (or 0-dimensional where all agree), lanes first for vectors; a pointer is a
:class:`Pointer`; a string a str.  Only what must be evaluated is: the branches of ``if_then_else`` and the right sides
of ``And`` and ``Or`` for the threads that need them, but both values of ``Select``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir import (
    And,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    Expr,
    FloatImm,
    IntImm,
    Let,
    Not,
    Or,
    Ramp,
    Select,
    Shuffle,
    StringImm,
    Var,
)  # fmt: skip
from ..ir.expr import BinaryOp
from . import values
from .faults import InterpreterError
from .memory import Pointer

if TYPE_CHECKING:
    from .machine import Machine

Array = Any


def evaluate(m: Machine, e: Any, threads: Array) -> Any:
    """The value of ``e`` for ``threads``."""
    if isinstance(e, BinaryOp) and not isinstance(e, (And, Or)):
        made = values.binary(type(e).__name__, evaluate(m, e.a, threads), evaluate(m, e.b, threads))
        # 64-bit unsigned values already wrap; narrower integers stay mathematical.
        return made
    handler = _HANDLERS.get(type(e))
    if handler is None:
        if isinstance(e, (bool, int, float)):
            return np.asarray(e)
        raise InterpreterError(f"a {type(e).__name__} has no value here")
    return handler(m, e, threads)


def _constant(m: Machine, e: IntImm | FloatImm, threads: Array) -> Array:
    return values.constant(e.value, e.dtype)


def _variable(m: Machine, e: Var, threads: Array) -> Any:
    if e in m.roots:
        storage = m.roots[e]
        rows: Array = {"shared": m.wave.cta[threads], "local": threads}.get(storage.space, np.int64(0))
        return Pointer(storage, rows, np.int64(0))
    found = m.env.get(e)
    if found is None:
        raise InterpreterError(f"the variable '{e.name}' has no value here")
    if isinstance(found, Pointer):
        return found.at(threads)
    return found if np.ndim(found) == 0 else found[..., threads]


def _part(value: Any, pick: Array) -> Any:
    return value if np.ndim(value) == 0 or np.shape(value)[-1] == 1 else value[..., pick]


def lazy(m: Machine, condition: Any, threads: Array, yes: Expr, no: Expr, dtype: str) -> Array:
    """``yes`` where the condition holds and ``no`` elsewhere, each evaluated only for its threads."""
    c = np.asarray(condition).astype(bool)
    if c.ndim == 0:
        return evaluate(m, yes if c else no, threads)
    if c.ndim > 1:
        return np.where(c, evaluate(m, yes, threads), evaluate(m, no, threads))
    if c.all():
        return evaluate(m, yes, threads)
    if not c.any():
        return evaluate(m, no, threads)
    a, b = evaluate(m, yes, threads[c]), evaluate(m, no, threads[~c])
    lead = np.broadcast_shapes(np.shape(a)[:-1], np.shape(b)[:-1])
    out = np.empty((*lead, len(threads)), dtype=np.asarray(a).dtype)
    out[..., c], out[..., ~c] = a, b
    return out


def _and(m: Machine, e: And, threads: Array) -> Array:
    return lazy(m, evaluate(m, e.a, threads), threads, e.b, IntImm("bool", 0), "bool")


def _or(m: Machine, e: Or, threads: Array) -> Array:
    return lazy(m, evaluate(m, e.a, threads), threads, IntImm("bool", 1), e.b, "bool")


def _select(m: Machine, e: Select, threads: Array) -> Array:
    a, b = evaluate(m, e.true_value, threads), evaluate(m, e.false_value, threads)
    return np.where(np.asarray(evaluate(m, e.condition, threads)).astype(bool), a, b)


def _cast(m: Machine, e: Cast, threads: Array) -> Array:
    return values.convert(evaluate(m, e.value, threads), e.value.dtype, e.dtype)


def _lanes(value: Any) -> Array:
    v = np.asarray(value)
    return v.reshape(1, -1) if v.ndim < 2 else v


def _ramp(m: Machine, e: Ramp, threads: Array) -> Array:
    steps = np.arange(e.lanes).reshape(-1, 1)
    return _lanes(evaluate(m, e.base, threads)) + steps * _lanes(evaluate(m, e.stride, threads))


def _broadcast(m: Machine, e: Broadcast, threads: Array) -> Array:
    v = _lanes(evaluate(m, e.value, threads))
    return np.broadcast_to(v, (e.lanes, v.shape[1]))


def _shuffle(m: Machine, e: Shuffle, threads: Array) -> Array:
    parts = [_lanes(evaluate(m, v, threads)) for v in e.vectors]
    width = max(p.shape[1] for p in parts)
    every = np.concatenate([np.broadcast_to(p, (p.shape[0], width)) for p in parts])
    picked = every[[int(i) for i in e.indices]]  # type: ignore[call-overload]
    return picked[0] if len(e.indices) == 1 else picked


def _let(m: Machine, e: Let, threads: Array) -> Any:
    value = evaluate(m, e.value, threads)
    before = m.env.pop(e.var, None)
    m.bind(e.var, value, threads)
    try:
        return evaluate(m, e.body, threads)
    finally:
        del m.env[e.var]
        if before is not None:
            m.env[e.var] = before


def _load(m: Machine, e: BufferLoad, threads: Array) -> Array:
    if e.predicate is None:
        return m.access.load(e.buffer, e.indices, threads)
    keep = np.broadcast_to(np.asarray(evaluate(m, e.predicate, threads)).astype(bool), (len(threads),))
    out = np.zeros(len(threads), dtype=values.holding(e.buffer.dtype))
    if keep.any():
        out[keep] = m.access.load(e.buffer, e.indices, threads[keep])
    return out


def _call(m: Machine, e: Call, threads: Array) -> Any:
    from .intrinsics import call_value

    return call_value(m, e, threads)


_HANDLERS: dict[type, Callable[[Any, Any, Any], Any]] = {
    IntImm: _constant, FloatImm: _constant, StringImm: lambda m, e, t: e.value, Var: _variable, And: _and, Or: _or,
    Not: lambda m, e, t: ~np.asarray(evaluate(m, e.a, t)).astype(bool), Select: _select, Cast: _cast, Ramp: _ramp,
    Broadcast: _broadcast, Shuffle: _shuffle, Let: _let, BufferLoad: _load, Call: _call,
}  # fmt: skip
