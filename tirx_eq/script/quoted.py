"""Expressions in strings, and copies of AST nodes at another place."""

from __future__ import annotations

import ast
from copy import deepcopy

from .evaluator import Evaluator


def as_load(node: ast.expr) -> ast.expr:
    """A target of an assignment as an expression that reads it."""
    made = ast.parse(ast.unparse(node), mode="eval").body
    for part in ast.walk(made):
        ast.copy_location(part, node)
    return made


def quoted(node: ast.Constant, parser: Evaluator) -> ast.expr:
    """The expression that a string constant holds."""
    try:
        made = ast.parse(str(node.value), mode="eval").body
    except SyntaxError as e:
        raise parser.fail(node, f"{node.value!r} is not an expression: {e.msg}") from None
    for part in ast.walk(made):
        ast.copy_location(part, node)
    return made


def quoted_names(node: ast.expr, parser: Evaluator) -> list[str]:
    """Names in the strings of a shape."""
    names: list[str] = []
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            names += [n.id for n in ast.walk(quoted(part, parser)) if isinstance(n, ast.Name)]
    return names


class _Unquote(ast.NodeTransformer):
    def __init__(self, parser: Evaluator) -> None:
        self.parser = parser

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        return quoted(node, self.parser) if isinstance(node.value, str) else node


def unquote_shape(node: ast.Call, parser: Evaluator) -> ast.Call:
    """A call of Tx.Buffer with the strings of its shape as expressions."""
    made = deepcopy(node)
    change = _Unquote(parser)
    made.args[:1] = [change.visit(a) for a in made.args[:1]]
    for k in made.keywords:
        if k.arg == "shape":
            k.value = change.visit(k.value)
    return made
