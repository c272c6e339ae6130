"""The choice of a lowering: candidates, prices, rejections."""

from __future__ import annotations

import re

import pytest

from tirx_eq.egraph.rules import read_forms, rules_of
from tirx_eq.errors import LoweringError, RuleError
from tirx_eq.lower.candidates import LOWER_FILES, _premises, lowering_rules
from tirx_eq.lower.conditions import CONDITIONS, CONDITIONS_AT
from tirx_eq.lower.kernel import compile_function
from tirx_eq.lower.machine import Price
from tirx_eq.lower.variants import VARIANTS
from tirx_eq.resources import rules_dir

from .kernels import copy_kernel, example, kernel


def chosen(func):
    return [c.choice.chosen for c in compile_function(func).calls]


def test_every_rule_is_used_by_some_kernel_and_every_condition_by_some_rule():
    rules = lowering_rules()
    assert {p.node for p in rules} == set(VARIANTS)
    assert {n for p in rules for n in p.holds} >= set(CONDITIONS) - UNUSED
    assert {n for p in rules for n in p.holds_at} == set(CONDITIONS_AT)


#: conditions that only issue E's variants will ask for
UNUSED: set[str] = set()


def test_the_cheapest_candidate_is_chosen():
    for lowered in compile_function(example("gemm_single_tile")).calls:
        candidates = lowered.choice.candidates
        assert lowered.choice.chosen is candidates[0]
        assert candidates[0].cycles == min(c.cycles for c in candidates)
        assert len({c.describe() for c in candidates}) == len(candidates)


def test_widest_vectors_and_repeats():
    described = [c.describe() for c in chosen(example("gemm_single_tile"))]
    assert described == [
        "MemoryCopy(bytes=16)", "MemoryCopy(bytes=16)", "Tcgen05Mma()", "TmemLoad(32x32b.x128)", "MapPacked(lanes=2)",
        "RegisterCopy(bytes=32)",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("dst", "src", "width"),
    [
        ("B[0:64, 0:64]", "A[0:64, 0:64]", 32),
        ("B[0:64, 8:64]", "A[0:64, 8:64]", 16),  # rows of 112 bytes that begin at byte 16
        ("B[0:64, 4:64]", "A[0:64, 4:64]", 8),
        ("B[0:64, 2:64]", "A[0:64, 2:64]", 4),
        ("B[0:64, 1:64]", "A[0:64, 1:64]", 2),
        ("B[0:64, 0:32]", "A[0:64, 1:33]", 2),  # the source begins at an odd element
    ],
)
def test_alignment_limits_the_access(dst, src, width):
    (candidate,) = chosen(copy_kernel(dst, src))
    assert candidate.values == (width,)


def test_alignment_of_a_view_that_begins_inside_a_buffer():
    """The base pointer of a view counts: 4 bytes into A, 4-byte accesses are the widest."""
    func = kernel(
        'tid = Tx.thread_id([32])\nV = Tx.decl_buffer((128,), "int32", data=A.data, elem_offset=1)\n'
        'r = Tx.alloc_local((4,), "int32")\nTx.copy(r[0:4], V[tid * 4 : tid * 4 + 4])\n'
        "Tx.copy(B[tid * 4 : tid * 4 + 4], r[0:4])",
        'A: Tx.Buffer((1024,), "int32"), B: Tx.Buffer((128,), "int32")',
    )
    load, store = compile_function(func).calls
    assert load.choice.chosen.values == (4,) and store.choice.chosen.values == (16,)
    reasons = [r for r in load.choice.rejected["copy/registers"] if r.value == 16]
    assert reasons and reasons[0].condition == "aligned in the source"


def test_vec_len_is_obeyed():
    (candidate,) = chosen(copy_kernel("B[:, :]", "A[:, :]", config=", vec_len=4"))
    assert candidate.values == (8,)


def test_rejections_name_the_condition():
    with pytest.raises(LoweringError) as info:
        chosen(copy_kernel("B[:, :]", "A[:, :]", config=", dispatch='move'"))
    assert "the call's scope" in str(info.value) and "k.py:" in str(info.value)


def test_unknown_variant_lists_the_known():
    with pytest.raises(LoweringError, match="no variant 'tma'") as info:
        chosen(copy_kernel("B[:, :]", "A[:, :]", config=", dispatch='tma'"))
    assert "memory" in str(info.value.hint)


def test_explain_tells_costs_and_reasons():
    text = compile_function(example("gemm_single_tile")).explain()
    assert re.search(r"-> TmemLoad\(32x32b\.x128\) +[\d.]+ cycles", text)
    assert "no  gemm_async/tcgen05_ts: A in tensor memory: 'A' (A_s) is in shared memory" in text


def test_price_counts_every_resource():
    base = Price(issue=4, warps=4)
    for extra in ({"wavefronts": 1}, {"sectors": 1}, {"tmem": 57}, {"tensor": 1}, {"converts": 16}, {"registers": 8}):
        assert Price(issue=4, warps=4, **extra).cycles() > base.cycles()


@pytest.mark.parametrize(
    ("premise", "says"),
    [
        ('(holds c "no such condition")', "no condition"),
        ('(may c "no such parameter" v)', "no parameter"),
        ("(> c 3)", "give the condition a name"),
    ],
)
def test_a_lowering_rule_must_name_its_conditions(premise, says):
    text = f'(rule ((call c "copy" s) {premise}) ((union (Lower c) (RegisterMove c))) :ruleset lower :name "copy/x")'
    (rule,) = rules_of(read_forms(text))
    with pytest.raises(RuleError, match=says):
        _premises(rule)


def test_rule_files_are_all_loaded():
    assert {p.name for p in rules_dir().glob("lower*.egg")} == set(LOWER_FILES)
