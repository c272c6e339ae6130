"""CuTe layouts as text: ``shape:stride``, nested, with an optional swizzle in front.

``(8,(4,2)):(1,(8,32))``, ``Sw<3,4,3> o 0 o (8,64):(64,1)``.  In CuTe the first mode of a nested shape is the fastest.

Two readings of one text, and both are asked for in practice:

* *by coordinates* (default): each top-level mode is a dimension of the buffer, so ``(128,64):(64,1)`` is the row-major
  128 x 64 buffer, equal to ``TileLayout(S[(128, 64) : (64, 1)])``; within a mode the first sub-mode is fastest;
* *flat*: the function of CuTe's one-dimensional index, the first mode fastest; what composition and coalescing are about.

``Swizzle<B, M, S>`` XORs address bits [M+S, M+S+B) into [M, M+B): ``SwizzleLayout(M, B, S)``; a negative S is the outer
kind.  Its numbers count in the units of the layout's addresses (elements of an element layout, bytes of a byte layout).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ..errors import InteropError, LayoutError, ParseError, Span
from ..layout import ComposeLayout, Iter, Layout, SwizzleLayout, TileLayout
from ..layout.grouping import group
from ..layout.normal import fuse_shard

_SWIZZLE = re.compile(r"S(?:w|wizzle)?\s*<\s*(-?\d+)\s*,\s*(-?\d+)\s*,\s*(-?\d+)\s*>\s*")
_THEN = re.compile(r"\s*(?:o|∘)\s*")
_POINTER = re.compile(r"smem_ptr\[\d+b\]\([^)]*\)")
_TOKEN = re.compile(r"\s*(?:(_?-?\d+)|([(),:]))")
_DEEPEST = 50

Nested = Any
"""An int, or a tuple of such."""


def from_cute(text: str, *, flat: bool = False) -> Layout:
    """The layout of a CuTe text; see the module text for ``flat``.

    ParseError with the column for malformed text; InteropError for what has no counterpart (strides on a basis).
    """
    rest = text.strip()
    swizzle: SwizzleLayout | None = None
    offset = 0
    if found := _SWIZZLE.match(rest):
        bits, base, shift = (int(g) for g in found.groups())
        if base < 0 or bits < 0:
            raise ParseError(f"cute: Swizzle<{bits},{base},{shift}> needs B and M of at least 0")
        swizzle = SwizzleLayout(base, bits, abs(shift), shift >= 0)
        rest = rest[found.end() :]
        rest = rest[then.end() :] if (then := _THEN.match(rest)) else rest
        for part in (_POINTER, re.compile(r"-?\d+(?=\s*(?:o|∘))")):
            if at := part.match(rest):
                offset = 0 if part is _POINTER else int(at.group())
                rest = rest[at.end() :]
                rest = rest[then.end() :] if (then := _THEN.match(rest)) else rest
    shape, stride = _shape_and_stride(rest, text)
    modes = _modes(shape, stride, text)
    if flat:
        iters = [leaf for mode in modes for leaf in mode][::-1]
    else:
        iters = [leaf for mode in modes for leaf in reversed(mode)]
    tile = TileLayout.from_iters(iters, [], {"m": offset} if offset else {})
    return tile if swizzle is None else ComposeLayout(swizzle, tile)


def cute_shape(text: str) -> tuple[int, ...]:
    """The extents of the top-level modes of a CuTe text: the buffer's shape in the reading by coordinates."""
    layout_text = text.strip()
    while found := re.match(r".*?\b(?:o|∘)\s+(?=[(\d_])", layout_text):
        layout_text = layout_text[found.end() :]
    shape, _ = _shape_and_stride(layout_text, text)
    modes = shape if isinstance(shape, tuple) else (shape,)
    return tuple(_product(m) for m in modes)


def _product(nested: Nested) -> int:
    if isinstance(nested, int):
        return nested
    total = 1
    for part in nested:
        total *= _product(part)
    return total


def _shape_and_stride(text: str, whole: str) -> tuple[Nested, Nested]:
    tokens: list[tuple[str, int]] = []
    at = 0
    while at < len(text.rstrip()):
        found = _TOKEN.match(text, at)
        if not found:
            if "@" in text[at:] or "E<" in text[at:]:
                raise InteropError("cute: strides on a basis (E<...>, n@k) have no counterpart here")
            raise _wrong(whole, whole.find(text) + at, f"unexpected '{text[at]}'")
        tokens.append((found.group(1) or found.group(2), found.start(1 if found.group(1) else 2)))
        at = found.end()

    place = 0

    def take(wanted: str | None = None) -> str:
        nonlocal place
        token, column = tokens[place] if place < len(tokens) else ("", len(text))
        if token == "" or (wanted is not None and token != wanted):
            raise _wrong(whole, whole.find(text) + column, f"expected {wanted or 'a number'}, got '{token or 'the end'}'")
        place += 1
        return token

    def nested(depth: int) -> Nested:
        if depth > _DEEPEST:
            raise _wrong(whole, 0, "nested too deeply")
        if place < len(tokens) and tokens[place][0] == "(":
            take("(")
            parts = [nested(depth + 1)]
            while tokens[place][0] == "," if place < len(tokens) else False:
                take(",")
                if place < len(tokens) and tokens[place][0] == ")":
                    break
                parts.append(nested(depth + 1))
            take(")")
            return tuple(parts)
        token = take()
        if not re.fullmatch(r"_?-?\d+", token):
            raise _wrong(whole, whole.find(text) + tokens[place - 1][1], f"expected a number, got '{token}'")
        return int(token.lstrip("_"))

    shape = nested(0)
    take(":")
    stride = nested(0)
    if place != len(tokens):
        raise _wrong(whole, whole.find(text) + tokens[place][1], f"'{tokens[place][0]}' after the layout")
    return shape, stride


def _wrong(text: str, column: int, message: str) -> ParseError:
    return ParseError(f"cute: {message}", span=Span("<cute>", 1, max(0, column) + 1, text=text))


def _modes(shape: Nested, stride: Nested, text: str) -> list[list[tuple[int, int, str]]]:
    """Leaves of each top-level mode, fastest first."""
    if isinstance(shape, tuple) != isinstance(stride, tuple) or (
        isinstance(shape, tuple) and len(shape) != len(stride)
    ):
        raise ParseError(f"cute: shape and stride don't have the same form in '{text}'")
    tops = zip(shape, stride) if isinstance(shape, tuple) else [(shape, stride)]
    return [_leaves(e, s, text) for e, s in tops]


def _leaves(shape: Nested, stride: Nested, text: str) -> list[tuple[int, int, str]]:
    if isinstance(shape, int) and isinstance(stride, int):
        if shape < 1:
            raise ParseError(f"cute: an extent of {shape} in '{text}'")
        return [(shape, stride, "m")]
    if isinstance(shape, int) or isinstance(stride, int) or len(shape) != len(stride):
        raise ParseError(f"cute: shape and stride don't have the same form in '{text}'")
    return [leaf for e, s in zip(shape, stride) for leaf in _leaves(e, s, text)]


def to_cute(layout: Layout, shape: Sequence[int] | None = None) -> str:
    """CuTe text of a layout, by coordinates over ``shape`` (default: its shard iters as modes).

    InteropError for what CuTe can't say: other axes than m, copies, an offset without a swizzle, symbolic values.
    """
    swizzle: SwizzleLayout | None = None
    if isinstance(layout, SwizzleLayout):
        swizzle, tile = layout, TileLayout((Iter(layout.period, 1),))
        if shape is not None:
            from ..layout import default_layout

            tile = default_layout(shape)
    elif isinstance(layout, ComposeLayout):
        swizzle, tile = layout.swizzle, layout.tile
    else:
        assert isinstance(layout, TileLayout)
        tile = layout
    if not tile.is_constant() or set(tile.axes()) - {"m"} or any(i.extent != 1 for i in tile.replica):
        raise InteropError("cute: only layouts of numbers on axis m without copies can be written")
    offset = int(next(iter(tile.offset.values()), 0))  # type: ignore[arg-type]
    if offset and swizzle is None:
        raise InteropError("cute: an offset can be written only under a swizzle")
    if shape is None:
        modes = [[i] for i in tile.shard] or [[Iter(1, 0)]]
    else:
        try:
            made, seps = group(TileLayout(fuse_shard(tile.shard)), list(shape))
        except LayoutError as error:
            raise InteropError(f"cute: {error.message}") from None
        modes = [list(made.shard[a:b]) for a, b in zip(seps, seps[1:])]  # noqa: RUF007

    def written(values: list[list[int]]) -> str:
        parts = [str(v[0]) if len(v) == 1 else f"({','.join(map(str, v))})" for v in values]
        return parts[0] if len(values) == len(values[0]) == 1 else f"({','.join(parts)})"

    extents = [[int(i.extent) for i in reversed(mode)] for mode in modes]  # type: ignore[arg-type]
    strides = [[int(i.stride) for i in reversed(mode)] for mode in modes]  # type: ignore[arg-type]
    text = f"{written(extents)}:{written(strides)}"
    if swizzle is None:
        return text
    sign = 1 if swizzle.swizzle_inner else -1
    return f"Sw<{swizzle.swizzle_len},{swizzle.per_element},{sign * swizzle.atom_len}> o {offset} o {text}"
