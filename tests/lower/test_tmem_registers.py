"""Copies between tensor memory and registers of elements of 4 to 64 bits, packed, one to a column or in two."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tirx_eq.interp.run import interpret
from tirx_eq.ir import dtype as dt
from tirx_eq.lower.kernel import compile_function

from .kernels import kernel, with_tensor_memory
from .test_equation import lowered, mutants, verdict

ROWS = "S[(128, 16):(1 @ tid_in_wg, 1)]"
#: Fragments of mma.m16n8k16, those of rows 16 to 31 of a warp after those of 0 to 15.
FRAGMENT = "S[(4, 2, 2, 8, 2, 4, 2):(1 @ wid_in_wg, 8, 2, 4 @ laneid, 4, 1 @ laneid, 1)]"
#: The same lanes with elements of 64 bits, two columns each: 16x256b.
PAIRS = "S[(4, 2, 2, 8, 4, 4):(1 @ wid_in_wg, 8, 1, 4 @ laneid, 2, 1 @ laneid)]"
PACKED, ALONE = "S[(128, 16):(1 @ TLane, 1 @ TCol)]", "S[(128, 16):(1 @ TLane, 2 @ TCol)]"
#: (dtype, layout in tensor memory, layout in registers) -> the transfer.
CASES = {
    ("float32", PACKED, ROWS): "32x32b.x16", ("float16", PACKED, ROWS): "32x32b.x8", ("uint8", PACKED, ROWS): "32x32b.x4",
    ("bfloat16", ALONE, ROWS): "32x32b.x8, 16-bit halves", ("float16", PACKED, FRAGMENT): "16x128b.x2",
    ("int16", ALONE, FRAGMENT): "16x128b.x2, 16-bit halves", ("float64", PACKED, ROWS): "32x32b.x32",
    ("int64", PACKED, PAIRS): "16x256b.x4", ("float4_e2m1fn", PACKED, ROWS): "32x32b.x2",
}  # fmt: skip


def there_and_back(dtype: str, tmem: str, registers: str):
    """B = A by way of registers and tensor memory."""
    return kernel(
        "tid = Tx.thread_id([128])\nw = Tx.warp_id([4])\n" + with_tensor_memory(f"""
t = Tx.decl_buffer((128, 16), "{dtype}", scope="tmem", allocated_addr=addr[0], layout=TileLayout({tmem}))
a = Tx.alloc_local((16,), "{dtype}")
b = Tx.alloc_local((16,), "{dtype}")
va = a.view(128, 16, layout=TileLayout({registers}))
vb = b.view(128, 16, layout=TileLayout({registers}))
Tx.wg.copy(va[:, :], A[:, :])
Tx.wg.copy_async(t[:, :], va[:, :])
Tx.ptx.tcgen05.wait.st()
Tx.wg.copy_async(vb[:, :], t[:, :])
Tx.ptx.tcgen05.wait.ld()
Tx.wg.copy(B[:, :], vb[:, :])
""", 64),
        f'A: Tx.Buffer((128, 16), "{dtype}"), B: Tx.Buffer((128, 16), "{dtype}")',
        "from tirx_eq.layout import laneid, wid_in_wg\n",
    )


@pytest.mark.parametrize(("dtype", "tmem", "registers"), CASES)
def test_there_and_back(dtype, tmem, registers):
    func = there_and_back(dtype, tmem, registers)
    made = compile_function(func)
    wanted = CASES[dtype, tmem, registers]
    assert [c.choice.chosen.describe() for c in made.calls[1:3]] == [f"TmemStore({wanted})", f"TmemLoad({wanted})"]
    made.assemble()
    given = np.random.default_rng(2).integers(0, 100 if dt.bits(dtype) > 4 else 4, (128, 16)).astype(dt.numpy_dtype(dtype))
    result = made.simulate(given, np.zeros_like(given))
    assert not result.faults, [str(f) for f in result.faults[:3]]
    np.testing.assert_array_equal(result.arrays["B"], given)
    np.testing.assert_array_equal(np.asarray(interpret(func, given, np.zeros_like(given))["B"]), given)


@pytest.mark.parametrize("tmem", [PACKED, ALONE])
def test_every_mutant_breaks_the_equation(tmem):
    choices, bodies, program, rest = lowered(there_and_back("float16", tmem, FRAGMENT))
    for choice in choices[1:3]:
        body = bodies[choice.context.index]
        assert verdict(choice, body, bodies, program, rest).status == "equal"
        found = list(mutants(body))
        move = body[-1]
        packing = ".pack::16b" if ".ld." in move.opcode else ".unpack::16b"
        other = move.opcode.replace(packing, "") if packing in move.opcode else move.opcode.replace(".b32", packing + ".b32")
        found.append(("packed or not", (*body[:-1], dataclasses.replace(move, opcode=other))))
        assert len(found) >= 5
        for what, mutant in found:
            assert verdict(choice, mutant, bodies, program, rest).status == "different", what
