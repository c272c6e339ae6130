"""The operator registry."""

from __future__ import annotations

import pytest

from tirx_eq.errors import IRError
from tirx_eq.ir import Op
from tirx_eq.ir.op import TILE_PRIMITIVES, TilePrimitive, register

#: The tile primitives that TIRx registers (reference section 3.1; 31 in TVM 0.26).
TIRX_TILE_PRIMITIVES = """
add binary_chain binary_reduce cast compose_op copy copy_async exp exp2 fdiv fill fma gemm gemm_async log2 max maximum
memset min minimum mul permute_layout reciprocal reduce_negate select silu sqrt sub sum unary_reduce zero
""".split()


def test_every_tile_primitive_is_registered_and_no_other():
    assert sorted(p.name for p in TILE_PRIMITIVES) == TIRX_TILE_PRIMITIVES
    registered = [n for n in Op.names() if n.startswith("tirx.tile.")]
    assert registered == [f"tirx.tile.{n}" for n in TIRX_TILE_PRIMITIVES]
    assert all(Op.get(n).is_tile_primitive for n in registered)


def test_other_operators_are_no_tile_primitives():
    assert not Op.get("tirx.bitwise_and").is_tile_primitive
    assert Op.exists("tirx.exp") and not Op.exists("tirx.nothing")


def test_an_unknown_name_gets_suggestions():
    with pytest.raises(IRError, match=r"no operator .tirx\.tile\.coppy.") as e:
        Op.get("tirx.tile.coppy")
    assert "tirx.tile.copy" in str(e.value)


def test_registering_twice():
    assert register("tirx.exp") is not None
    with pytest.raises(IRError, match="registered already"):
        register("tirx.exp", TilePrimitive("exp", ("dst",)))


def test_operands_are_outputs_inputs_flags():
    gemm = Op.get("tirx.tile.gemm_async").tile
    assert gemm is not None and gemm.operands == ("C", "A", "B", "transA", "transB", "accum")


def test_names_match_tvm():
    tvm_op = pytest.importorskip("tvm.ir.op", reason="apache-tvm is not installed")
    pytest.importorskip("tvm.tirx", reason="apache-tvm has no TIRx")
    theirs = {str(n) for n in tvm_op.Op.list_op_names()}
    tile = {n.removeprefix("tirx.tile.") for n in theirs if n.startswith("tirx.tile.")}
    assert tile <= set(TIRX_TILE_PRIMITIVES)
    assert set(TIRX_TILE_PRIMITIVES) - tile <= {"compose_op"}
