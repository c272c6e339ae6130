"""Faults reported against other layout systems, asked of this one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tirx_eq.interop.cute import from_cute
from tirx_eq.layout import from_json, mma_shared_layout
from tirx_eq.layout.functional import composition, product
from tirx_eq.layout.image import memory_values
from tirx_eq.layout.normal import normal_form

CASES = {
    row["id"]: row
    for row in map(json.loads, (Path(__file__).parents[1] / "data" / "layout_cases.jsonl").read_text().splitlines())
}


def test_all_cases_are_asked():
    assert set(CASES) == {"layout-01", "layout-04", "layout-06", "layout-08", "layout-09"}


def test_a_valid_composition_is_found():
    given, right = CASES["layout-01"]["input"], CASES["layout-01"]["right"]
    made = composition(from_cute(given["a"], flat=True), from_cute(given["b"], flat=True))
    assert made.evaluate(np.arange(12))["m"].tolist() == right["values"]
    assert made == from_json(right["json"]) == from_cute(right["equals"], flat=True)


def test_swizzle_parameters_count_elements():
    given, right = CASES["layout-04"]["input"], CASES["layout-04"]["right"]
    layout = mma_shared_layout(given["dtype"], given["mode"], (8, 32))
    assert normal_form(layout) == normal_form(from_json(given["right_layout"]))
    probe = given["probe"]
    assert layout.at(probe["row"], probe["col"], shape=(8, 32)) == {"m": right["at_probe"]}
    wrong = from_json(given["byte_parameters_on_elements"])
    assert wrong.at(probe["flat"]) == {"m": right["wrong_at_probe"]} and normal_form(wrong) != normal_form(layout)


def test_another_element_width_rescales_the_swizzle():
    given, right = CASES["layout-06"]["input"], CASES["layout-06"]["right"]
    viewed = from_json(given["layout"]).pack(2)
    assert normal_form(viewed) == normal_form(from_json(right["equals"]))
    kept = from_json(right["must_not"])
    differ = [x for x in range(viewed.size()) if viewed.at(x) != kept.at(x)]
    assert differ[0] == right["first_difference"]


def test_the_span_is_that_of_the_image():
    given, right = CASES["layout-08"]["input"], CASES["layout-08"]["right"]
    layout = from_json(given["layout"])
    assert memory_values(layout).tolist() == right["image"]
    assert layout.span() == right["span"] and layout.tile.span() == right["span_of_tile"]


@pytest.mark.parametrize("rows", [4, 8])
def test_fewer_rows_need_fewer_swizzle_bits(rows):
    given = CASES["layout-09"]["input"]
    a, b = ({**given[k], "tile": {**given[k]["tile"], "shard": [[rows, 64, "m"], [64, 1, "m"]]}} for k in "ab")
    assert (normal_form(from_json(a)) == normal_form(from_json(b))) == (rows == 4)


@pytest.mark.parametrize("copies", [1, 2, 4, 6])
def test_product_with_a_plain_tiler(copies):
    """NVIDIA/cutlass#3478: the product by an integer was answered with a divide."""
    made = product(from_cute("(2,5):(5,1)", flat=True), from_cute(f"{copies}:1", flat=True))
    assert normal_form(made) == normal_form(from_cute(f"((2,5),{copies}):((5,1),10)", flat=True))
    assert made.size() == 10 * copies
