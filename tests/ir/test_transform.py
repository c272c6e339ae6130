"""Module passes."""

from __future__ import annotations

import pytest
from ir_samples import copy_kernel

from tirx_eq import ir
from tirx_eq.errors import IRError


@ir.prim_func_pass("mark")
def mark(func, module, context):
    return func.with_attr("mark", context.config.get("mark", 1))


@ir.prim_func_pass("keep")
def keep(func, module, context):
    return func


def a_module():
    foreign = object()
    return ir.IRModule({"f": copy_kernel(name="f"), "host": foreign, "g": copy_kernel(name="g")}, {"v": 1}), foreign


def test_passes_apply_to_prim_funcs_and_leave_others_alone():
    module, foreign = a_module()
    result = mark(module)
    assert result["host"] is foreign
    assert [result[n].attrs["mark"] for n in "fg"] == [1, 1]
    assert "mark" not in module["f"].attrs and result.attrs == {"v": 1} and list(result.functions) == ["f", "host", "g"]


def test_a_pass_that_changes_nothing_returns_the_module_itself():
    module, _ = a_module()
    assert keep(module) is module


def test_a_bare_function_is_put_into_a_module():
    assert mark(copy_kernel(name="f"))["f"].attrs["mark"] == 1


def test_context_gives_config_disables_and_instruments():
    module, _ = a_module()
    seen = []
    with ir.PassContext(config={"mark": 7}, instruments=(lambda name, m: seen.append((name, m)),)):
        result = mark(module)
        with ir.PassContext(disabled=frozenset({"mark"})):
            assert mark(module) is module
        assert ir.PassContext.current().config == {"mark": 7}
    assert result["f"].attrs["mark"] == 7 and seen == [("mark", result)]
    assert ir.PassContext.current().config == {}


def test_the_context_is_left_after_an_error():
    with pytest.raises(ZeroDivisionError), ir.PassContext(config={"mark": 7}):
        raise ZeroDivisionError
    assert ir.PassContext.current().config == {}


def test_sequential_runs_in_order_and_can_disable_one():
    @ir.prim_func_pass("add")
    def add(func, module, context):
        return func.with_attr("mark", func.attrs.get("mark", 0) + 10)

    both = ir.Sequential([mark, add])
    assert both(copy_kernel(name="f"))["f"].attrs["mark"] == 11
    with ir.PassContext(disabled=frozenset({"mark"})):
        assert both(copy_kernel(name="f"))["f"].attrs["mark"] == 10


def test_a_pass_must_return_a_function():
    @ir.prim_func_pass("broken")
    def broken(func, module, context):
        return None

    with pytest.raises(IRError, match="pass 'broken' returned a NoneType for function 'f'"):
        broken(copy_kernel(name="f"))
