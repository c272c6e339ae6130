"""Tile primitive calls."""

from __future__ import annotations

import pytest
from ir_samples import a_buffer

from tirx_eq import ir
from tirx_eq.errors import IRError
from tirx_eq.ir.op import TILE_PRIMITIVES


def call(name, *args, **more):
    return ir.TilePrimitiveCall(ir.Op.get(name), args, **more)


def test_only_tile_primitives_can_be_called():
    region = a_buffer().full_region()
    for name in ("tirx.exp", "tirx.bitwise_and", "tirx.address_of"):
        with pytest.raises(IRError, match=f"'{name}' is not a tile primitive"):
            call(name, region, region)


@pytest.mark.parametrize("primitive", [p for p in TILE_PRIMITIVES if p.name != "compose_op"], ids=lambda p: p.name)
def test_the_number_of_operands_is_that_of_the_signature(primitive):
    region = a_buffer().full_region()
    regions = [region] * (len(primitive.outputs) + len(primitive.inputs))
    flags = [False] * len(primitive.flags)
    made = call(f"tirx.tile.{primitive.name}", *regions, *flags)
    assert made.dsts == tuple(regions[: len(primitive.outputs)])
    assert made.srcs == tuple(regions[len(primitive.outputs) :])
    assert list(made.flags) == list(primitive.flags)
    with pytest.raises(IRError, match=f"takes {len(primitive.operands)} operands"):
        call(f"tirx.tile.{primitive.name}", *regions, *flags, False, False, False)


def test_an_output_must_be_a_region():
    region = a_buffer().full_region()
    with pytest.raises(IRError, match="'dst' must be a buffer region"):
        call("tirx.tile.copy", ir.const(1), region)


def test_gemm_async_arguments():
    c, a, b = (a_buffer(n).full_region() for n in "CAB")
    made = call("tirx.tile.gemm_async", c, a, b, False, True, False, config={"cta_group": 1}, dispatch="tcgen05")
    assert made.args[0:3] == (c, a, b) and made.args[3:6] == (False, True, False)
    assert made.flags == {"transA": False, "transB": True, "accum": False}
    assert made.operand("transB") is True and made.dsts == (c,) and made.srcs == (a, b)
    assert made.scope == ir.ExecScope("thread")
    with pytest.raises(IRError, match="no operand 'SFA'"):
        made.operand("SFA")


def test_gemm_async_with_scale_factors():
    c, a, b, sfa, sfb = (a_buffer(n).full_region() for n in "CABST")
    made = call("tirx.tile.gemm_async", c, a, b, sfa, sfb, False, False, True)
    assert made.operand("SFB") is sfb and made.flags["accum"] is True


def test_regions_lists_outputs_first():
    dst, src = a_buffer("D").full_region(), a_buffer("S").full_region()
    assert list(call("tirx.tile.add", dst, src, ir.FloatImm("float32", 1.0)).regions()) == [dst, src]


def test_the_same_buffer_object_stands_in_declaration_and_regions():
    buffer = a_buffer("L", "local")
    declaration = ir.AllocBuffer(buffer)
    made = call("tirx.tile.zero", buffer.full_region(), buffer.full_region())
    assert made.args[0].buffer is declaration.buffer
