"""An audit as text, and several as one HTML file with pictures."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from ..errors import TirxError
from .findings import Audit, Finding

_COLOURS = {"error": "#b00020", "warning": "#a06000", "hint": "#205080"}
_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 70em; color: #222 }
table { border-collapse: collapse; margin: 1em 0 } td, th { padding: .25em .8em; text-align: left; vertical-align: top }
tr { border-bottom: 1px solid #ddd } code { background: #f3f3f3; padding: 0 .25em } details { margin: .4em 0 }
svg { max-width: 100%; height: auto }
"""
#: Elements beyond which a picture of a layout says nothing any more.
PICTURE_SIZE = 4096


def text_report(result: Audit) -> str:
    """The audit as lines of text."""
    lines = [
        f"{result.name}: {result.nodes} nodes, {result.opaque} opaque, {result.accesses} accesses "
        f"({result.unproved} bounds unproved), index operators {result.operators_before} -> {result.operators_after}"
    ]
    if result.not_priced:
        lines.append(f"  tile calls are not priced: {result.not_priced}")
    for f in result.findings:
        place = f" at {f.span}" if f.span else ""
        lines.append(f"  {f.severity}: {f.kind}: {f.where}{place}: {f.what} [{f.evidence}]")
        if f.remedy:
            lines.append(f"      {f.remedy}")
    return "\n".join(lines)


def html_report(results: Sequence[Audit]) -> str:
    """The audits as one self-contained HTML page."""
    parts = [f"<!doctype html><html lang='en'><meta charset='utf-8'><title>Audit</title><style>{_STYLE}</style>"]
    parts.append("<h1>Audit</h1>" + _summary(results))
    parts += [_section(r) for r in results]
    return "".join(parts) + "</html>"


def _summary(results: Sequence[Audit]) -> str:
    head = ("kernel", "nodes", "opaque", "index expressions", "operators before", "after", "findings", "seconds")
    rows = [
        (r.name, r.nodes, r.opaque, r.index_expressions, r.operators_before, r.operators_after, len(r.findings),
         round(sum(r.seconds.values()), 2))
        for r in results
    ]  # fmt: skip
    header = "".join(f"<th>{escape(h)}</th>" for h in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(c))}</td>" for c in row) + "</tr>" for row in rows)
    return f"<table><tr>{header}</tr>{body}</table>"


def _section(result: Audit) -> str:
    rows = "".join(_finding(f) for f in result.findings) or "<p>Nothing found.</p>"
    return f"<h2>{escape(result.name)}</h2>{rows}"


def _finding(f: Finding) -> str:
    place = f" <small>{escape(str(f.span))}</small>" if f.span else ""
    remedy = f"<br>Remedy: <code>{escape(f.remedy)}</code>" if f.remedy else ""
    colour = _COLOURS[f.severity]
    title = f"<b style='color:{colour}'>{escape(f.severity)}: {escape(f.kind)}</b> <code>{escape(f.where)}</code>{place}"
    return f"<p>{title}<br>{escape(f.what)}. <i>{escape(f.evidence)}</i>{remedy}</p>{_picture(f)}"


def _picture(f: Finding) -> str:
    if f.layout is None:
        return ""
    from ..layout.draw import svg

    try:
        if int(f.layout.size()) > PICTURE_SIZE:
            return f"<p><code>{escape(str(f.layout))}</code></p>"
        drawing = svg(f.layout)
    except (TirxError, TypeError):
        return f"<p><code>{escape(str(f.layout))}</code></p>"
    return f"<details><summary><code>{escape(str(f.layout))}</code></summary>{drawing}</details>"
