"""Arguments of a launch as the bytes that the kernel receives; no driver is needed for this."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..errors import LaunchError
from ..ir import dtype as dt
from .launch import Launch, LaunchParam
from .tensormap import TensorMap

#: PTX types of scalar parameters -> formats of :mod:`struct`.
_SCALARS = {
    "u8": "B", "s8": "b", "u16": "H", "s16": "h", "u32": "I", "s32": "i", "u64": "Q", "s64": "q", "f16": "e", "f32": "f",
    "f64": "d", "b8": "B", "b16": "H", "b32": "I", "b64": "Q",
}  # fmt: skip


def arguments_of(launch: Launch, given: Sequence[Any]) -> tuple[Launch, dict[str, Any]]:
    """The launch with all its sizes, and the arguments by parameter name; extents of arrays are found in the arrays.

    Raises LaunchError if the number of arguments or a shape is wrong, PtxError if a size is beyond what the hardware takes.
    """
    wanted = [p.name for p in launch.params if p.given]
    if len(given) != len(wanted):
        raise LaunchError(f"{launch.entry} takes {len(wanted)} arguments ({', '.join(wanted)}), got {len(given)}")
    arguments = dict(zip(wanted, given))
    arrays = {p.name: p for p in launch.params}
    for p in launch.params:
        if p.extent_of is not None:
            array, dimension = p.extent_of
            arguments[p.name] = _extents(arrays[array], arguments[array])[dimension]
    integers = {p.name: int(arguments[p.name]) for p in launch.params if p.kind == "scalar" and not p.type.startswith("f")}
    found = launch.at(integers)
    for before, p in zip(launch.params, found.params):
        if before.shape != p.shape and _extents(p, arguments[p.name]) != p.shape:
            have = _extents(p, arguments[p.name])
            raise LaunchError(f"argument '{p.name}' has extents {list(have)}, here the kernel takes {list(p.shape or ())}")
    on_host = {n: a for n, a in arguments.items() if hasattr(a, "__array_interface__")}
    check_apart(found, {n: (int(a.__array_interface__["data"][0]), int(a.nbytes)) for n, a in on_host.items()})
    return found, arguments


def check_apart(launch: Launch, places: Mapping[str, tuple[int, int]]) -> None:
    """Raise LaunchError if two arrays overlap, of which the kernel writes one; ``places`` gives address and bytes of arrays.

    That arrays don't overlap is a contract of every kernel, as ``restrict`` is in C: what it reads from an array that it
    doesn't write stays the same while it runs.
    """
    written = {p.name for p in launch.params if p.kind == "pointer" and not p.unchanged}
    ordered = sorted((address, bytes_, name) for name, (address, bytes_) in places.items() if bytes_)
    for k, (address, bytes_, name) in enumerate(ordered):
        for start, _, other in ordered[k + 1 :]:
            if start >= address + bytes_:
                break
            if {name, other} & written:
                changed = name if name in written else other
                raise LaunchError(
                    f"the arguments '{name}' and '{other}' overlap in memory, and {launch.entry} writes '{changed}'",
                    hint="a kernel's arrays must not overlap, unless it only reads them: copy one",
                )


def _extents(p: LaunchParam, array: Any) -> tuple[int, ...]:
    """Extents of an array argument, in elements of the kernel's array.  Raises LaunchError if it has none, or not as many."""
    shape = getattr(array, "shape", None)
    if shape is None:
        raise LaunchError(f"argument '{p.name}' is a {type(array).__name__}, from which no extent can be taken")
    wanted = p.shape or ()
    if len(shape) != len(wanted):
        raise LaunchError(f"argument '{p.name}' must have {len(wanted)} dimensions, got {len(shape)}")
    per = _held(p.dtype)[1] if str(array.dtype).endswith("uint8") else 1
    return (*(int(n) for n in shape[:-1]), int(shape[-1]) * per)


def check_array(param: LaunchParam, dtype: str | None, shape: Sequence[int] | None, contiguous: bool) -> None:
    """Raise LaunchError unless an array of this dtype and shape can stand for the parameter (None: not known)."""
    if not contiguous:
        raise LaunchError(f"argument '{param.name}' must be contiguous (C order)")
    wanted, per = _held(param.dtype)
    if wanted is not None and dtype is not None and dtype != wanted:
        packed = f" (two to a byte of {wanted})" if per > 1 else ""
        raise LaunchError(f"argument '{param.name}' has dtype {dtype}, the kernel takes {param.dtype}{packed}")
    if param.shape is not None and shape is not None and math.prod(shape) * per != math.prod(param.shape):
        raise LaunchError(f"argument '{param.name}' has shape {list(shape)}, the kernel takes {list(param.shape)}")


def bytes_of(p: LaunchParam) -> int:
    """Bytes of the array that a pointer is to, 0 if they aren't known; all sizes of the launch are integers."""
    if p.shape is None or p.dtype is None:
        return 0
    return math.prod(int(e) for e in p.shape if isinstance(e, int)) * dt.storage_bits(p.dtype) // 8


def _held(dtype: str | None) -> tuple[str | None, int]:
    """(dtype of the array in which elements are given, elements in each of its): 4-bit elements are packed."""
    if dtype is not None and dt.storage_bits(dtype) == 4:
        return "uint8", 2
    return ("float32" if dtype == "tfloat32" else dtype), 1


def pack(launch: Launch, values: dict[str, Any], encode: Callable[[TensorMap, int], bytes]) -> list[bytes]:
    """The bytes of every parameter, in order.

    ``values`` has device addresses (integers) for pointers and numbers for scalars; ``encode`` makes the 128 bytes of a
    tensor map at an address.  Raises LaunchError for a scalar that its type doesn't hold, or a map without its tensor.
    """
    packed = []
    for p in launch.params:
        if p.tensor_map is not None:
            base = values.get(p.tensor_map.tensor)
            if base is None:
                raise LaunchError(f"tensor map '{p.name}' is of '{p.tensor_map.tensor}', which is no argument")
            address = base + p.tensor_map.offset
            if address % p.tensor_map.alignment:
                unit = p.tensor_map.alignment
                raise LaunchError(f"'{p.tensor_map.tensor}' is at {address:#x}, not a multiple of {unit} bytes")
            packed.append(encode(p.tensor_map, address))
        elif p.kind == "pointer":
            packed.append(struct.pack("<Q", values[p.name]))
        elif p.kind == "scalar":
            packed.append(_scalar(p, values[p.name]))
        else:
            raise LaunchError(f"parameter '{p.name}' of {launch.entry} has no tensor map")
    return packed


def _scalar(p: LaunchParam, value: Any) -> bytes:
    if p.type not in _SCALARS:
        raise LaunchError(f"argument '{p.name}' is a scalar of type {p.type}, which can't be passed")
    number = float(value) if p.type.startswith("f") else int(value)
    try:
        return struct.pack("<" + _SCALARS[p.type], number)
    except (struct.error, OverflowError):
        raise LaunchError(f"argument '{p.name}' is {value}, which {p.type} doesn't hold") from None
