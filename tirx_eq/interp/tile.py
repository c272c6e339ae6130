"""Tile primitives by their mathematical meaning on logical regions.

An operand is read as an array (units, *extents), the meaning is a function on such arrays, the result is written
through the destination's layout.  Operands of an element-wise operation have the destination's extents, those of 1
aside, or are spread over it as numpy does.  Arithmetic is in the operands' dtype (the wider one if they differ) and
rounds once per operation; sums and products of matrices are formed in float64 and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir import BufferRegion, Expr, LambdaExpr, Op, TilePrimitiveCall
from ..ir import dtype as dt
from . import noise, values
from .access import ALL_DIGITS, Units
from .ctas import CTA_AXES, ctas_of
from .faults import InterpreterError
from .places import digits_of

if TYPE_CHECKING:
    from .machine import Machine

Array = Any


@dataclass(frozen=True, eq=False)
class Tile:
    """Values of an operand: ``array`` (units, *extents) (extents () for a scalar) of ``dtype``."""

    array: Array
    dtype: str

    @property
    def extents(self) -> tuple[int, ...]:
        return tuple(self.array.shape[1:])


@dataclass(frozen=True, eq=False)
class Run:
    """One execution of a call by its units."""

    m: Machine
    call: TilePrimitiveCall
    units: Units

    def read(self, operand: Any, like: str | None = None, units: Units | None = None) -> Tile:
        """An operand's values; a scalar that is a plain number takes the dtype ``like``."""
        where = units or self.units
        if isinstance(operand, BufferRegion):
            return Tile(self.m.access.read(operand, where), operand.dtype)
        return self._scalar(operand, like, where)

    def _scalar(self, operand: Any, like: str | None, where: Units) -> Tile:
        shown = operand.dtype if isinstance(operand, Expr) else "float32" if isinstance(operand, float) else "int32"
        value = self.m.access.uniform(operand, where, f"an operand of '{self.call.op.short_name}'")
        target = like or shown
        return Tile(np.asarray(values.convert(value, shown, target)).reshape(-1), target)

    def write(self, region: BufferRegion, value: Array, dtype: str) -> None:
        """Store a result, converted to the region's dtype."""
        self.m.access.write(region, self.units, values.convert(value, dtype, region.dtype))

    def extents(self, region: BufferRegion) -> tuple[int, ...]:
        return self.m.access.extents(region, self.units)

    def flag(self, name: str) -> bool:
        """A compile-time operand that is true or false; an expression is evaluated (the same for all units)."""
        value = self.call.operand(name)
        if isinstance(value, Expr):
            found = np.unique(np.asarray(self.m.access.uniform(value, self.units, f"'{name}'")).astype(bool))
            if len(found) != 1:
                raise InterpreterError(f"'{name}' of '{self.call.op.short_name}' differs between threads")
            return bool(found[0])
        return bool(value)


def run_tile(m: Machine, call: TilePrimitiveCall, threads: Array) -> None:
    """Execute a tile primitive call by the active ``threads``."""
    name = call.op.short_name
    if name == "compose_op":
        for part in call.args:
            run_tile(m, part, threads)
        return
    meaning = MEANINGS.get(name)
    if meaning is None:
        raise InterpreterError(f"the tile primitive '{name}' has no meaning here")
    units = m.access.units(threads, call.scope.kind, _shared_digits(m, call))
    meaning(Run(m, call, units))


def _shared_digits(m: Machine, call: TilePrimitiveCall) -> frozenset[str]:
    """The digits of the thread number that a unit has in common beyond its scope's.

    A destination in registers whose layout leaves some digits open is there once for each value of these: each such
    group of threads computes its own.
    """
    fixed: frozenset[str] | None = None
    for region in call.dsts:
        if region.buffer.scope == "local":
            free = ALL_DIGITS - digits_of(m.concrete(region.buffer)[1])
            fixed = free if fixed is None else fixed & free
    return (fixed or frozenset()) | _shared_ctas(m, call)


def _shared_ctas(m: Machine, call: TilePrimitiveCall) -> frozenset[str]:
    """The same of the CTA's place in its cluster: every CTA has registers, shared and tensor memory of its own.

    What several CTAs would store to one place in global memory is computed once, from all of them.
    """
    if call.scope.kind != "cluster" or any(r.buffer.scope == "global" for r in call.dsts):
        return frozenset()
    fixed = frozenset(CTA_AXES)
    for region in call.dsts:
        fixed -= ctas_of(m.concrete(region.buffer)[1])
    return fixed


# -- element by element -----------------------------------------------------------------------------------------------


def _fit(tile: Tile, extents: Sequence[int], what: str) -> Array:
    """An operand's values so that they broadcast over (units, *extents)."""
    mine = tile.extents
    if mine == tuple(extents):
        return tile.array
    count = tile.array.shape[0]
    if [e for e in mine if e != 1] == [e for e in extents if e != 1]:
        return tile.array.reshape(count, *extents)
    shown = (1,) * (len(extents) - len(mine)) + mine
    while len(shown) > len(extents) and shown[0] == 1:
        shown = shown[1:]
    if len(shown) == len(extents) and all(a in (1, b) for a, b in zip(shown, extents)):
        return tile.array.reshape(count, *shown)
    raise InterpreterError(f"{what} covers {_text(mine)}, but the destination {_text(extents)}")


def _text(extents: Sequence[int]) -> str:
    return "×".join(map(str, extents)) or "one element"


def _common(dtypes: Sequence[str]) -> str:
    """The dtype to compute in: the widest of the operands'."""
    first = dtypes[0]
    for d in dtypes[1:]:
        if d != first:
            if dt.is_float(d) and (not dt.is_float(first) or dt.bits(d) > dt.bits(first)):
                first = d
            elif dt.is_float(d) == dt.is_float(first) and dt.bits(d) > dt.bits(first):
                first = d
    return first


def _operands(run: Run, names: Sequence[str], extents: Sequence[int]) -> tuple[list[Array], str]:
    """Several operands that fit the extents, in one dtype; plain numbers follow the regions."""
    given = [run.call.operand(n) for n in names]
    regions = [g.dtype for g in given if isinstance(g, BufferRegion)]
    like = _common(regions) if regions else run.call.dsts[0].dtype
    tiles = [run.read(g, None if isinstance(g, BufferRegion) else like) for g in given]
    dtype = _common([t.dtype for t in tiles])
    return [
        _fit(Tile(values.convert(t.array, t.dtype, dtype), dtype), extents, f"'{n}'") for n, t in zip(names, tiles)
    ], dtype


def binary_value(op: str, a: Array, b: Array) -> Array:
    """The element-wise operation of the primitives add, sub, mul, fdiv, maximum, minimum."""
    node = {"add": "Add", "sub": "Sub", "mul": "Mul", "fdiv": "Div", "maximum": "Max", "minimum": "Min"}.get(op)
    if node is None:
        raise InterpreterError(f"'{op}' is not a binary tile primitive")
    return values.binary(node, a, b)


def _binary(op: str) -> Callable[[Run], None]:
    def meaning(run: Run) -> None:
        dst = run.call.dsts[0]
        (a, b), dtype = _operands(run, ("a", "b"), run.extents(dst))
        run.write(dst, binary_value(op, a, b), dtype)

    return meaning


def unary_value(run: Run, op: str, x: Array, dtype: str, bias: Any, scale: Any, extents: Sequence[int]) -> Array:
    """``op(x * scale + bias)``."""
    if scale is not None:
        x = values.binary("Mul", x, _fit(_as(run.read(scale, dtype), dtype), extents, "'scale'"))
    if bias is not None:
        x = values.binary("Add", x, _fit(_as(run.read(bias, dtype), dtype), extents, "'bias'"))
    if op not in values.EXACT:
        run.m.record.used(op)
    elif scale is not None and bias is not None:
        run.m.record.used("fma")  # the target may round the product and the sum at once
    return values.unary(op, x, dtype)


def _as(tile: Tile, dtype: str) -> Tile:
    return Tile(values.convert(tile.array, tile.dtype, dtype), dtype)


def _unary(op: str) -> Callable[[Run], None]:
    def meaning(run: Run) -> None:
        dst = run.call.dsts[0]
        extents = run.extents(dst)
        (x,), dtype = _operands(run, ("src",), extents)
        has_affine = "bias" in run.call.signature.inputs
        bias, scale = (run.call.operand(n) if has_affine else None for n in ("bias", "scale"))
        run.write(dst, unary_value(run, op, x, dtype, bias, scale, extents), dtype)

    return meaning


def _fma(run: Run) -> None:
    dst = run.call.dsts[0]
    (x, scale, bias), dtype = _operands(run, ("src", "scale", "bias"), run.extents(dst))
    run.write(dst, values.fma(x, scale, bias, dtype), dtype)


def _cast(run: Run) -> None:
    dst = run.call.dsts[0]
    (x,), dtype = _operands(run, ("src",), run.extents(dst))
    run.write(dst, x, dtype)


def _fill(run: Run) -> None:
    dst = run.call.dsts[0]
    (x,), dtype = _operands(run, ("value",), run.extents(dst))
    run.write(dst, x, dtype)


def _zero(run: Run) -> None:
    dst = run.call.dsts[0]
    run.m.access.write(dst, run.units, values.constant(0, dst.dtype))


def _select(run: Run) -> None:
    """``a`` where the predicate holds of the coordinates in the destination's region (counted from its start), else ``b``."""
    dst = run.call.dsts[0]
    extents = run.extents(dst)
    (a, b), dtype = _operands(run, ("a", "b"), extents)
    predicate = run.call.operand("predicate")
    if not isinstance(predicate, LambdaExpr) or len(predicate.vars) != len(extents):
        raise InterpreterError(
            f"the predicate of select takes one variable per dimension of the destination ({len(extents)})"
        )
    count = len(run.units.first)
    coords = [np.broadcast_to(c, (count, *extents)) for c in np.indices(extents)]
    holds = _apply(run, predicate, coords)
    run.write(dst, np.where(holds, a, b), dtype)


def _apply(run: Run, function: LambdaExpr, coords: Sequence[Array]) -> Array:
    """A condition on coordinates, evaluated like lanes: each unit is one thread with many elements."""
    shape = coords[0].shape
    threads = run.units.first
    for var, c in zip(function.vars, coords):
        run.m.bind(var, c.reshape(shape[0], -1).T, threads)
    found = np.asarray(run.m.value(function.body, threads)).astype(bool)
    if found.ndim < 2:
        return np.broadcast_to(found.reshape(-1, *[1] * (len(shape) - 1)), shape)
    return found.T.reshape(shape)


# -- reductions -------------------------------------------------------------------------------------------------------

_REDUCERS: dict[str, Callable[[Array, Array], Array]] = {"max": values.maximum, "min": values.minimum}


def _axes(run: Run, name: str, rank: int) -> tuple[int, ...]:
    given = run.call.operand(name)
    axes = given if isinstance(given, (tuple, list)) else (given,)
    out = []
    for a in axes:
        k = int(a)
        if not -rank <= k < rank:
            raise InterpreterError(f"{run.call.op.short_name}: there is no axis {k} in {rank} dimensions")
        out.append(k % rank)
    return tuple(sorted(set(out)))


def reduce_value(op: str, array: Array, dtype: str, axes: Sequence[int]) -> Array:
    """A reduction over ``axes`` (of the extents, without the units); the reduced dimensions keep extent 1."""
    along = tuple(a + 1 for a in axes)
    if op == "sum":
        if dt.is_float(dtype):
            wide = values.widen(array)
            terms = prod(array.shape[a] for a in along)
            total = values.total(wide, along, dtype)
            total = noise.total(total, terms, lambda: np.sum(np.abs(wide), axis=along, keepdims=True))
            return values.round_to(total, dtype)
        return values.wrap(np.sum(array, axis=along, keepdims=True), dtype)
    if op not in _REDUCERS:
        raise InterpreterError(f"'{op}' is not a reduction", hint="sum, max or min")
    for axis in along:
        parts = np.split(array, array.shape[axis], axis=axis)
        while len(parts) > 1:  # pairwise
            parts = [_REDUCERS[op](a, b) for a, b in zip(parts[::2], parts[1::2])] + parts[len(parts) // 2 * 2 :]
        array = parts[0]
    return array


def _note_sum(run: Run, array: Array, axes: Sequence[int]) -> None:
    along = tuple(a + 1 for a in axes)
    run.m.record.summed(prod(array.shape[a] for a in along), np.sum(np.abs(values.widen(array)), axis=along))


def combine(op: str, a: Array, b: Array) -> Array:
    """What a reduction does with two values."""
    return values.binary("Add", a, b) if op == "sum" else _REDUCERS[op](a, b)


def _write_reduced(
    run: Run, dst: BufferRegion, op: str, value: Array, dtype: str, accum: bool, negate: bool = False
) -> None:
    extents = run.extents(dst)
    if prod(extents) != prod(value.shape[1:]):
        raise InterpreterError(
            f"{run.call.op.short_name}: the result has {_text(value.shape[1:])}, but the destination {_text(extents)}"
        )
    value = value.reshape(value.shape[0], *extents)
    if negate:
        if dtype == "bool":
            raise InterpreterError("truth values have no negative: cast them first")
        value = values.round_to(-values.widen(value), dtype) if dt.is_float(dtype) else values.wrap(-value, dtype)
    if accum:
        before = _as(run.read(dst), dtype)
        value = combine(op, before.array, value)
    run.write(dst, value, dtype)


def _reduce(op: str) -> Callable[[Run], None]:
    def meaning(run: Run) -> None:
        src = run.read(run.call.operand("src"))
        axes = _axes(run, "axes", len(src.extents))
        if op == "sum":
            _note_sum(run, src.array, axes)
        found = reduce_value(op, src.array, src.dtype, axes)
        _write_reduced(run, run.call.dsts[0], op, found, src.dtype, run.flag("accum"))

    return meaning


def _reduce_negate(run: Run) -> None:
    call = run.call
    if len(call.args) > len(call.signature.operands):
        op = _op_name(call.args[len(call.signature.operands)])
    else:
        op = _op_name(call.operand("reduce_op")) if "reduce_op" in call.signature.operands else "sum"
    src = run.read(call.operand("src"))
    axes = _axes(run, "axes", len(src.extents))
    if op == "sum":
        _note_sum(run, src.array, axes)
    found = reduce_value(op, src.array, src.dtype, axes)
    _write_reduced(run, call.dsts[0], op, found, src.dtype, run.flag("accum"), negate=True)


def _op_name(op: Any) -> str:
    return op.short_name if isinstance(op, Op) else str(op)


def _binary_reduce(run: Run) -> None:
    out, reduced = run.call.dsts
    (a, b), dtype = _operands(run, ("binary_input1", "binary_input2"), run.extents(out))
    made = binary_value(_op_name(run.call.operand("binary_op")), a, b)
    full = (run.units.count, *run.extents(out))
    made = np.broadcast_to(made, full)
    run.write(out, made, dtype)
    _reduce_into(run, reduced, made, dtype)


def _unary_reduce(run: Run) -> None:
    out, reduced = run.call.dsts
    extents = run.extents(out)
    (x,), dtype = _operands(run, ("unary_input",), extents)
    made = unary_value(
        run,
        _op_name(run.call.operand("unary_op")),
        x,
        dtype,
        run.call.operand("bias"),
        run.call.operand("scale"),
        extents,
    )
    made = np.broadcast_to(made, (run.units.count, *extents))
    run.write(out, made, dtype)
    _reduce_into(run, reduced, made, dtype)


def _reduce_into(run: Run, reduced: BufferRegion, made: Array, dtype: str) -> None:
    op = _op_name(run.call.operand("reduce_op"))
    if op == "sum":
        _note_sum(run, made, _axes(run, "reduce_axes", made.ndim - 1))
    found = reduce_value(op, made, dtype, _axes(run, "reduce_axes", made.ndim - 1))
    _write_reduced(run, reduced, op, found, dtype, False)


def _binary_chain(run: Run) -> None:
    """``(operand0 op0 data) op1 operand1``; reversed: ``operand1 op1 (operand0 op0 data)``."""
    out = run.call.dsts[0]
    (data, first, second), dtype = _operands(run, ("data", "operand0", "operand1"), run.extents(out))
    inner = binary_value(_op_name(run.call.operand("op0")), first, data)
    op1 = _op_name(run.call.operand("op1"))
    made = binary_value(op1, second, inner) if run.flag("reverse1") else binary_value(op1, inner, second)
    run.write(out, made, dtype)


# -- the table --------------------------------------------------------------------------------------------------------


def _meanings() -> dict[str, Callable[[Run], None]]:
    from .movement import copy, copy_async
    from .products import gemm, gemm_async

    return {
        "copy": copy, "copy_async": copy_async, "permute_layout": copy, "gemm": gemm, "gemm_async": gemm_async,
        "cast": _cast, "fill": _fill, "memset": _fill, "zero": _zero, "fma": _fma, "select": _select,
        **{op: _binary(op) for op in ("add", "sub", "mul", "fdiv", "maximum", "minimum")},
        **{op: _unary(op) for op in ("sqrt", "exp", "exp2", "log2", "reciprocal", "silu")},
        **{op: _reduce(op) for op in ("sum", "max", "min")}, "reduce_negate": _reduce_negate,
        "binary_reduce": _binary_reduce, "unary_reduce": _unary_reduce, "binary_chain": _binary_chain,
    }  # fmt: skip


class _Lazy(dict[str, Callable[[Run], None]]):
    """Filled when first asked, since the meanings of copies and products use this module."""

    def get(self, key: str, default: Any = None) -> Any:
        if not self:
            self.update(_meanings())
        return super().get(key, default)


MEANINGS = _Lazy()
