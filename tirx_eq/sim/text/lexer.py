"""Tokens of PTX text, and literals (PTX ISA 4.2, 4.5)."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from tirx_eq.errors import ParseError, Span
from tirx_eq.sim.text.syntax import Imm

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\f\v]+|//[^\n]*|/\*.*?\*/)
      | (?P<newline>\n)
      | (?P<number>0[xX][0-9a-fA-F]+U?|0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|0[bB][01]+U?
          |\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\d+U?)
      | (?P<directive>\.[A-Za-z_]\w*(?:::\w+)*)
      | (?P<word>%?[A-Za-z_$%][\w$]*(?:(?:\.|::)[\w$]+)*)
      | (?P<string>"(?:[^"\\\n]|\\.)*")
      | (?P<punct>[{}\[\](),;:@!+\-|<>=*~])
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True)
class Token:
    kind: str
    text: str
    line: int
    column: int
    position: int = 0


def tokens(text: str, lines: list[str]) -> Iterator[Token]:
    position, line, start = 0, 1, 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            column = position - start + 1
            raise ParseError(f"PTX: character {text[position]!r} cannot start a token",
                             span=Span("<ptx>", line, column, text=lines[line - 1]))
        kind = match.lastgroup or ""
        value = match.group()
        if kind not in ("space", "newline"):
            yield Token(kind, value, line, position - start + 1, position)
        newlines = value.count("\n")
        if newlines:
            line += newlines
            start = position + value.rindex("\n") + 1
        position = match.end()
    yield Token("end", "end of file", line, max(1, position - start), position)


def number(text: str) -> Imm | None:
    """The value of a literal, or None if it is malformed."""
    text = text.rstrip("U")
    lower = text.lower()
    if lower.startswith("0f") and len(text) == 10:
        return Imm(int(text[2:], 16), "f32")
    if lower.startswith("0d") and len(text) == 18:
        return Imm(int(text[2:], 16), "f64")
    if lower.startswith("0x"):
        return Imm(int(text, 16))
    if lower.startswith("0b"):
        return Imm(int(text, 2))
    if "." in text or "e" in lower:
        return Imm(struct.unpack("<Q", struct.pack("<d", float(text)))[0], "f64")
    if len(text) > 1 and text[0] == "0":
        return Imm(int(text, 8)) if set(text) <= set("01234567") else None
    return Imm(int(text)) if text.isdigit() and len(text) < 40 else None
