"""The picture of an e-graph is well-formed and shows what was chosen."""

from __future__ import annotations

from xml.etree import ElementTree

from tirx_eq.egraph.view import page
from tirx_eq.ir.index import parse


def test_page() -> None:
    html = page([parse("(add (mul (div t 32) 32) (add (mod t 32) u))")], {"t": (0, 127), "u": (0, 3)})
    svg = ElementTree.fromstring(html[html.index("<svg") : html.index("</svg>") + 6])
    tag = "{http://www.w3.org/2000/svg}"
    bold = [t.text or "" for t in svg.iter(f"{tag}text") if t.get("font-weight")]
    assert any("Add" in t for t in bold) and any("V t" in t for t in bold)
    assert len(list(svg.iter(f"{tag}rect"))) == len(bold) == 3
    assert "divmod/" in html
