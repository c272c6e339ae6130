"""Registers that threads share out, stored into another CTA's shared memory: compiled, proved, run, and mutants told apart."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tirx_eq.errors import LoweringError
from tirx_eq.ir import dtype as dt
from tirx_eq.lower.candidates import NoCandidate
from tirx_eq.lower.kernel import compile_function
from tirx_eq.lower.program import If, Instruction, Memory
from tirx_eq.ptx.ptxas import find_tool

from .cluster_kernels import send_registers, send_tile
from .register_kernels import LAYOUTS, Layout
from .test_cluster import agree
from .test_equation import lowered, verdict
from .test_run_registers import bits

HALVES = Layout("warp", (32, 32), "S[(32, 32):(1 @ laneid, 1)]", 32)
SWIZZLED = "mma_shared_layout('float16', 3, (128, 64))"
#: (layout, dtype, destination's layout, CTAs) -> bytes of a store.
CASES = {
    ("rows of a warpgroup", "float16", "", 2): 16,
    ("rows of a warpgroup", "float64", "", 4): 16,
    ("rows of a warpgroup", "float32", "TileLayout(S[(128, 16):(20, 1)])", 2): 16,  # rows apart
    ("rows of a warpgroup", "float32", "TileLayout(S[(128, 16):(18, 1)])", 2): 8,
    ("fragment", "float16", "", 2): 4,
    ("fragment", "float32", "TileLayout(S[(16, 16):(1, 16)])", 2): 4,  # columns
    ("copies", "bool", "", 2): 16,  # of four warps with the same the first
    ("rows of a CTA", "uint8", "", 2): 8,
    ("operand in every warp", "float32", "", 3): 8,
    ("scattered registers", "float32", "", 2): 16,  # registers of one store needn't follow one another
}  # fmt: skip


@pytest.mark.parametrize(("name", "dtype", "to", "ctas"), CASES)
def test_a_tile_in_registers_goes_to_the_next_cta(name, dtype, to, ctas):
    layout = LAYOUTS[name]
    rows = layout.shape[0]
    given = bits(dtype, (ctas * rows, layout.shape[1]))
    got, made = agree(send_tile(layout, dtype, to, ctas), given, np.zeros_like(given))
    np.testing.assert_array_equal(got.view(np.uint8), np.roll(given, rows, axis=0).view(np.uint8))
    (call,) = [c for c in made.calls if c.choice.chosen.node == "SpreadPeerStore"]
    assert call.choice.chosen.values == (CASES[name, dtype, to, ctas],) and call.equation.status == "equal"
    if find_tool("ptxas"):
        assert made.assemble().spill_stores == 0


def test_to_a_swizzled_tile():
    layout = Layout("wg", (128, 64), "S[(128, 64):(1 @ tid_in_wg, 1)]", 64)
    given = bits("float16", (256, 64))
    got, made = agree(send_tile(layout, "float16", SWIZZLED), given, np.zeros_like(given))
    np.testing.assert_array_equal(got.view(np.uint16), np.roll(given, 128, axis=0).view(np.uint16))
    assert made.ptx.count("st.async.") == 8 and made.ptx.count("complete_tx::bytes.v4.b32") == 8


def test_elements_of_four_bits():
    given = np.random.default_rng(3).integers(0, 16, (64, 32), dtype=np.uint8).view(dt.numpy_dtype("float4_e2m1fn"))
    got, made = agree(send_tile(HALVES, "float4_e2m1fn"), given, np.zeros_like(given))
    np.testing.assert_array_equal(got.view(np.uint8), np.roll(given, 32, axis=0).view(np.uint8))
    assert made.ptx.count("st.async.") == 1


def test_in_pieces_that_one_phase_counts():
    """Two halves of the tile, each stored by a call, together are what the barrier expects."""
    send = "; ".join(
        f"{{0}}.copy_async(to[:, {k} : {k + 8}], v[:, {k} : {k + 8}], mbar=bar.ptr_to([0]), remote_cta_id=1 - r)"
        for k in (0, 8)
    )
    given = bits("float32", (256, 16))
    got, made = agree(send_tile(LAYOUTS["rows of a warpgroup"], "float32", send=send), given, np.zeros_like(given))
    np.testing.assert_array_equal(got.view(np.uint32), np.roll(given, 128, axis=0).view(np.uint32))
    assert [c.choice.chosen.node for c in made.calls].count("SpreadPeerStore") == 2


def test_every_warp_its_own_rows_to_a_cta_of_its_own():
    """Four warps of four CTAs: warp w of CTA r sends its rows to CTA r ^ w."""
    layout = Layout("wg", (128, 4), "S[(128, 4):(1 @ tid_in_wg, 1)]", 4)
    own = "mine = regs.view(32, 4, layout=TileLayout(S[(32, 4):(1 @ laneid, 1)]))"
    send = "Tx.warp.copy_async(to[w * 32 : w * 32 + 32, :], mine[:, :], mbar=bar.ptr_to([0]), remote_cta_id=r ^ w)"
    given = bits("float32", (512, 4))
    got, _ = agree(send_tile(layout, "float32", ctas=4, send=send, before=own), given, np.zeros_like(given))
    parts = given.reshape(4, 4, 32, 4)  # CTA, warp
    for r in range(4):
        for w in range(4):
            np.testing.assert_array_equal(got.reshape(4, 4, 32, 4)[r, w], parts[r ^ w, w])


@pytest.mark.parametrize(("dtype", "count", "width"), [("float64", 4, 16), ("float64", 1, 8)])
def test_a_thread_sends_registers_of_64_bits(dtype, count, width):
    given = bits(dtype, (128, count))
    got, made = agree(send_registers(dtype=dtype, count=count), given, np.zeros_like(given))
    np.testing.assert_array_equal(got, np.roll(given, 64, axis=0))
    assert made.ptx.count("complete_tx::bytes.v2.b64" if width == 16 else "complete_tx::bytes.b64") == max(1, count // 2)
    if find_tool("ptxas"):
        made.assemble()


def test_threads_that_name_ctas_of_their_own():
    """At thread scope the rank is each thread's: half of them send to the other CTA, half to their own."""
    send = "to[tid, :], v[:], mbar=bar.ptr_to([0]), remote_cta_id=(r + tid) % 2"
    given = bits("float32", (128, 8))
    got, _ = agree(send_registers(send), given, np.zeros_like(given))
    odd = np.arange(64) % 2 == 1
    for r in (0, 1):
        wanted = np.where(odd[:, None], given[64 * (1 - r) :][:64], given[64 * r :][:64])
        np.testing.assert_array_equal(got[64 * r : 64 * r + 64], wanted)


#: What -> (dtype, changes, the reason).
REFUSED = {
    "another rank in every thread": ("float32", {"rank": "tid % 2"}, "threads of one warpgroup name CTAs 0 and 1"),
    "beyond the cluster": ("float32", {"rank": "2"}, r"remote_cta_id is in 2\.\.2, a cluster has 2 CTAs"),
    "columns of two bytes": (
        "float16", {"to": "TileLayout(S[(128, 16):(1, 128)])"}, "element 1 of a group of 2 is not 2 bytes after its first"),
    "a row in each thread, thrice": (
        "float32", {"send": "{}.copy_async(to[tid, :], regs[:], mbar=bar.ptr_to([0]), remote_cta_id=1 - r)"},
        "hold a value of one element"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_refused_with_the_reason(what):
    dtype, changes, why = REFUSED[what]
    with pytest.raises(NoCandidate, match=why):
        compile_function(send_tile(LAYOUTS["rows of a warpgroup"], dtype, **changes))


def test_a_barrier_that_expects_other_bytes_never_completes():
    """What the equation's count is about: the barrier gets the tile's bytes, no more and no fewer."""
    layout = LAYOUTS["copies"]
    given = bits("float32", (64, 16))
    made = compile_function(send_tile(layout, "float32", expected=32 * 16 * 4 + 16))
    assert any(f.kind == "deadlock" for f in made.simulate(given, np.zeros_like(given)).faults)


def changed(body):
    """Bodies that differ in one place, each with what differs."""
    for i, node in enumerate(body):

        def at(*new, i=i):
            return (*body[:i], *new, *body[i + 1 :])

        if isinstance(node, If):
            yield "by all threads", at(*node.then)
            yield "the guard's body left out", at()
            for what, inner in changed(node.then):
                yield f"guarded: {what}", at(dataclasses.replace(node, then=inner))
            continue
        assert isinstance(node, Instruction)
        into, registers, bar = node.operands
        yield "left out", at()
        yield "twice", at(node, node)
        for what, k in (("tile", 0), ("barrier", 2)):
            memory = node.operands[k]
            assert isinstance(memory, Memory)
            away = dataclasses.replace(memory, root=dataclasses.replace(memory.root, address=1 - memory.root.address))
            moved = dataclasses.replace(memory, offset=memory.offset + 16)
            for how, new in (("moved", moved), ("elsewhere", away)):
                operands = (*node.operands[:k], new, *node.operands[k + 1 :])
                yield f"{what} {how}", at(dataclasses.replace(node, operands=operands))
        swapped = (registers[1], registers[0], *registers[2:])
        yield "registers swapped", at(dataclasses.replace(node, operands=(into, swapped, bar)))


@pytest.mark.parametrize("name", ["rows of a warpgroup", "fragment", "copies"])
def test_every_mutant_breaks_the_equation(name):
    choices, bodies, program, rest = lowered(send_tile(LAYOUTS[name], "float32"))
    (choice,) = [c for c in choices if c.chosen.node == "SpreadPeerStore"]
    body = bodies[choice.context.index]
    assert verdict(choice, body, bodies, program, rest).status == "equal"
    kinds: dict[str, list] = {}
    for what, mutant in changed(body):
        kinds.setdefault(what, []).append(mutant)
    assert len(kinds) >= 7
    for what, found in kinds.items():
        result = verdict(choice, found[-1], bodies, program, rest)
        assert result.status == "different" and result.counterexample, what


def test_the_barrier_must_be_ones_own():
    with pytest.raises(LoweringError, match="mbar= must be a barrier of this CTA"):
        send = "{}.copy_async(to[:, :], v[:, :], mbar=far.ptr_to([0]), remote_cta_id=1 - r)"
        far = "there: Tx.let = Tx.reinterpret('handle', Tx.ptx.map_shared_rank(bar.ptr_to([0]), 1 - r))\n" \
              "far = Tx.decl_buffer((1,), 'uint64', data=there, scope='shared')"
        compile_function(send_tile(LAYOUTS["rows of a warpgroup"], "float32", send=send, before=far))


def test_the_cheapest_width_is_taken():
    made = compile_function(send_tile(LAYOUTS["rows of a warpgroup"], "float32"))
    (choice,) = [c.choice for c in made.calls if c.choice.chosen.node == "SpreadPeerStore"]
    widths = {k.values[0]: k.cycles for k in choice.candidates}
    assert set(widths) == {16, 8, 4} and choice.chosen.values[0] == min(widths, key=widths.__getitem__)
