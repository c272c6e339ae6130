"""Triton's linear layouts: bases per hardware dimension, in and out.

Triton maps hardware to tensor: each bit of register, lane, warp (or offset, in shared memory) adds, over GF(2), its basis
to the tensor coordinate.  Ours maps an element to its places, so one is the inverse of the other: hardware bits without
effect are copies, and every hardware bit must reach the tensor or be such a copy.

Text in either form: JSON ``{"register": [[0, 1], …], "lane": …, "warp": …}`` with ``"shape"`` beside it or not, or what
Triton prints (``- register=1 -> (0, 1)`` lines and ``where out dims are: [dim0 (size 32), …]``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import InteropError, ParseError
from ..layout import Layout
from ..layout.linear import LinearMap, from_linear, reduce_by, to_linear
from ..layout.value import is_power_of_two, product_int

#: Triton's hardware dimension -> our axis
AXIS_OF = {"register": "m", "offset": "m", "lane": "laneid", "warp": "warpid", "block": "cbx"}
_NAME_OF = {"m": "register", "laneid": "lane", "warpid": "warp", "cbx": "block"}

Bases = Mapping[str, Sequence[Sequence[int]]]


def from_triton(text_or_bases: str | Bases, shape: Sequence[int] | None = None) -> Layout:
    """The layout with these bases over a tensor of ``shape`` (default: as the text says, or the smallest that holds them).

    InteropError if the bases don't reach every element, or the inverse isn't a swizzle over a tile; ParseError for text.
    """
    bases, found = (_read(text_or_bases) if isinstance(text_or_bases, str) else (dict(text_or_bases), None))
    rank = max((len(v) for vectors in bases.values() for v in vectors), default=len(shape or ()))
    dims = list(shape or found or [])
    if not dims:
        dims = [2 ** max([0, *(v[d].bit_length() for b in bases.values() for v in b)]) for d in range(rank)]
    if len(dims) != rank and any(bases.values()):
        raise InteropError(f"triton: bases of {rank} dimensions for a tensor of {len(dims)}")
    for d, extent in enumerate(dims):
        if not is_power_of_two(extent):
            raise InteropError(f"triton: dimension {d} has the extent {extent}, not a power of two")
    count = product_int(dims).bit_length() - 1
    axes = tuple(sorted({_axis(name) for name in bases}))
    place = {a: k for k, a in enumerate(axes)}
    pairs: list[int] = []  # reached index in the high bits, hardware bits in the low ones
    hardware: list[tuple[str, int]] = []
    for name, vectors in bases.items():
        for bit, basis_vector in enumerate(vectors):
            hardware.append((_axis(name), bit))
            pairs.append(_flat(basis_vector, dims) << 64 | 1 << (len(hardware) - 1))
    if len(hardware) > 64:
        raise InteropError(f"triton: {len(hardware)} hardware bits; at most 64 can be read")
    basis: list[int] = []
    kernel: list[int] = []
    for v in pairs:
        v = reduce_by(basis, v)
        if v >> 64:
            lead = v.bit_length() - 1
            basis = sorted([b ^ v if b >> lead & 1 else b for b in basis] + [v], reverse=True)
        else:
            kernel.append(v)
    inverse = {b.bit_length() - 65: b & ((1 << 64) - 1) for b in basis}
    missing = [i for i in range(count) if i not in inverse]
    if missing:
        raise InteropError(f"triton: no hardware bit reaches bit {missing[0]} of the tensor's flat index")

    def vector(mask: int) -> tuple[int, ...]:
        out = [0] * len(axes)
        for k, (axis, bit) in enumerate(hardware):
            if mask >> k & 1:
                out[place[axis]] ^= 1 << bit
        return tuple(out)

    linear = LinearMap(
        axes, (0,) * len(axes), tuple(vector(inverse[i]) for i in range(count)), tuple(vector(v) for v in kernel)
    )
    return from_linear(linear.normal())


def _axis(name: str) -> str:
    if name not in AXIS_OF:
        raise InteropError(f"triton: unknown hardware dimension '{name}'", hint=f"one of {', '.join(AXIS_OF)}")
    return AXIS_OF[name]


def _flat(vector: Sequence[int], dims: Sequence[int]) -> int:
    flat = 0
    for v, extent in zip(vector, dims):
        if not 0 <= v < extent:
            raise InteropError(f"triton: the basis {tuple(vector)} isn't in a tensor of {tuple(dims)}")
        flat = flat * extent + v
    return flat


def to_triton(layout: Layout, shape: Sequence[int], *, memory: str = "register") -> dict[str, list[list[int]]]:
    """Bases of the inverse of a layout over ``shape``; ``memory`` names axis m (``register`` or ``offset``).

    InteropError if the layout isn't an affine map without offset, has coordinates that no element has, or puts two
    elements in one place; LayoutError if it has no linear form.
    """
    for d, extent in enumerate(shape):
        if not is_power_of_two(extent):
            raise InteropError(f"triton: dimension {d} has the extent {extent}, not a power of two")
    linear = to_linear(layout, product_int(shape))
    if 1 << linear.bits != product_int(shape):
        raise InteropError(f"triton: a shape of {product_int(shape)} elements for a layout of {1 << linear.bits}")
    if any(linear.offset):
        raise InteropError(f"triton: the layout's offset {dict(zip(linear.axes, linear.offset))} can't be written")
    vectors = [*linear.columns, *linear.free]
    if any(v < 0 for c in vectors for v in c):
        raise InteropError("triton: the layout has negative strides")
    widths = [max(v.bit_length() for v in column) if column else 0 for column in zip(*vectors)] if vectors else []
    starts = [sum(widths[:k]) for k in range(len(widths))]
    total = sum(widths)
    basis: list[int] = []
    for i, c in enumerate(vectors):
        flat = sum(v << s for v, s in zip(c, starts))
        tag = 1 << i if i < linear.bits else 0
        v = reduce_by(basis, flat << 64 | tag)
        if not v >> 64:
            raise InteropError("triton: two elements share a place")
        lead = v.bit_length() - 1
        basis = sorted([b ^ v if b >> lead & 1 else b for b in basis] + [v], reverse=True)
    inverse = {b.bit_length() - 65: b & ((1 << 64) - 1) for b in basis}
    out: dict[str, list[list[int]]] = {}
    for axis, width, start in zip(linear.axes, widths, starts):
        name = memory if axis == "m" else _NAME_OF.get(axis)
        if name is None:
            raise InteropError(f"triton: axis {axis} has no hardware dimension there")
        rows = []
        for bit in range(width):
            if start + bit not in inverse:
                raise InteropError(f"triton: bit {bit} of {axis} is set for no element")
            rows.append(_coordinate(inverse[start + bit], shape))
        out[name] = rows
    assert total == len(inverse)
    return out


def _coordinate(flat: int, shape: Sequence[int]) -> list[int]:
    out: list[int] = []
    for extent in reversed(shape):
        flat, c = divmod(flat, extent)
        out.append(c)
    return out[::-1]


_LINE = re.compile(r"^\s*-?\s*(\w+)\s*=\s*(\d+)\s*->\s*\(([^)]*)\)\s*$")
_NONE = re.compile(r"^\s*-?\s*(\w+) is a size 1 dimension\s*$")
_DIMS = re.compile(r"(\w+)\s*\(size (\d+)\)")


def _read(text: str) -> tuple[dict[str, list[list[int]]], list[int] | None]:
    if text.lstrip().startswith("{"):
        try:
            data: Any = json.loads(text)
        except ValueError as error:
            raise ParseError(f"triton: not JSON: {error}") from None
        shape = data.pop("shape", None)
        bases = data.get("bases", data)
        for name, vectors in bases.items():
            if not isinstance(vectors, list) or not all(
                isinstance(v, list) and all(isinstance(x, int) for x in v) for v in vectors
            ):
                raise ParseError(f"triton: the bases of '{name}' must be lists of integers")
        return bases, shape
    bases = {}
    dims: list[int] | None = None
    for line in text.strip().splitlines():
        if found := _LINE.match(line):
            name, power, vector = found.groups()
            rows = bases.setdefault(name, [])
            if int(power) != 1 << len(rows):
                raise ParseError(f"triton: '{line.strip()}' should be for {name}={1 << len(rows)}")
            rows.append([int(v) for v in vector.split(",") if v.strip()])
        elif found := _NONE.match(line):
            bases.setdefault(found.group(1), [])
        elif "out dims" in line:
            dims = [int(size) for _, size in _DIMS.findall(line)]
        elif line.strip():
            raise ParseError(f"triton: can't read the line '{line.strip()}'")
    return bases, dims
