"""Clusters of CTAs: what reaches other CTAs, executed under every schedule and compared with the interpreter."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tirx_eq.errors import LoweringError
from tirx_eq.interp import interpret
from tirx_eq.lower.kernel import compile_function
from tirx_eq.lower.program import Box, Index, Memory
from tirx_eq.lower.variants import VARIANTS

from ..interp.test_pipelines import persistent_pair
from .cluster_kernels import exchange, multicast, pair, send_registers, shared_work
from .kernels import kernel
from .test_equation import lowered, verdict
from .witnesses_tmem_copy import copied

POLICIES = ("late", "early", "random")


def data(shape, dtype):
    return np.random.default_rng(5).integers(-8, 9, shape).astype(dtype)


def agree(func, *arrays, result: str = "B"):
    """The arrays that interpreter and PTX leave in ``result``, equal under every schedule and without faults."""
    wanted = interpret(func, *arrays)[result]
    made = compile_function(func)
    for policy in POLICIES:
        got = made.simulate(*arrays, policy=policy)
        assert not got.faults, (policy, [str(f) for f in got.faults[:3]])
        np.testing.assert_array_equal(got.arrays[result], wanted)
    return wanted, made


@pytest.mark.parametrize("ctas", [2, 4])
def test_multicast(ctas):
    a = data((64, 64), np.float16)
    got, made = agree(multicast(f"cta_mask={2**ctas - 1}", ctas), a, np.zeros((64 * ctas, 64), np.float16))
    np.testing.assert_array_equal(got, np.tile(a, (ctas, 1)))
    assert made.ptx.count(".multicast::cluster") == 1
    assert made.calls[0].choice.chosen.node == "TensorMulticast"


def test_multicast_to_a_mask_that_depends_on_the_cta():
    """Even CTAs load the even CTAs' tiles, odd ones the odd ones'."""
    rows = "r // 2 * 32 : r // 2 * 32 + 32"
    load = f"sh[{rows}, :], A[{rows}, :], mbar=bar.ptr_to([0]), cta_mask=5 << r % 2"
    a = data((64, 64), np.float16)
    got, _ = agree(multicast(load=load), a, np.zeros((256, 64), np.float16))
    np.testing.assert_array_equal(got, np.tile(a, (4, 1)))


@pytest.mark.parametrize(
    ("shared", "to", "width"),
    [
        ("mma_shared_layout('float16', 3, (64, 64))", "", 8192),  # one layout: whole tile at once, swizzle and all
        ("TileLayout(S[(64, 64):(64, 1)])", "", 8192),
        ("TileLayout(S[(64, 64):(64, 1)])", "TileLayout(S[(64, 64):(72, 1)])", 128),  # rows apart in one of them
    ],
)
def test_copies_into_the_other_cta(shared, to, width):
    a = data((128, 64), np.float16)
    got, made = agree(exchange(shared=shared, to=to), a, np.zeros((128, 64), np.float16))
    np.testing.assert_array_equal(got, np.concatenate([a[64:], a[:64]]))
    (choice,) = [c.choice for c in made.calls if c.choice.chosen.node == "PeerCopy"]
    assert choice.chosen.values == (width,)


@pytest.mark.parametrize(
    ("dtype", "count", "width"), [("float32", 8, 16), ("float32", 2, 8), ("float32", 1, 4), ("float16", 8, 16)]
)
def test_registers_into_the_other_cta(dtype, count, width):
    a = data((128, count), dtype)
    got, made = agree(send_registers(dtype=dtype, count=count), a, np.zeros((128, count), dtype))
    np.testing.assert_array_equal(got, np.concatenate([a[64:], a[:64]]))
    (choice,) = [c.choice for c in made.calls if c.choice.chosen.node == "PeerStore"]
    assert choice.chosen.values == (width,)


def test_a_pair_that_reports_to_its_even_cta():
    a, b = data((256, 64), np.float16), data((128, 64), np.float16)
    got, made = agree(pair(), a, b, np.zeros((256, 128), np.float32), result="D")
    np.testing.assert_array_equal(got, a.astype(float) @ b.astype(float).T)
    assert [c.choice.chosen.node for c in made.calls[:3]] == ["TensorPairLoad", "TensorPairLoad", "Tcgen05Mma"]
    assert made.ptx.count("mapa.shared::cluster") == 1


CP_PAIR = (
    ("    warp_id = Tx.warp_id_in_wg", "    r = Tx.cta_id_in_cluster([2])\n    cluster = Tx.cluster_id([1])\n    warp_id = Tx.warp_id_in_wg"),
    ("cta_group=1", "cta_group=2"),
    ("A: Tx.Buffer((128, 4)", "A: Tx.Buffer((256, 4)"),
    ("D: Tx.Buffer((128, 4)", "D: Tx.Buffer((256, 4)"),
    ("Tx.cta.copy(A_s[:, :], A[:, :])", "Tx.cta.copy(A_s[:, :], A[r * 128 : r * 128 + 128, :])"),
    ("            Tx.copy_async(t[:, :], A_s[:, :])", "            if r == 0:\n                Tx.copy_async(t[:, :], A_s[:, :], cta_group=2)"),
    ("            Tx.ptx.tcgen05.commit(mbar.ptr_to([0]), cta_group=2)",
     "                Tx.ptx.tcgen05.commit(mbar.ptr_to([0]), cta_group=2, cta_mask=3)"),
    ("Tx.copy(D[tid, :]", "Tx.copy(D[r * 128 + tid, :]"),
    ("    Tx.cuda.cta_sync()", "    Tx.cuda.cluster_sync()"),
)  # fmt: skip


def test_a_persistent_pair_with_specialised_warps():
    a, b = (np.random.default_rng(2).integers(-2, 3, (n, 192)).astype(np.float16) for n in (768, 256))
    got, made = agree(persistent_pair(), a, b, np.zeros((768, 256), np.float16), result="D")
    np.testing.assert_array_equal(got, a.astype(float) @ b.astype(float).T)
    assert "mbarrier.arrive.release.cluster.shared::cluster" in made.ptx


def test_one_copy_to_the_tensor_memory_of_both_ctas():
    func = copied("TileLayout(S[(128, 4) : (4, 1)])", 4, changes=CP_PAIR)
    a = np.random.default_rng(1).standard_normal((256, 4)).astype(np.float32)
    got, made = agree(func, a, np.zeros((256, 4), np.float32), result="D")
    np.testing.assert_array_equal(got, a)
    assert made.ptx.count("tcgen05.cp.cta_group::2.128x128b") == 1


def test_a_cluster_waits_in_two_halves():
    """barrier.cluster.arrive and .wait apart, and a load from the other CTA's shared memory through a remote view."""
    func = kernel(
        """
r = Tx.cta_id_in_cluster([2])
g = Tx.cluster_id([1])
tid = Tx.thread_id([64])
s = Tx.alloc_shared((64,), "float32")
v = Tx.alloc_local((4,), "float32")
s[tid] = A[r * 64 + tid]
Tx.ptx.barrier.cluster.arrive("release", True)
Tx.ptx.barrier.cluster.wait(True, True)
there: Tx.let = Tx.reinterpret("handle", Tx.ptx.map_shared_rank(s.ptr_to([0]), 1 - r))
far = Tx.decl_buffer((64,), "float32", data=there, scope="shared")
B[r * 64 + tid] = far[63 - tid]
if tid < 16:
    Tx.copy(v[:], far[tid * 4 : tid * 4 + 4])
    Tx.copy(C[r * 64 + tid * 4 : r * 64 + tid * 4 + 4], v[:])
Tx.cuda.cluster_sync()
""",
        'A: Tx.Buffer((128,), "float32"), B: Tx.Buffer((128,), "float32"), C: Tx.Buffer((128,), "float32")',
    )
    a = data((128,), np.float32)
    for result, wanted in (("B", np.concatenate([a[127:63:-1], a[63::-1]])), ("C", np.concatenate([a[64:], a[:64]]))):
        got, made = agree(func, a, np.zeros(128, np.float32), np.zeros(128, np.float32), result=result)
        np.testing.assert_array_equal(got, wanted)
    assert "ld.shared::cluster.b32" in made.ptx and "ld.shared::cluster.v4.b32" in made.ptx


def test_arrivals_at_another_cta_are_predicated_and_counted():
    """Every thread of CTA 1 arrives at CTA 0's barrier, two at a time where its number is even."""
    func = kernel(
        """
r = Tx.cta_id_in_cluster([2])
g = Tx.cluster_id([1])
tid = Tx.thread_id([64])
bar = Tx.alloc_shared((1,), "uint64")
s = Tx.alloc_shared((64,), "float32")
if tid == 0:
    Tx.ptx.mbarrier.init(bar.ptr_to([0]), 64)
    Tx.ptx.fence.mbarrier_init()
Tx.cuda.cluster_sync()
there: Tx.let = Tx.reinterpret("handle", Tx.ptx.map_shared_rank(s.ptr_to([0]), 0))
far = Tx.decl_buffer((64,), "float32", data=there, scope="shared")
if r == 1:
    far[tid] = A[tid] * Tx.float32(2.0)
    Tx.cuda.warp_sync()
    Tx.ptx.mbarrier.arrive(bar.ptr_to([0]), remote=0, pred=tid % 2 == 0, count=2)
if r == 0:
    Tx.ptx.mbarrier.try_wait_acquire_cluster(bar.ptr_to([0]), 0)
    B[tid] = s[tid]
Tx.cuda.cluster_sync()
""",
        'A: Tx.Buffer((64,), "float32"), B: Tx.Buffer((64,), "float32")',
    )
    a = data((64,), np.float32)
    wanted = interpret(func, a, np.zeros(64, np.float32))["B"]
    np.testing.assert_array_equal(wanted, 2 * a)
    made = compile_function(func)
    assert "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [" in made.ptx
    np.testing.assert_array_equal(made.simulate(a, np.zeros(64, np.float32)).arrays["B"], wanted)


def test_launch_control_takes_over_clusters_that_have_not_begun():
    """A persistent CTA works on its own tile, then on those of CTAs whose launch it cancels, until none is left."""
    func = kernel(
        """
c = Tx.cta_id([5])
tid = Tx.thread_id([32])
handle = Tx.alloc_shared((2,), "uint64")
bar = Tx.alloc_shared((1,), "uint64")
tile = Tx.alloc_local((1,), "uint32")
phase = Tx.alloc_local((1,), "int32")
if tid == 0:
    Tx.ptx.mbarrier.init(bar.ptr_to([0]), 1)
    Tx.ptx.fence.mbarrier_init()
Tx.cuda.cta_sync()
tile[0] = Tx.cast(c, "uint32")
phase[0] = 0
while tile[0] < Tx.uint32(5):
    if tid == 0:
        Tx.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), 16)
        Tx.ptx.clc_try_cancel(handle.ptr_to([0]), bar.ptr_to([0]))
    B[Tx.cast(tile[0], "int32") * 32 + tid] = A[Tx.cast(tile[0], "int32") * 32 + tid] + Tx.float32(1.0)
    Tx.ptx.mbarrier.try_wait(bar.ptr_to([0]), phase[0])
    phase[0] = phase[0] ^ 1
    tile[0] = Tx.ptx.clc_query_cancel(handle.ptr_to([0]))
    Tx.cuda.cta_sync()
""",
        'A: Tx.Buffer((160,), "float32"), B: Tx.Buffer((160,), "float32")',
    )
    a = data((160,), np.float32)
    got, made = agree(func, a, np.zeros(160, np.float32))
    np.testing.assert_array_equal(got, a + 1)
    assert "clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128" in made.ptx


def changed(body):
    """Bodies of a copy to other CTAs that differ in one place, each with what differs."""
    for i, node in enumerate(body):

        def at(new, i=i):
            return (*body[:i], new, *body[i + 1 :])

        if not node.opcode.startswith(("cp.async", "st.async")):  # the mask
            (register, value) = node.operands
            other = value ^ 1 if isinstance(value, int) else Index(value.expr * 2)
            yield "another mask", at(dataclasses.replace(node, operands=(register, other)))
            continue
        yield "left out", body[:i] + body[i + 1 :]
        for k, operand in enumerate(node.operands):
            if isinstance(operand, Memory):
                moved = dataclasses.replace(operand, offset=operand.offset + 16)
                yield f"operand {k} moved", at(dataclasses.replace(node, operands=(*node.operands[:k], moved, *node.operands[k + 1 :])))
            if isinstance(operand, Memory) and operand.root.space == "cluster":
                away = dataclasses.replace(operand, root=dataclasses.replace(operand.root, address=1 - operand.root.address))
                yield f"operand {k} in another CTA", at(dataclasses.replace(node, operands=(*node.operands[:k], away, *node.operands[k + 1 :])))
            if isinstance(operand, Box):
                coords = (operand.coords[0] + 8, *operand.coords[1:])
                box = dataclasses.replace(operand, coords=coords)
                yield "another box", at(dataclasses.replace(node, operands=(*node.operands[:k], box, *node.operands[k + 1 :])))
        for word in (".cta_group::2", ".multicast::cluster"):
            if word in node.opcode:
                yield f"without {word}", at(dataclasses.replace(node, opcode=node.opcode.replace(word, "")))


@pytest.mark.parametrize(
    ("make", "node", "count"),
    [
        (multicast, "TensorMulticast", 6), (pair, "TensorPairLoad", 6), (exchange, "PeerCopy", 6), (send_registers, "PeerStore", 10),
        (lambda: multicast("cta_mask=5 << r % 2"), "TensorMulticast", 6),
    ],
)  # fmt: skip
def test_every_mutant_breaks_the_equation(make, node, count):
    choices, bodies, program, rest = lowered(make())
    choice = next(c for c in choices if c.chosen.node == node)
    body = bodies[choice.context.index]
    assert verdict(choice, body, bodies, program, rest).status == "equal"
    found = list(changed(body))
    assert len(found) == count, [what for what, _ in found]
    for what, mutant in found:
        result = verdict(choice, mutant, bodies, program, rest)
        assert result.status == "different" and result.counterexample, what


def test_a_mask_that_names_a_cta_outside_is_refused():
    with pytest.raises(LoweringError, match="the mask is 0x10, but the cluster has 4 CTAs"):
        compile_function(multicast("cta_mask=16"))


def test_a_barrier_of_a_cta_outside_is_refused():
    with pytest.raises(LoweringError, match="CTA 2 is named, but a cluster has 2 CTAs"):
        compile_function(pair(("full.remote_view(0)", "full.remote_view(2)")))


@pytest.mark.parametrize(("ctas", "grid"), [(1, 1), (2, 1), (4, 3)])
def test_the_threads_of_a_cluster_share_the_work(ctas, grid):
    """576 vectors of 16 bytes over the threads of all CTAs; what is left over goes to the first of them."""
    copy = f"Tx.cluster.copy(B[g * {64 // grid} : g * {64 // grid} + {64 // grid}, :], A[g * {64 // grid} : g * {64 // grid} + {64 // grid}, :])"
    a = data((64, 72), np.float16)
    func = shared_work(copy, ctas, grid=grid)
    got, made = agree(func, a, np.zeros((64, 72), np.float16))
    rows = 64 // grid * grid
    np.testing.assert_array_equal(got[:rows], a[:rows])
    (call,) = made.calls
    assert call.choice.chosen.node == "ClusterCopy"
    assert call.equation.status == "equal" and "moved by the cluster" in call.equation.detail


def test_the_equation_of_a_cluster_sees_what_one_cta_leaves_out():
    choices, bodies, program, rest = lowered(shared_work())
    (choice,) = choices
    body = bodies[choice.context.index]
    assert verdict(choice, body, bodies, program, rest).status == "equal"
    alone = VARIANTS["MemoryCopy"].emit(choice.context, choice.chosen.values)
    assert verdict(choice, alone, bodies, program, rest).status == "different"  # every CTA moves everything
    stores = [k for k, node in enumerate(body) if not getattr(node, "opcode", "").startswith("ld")]
    assert stores
    for k in stores:
        assert verdict(choice, body[:k] + body[k + 1 :], bodies, program, rest).status == "different"
