"""Primitives of a cluster on global memory, each CTA its part; and those of a CTA on another CTA's shared memory."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tirx_eq.interp.run import interpret
from tirx_eq.lower.candidates import NoCandidate
from tirx_eq.lower.kernel import compile_function
from tirx_eq.lower.program import If, Instruction, Memory
from tirx_eq.lower.sharing.cluster_part import part_of

from .kernels import kernel
from .test_equation import lowered, verdict

HEAD = "r = Tx.cta_id_in_cluster([{ctas}])\nb = Tx.cta_id([{ctas}])\nt = Tx.thread_id([64])\n"
SHAPES = {"A": (16, 24), "B": (16, 24), "D": (16, 24), "E": (16, 1), "W": (24, 16)}
PARAMS = ", ".join(f'{n}: Tx.Buffer({s}, "float32")' for n, s in SHAPES.items())
#: call -> parts that two and four CTAs have.
CALLS = {
    "Tx.cluster.add(D[:, :], A[:, :], B[:, :])": (2, 4),
    "Tx.cluster.add(D[:, :], A[:, :], E[:, :])": (2, 4),
    "Tx.cluster.exp2(D[:, :], A[:, :], scale=0.5)": (2, 4),
    "Tx.cluster.fill(D[:, :], 3.0)": (2, 4),
    "Tx.cluster.permute_layout(D[:, :], A[:, :])": (2, 4),
    "Tx.cluster.select(D[:, :], A[:, :], B[:, :], lambda i, j: (i * 5 + j) % 3 == 0)": (2, 4),
    "Tx.cluster.select(D[0:1, :], A[0:1, :], B[0:1, :], lambda i, j: j < 7)": (2, 4),
    "Tx.cluster.add(D[0:3, 0:6], A[0:3, 0:6], 1.0)": (2, 3),
    # shared evenly as far as that goes; the rest by some CTAs
    "Tx.cluster.add(D[0:3, 0:7], A[0:3, 0:7], 1.0)": ([2, 2, 1], [4, 3]),
    "Tx.cluster.select(D[0:1, 0:7], A[0:1, 0:7], B[0:1, 0:7], lambda i, j: j % 3 == 0)": ([2, 1], [4, 3]),
    "Tx.cluster.sum(E[0:11, :], A[0:11, :])": ([2, 1], [4, 3]),
    "Tx.cluster.max(D[0, 0:13], A[:, 0:13], axes=0, accum=True)": ([2, 1], [4, 1]),
    "Tx.cluster.gemm(D[0:1, 0:7], A[0:1, :], W[:, 0:7], B[0:1, 0:7], beta=1)": ([2, 1], [4, 3]),
    "Tx.cluster.add(D[:, :], D[:, :], 1.0)": (2, 4),
    "Tx.cluster.binary_chain(D[:, :], A[:, :], B[:, :], 3.0, 'sub', 'mul')": (2, 4),
    "Tx.cluster.sum(E[:, :], A[:, :])": (2, 4),
    "Tx.cluster.sum(E[:, :], A[:, :], accum=True)": (2, 4),
    "Tx.cluster.max(D[0, :], A[:, :], axes=0)": (2, 4),
    "Tx.cluster.sum(E[0, :], A[:, :], axes=[0, 1])": (1, 1),
    "Tx.cluster.unary_reduce(D[:, :], E[:, :], A[:, :], 'reciprocal', 'max')": (2, 4),
    "Tx.cluster.gemm(D[:, 0:16], A[:, :], W[:, :], B[:, 0:16], beta=1)": (2, 4),
    "Tx.cluster.gemm(D[0:1, 0:16], A[0:1, :], W[:, :], B[0:1, 0:16])": (2, 4),
}  # fmt: skip


def run(func, given, policies=("late", "early", "random")):
    made = compile_function(func)
    made.assemble()
    wanted = interpret(func, *given)
    for policy in policies:
        result = made.simulate(*given, policy=policy, seed=4)
        assert not result.faults, [str(f) for f in result.faults[:3]]
        for name, right in wanted.items():
            np.testing.assert_allclose(np.asarray(result.arrays[name]), np.asarray(right), rtol=2e-6, err_msg=name)
    return made


@pytest.mark.parametrize("ctas", [2, 4])
@pytest.mark.parametrize("text", CALLS)
def test_each_cta_makes_its_part(text, ctas):
    func = kernel(HEAD.format(ctas=ctas) + text, PARAMS)
    given = [np.random.default_rng(k).integers(1, 9, s).astype(np.float32) for k, s in enumerate(SHAPES.values())]
    made = run(func, given, ["late"] if ctas == 2 else ["random"])
    wanted = CALLS[text][ctas == 4]
    parts = [part_of(call.choice.context).parts for call in made.calls]
    assert parts == wanted if isinstance(wanted, list) else set(parts) == {wanted}
    assert all(call.choice.chosen.node == "ClusterPart" and call.equation.status == "equal" for call in made.calls)


def test_more_ctas_cost_each_less():
    prices = []
    for ctas in (1, 2, 4):
        text = "Tx.cluster.add(D[:, :], A[:, :], B[:, :])" if ctas > 1 else "Tx.cta.add(D[:, :], A[:, :], B[:, :])"
        (call,) = compile_function(kernel(HEAD.format(ctas=ctas) + text, PARAMS)).calls
        prices.append(call.choice.chosen.price.sectors)
    assert prices[0] == 2 * prices[1] and prices[1] > prices[2]


def test_the_parts_of_a_composite_meet_at_the_cluster():
    """The map is cut by columns, the reduction by rows: between them all CTAs must have arrived."""
    text = "Tx.cluster.unary_reduce(D[:, :], E[:, :], A[:, :], 'reciprocal', 'max')"
    assert "barrier.cluster.arrive" in compile_function(kernel(HEAD.format(ctas=2) + text, PARAMS)).ptx


@pytest.mark.parametrize(("text", "says"), [
    ("s = Tx.alloc_shared((16, 24), 'float32')\nTx.cluster.copy(D[:, :], s[:, :])", "2 CTAs hold a value of one element"),
    ("if r == 0:\n    Tx.cluster.fill(D[:, :], 0.0)", "of some CTAs of the cluster, not by whole clusters"),
    ("Tx.cluster.add(D[r * 8 : r * 8 + 8, :], A[0:8, :], 1.0)", "begins at 0 in one CTA, at 8 in another"),
    ("if t < 32:\n    Tx.cluster.fill(D[:, :], 0.0)", "not by whole clusters"),
    ("Tx.cluster.add(D[0:8, :], D[4:12, :], 1.0)", "may overlap"),
])  # fmt: skip
def test_what_a_cluster_cannot_do(text, says):
    with pytest.raises(NoCandidate, match=says):
        compile_function(kernel(HEAD.format(ctas=2) + text, PARAMS))


def test_a_changed_part_breaks_the_equation():
    func = kernel(HEAD.format(ctas=2) + "Tx.cluster.add(D[:, :], A[:, :], B[:, :])", PARAMS)
    choices, bodies, program, rest = lowered(func)
    (choice,) = choices
    body = bodies[choice.context.index]
    assert verdict(choice, body, bodies, program, rest).status == "equal"
    for k, node in enumerate(body):
        if isinstance(node, Instruction) and any(isinstance(o, Memory) for o in node.operands):
            moved = tuple(Memory(o.root, o.offset + 4) if isinstance(o, Memory) else o for o in node.operands)
            mutant = (*body[:k], dataclasses.replace(node, operands=moved), *body[k + 1 :])
            assert verdict(choice, mutant, bodies, program, rest).status == "different"
    half = (If(choice.context.launch.cta_rank() < 1, body),)
    assert verdict(choice, half, bodies, program, rest).status == "different"


FAR = """
r = Tx.cta_id_in_cluster([2])
b = Tx.cta_id([2])
t = Tx.thread_id([64])
s = Tx.alloc_shared((16, 16), "float32")
q = Tx.alloc_shared((16, 16), "float32")
v = Tx.alloc_local((4,), "float32")
Tx.cta.copy(s[:, :], A[r, :, :])
Tx.cuda.cluster_sync()
there: Tx.let = Tx.reinterpret("handle", Tx.ptx.map_shared_rank(s.ptr_to([0, 0]), 1 - r))
far = Tx.decl_buffer((16, 16), "float32", data=there, scope="shared")
rows = Tx.decl_buffer((64, 4), "float32", data=there, scope="shared")
w = v.view(64, 4, layout=TileLayout(S[(64, 4):(1 @ tx, 1)]))
{text}
Tx.cuda.cluster_sync()
{after}
"""
READS = {
    "copy to global memory": "Tx.cta.copy(B[r, :, :], far[:, :])",
    "copy to shared memory": "Tx.cta.copy(q[:, :], far[:, :])\nTx.cuda.cta_sync()\nTx.cta.copy(B[r, :, :], q[:, :])",
    "copy to registers": "Tx.cta.copy(w[:, :], rows[:, :])\nTx.copy(B[r, t // 4, t % 4 * 4 : t % 4 * 4 + 4], v[:])",
    "sum": "Tx.cta.add(B[r, :, :], far[:, :], s[:, :])",
    "reduction": "Tx.cta.sum(B[r, 0, :], far[:, :])",
    "permutation": "Tx.cta.permute_layout(B[r, :, :], far[:, :])",
    "copy by a warpgroup's threads": "Tx.copy(v[:], rows[t, :])\nTx.copy(B[r, t // 4, t % 4 * 4 : t % 4 * 4 + 4], v[:])",
}
WRITES = {
    "copy from global memory": "Tx.cta.copy(far[:, :], A[r, :, :])",
    "copy from registers": "Tx.cta.fill(w[:, :], 3.0)\nTx.cta.copy(rows[:, :], w[:, :])",
    "sum": "Tx.cta.add(far[:, :], A[r, :, :], 1.0)",
    "fill": "Tx.cta.fill(far[:, :], 7.0)",
    "reduction": "Tx.cta.max(far[0, :], A[r, :, :])",
}


@pytest.mark.parametrize("what", [*(("reads", n) for n in READS), *(("writes", n) for n in WRITES)], ids=" ".join)
def test_the_shared_memory_of_another_cta(what):
    kind, name = what
    text = (READS if kind == "reads" else WRITES)[name]
    after = "" if kind == "reads" else "Tx.cta.copy(B[r, :, :], s[:, :])"
    params = ", ".join(f'{n}: Tx.Buffer((2, 16, 16), "float32")' for n in "AB")
    func = kernel(FAR.format(text=text, after=after), params, "from tirx_eq.layout import tx\n")
    a = np.random.default_rng(3).integers(-9, 9, (2, 16, 16)).astype(np.float32)
    made = run(func, [a, np.zeros_like(a)])
    assert "mapa.shared::cluster" in made.ptx and ".shared::cluster" in made.ptx
