"""A picture of an e-graph for rule authors: one box per class with all its nodes, the chosen ones marked.

``page(terms, ranges)`` gives a self-contained HTML page with an SVG; hovering over a box shows what the analyses know of
the class.  Only classes that the chosen terms or their alternatives need are drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from ..ir.index import Ranges, Term, show, variables_checked
from . import encode
from .cost import DEFAULT, CostTable
from .engine import ENode, Graph
from .extract import NodeCost, greedy
from .saturation import DEFAULT_BUDGET, Budget, saturate

_FACTS = ("lo", "hi", "al", "kz", "ko")
_BOLD = " font-weight='bold'"
_LINE, _CHAR, _GAP_X, _GAP_Y, _MOST = 16, 7.4, 24, 46, 8


def page(
    terms: Sequence[Term], ranges: Ranges, *, budget: Budget = DEFAULT_BUDGET, table: CostTable = DEFAULT
) -> str:
    """HTML page with the e-graph of ``terms`` after saturation.  Errors as for ``simplify_all``."""
    variables_checked(terms, ranges)
    encoder = encode.Encoder()
    roots = [encoder.add_term(t, ranges) for t in terms]
    done = saturate(encoder, roots, budget, tables=_FACTS)
    classes: dict[int, int] = dict(done.graph.tables["root"])
    svg = draw(done.graph, list(classes.values()), table)
    title = escape("; ".join(show(t, limit=200) for t in terms))
    rules = escape(", ".join(done.fired))
    return (
        f"<!doctype html><meta charset='utf-8'><title>{title}</title><body style='font:14px sans-serif'>"
        f"<p><code>{title}</code></p>{svg}<p>rules that fired: {rules}</p>"
    )


def draw(graph: Graph, roots: Sequence[int], table: CostTable = DEFAULT) -> str:
    """SVG of the classes below ``roots``: layers by depth of the chosen terms, chosen nodes in bold with solid edges."""

    def price(op: str, args: tuple[object, ...]) -> int:
        return encode.node_cost(op, args, table)

    choice = greedy(graph.classes, price)
    depth: dict[int, int] = {}
    stack = [(r, 0) for r in roots]
    while stack:
        c, d = stack.pop()
        if depth.get(c, -1) < d:
            depth[c] = d
            stack.extend((k, d + 1) for k in choice.node[c].children)
    facts = _facts(graph)
    layers: dict[int, list[int]] = {}
    for c in sorted(depth):
        layers.setdefault(depth[c], []).append(c)
    boxes: dict[int, tuple[float, float, float, float]] = {}
    parts: list[str] = []
    y = 10.0
    width = 0.0
    for d in sorted(layers):
        x, tallest = 10.0, 0.0
        for c in layers[d]:
            lines = _lines(graph.classes[c], choice.node[c], price)
            w = _CHAR * max(len(t) for t, _ in lines) + 14
            h = _LINE * len(lines) + 8.0
            boxes[c] = (x, y, w, h)
            hover = escape(f"class {c}: " + ", ".join(f"{k} {v}" for k, v in facts.get(c, {}).items()))
            texts = "".join(
                f"<text x='{x + 7:.0f}' y='{y + 16 + _LINE * i:.0f}'{_BOLD if bold else ''}>{escape(t)}</text>"
                for i, (t, bold) in enumerate(lines)
            )
            parts.append(
                f"<g><title>{hover}</title><rect x='{x:.0f}' y='{y:.0f}' width='{w:.0f}' height='{h:.0f}' rx='4' "
                f"fill='#f6f8fa' stroke='#57606a'/>{texts}</g>"
            )
            x += w + _GAP_X
            tallest = max(tallest, h)
        width = max(width, x)
        y += tallest + _GAP_Y
    edges = []
    for c, (x, top, w, h) in boxes.items():
        for k in dict.fromkeys(choice.node[c].children):
            kx, ky, kw, _ = boxes[k]
            edges.append(
                f"<line x1='{x + w / 2:.0f}' y1='{top + h:.0f}' x2='{kx + kw / 2:.0f}' y2='{ky:.0f}' stroke='#0969da'/>"
            )
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width:.0f}' height='{y:.0f}' font-family='monospace' "
        f"font-size='12'>{''.join(edges)}{''.join(parts)}</svg>"
    )


def _lines(nodes: Sequence[ENode], chosen: ENode, price: NodeCost) -> list[tuple[str, bool]]:
    def text(n: ENode) -> str:
        args = " ".join(f"#{a}" if inner else str(a) for a, inner in zip(n.args, n.inner))
        return f"{price(n.op, n.args):>3}  {n.op} {args}"

    others = sorted({text(n) for n in nodes if n is not chosen})
    lines = [(text(chosen), True), *[(t, False) for t in others[: _MOST - 1]]]
    if len(others) >= _MOST:
        lines.append((f"     … {len(others) - _MOST + 1} more", False))
    return lines


def _facts(graph: Graph) -> dict[int, dict[str, int]]:
    out: dict[int, dict[str, int]] = {}
    for name in _FACTS:
        for row in graph.tables.get(name, ()):
            out.setdefault(row[0], {})[name] = row[1]
    return out
