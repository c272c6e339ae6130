"""Layouts from text in any of the notations, told apart by a prefix, and back.

``tirx:`` (or none) TIRx notation · ``json:`` (or ``{``) the specification form · ``cute:`` CuTe by coordinates ·
``cute-flat:`` CuTe's one-dimensional index · ``triton:`` linear bases · ``isl:`` integer relations.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from ..errors import InteropError, ParseError
from ..layout import Layout, from_json
from ..layout.text import parse_layout
from .cute import from_cute, to_cute
from .isl import from_isl, to_isl
from .triton import from_triton, to_triton


def _json(text: str) -> Layout:
    try:
        return from_json(json.loads(text))
    except ValueError as error:
        raise ParseError(f"layout: not JSON: {error}") from None


READERS: dict[str, Callable[[str], Layout]] = {
    "tirx": parse_layout,
    "json": _json,
    "cute": from_cute,
    "cute-flat": lambda text: from_cute(text, flat=True),
    "triton": from_triton,
    "isl": from_isl,
}

WRITERS: dict[str, Callable[[Layout, Sequence[int] | None], str]] = {
    "tirx": lambda layout, shape: layout.script(prefix=""),
    "json": lambda layout, shape: json.dumps(layout.to_json()),
    "cute": to_cute,
    "triton": lambda layout, shape: json.dumps(to_triton(layout, shape or [int(layout.size())])),  # type: ignore[arg-type]
    "isl": to_isl,
}


def read_layout(text: str) -> Layout:
    """The layout of a text with or without a prefix; ParseError, InteropError or LayoutError say what is wrong."""
    head, colon, rest = text.strip().partition(":")
    if colon and head in READERS:
        return READERS[head](rest)
    if text.lstrip().startswith("{"):
        return _json(text)
    return parse_layout(text)


def write_layout(layout: Layout, notation: str = "tirx", shape: Sequence[int] | None = None) -> str:
    """The text of a layout, without prefix; ``shape`` gives the coordinates of cute, triton and isl."""
    if notation not in WRITERS:
        raise InteropError(f"unknown notation '{notation}'", hint=f"one of {', '.join(WRITERS)}")
    return WRITERS[notation](layout, shape)
