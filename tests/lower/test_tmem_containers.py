"""Elements of 4 bits with a byte of tensor memory each: stored, loaded and brought from shared memory, and every mutant red."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tirx_eq.interp import interpret
from tirx_eq.ir import dtype as dt
from tirx_eq.layout import TCol, TileLayout, TLane
from tirx_eq.layout.hardware import container_shift
from tirx_eq.layout.tile import Iter
from tirx_eq.lower.candidates import NoCandidate
from tirx_eq.lower.kernel import compile_function
from tirx_eq.lower.program import Instruction

from .kernels import kernel, with_tensor_memory
from .test_equation import lowered, mutants, status, verdict
from .test_run_padded import FP4, Padded, codes
from .test_run_tmem_factors import E4M3, UE8M0, check

ROWS, APART = "S[(128, 64):(1 @ tid_in_wg, 1)]", "S[(128, 32, 2):(1 @ tid_in_wg, 1, 32)]"


def there_and_back(registers: str = ROWS, inside: str = ":", step: int = 2):
    """B = A by way of registers and tensor memory, where elements are ``step`` of their sizes apart."""
    return kernel(
        "tid = Tx.thread_id([128])\nw = Tx.warp_id([4])\n" + with_tensor_memory(f"""
t = Tx.decl_buffer((128, 64), "{FP4}", scope="tmem", allocated_addr=addr[0],
                   layout=TileLayout(S[(128, 64):(1 @ TLane, {step} @ TCol)]))
words = Tx.decl_buffer((128, 16), "uint32", scope="tmem", allocated_addr=addr[0],
                       layout=TileLayout(S[(128, 16):(1 @ TLane, 1 @ TCol)]))
a = Tx.alloc_local((64,), "{FP4}")
b = Tx.alloc_local((64,), "{FP4}")
h = Tx.alloc_local((16,), "uint32")
va = a.view(128, 64, layout=TileLayout({registers}))
vb = b.view(128, 64, layout=TileLayout({registers}))
vh = h.view(128, 16, layout=TileLayout(S[(128, 16):(1 @ tid_in_wg, 1)]))
Tx.wg.copy(va[:, :], A[:, :])
Tx.fill(h[:], 0)
Tx.wg.copy_async(words[:, :], vh[:, :])
Tx.ptx.tcgen05.wait.st()
Tx.wg.copy_async(t[:, {inside}], va[:, {inside}])
Tx.ptx.tcgen05.wait.st()
Tx.wg.copy_async(vb[:, {inside}], t[:, {inside}])
Tx.wg.copy_async(vh[:, :], words[:, :])
Tx.ptx.tcgen05.wait.ld()
Tx.wg.copy(B[:, {inside}], vb[:, {inside}])
Tx.wg.copy(W[:, :], vh[:, :])
""", 64),
        f'A: Tx.Buffer((128, 64), "{FP4}"), B: Tx.Buffer((128, 64), "{FP4}"), W: Tx.Buffer((128, 16), "uint32")',
    )


@pytest.mark.parametrize(("registers", "inside"), [(ROWS, ":"), (ROWS, "4 : 16"), (APART, ":"), (APART, "0 : 8")])
def test_there_and_back(registers, inside):
    func, given = there_and_back(registers, inside), codes(128, 64)
    words = np.zeros((128, 16), np.uint32)
    made, arrays = compile_function(func), (given, np.zeros_like(given), words)
    result = made.simulate(*arrays, policy="random")
    assert not result.faults, [str(f) for f in result.faults[:3]]
    part = slice(*(int(n) for n in inside.split(":"))) if inside != ":" else slice(None)
    for got in (result.arrays, interpret(func, *arrays)):
        np.testing.assert_array_equal(np.asarray(got["B"]).view(np.uint8)[:, part], given.view(np.uint8)[:, part])
        held = np.ascontiguousarray(got["W"]).view(np.uint8).reshape(128, 64)[:, part]
        np.testing.assert_array_equal(held, given.view(np.uint8)[:, part] << 2)  # bits 2 to 5
    assert [c.choice.chosen.node for c in made.calls if "Part" in c.choice.chosen.node] == ["TmemStorePart", "TmemLoadPart"]


def test_bytes_of_a_column_are_stored_together():
    with pytest.raises(NoCandidate, match="of column 0 not all four bytes are stored, whose other bits are to be zero"):
        compile_function(there_and_back(inside="0 : 2"))


@pytest.mark.parametrize(("step", "shift"), [(1, 0), (2, 2), (4, 0), (8, 0)])
def test_which_layouts_give_every_element_a_byte(step, shift):
    layout = TileLayout((Iter(128, 1, TLane), Iter(32, step, TCol)))
    assert container_shift(FP4, layout, (128, 32)) == shift
    assert container_shift(E4M3, layout, (128, 32)) == 0


def moved_bits(body):
    """Bodies with one shift or insertion that is two bits off, or a column that doesn't begin as zeros."""
    for k, node in enumerate(body):
        if not isinstance(node, Instruction):
            continue
        if node.opcode.startswith(("shr", "bfi")):
            place = 2 if node.opcode.startswith("shr") else 3
            operands = (*node.operands[:place], node.operands[place] ^ 2, *node.operands[place + 1 :])
            yield f"{node.opcode} elsewhere", (*body[:k], dataclasses.replace(node, operands=operands), *body[k + 1 :])
        if node.opcode.startswith("bfi"):
            wide = (*node.operands[:4], 2)
            yield "half of an element", (*body[:k], dataclasses.replace(node, operands=wide), *body[k + 1 :])
        if node.opcode == "mov.b32":
            yield "no zeros", body[:k] + body[k + 1 :]


def test_every_mutant_of_a_store_and_a_load_breaks_the_equation():
    choices, bodies, program, rest = lowered(there_and_back())
    for node, least in (("TmemStorePart", 4), ("TmemLoadPart", 3)):
        choice = next(c for c in choices if c.chosen.node == node)
        body = bodies[choice.context.index]
        assert verdict(choice, body, bodies, program, rest).status == "equal"
        kinds = dict([*moved_bits(body), *(m for m in mutants(body) if "left out" in m[0] or "swapped" in m[0])])
        assert len(kinds) >= least, list(kinds)
        for what, mutant in kinds.items():
            assert status(choice, mutant, bodies, program, rest) == "different", (node, what)


def test_every_mutant_of_a_copy_that_decompresses_breaks_the_equation():
    choices, bodies, program, rest = lowered(Padded(FP4, E4M3, sf=UE8M0, by_copy=True).function())
    choice = next(c for c in choices if c.chosen.node == "TmemCopy")
    body = bodies[choice.context.index]
    assert verdict(choice, body, bodies, program, rest).status == "equal"
    found = dict(mutants(body))
    for k, node in enumerate(body):
        if getattr(node, "opcode", "").startswith("tcgen05.cp"):
            plain = dataclasses.replace(node, opcode=node.opcode.removesuffix(".b8x16.b4x16_p64"))
            found["as it is"] = (*body[:k], plain, *body[k + 1 :])
    assert len(found) >= 4
    for what, mutant in found.items():
        result = verdict(choice, mutant, bodies, program, rest)
        assert result.status == "different" and result.counterexample, what


BY_REGISTERS = """    held = Tx.alloc_local((128,), "float4_e2m1fn")
    held_wg = held.view(128, 128, layout=TileLayout(S[(128, 128) : (1 @ tid_in_wg, 1)]))
    Tx.copy(held[:], A[bx * 128 + tid, :])
    Tx.wg.copy_async(A_t[:, :], held_wg[:, :])
    Tx.ptx.tcgen05.wait.st()
"""


@dataclasses.dataclass(frozen=True)
class FromRegisters(Padded):
    """A from registers to tensor memory."""

    def text(self) -> str:
        text = super().text().replace("tmem[:, :], A_s[:, :]", "tmem[:, :], A_t[:, :]")
        return text.replace("    Tx.ptx.tcgen05.wait.st()\n", BY_REGISTERS, 1)


@pytest.mark.parametrize("p", [FromRegisters(FP4, E4M3), FromRegisters(FP4, E4M3, sf=UE8M0),
                               FromRegisters(FP4, E4M3, m=256, group=2)], ids=["dense", "scaled", "pair"])  # fmt: skip
def test_a_product_of_what_registers_store(p):
    check(p, ("late", "early", "random") if p.sf else ("late",))


def test_a_product_of_bytes_that_hold_their_elements_elsewhere_is_a_fault():
    """In the simulator: what a program stores as words in the low half of bytes isn't an e2m1 of the tensor core."""
    p = FromRegisters(FP4, E4M3)
    made = compile_function(p.function())
    rng = np.random.default_rng(1)
    a, b = (rng.integers(1, 3, (n, 128)).astype(dt.numpy_dtype(t)) for n, t in ((128, FP4), (64, E4M3)))
    given = (a, b, np.zeros((128, 8), np.int32), np.zeros((128, 64), np.float32))
    assert not made.simulate(*given).faults
    # The insertions of the store: at bits 2, 10, 18 and 26 of a column.
    text = made.ptx
    for bit in (2, 10, 18, 26):
        text = text.replace(f", {bit}, 4;", f", {bit - 2}, 4;")
    assert text != made.ptx
    found = dataclasses.replace(made, ptx=text).simulate(*given)
    assert any("which has bits beside the 4 of an e2m1" in str(f) for f in found.faults), found.faults[:2]
