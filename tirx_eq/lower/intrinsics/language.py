"""The little language of templates: PTX with the arguments of an intrinsic in it.

A template is one instruction or several, separated by ``;``.  Each is an opcode and its operands, separated by blanks;
``@%p`` or ``@!%p`` before the opcode guards it.  What kind of operand a place takes, of which type, and which operands stand in
braces, the instruction table knows (:mod:`tirx_eq.ptx.table`); so operands are listed flat, and a template says only what they
are made of:

=================  ==============================================================================================
``name``           the argument of that name; ``*name`` all of a variadic one; ``name?`` is left out if it is absent,
                   ``name?flag`` unless the argument ``flag`` holds
``[name]``         the memory at the address that the argument is; ``[name@rank]`` the same in that CTA of the cluster,
                   ``[name+8]`` that many bytes further
``^name``          what lies where the argument points to (``^*name`` for each of a variadic one)
``&name``          the argument's address itself, as a number
``%t``, ``%t:b32`` a register of the template's own, of the type of the place where it is written first; ``%d`` is the result
``<reg>``          the special register that the argument names, ``<tid.x>`` that one
``_``              a result that isn't wanted; numbers are immediates
=================  ==============================================================================================

In an opcode ``{name}`` stands for a constant argument; ``{.name}`` for ``.value``, nothing where it is empty, absent, 0 or -1,
and for ``.name`` where it is 1 (a flag); ``{.name:text}`` for ``.text`` where it isn't nothing, ``$`` in it for the value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from ...errors import LoweringError
from ...ir import FloatImm, IntImm, StringImm

#: Arguments of a call by name: expressions, constants, tuples of expressions for variadic ones, None where absent.
Arguments = Mapping[str, Any]


@dataclass(frozen=True)
class Template:
    """One way to write an intrinsic: used where ``when`` holds, a list of ``name`` (given and neither empty nor 0),
    ``!name`` (not so), ``name?`` (given at all) and ``name=value``.

    ``derive`` adds arguments that others determine.
    """

    text: str | Callable[[Arguments], str]
    when: str = ""
    derive: Callable[[Arguments], Arguments] | None = None

    def lines(self, given: Arguments) -> tuple[Line, ...]:
        """The instructions."""
        return parse(self.text if isinstance(self.text, str) else self.text(given))


@dataclass(frozen=True)
class Line:
    """One instruction of a template."""

    opcode: str
    operands: tuple[str, ...]
    guard: str = ""


@cache
def parse(text: str) -> tuple[Line, ...]:
    """The instructions of a template's text."""
    lines = []
    for part in filter(None, (p.strip() for p in text.split(";"))):
        words = part.split()
        guard = words.pop(0)[1:] if words[0].startswith("@") else ""
        lines.append(Line(words[0], tuple(words[1:]), guard))
    return tuple(lines)


def constant(e: Any) -> int | str | float | None:
    """The compile-time value of an argument, or None."""
    if isinstance(e, (IntImm, StringImm, FloatImm)):
        return e.value
    return e if isinstance(e, (int, str, float)) else None


def holds(condition: str, given: Arguments) -> bool:
    """Whether the ``when`` of a template holds."""
    for part in condition.split():
        name, _, wanted = part.partition("=")
        value = given.get(name.strip("!?"))
        known = constant(value)
        if wanted:
            holding = str(int(known) if isinstance(known, bool) else known) == wanted
        elif name.endswith("?"):
            holding = value is not None
        else:
            holding = value is not None and known not in ("", 0, False)
        if holding == name.startswith("!"):
            return False
    return True


def choose(templates: tuple[Template, ...], given: Arguments) -> Template | None:
    """The first template whose condition holds."""
    return next((t for t in templates if holds(t.when, given)), None)


_FIELD = re.compile(r"\{(\.?)(\w+)(?::([^}]*))?\}")


def opcode(text: str, what: str, given: Arguments) -> str:
    """The opcode with its fields filled in; raises LoweringError if an argument that it needs isn't constant."""

    def fill(match: re.Match[str]) -> str:
        dot, name, written = match[1], match[2], match[3]
        value = constant(given.get(name))
        if value is None and (not dot or given.get(name) is not None):
            raise LoweringError(f"argument '{name}' of '{what}' must be constant")
        if not dot:
            return str(value)
        if value in (None, "", 0, -1):
            return ""
        if written:
            return "." + written.replace("$", str(value))
        return f".{name}" if value == 1 else f".{value}"

    return _FIELD.sub(fill, text)
