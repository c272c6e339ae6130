"""Reading layouts from TIRx notation, as ``script`` prints them and as people write them.

The text is parsed as a Python expression and interpreted node by node; nothing is evaluated as code.  Accepted::

    TileLayout(S[(128, 64) : (64, 1)] + R[2 : 64 @ TLane] + 5 @ TCol)      with any prefix: Tx., T., Axis.TLane …
    S[(128, 64) : (64, 1)]                                                  a bare spec is a tile
    SwizzleLayout(3, 3, 3)      ComposeLayout(3, 3, 3, TileLayout(...))     ComposeLayout(SwizzleLayout(...), ...)
    TileLayout.from_iters([(128, 64, "m"), Iter(64, 1)], replica=[], offset={"m": 3})
    mma_shared_layout("float16", "128B", (128, 64))    tmem_datapath_layout("D", 128, 64) …
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from ..errors import LayoutError, ParseError, Span
from . import hardware
from .axis import AXES, Axis, OnAxis
from .base import Layout
from .compose import ComposeLayout
from .notation import R, S, Spec
from .swizzle import SwizzleLayout
from .tile import Iter, TileLayout, default_layout

_CALLS: dict[str, Callable[..., Any]] = {
    "TileLayout": TileLayout,
    "SwizzleLayout": SwizzleLayout,
    "ComposeLayout": ComposeLayout,
    "Iter": Iter,
    "from_iters": TileLayout.from_iters,
    "default_layout": default_layout,
    "mma_shared_layout": hardware.mma_shared_layout,
    "mma_atom_layout": hardware.mma_atom_layout,
    "tmem_datapath_layout": hardware.tmem_datapath_layout,
    "tcgen05_atom_layout": hardware.tcgen05_atom_layout,
    "wg_local_layout": hardware.wg_local_layout,
    "scale_factor_layout": hardware.scale_factor_layout,
}

_DEEPEST = 200


def parse_layout(text: str) -> Layout:
    """The layout of a text in TIRx notation.

    ParseError with line and column for text outside the notation; LayoutError for a layout that breaks a rule.
    """
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line, column = getattr(error, "lineno", None) or 1, getattr(error, "offset", None) or 1
        raise ParseError(f"layout: {getattr(error, 'msg', error)}", span=_span(text, line, column)) from None
    found = _Reader(text.strip()).value(tree.body, 0)
    if isinstance(found, Spec):
        found = TileLayout(found)  # type: ignore[arg-type]
    if not isinstance(found, Layout):
        raise ParseError(f"layout: {found!r} isn't a layout", span=_span(text, 1, 1))
    return found


def _span(text: str, line: int, column: int) -> Span:
    lines = text.splitlines() or [""]
    return Span("<layout>", line, column, text=lines[min(line, len(lines)) - 1])


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text

    def fail(self, node: ast.AST, message: str) -> ParseError:
        return ParseError(
            f"layout: {message}", span=_span(self.text, getattr(node, "lineno", 1), getattr(node, "col_offset", 0) + 1)
        )

    def value(self, node: ast.expr, depth: int) -> Any:
        if depth > _DEEPEST:
            raise self.fail(node, "nested too deeply")
        deeper = depth + 1
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, str)):
            return node.value
        if isinstance(node, (ast.Tuple, ast.List)):
            return tuple(self.value(e, deeper) for e in node.elts)
        if isinstance(node, ast.Dict):
            if any(k is None for k in node.keys):
                raise self.fail(node, "'**' isn't allowed")
            return {self.value(k, deeper): self.value(v, deeper) for k, v in zip(node.keys, node.values) if k}
        if isinstance(node, (ast.Name, ast.Attribute)):
            return self.name(node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            inner = self.value(node.operand, deeper)
            if isinstance(inner, (int, OnAxis)):
                return -inner
        if isinstance(node, ast.BinOp):
            return self.binary(node, deeper)
        if isinstance(node, ast.Subscript):
            return self.subscript(node, deeper)
        if isinstance(node, ast.Call):
            return self.call(node, deeper)
        raise self.fail(node, f"{ast.unparse(node)!r} isn't part of the notation")

    def name(self, node: ast.Name | ast.Attribute) -> Any:
        last = node.id if isinstance(node, ast.Name) else node.attr
        if last in AXES:
            return Axis.get(last)
        if last in ("S", "R"):
            return S if last == "S" else R
        if last in hardware.SwizzleMode.__members__:
            return hardware.SwizzleMode[last]
        raise self.fail(node, f"unknown name '{ast.unparse(node)}'")

    def binary(self, node: ast.BinOp, depth: int) -> Any:
        a, b = self.value(node.left, depth), self.value(node.right, depth)
        numbers = isinstance(a, int) and isinstance(b, int)
        if isinstance(node.op, ast.MatMult) and isinstance(a, int) and isinstance(b, (Axis, str)):
            return OnAxis(a, Axis.get(b))
        if isinstance(node.op, ast.Add) and (isinstance(a, Spec) or numbers):
            return a + b
        if isinstance(node.op, ast.Sub) and isinstance(a, Spec) and isinstance(b, (int, OnAxis)):
            return a + -b
        if numbers and isinstance(node.op, ast.Sub):
            return a - b
        if numbers and isinstance(node.op, ast.Mult) and a.bit_length() + b.bit_length() < 256:
            return a * b
        if numbers and isinstance(node.op, ast.Pow) and 0 <= b < 256 and abs(a) < 256:
            return a**b
        raise self.fail(node, f"{ast.unparse(node)!r} has no meaning here")

    def subscript(self, node: ast.Subscript, depth: int) -> Any:
        builder = self.value(node.value, depth)
        if builder is not S and builder is not R:
            raise self.fail(node, "only S[...] and R[...] take brackets")
        key: Any
        if isinstance(node.slice, ast.Slice):
            if node.slice.lower is None or node.slice.upper is None or node.slice.step is not None:
                raise self.fail(node, "brackets take extents : strides")
            key = slice(self.value(node.slice.lower, depth), self.value(node.slice.upper, depth))
        else:
            key = self.value(node.slice, depth)
        return builder[key]

    def call(self, node: ast.Call, depth: int) -> Any:
        function = node.func
        if not isinstance(function, (ast.Name, ast.Attribute)):
            raise self.fail(node, "only the names of layouts can be called")
        name = function.id if isinstance(function, ast.Name) else function.attr
        if name not in _CALLS:
            raise self.fail(node, f"unknown layout constructor '{name}'")
        if any(isinstance(a, ast.Starred) for a in node.args) or any(k.arg is None for k in node.keywords):
            raise self.fail(node, "'*' isn't allowed")
        args = [self.value(a, depth) for a in node.args]
        keywords = {str(k.arg): self.value(k.value, depth) for k in node.keywords}
        try:
            return _CALLS[name](*args, **keywords)
        except TypeError as error:
            raise self.fail(node, str(error)) from None
        except LayoutError as error:
            raise error.at(_span(self.text, node.lineno, node.col_offset + 1)) from None
