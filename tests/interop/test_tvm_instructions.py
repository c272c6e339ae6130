"""PTX instructions of TVM 0.27 as calls: their mnemonics, and that they go there and back."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.kernels import kernel
from tirx_eq import ir
from tirx_eq.interop.tvm_instructions import INSTRUCTION, mnemonic_of, read_instruction
from tirx_eq.ir.node import replace
from tirx_eq.lower.kernel import compile_function

MNEMONICS = {
    "mov": "mov", "mov_pack_b32x2": "mov", "ld_vec256": "ld", "max3": "max", "shfl_sync_p": "shfl.sync", "st_bulk": "st.bulk",
    "st_async_vec": "st.async", "cp_async_bulk_tensor_g2s_cta": "cp", "mbarrier_try_wait_parity": "mbarrier",
    "red_async": "red.async",
    "red_vec_f32": "red", "tensormap_replace_dim": "tensormap.replace", "cvt_pack_c": "cvt.pack", "cvt_f16x2_f32": "cvt",
    "multimem_red_async": "multimem.red.async", "multimem_red_f": "multimem.red", "vote_sync_ballot": "vote.sync",
    "redux_sync_f32": "redux.sync", "elect_sync": "elect.sync", "tcgen05_mma_ss": "tcgen05",
}  # fmt: skip


@pytest.mark.parametrize("name", MNEMONICS)
def test_mnemonics(name):
    assert mnemonic_of(name) == MNEMONICS[name]


def test_mnemonics_of_the_library():
    ptx = pytest.importorskip("tvm.backend.cuda.ptx")
    assert not [n for n, e in ptx.TABLE.items() if e.ptx_name != mnemonic_of(n)]


def call(name: str, *args: object) -> ir.Call:
    """Operands, then modifiers and flags as strings."""
    return read_instruction(f"tirx.ptx.{name}", tuple(ir.StringImm(a) if isinstance(a, str) else a for a in args), None)


def run(make, a, b):
    """A kernel whose marked statement (a barrier of the warp) is replaced by instructions."""
    func = kernel(
        't = Tx.thread_id([32])\nL = Tx.alloc_local([4], "float32")\nW = Tx.alloc_local([2], "uint32")\nL[0] = A[t]\n'
        "Tx.cuda.warp_sync()\nB[t] = L[1]",
        'A: Tx.Buffer((32,), "float32"), B: Tx.Buffer((32,), "float32")',
    )
    buffers: dict[str, ir.Buffer] = {b.name: b for b in func.buffer_map.values()}

    def look(node):
        if isinstance(node, ir.AllocBuffer):
            buffers[node.buffer.name] = node.buffer

    ir.post_order_visit(func.body, look)

    class Replace(ir.StmtMutator):
        def visit_evaluate(self, s):
            return ir.SeqStmt(tuple(ir.Evaluate(c) for c in make(buffers)))

    made = compile_function(replace(func, body=Replace().visit(func.body)))
    made.assemble()
    result = made.simulate(a, b)
    assert not result.faults, [str(f) for f in result.faults]
    return result.arrays["B"], made.ptx


def element(buffer: ir.Buffer, k: int) -> ir.BufferLoad:
    return ir.BufferLoad(buffer, (ir.const(k),))


def test_instructions_are_compiled_and_run():
    a = np.arange(32, dtype=np.float32)

    def make(b):
        x, y, z = (element(b["L"], k) for k in range(3))
        u, v = (element(b["W"], k) for k in range(2))
        full = ir.const(0xFFFFFFFF, "uint32")
        return [
            call("fma", y, x, x, ir.const(1.0, "float32"), "rn", "", "", "f32", ""),
            call("shfl_sync", z, y, ir.const(1, "uint32"), ir.const(31, "uint32"), full, "bfly", "b32", ""),
            call("elect_sync", u, full, "s0"),
            call("add", y, y, z, ir.const(0, "uint32"), "rn", "", "", "f32", "pred,keep"),
            call("setp", v, x, ir.const(3.0, "float32"), "gt", "", "f32", "p0"),
            call("add", y, y, ir.const(0.5, "float32"), v, "rn", "", "", "f32", "pred,keep"),
        ]

    got, ptx = run(make, a, np.zeros_like(a))
    assert np.array_equal(got, a * a + 1 + 0.5 * (a > 3)) and "@%p" in ptx and "elect.sync _|%p" in ptx


def test_an_instruction_without_such_operands_is_refused():
    with pytest.raises(Exception, match="operands"):
        run(lambda b: [call("fma", element(b["L"], 1), element(b["L"], 0), "rn", "f32", "")], *np.zeros((2, 32), np.float32))
    assert ir.Op.exists(INSTRUCTION)
