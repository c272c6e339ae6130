"""Source text: where a function stands in a file, and the places of its AST nodes."""

from __future__ import annotations

import ast
import linecache
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from ..errors import ParseError, Span


@dataclass(frozen=True)
class Source:
    """The text of a file (or of a string) and its AST; nodes of it know their line and column in the file."""

    file: str
    text: str
    tree: ast.Module
    lines: tuple[str, ...] = field(repr=False, default=())

    def span(self, node: Any) -> Span | None:
        """The place of an AST node; columns count characters from 1."""
        line = getattr(node, "lineno", None)
        if line is None:
            return None
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        column = _characters(text, node.col_offset)
        end = None
        if getattr(node, "end_lineno", None) == line and node.end_col_offset is not None:
            end = _characters(text, node.end_col_offset) + 1
        return Span(self.file, line, column + 1, end, text)


def _characters(line: str, offset: int) -> int:
    """Characters before a byte offset; the AST counts bytes of UTF-8."""
    return offset if line.isascii() else len(line.encode()[:offset].decode(errors="replace"))


@lru_cache(maxsize=64)
def read_source(text: str, file: str = "<script>") -> Source:
    """Parse Python source text.  Raises ParseError with the place of a syntax error."""
    lines = tuple(text.splitlines())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # the text is the user's; what is wrong in it is an error
            tree = ast.parse(text, file)
    except SyntaxError as e:
        raise syntax_error(e, file, lines) from None
    except (ValueError, RecursionError, MemoryError) as e:
        raise ParseError(f"the source can't be parsed: {e}", span=Span(file, 1, 1)) from None
    return Source(file, text, tree, lines)


def syntax_error(e: SyntaxError, file: str, lines: tuple[str, ...]) -> ParseError:
    """A SyntaxError of Python as a ParseError at its place."""
    line = e.lineno or 1
    text = lines[line - 1] if line <= len(lines) else (e.text or "").rstrip("\n")
    column = max(1, e.offset or 1)
    end = e.end_offset if e.end_lineno == line and e.end_offset and e.end_offset > column else None
    return ParseError(f"syntax error: {e.msg}", span=Span(e.filename or file, line, column, end, text))


def source_of(func: Callable[..., Any]) -> tuple[Source, ast.FunctionDef]:
    """The source of a Python function and its definition in it.

    Raises ParseError if the source isn't at hand (a function typed at a bare prompt, or built by exec).
    """
    code = getattr(func, "__code__", None)
    if code is None:
        raise ParseError(f"{func!r} is not a Python function, so there is no source to read")
    linecache.checkcache(code.co_filename)
    text = "".join(linecache.getlines(code.co_filename, getattr(func, "__globals__", None)))
    if not text:
        raise ParseError(
            f"the source of '{func.__name__}' ({code.co_filename}) can't be read",
            hint="put the function in a file, or use tirx_eq.script.parse_source(text)",
        )
    source = read_source(text, code.co_filename)
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if first == code.co_firstlineno:
                return source, node
    raise ParseError(f"'{code.co_name}' isn't at line {code.co_firstlineno} of {code.co_filename} any more")
