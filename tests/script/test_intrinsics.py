"""The intrinsics table: every row builds a call, and the call gives its arguments back."""

import pytest

from tirx_eq import ir
from tirx_eq.errors import IRError
from tirx_eq.ir.intrinsics import INTRINSICS, REQUIRED, arguments_of, build_call, by_script_path
from tirx_eq.script import parse_source, tirx

TABLE = by_script_path()


def sample(parameter):
    """An argument for a parameter without default."""
    if parameter.choices:
        return parameter.choices[-1]
    if "dtype" in parameter.name or parameter.name == "return_type":
        return "float32"
    return ir.Var(parameter.name, ir.PrimType("int32"))


def arguments(intrinsic):
    args, kwargs = [], {}
    for p in intrinsic.parameters:
        if p.kind == "variadic":
            args += [ir.Var("r0"), ir.Var("r1")]
        elif p.default is REQUIRED and p.kind == "positional":
            args.append("" if p.name == "cache_hint" else sample(p))
        elif p.default is REQUIRED:
            kwargs[p.name] = sample(p)
    if intrinsic.op == "tirx.ptx.ldmatrix":
        args[1:3] = [2, "b16"]
    return args, kwargs


@pytest.mark.parametrize("path", TABLE)
def test_row(path):
    intrinsic = TABLE[path]
    args, kwargs = arguments(intrinsic)
    positional_defaults = [p for p in intrinsic.parameters if p.kind == "positional" and p.default is not REQUIRED]
    variadic = any(p.kind == "variadic" for p in intrinsic.parameters)
    assert not (variadic and positional_defaults), "a default before *rest could never be left out"
    call = build_call(intrinsic, args, kwargs)
    assert call.op.name == intrinsic.op
    found = arguments_of(call)
    assert found is not None
    back, more, keywords = found
    assert back is intrinsic and build_call(back, more, keywords) == call
    # the script namespace offers it, and its print is its own name
    space = tirx
    for part in path.split("."):
        space = getattr(space, part)
    assert callable(space)
    func = ir.PrimFunc((), {}, ir.Evaluate(call), None, {"global_symbol": "f"})
    text = func.script()
    assert f"T.{path}(" in text
    assert ir.structural_equal(parse_source(text)["f"], func), text


def test_optional_operands_come_back():
    bar = ir.Var("bar", ir.PointerType(ir.PrimType("uint64"), "shared"))
    arrive = TABLE["ptx.mbarrier.arrive"]
    several = {"count": 2, "remote": 0, "pred": False}
    for kwargs in ({}, {"count": 3}, {"remote": 1}, {"remote": 1, "pred": True}, several):
        call = build_call(arrive, [bar], kwargs)
        _, args, found = arguments_of(call)
        assert args == [bar]
        assert {k: getattr(v, "value", v) for k, v in found.items() if k != "space"} == kwargs
    assert [getattr(a, "value", a) for a in build_call(arrive, [bar], {}).args[1:]] == ["", "", "shared", 0, 0, 0]


def test_cache_policies():
    copy = TABLE["ptx.cp_async"]
    a, b = ir.Var("a"), ir.Var("b")
    hinted = build_call(copy, [a, b, 16], {"cache_hint": "evict_last"})
    assert hinted.args[3] == ir.IntImm("uint64", 0x14F0000000000000) and hinted.args[4] == ir.IntImm("int32", 1)
    policy = ir.Var("policy", ir.PrimType("uint64"))
    given = build_call(copy, [a, b, 16], {"cache_policy": policy})
    assert given.args[3] is policy
    assert arguments_of(given)[2] == {"cache_policy": policy}
    with pytest.raises(IRError, match="cache_hint='other' is not admissible"):
        build_call(copy, [a, b, 16], {"cache_hint": "other"})


def test_wrong_arguments():
    alloc = TABLE["ptx.tcgen05.alloc"]
    with pytest.raises(IRError, match="needs 'n_cols'"):
        build_call(alloc, [1], {})
    with pytest.raises(IRError, match="doesn't take 4 positional"):
        build_call(alloc, [1, 2, 1, 4], {})
    with pytest.raises(IRError, match="given twice"):
        build_call(alloc, [1, 2], {"n_cols": 3})
    with pytest.raises(IRError, match="1 destinations are needed"):
        build_call(TABLE["ptx.ldmatrix"], [False, 1, "b16", ir.Var("p")], {})
    with pytest.raises(IRError, match="remote barrier"):
        build_call(TABLE["ptx.mbarrier.arrive"], [1], {"remote": 1, "space": "shared"})


def test_every_operator_is_registered():
    assert len(INTRINSICS) >= 220
    assert all(ir.Op.exists(name) for name in INTRINSICS)
    families = {n.split(".")[1] for n in INTRINSICS if n.count(".") == 2}
    assert families == {"ptx", "cuda", "nvshmem"}


def test_operands_of_the_call_itself_are_accepted():
    """TIRx's printer writes all operands by position, in their order in the call."""
    bar = ir.Var("bar", ir.PointerType(ir.PrimType("uint64"), "shared"))
    expect = TABLE["ptx.mbarrier.arrive.expect_tx"]
    assert build_call(expect, [bar, 128, "", "", "shared", 0, 0], {}) == build_call(expect, [bar, 128], {})
    load = TABLE["ptx.tcgen05.ld"]
    regs = [ir.Var("r0"), ir.Var("r1")]
    assert build_call(load, [bar, 0, 0, "32x32b", 2, False, *regs], {}) == build_call(
        load, [bar, *regs], {"shape": "32x32b", "num": 2}
    )
    with pytest.raises(IRError, match="doesn't take 7 positional"):
        build_call(expect, [bar, 128, "", "", "shared", 1, 0], {})
