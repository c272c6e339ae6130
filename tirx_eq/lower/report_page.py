"""The report of a compiled kernel as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 75em; color: #222 }
table { border-collapse: collapse; margin: .6em 0 } td, th { padding: .2em .8em; text-align: left; vertical-align: top }
tr { border-bottom: 1px solid #ddd } tr.chosen { background: #eef6ea } tr.no { color: #777 }
code { background: #f3f3f3; padding: 0 .25em }
"""


def page(report: Mapping[str, Any]) -> str:
    """The page of what :func:`tirx_eq.lower.report.report` returns."""
    title = f"{report['kernel']} for {report['target']}"
    parts = [f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{escape(title)}</title><style>{_STYLE}</style>"]
    parts.append(f"<h1>{escape(title)}</h1>")
    parts += [_call(number, call) for number, call in enumerate(report["calls"])]
    if report["couplings"]:
        parts.append("<h2>Chosen together</h2>" + "".join(map(_coupling, report["couplings"])))
    parts.append("<h2>Index expressions</h2>" + _table(
        ("before", "after", "cost before", "after", "validated by"),
        [(e["before"], e["after"], e["cost_before"], e["cost_after"], e["validated_by"]) for e in report["expressions"]],
    ))  # fmt: skip
    return "".join(parts) + "</html>"


def _call(number: int, call: Mapping[str, Any]) -> str:
    where = f", line {call['line']}" if call["line"] is not None else ""
    operands = ", ".join(f"{name}: {what}" for name, what in call["operands"].items())
    rows = []
    for k in call["candidates"]:
        split = " + ".join(f"{name} {cycles:g}" for name, cycles in k["by_resource"].items())
        shares = "; ".join(f"{s['what']}: {s['cycles']:g} once" for s in k.get("shares", ()))
        rows.append(("chosen" if k["chosen"] else "", (
            k["lowering"], k["rule"], k["cycles"], split, shares, k.get("group_cycles_with_it", ""),
        )))  # fmt: skip
    for rule, reasons in call["rejected"].items():
        rows += [("no", ("—", rule, "", reason, "", "")) for reason in reasons]
    why = "by resource, or the condition that rules it out"
    head = ("lowering", "rule", "cycles", why, "shared", "the group's cycles with it")
    equation = call["equation"]
    return (
        f"<h2>Call {number}: {escape(call['op'])} at {escape(call['scope'])} scope{where}</h2>"
        f"<p>{escape(operands)}; {escape(call['threads'])}. Layout equation: {escape(str(equation['status']))}"
        f" by {escape(str(equation.get('decided_by', '')))}.</p>" + _rows(head, rows)
    )


def _coupling(k: Mapping[str, Any]) -> str:
    rows = [("their own cycles", k["own_cycles"], ", ".join(map(str, k["calls"])))]
    rows += [(s["what"], s["cycles"], ", ".join(map(str, s["calls"]))) for s in k["shared"]]
    rows.append(("in all", k["total_cycles"], ""))
    return _table(("what", "cycles", "calls"), rows) + f"<p>{escape(k['why'])}.</p>"


def _table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    return _rows(head, [("", row) for row in rows])


def _rows(head: Sequence[str], rows: Sequence[tuple[str, Sequence[Any]]]) -> str:
    header = "".join(f"<th>{escape(h)}</th>" for h in head)
    body = "".join(
        f"<tr class='{kind}'>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for kind, row in rows
    )
    return f"<table><tr>{header}</tr>{body}</table>"
