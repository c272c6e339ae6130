"""Theorems on hardware layouts: recorded as they are claimed today, a sample proved again, false ones refuted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tirx_eq.ir.index import evaluate
from tirx_eq.layout.hardware import swizzle_for
from tirx_eq.prove import theorems as t
from tirx_eq.prove.obligations import Goal
from tirx_eq.ptx.swizzle_modes import SWIZZLES

ALL = {x.name: x for x in t.theorems()}


def test_records_are_current_and_proved() -> None:
    rows, problems = t.check_theorems(recompute=False)
    assert problems == []
    assert len(rows) == len(ALL)
    assert all(r.verdict == "proved" for r in rows)


def test_every_mode_and_width_has_a_theorem() -> None:
    for mode in ("32B", "64B", "128B"):
        for bits in t.ELEMENT_BITS:
            assert f"swizzle/{mode}-{bits}bit" in ALL
    for letter in "ABCDEFG":
        assert f"datapath/{letter}" in ALL
    for shape in ("32x32b", "16x64b", "16x128b", "16x256b"):
        assert f"fragment/{shape}-128-32bit" in ALL


@pytest.mark.parametrize(
    "name", ["swizzle/128B-cells", "swizzle/64B-16bit", "swizzle/32B-4bit", "fragment/16x256b-64-32bit", "datapath/G"]
)
def test_a_sample_is_proved_again(name: str) -> None:
    assert t.prove_theorem(ALL[name]).verdict == "proved"


def test_involution_needs_sources_apart_from_targets() -> None:
    theorem = ALL["swizzle/inner-involution"]
    assert theorem.obligation is not None
    weaker = replace(theorem.obligation, hypotheses=t._PARAMETERS)
    assert t._prove_symbolic(theorem, weaker).verdict == "refuted"


def test_a_mode_is_not_another_mode() -> None:
    theorem = ALL["swizzle/128B-16bit"]
    assert theorem.obligation is not None
    wrong = ("eq", ("mul", t.X, 16), theorem.obligation.goals[0].term[2])  # type: ignore[index]
    assert (
        t.prove_theorem(replace(theorem, obligation=replace(theorem.obligation, goals=(Goal("wrong", wrong),)))).verdict
        == "refuted"
    )


def test_formulas_are_the_packages_swizzles() -> None:
    """The terms that are proved compute what the layout package and the descriptor table compute."""
    for mode, name in ((1, "32B"), (2, "64B"), (3, "128B")):
        s = swizzle_for("uint8", mode)
        values = {t.LOW: s.per_element, t.LEN: s.swizzle_len, t.SHIFT: s.atom_len}
        for x in (0, 1, 16, 128, 144, 1023, 4096 + 640, 65535):
            assert evaluate(t.inner("x"), {"x": x, **values}) == s.permute(x) == SWIZZLES[name].apply(x)


def test_a_changed_claim_is_noticed(tmp_path: Path) -> None:
    rows = t.read_theorems()
    t.write_theorems([replace(rows[0], digest="0" * 16), *rows[2:]], tmp_path)
    _, problems = t.check_theorems(recompute=False, folder=tmp_path)
    assert problems == [f"{rows[0].name}: the claim has changed since it was proved", f"{rows[1].name}: no record"]
