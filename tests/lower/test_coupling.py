"""What the report tells of choices: all candidates with their costs, what calls share, and why the combination wins."""

from __future__ import annotations

import json
from html.parser import HTMLParser

import pytest

from tirx_eq.lower.coupling import couplings, describe_key
from tirx_eq.lower.kernel import compile_function
from tirx_eq.lower.report_page import page
from tirx_eq.lower.selection import Option, select, total

from .kernels import example, kernel
from .test_selection import PIECES


@pytest.fixture(scope="module")
def pieces():
    """Four loads of one tensor: by itself the first would have a map of its own."""
    return compile_function(kernel(PIECES, 'A: Tx.Buffer((64, 32), "float16"), B: Tx.Buffer((8, 32), "float16")'))


def test_the_shared_price_is_told(pieces):
    choices = [c.choice for c in pieces.calls]
    (group,) = couplings(choices)
    loads = tuple(n for n, c in enumerate(choices) if c.context.op == "copy_async")
    assert group.calls == loads and len(loads) == 4
    (shared,) = group.shared
    assert shared.calls == loads and shared.what == "tensor map of A (box 2x32, no swizzle)"
    assert group.own == pytest.approx(sum(choices[n].chosen.cycles for n in loads))
    assert group.total == pytest.approx(group.own + shared.cycles) and shared.cycles > 0
    # The first call's other candidates each need a second map: exactly that more.
    others = [k for n, k in group.instead if n == loads[0]]
    assert len(others) == len(choices[loads[0]].candidates) - 1 > 0
    for k in others:
        own = choices[loads[0]].candidates[k].cycles - choices[loads[0]].chosen.cycles
        assert group.instead[loads[0], k] == pytest.approx(group.total + own + shared.cycles, abs=1e-4)
    assert group.apart == pytest.approx(group.total + shared.cycles, abs=1e-4)
    assert f"{shared.cycles:.1f} more" in group.reason()


def test_text_data_and_page_tell_the_same(pieces):
    data = json.loads(json.dumps(pieces.report()))
    text, html = pieces.explain(), page(data)
    (group,) = data["couplings"]
    assert group["total_cycles"] < group["apart_cycles"]
    assert group["total_cycles"] == pytest.approx(group["own_cycles"] + sum(s["cycles"] for s in group["shared"]), abs=0.02)
    for part in (group["why"], group["shared"][0]["what"], f"{group['shared'][0]['cycles']:.1f} cycles once"):
        assert part in text, part
    for call, lowered in zip(data["calls"], pieces.calls):
        assert [k["lowering"] for k in call["candidates"] if k["chosen"]] == [call["lowering"]]
        assert len(call["candidates"]) == len(lowered.choice.candidates)
        for k in call["candidates"]:
            assert sum(k["by_resource"].values()) == pytest.approx(k["cycles"], abs=0.05)
            assert k["lowering"] in text and k["lowering"] in html and k["rule"] in html
        for rule, reasons in call["rejected"].items():
            assert all(f"{rule}: {reason}" in text for reason in reasons)
    assert group["why"] in html and "Chosen together" in html
    with_it = {k.get("group_cycles_with_it") for call in data["calls"] for k in call["candidates"]} - {None}
    assert all(f"would cost {cycles:.1f} cycles" in text and str(cycles) in html for cycles in with_it) and with_it


class _Balance(HTMLParser):
    """Open elements, and the cells of each row."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.cells: list[int] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open += [tag] if tag != "meta" else []
        if tag == "tr":
            self.cells.append(0)
        elif tag in ("td", "th"):
            self.cells[-1] += 1

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_every_condition_that_failed_is_on_the_page():
    made = compile_function(example("gemm_tma"))
    data = made.report()
    html = page(data)
    parser = _Balance()
    parser.feed(html)
    assert not parser.open
    rejected = sum(len(reasons) for call in data["calls"] for reasons in call["rejected"].values())
    assert html.count("<tr class='no'>") == rejected > 0
    assert html.count("<tr class='chosen'>") == len(data["calls"])


def test_no_other_choice_is_cheaper_than_it_says():
    """The figures for the candidates not taken are minima: an exhaustive look at a small case."""
    calls = [[Option(3.0, frozenset("a")), Option(1.0, frozenset("b"))], [Option(2.0, frozenset("a")), Option(5.0)]]
    prices = {"a": 4.0, "b": 7.0}
    assert select(calls, prices) == [0, 0]
    forced = [[calls[0][1]], calls[1]]
    assert total(forced, select(forced, prices), prices) == 1 + 7 + 5  # the second then does without a's price


def test_keys_have_names():
    assert describe_key(("scratch", "partial")) == "scratch partial"
