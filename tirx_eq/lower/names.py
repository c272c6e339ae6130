"""Names in PTX: those that the user gave must be names there, those that the compiler gives are none of them."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from ..errors import LoweringError
from ..ir import PrimFunc

#: PTX ISA 4.4 (identifiers), and the constant that it defines (4.5.6).
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_$]*|[_$%][A-Za-z0-9_$]+")
_PREDEFINED = frozenset(("WARP_SZ",))


def parameter_names(func: PrimFunc) -> list[str]:
    """What the parameters are called: an array by its buffer."""
    return [func.buffer_map[v].name if v in func.buffer_map else v.name for v in func.params]


def check_names(func: PrimFunc, extents: Sequence[str]) -> None:
    """Raise LoweringError if the kernel, a parameter or an extent has a name that PTX hasn't, or two of them have the same."""
    seen: dict[str, str] = {}
    others = [*((n, "a parameter") for n in parameter_names(func)), *((n, "an extent") for n in extents)]
    for name, what in [(func.name, "the kernel"), *others]:
        if name in seen:
            both = f"two {what.split()[1]}s are" if seen[name] == what else f"{seen[name]} and {what} are both"
            raise LoweringError(f"{both} called '{name}'", hint="in PTX names are used once: rename one", span=func.span)
        if not _IDENTIFIER.fullmatch(name) or name in _PREDEFINED:
            raise LoweringError(
                f"{what} is called '{name}', which is no name in PTX",
                hint="use letters a to z and A to Z, digits and underscores; not WARP_SZ, nor _ alone", span=func.span,
            )
        seen[name] = what


def fresh(name: str, taken: Collection[str]) -> str:
    """``name``, with a number at its end if it is taken."""
    made, count = name, 1
    while made in taken:
        made, count = f"{name}_{count}", count + 1
    return made
