"""Sizes that are known when a kernel is launched: integers, or neutral index terms over scalar parameters and array extents.

A kernel of symbolic shapes has such sizes in its grid and in its tensor maps.  The host works them out from the arguments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import LaunchError, TirxError
from ..ir.index import Term, check, evaluate, show

Extent = Term


def resolved(extent: Extent, values: Mapping[str, int], what: str) -> int:
    """The extent for these values of its names.  Raises LaunchError, with ``what`` it is, if one is missing or wrong."""
    if isinstance(extent, int):
        return extent
    try:
        return evaluate(extent, values)
    except TirxError as error:
        raise LaunchError(f"{what} {show(extent)}: {error.message}") from None


def known(extents: Sequence[Extent]) -> tuple[int, ...]:
    """Extents of which all are numbers by now; raises LaunchError for one that isn't."""
    return tuple(resolved(e, {}, "the extent") for e in extents)


def to_json(extent: Extent) -> Any:
    """Terms become nested lists."""
    return [to_json(e) for e in extent] if isinstance(extent, tuple) else extent


def from_json(data: Any) -> Extent:
    """The inverse of :func:`to_json`; raises ParseError for what isn't a term."""
    term = _tuples(data)
    check(term)
    return term


def _tuples(data: Any) -> Term:
    return tuple(_tuples(e) for e in data) if isinstance(data, Sequence) and not isinstance(data, str) else data
