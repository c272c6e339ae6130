"""``interpret``: a kernel on numpy arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..ir import Buffer, Expr, IntImm, PointerType, PrimFunc, TensorMapType, Var
from ..ir import dtype as dt
from . import noise, values
from .faults import InterpreterError
from .launch import find_geometry, waves
from .machine import Machine
from .memory import Storage
from .places import host_places
from .record import Record

MAX_STEPS = 4_000_000


def interpret(func: PrimFunc, *arguments: Any, max_steps: int = MAX_STEPS) -> dict[str, np.ndarray]:
    """Execute a kernel directly from its IR; returns what is in each buffer parameter afterwards, by name.

    ``arguments``: one per parameter, in order: an array of the buffer's shape and dtype (inputs are not modified), or a
    number for a scalar.  Symbolic extents are taken from the arrays.  InterpreterError, at the statement's span, for a
    read of undefined data, an access out of bounds, threads that wait for ever, and what has no meaning here.
    """
    return interpret_recorded(func, *arguments, max_steps=max_steps)[0]


def interpret_recorded(
    func: PrimFunc, *arguments: Any, max_steps: int = MAX_STEPS
) -> tuple[dict[str, np.ndarray], Record]:
    """:func:`interpret`, and what a comparison with another execution needs to know."""
    scalars, storage, places = bind_arguments(func, arguments)
    record = Record()

    def integer(e: Any) -> int:
        return evaluate_extent(e, scalars)

    geometry = find_geometry(func, integer)
    for wave in waves(geometry):
        with np.errstate(all="ignore"):
            Machine(func, wave, dict(storage), dict(scalars), max_steps, record).run()
    return {b.name: read_back(storage[b.data], b, bits) for b, bits in places}, record


def disturbed_results(func: PrimFunc, arguments: Sequence[Any], seed: int = 0) -> list[dict[str, np.ndarray]]:
    """What :func:`interpret` gives when every operation is off by as much as it may be, in each way of :mod:`noise`."""
    found = []
    for mode in noise.MODES:
        with noise.disturbed(mode, seed):
            found.append(interpret(func, *arguments))
    return found


def bind_arguments(
    func: PrimFunc, arguments: Sequence[Any]
) -> tuple[dict[Var, Any], dict[Var, Storage], list[tuple[Buffer, Any]]]:
    """Scalar parameters and symbolic extents; storage of buffers with the arrays in it; where their elements are."""
    if len(arguments) != len(func.params):
        names = ", ".join(buffer_or_name(func, p) for p in func.params)
        raise InterpreterError(f"{func.name} takes {len(func.params)} arguments ({names}), got {len(arguments)}")
    scalars: dict[Var, Any] = {}
    pairs: list[tuple[Buffer, np.ndarray]] = []
    for param, given in zip(func.params, arguments):
        if param in func.buffer_map:
            pairs.append((func.buffer_map[param], _checked(func.buffer_map[param], given, scalars)))
        elif isinstance(param.ty, (TensorMapType, PointerType)):
            raise InterpreterError(
                f"parameter '{param.name}' is a {type(param.ty).__name__}, which has no meaning here"
            )
        else:
            scalars[param] = np.asarray(given).astype(values.holding(param.dtype))
    storage: dict[Var, Storage] = {}
    places = []
    for buffer, array in pairs:
        bits, size = host_places(buffer, lambda e: evaluate_extent(e, scalars))
        made = Storage(buffer.name, "global", 1, size)
        held = array if not dt.is_integer(buffer.dtype) else array.astype(values.holding(buffer.dtype))
        if array.size:
            made.write(np.int64(0), bits, held, buffer.dtype)
        storage[buffer.data] = made
        places.append((buffer, bits))
    return scalars, storage, places


def buffer_or_name(func: PrimFunc, param: Var) -> str:
    """A parameter as the user knows it."""
    return func.buffer_map[param].name if param in func.buffer_map else param.name


def _checked(buffer: Buffer, given: Any, scalars: dict[Var, Any]) -> np.ndarray:
    """An argument as an array of the buffer's shape and dtype; binds symbolic extents."""
    array = np.asarray(given)
    wanted = dt.numpy_dtype(buffer.dtype)
    if array.dtype != wanted:
        raise InterpreterError(f"argument '{buffer.name}' must be an array of {wanted}, got {array.dtype}")
    if array.ndim != buffer.ndim:
        raise InterpreterError(f"argument '{buffer.name}' must have {buffer.ndim} dimensions, got {array.ndim}")
    for d, (extent, have) in enumerate(zip(buffer.shape, array.shape)):
        if isinstance(extent, Var) and extent not in scalars:
            scalars[extent] = np.asarray(have, dtype=np.int64)
            continue
        want = evaluate_extent(extent, scalars)
        if want != have:
            raise InterpreterError(f"argument '{buffer.name}': dimension {d} must be {want}, got {have}")
    return array


def evaluate_extent(e: Any, scalars: dict[Var, Any]) -> int:
    """An integer expression over scalar parameters."""
    if isinstance(e, int):
        return e
    if isinstance(e, IntImm):
        return e.value
    if isinstance(e, Var):
        if e not in scalars:
            raise InterpreterError(
                f"the extent '{e.name}' has no value", hint="it must be an extent of an array, or a scalar"
            )
        return int(scalars[e])
    if isinstance(e, Expr):
        a, b = getattr(e, "a", None), getattr(e, "b", None)
        if a is not None and b is not None:
            return int(
                values.binary(
                    type(e).__name__, np.int64(evaluate_extent(a, scalars)), np.int64(evaluate_extent(b, scalars))
                )
            )
        inner = getattr(e, "value", None)
        if inner is not None:
            return evaluate_extent(inner, scalars)
    raise InterpreterError(f"an extent can't be computed before the launch: {e!r}")


def read_back(storage: Storage, buffer: Buffer, bits: Any) -> np.ndarray:
    """The logical array of a parameter from memory."""
    value, _ = storage.read(np.int64(0), bits, buffer.dtype)
    return np.asarray(value).astype(dt.numpy_dtype(buffer.dtype))


def to_memory(func: PrimFunc, arguments: Sequence[Any]) -> list[Any]:
    """The arguments as the device sees them: for each buffer the bytes of its memory, through its layout.

    An array of symbolic extents stays an array, since the extents are found in it.
    """
    _, storage, _ = bind_arguments(func, arguments)
    out = []
    for param, given in zip(func.params, arguments):
        if param in func.buffer_map:
            buffer = func.buffer_map[param]
            held = storage[buffer.data]
            raw = held.data[0, : held.size].copy()
            plain = buffer.const_shape() is None and dt.storage_bits(buffer.dtype) >= 8
            out.append(raw.view(np.asarray(given).dtype).reshape(np.shape(given)) if plain else raw)
        else:
            out.append(given)
    return out


def from_memory(func: PrimFunc, arguments: Sequence[Any], memory: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Logical arrays by buffer name from the bytes in ``memory``, which are in the order of the parameters."""
    _, storage, places = bind_arguments(func, arguments)
    out = {}
    for (buffer, bits), raw in zip(places, memory.values()):
        held = storage[buffer.data]
        held.data[0, : held.size] = np.ascontiguousarray(raw).reshape(-1).view(np.uint8)
        out[buffer.name] = read_back(held, buffer, bits)
    return out
