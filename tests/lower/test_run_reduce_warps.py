"""Reductions over several warps, through scratch in shared memory: compiled, run under every policy, their equation broken."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tirx_eq.errors import LoweringError, ProofError
from tirx_eq.interp.run import interpret
from tirx_eq.ir import dtype as dt
from tirx_eq.lower.candidates import NoCandidate
from tirx_eq.lower.kernel import compile_function
from tirx_eq.lower.program import If, Index, Instruction, Memory
from tirx_eq.lower.sharing.partials import Way

from .kernels import kernel
from .test_equation import lowered, status, verdict

AXES = "from tirx_eq.layout import laneid, warpid, wid_in_wg, tx\n"
POLICIES = ("late", "early", "random")


@dataclasses.dataclass(frozen=True)
class Case:
    """A tile of ``shape`` in ``registers`` per thread of ``threads``, its result in ``results`` registers per thread."""

    scope: str
    threads: int
    shape: tuple[int, ...]
    layout: str
    registers: int
    axes: str
    made: tuple[int, ...]
    target: str
    results: int = 1


CASES = {
    "one sum of a CTA, for all": Case("cta", 128, (1024,), "S[(128, 8):(1 @ tx, 1)]", 8, "0", (1,), "S[(1,):(1,)]"),
    "rows over the warps of a warpgroup": Case(
        "wg", 256, (32, 16), "S[(32, 4, 4):(1 @ laneid, 1 @ wid_in_wg, 1)]", 4, "1", (32,), "S[(32,):(1 @ laneid,)]"),
    "columns over all threads": Case("cta", 128, (128, 4), "S[(128, 4):(1 @ tx, 1)]", 4, "0", (4,), "S[(4,):(1,)]", 4),
    "two of four warps": Case(
        "cta", 128, (2, 64), "S[(2, 2, 32):(1 @ warpid, 2 @ warpid, 1 @ laneid)]", 1, "1", (2,), "S[(2,):(1,)]", 2),
    "each result held by another thread": Case(
        "cta", 128, (32, 16), "S[(32, 4, 4):(1 @ laneid, 1 @ warpid, 1)]", 4, "1", (32,),
        "S[(8, 4):(4 @ laneid, 1 @ laneid)]"),
    "other lanes of the warp want it": Case(
        "warp", 32, (8, 4), "S[(8, 4):(4 @ laneid, 1 @ laneid)]", 1, "1", (8,), "S[(8,):(1 @ laneid,)] + R[4:8 @ laneid]"),
    "sixteen warps": Case("cta", 512, (2048,), "S[(512, 4):(1 @ tx, 1)]", 4, "0", (1,), "S[(1,):(1,)]"),
}  # fmt: skip


def spread(case: Case, op: str, dtype: str, extra: str = "", to: str = "registers"):
    shape = ", ".join(map(str, case.shape))
    made = ", ".join(map(str, case.made))
    more = ", 'sum'" if op == "reduce_negate" else ""
    axes = "reduce_axes" if op == "reduce_negate" else "axes"
    lines = [f"t = Tx.thread_id([{case.threads}])", "w = Tx.warp_id([" + str(case.threads // 32) + "])",
             f'a = Tx.alloc_local(({case.registers},), "{dtype}")', f'r = Tx.alloc_local(({case.results},), "{dtype}")',
             f"v = a.view({shape}, layout=TileLayout({case.layout}))", "Tx.copy(a[:], A[t, :])",
             "Tx.copy(r[:], D[t, :])"]  # fmt: skip
    at = ", ".join(":" for _ in case.shape)
    if to == "registers":
        lines.append(f"u = r.view({made}, layout=TileLayout({case.target}))")
        target = "u[" + ", ".join(":" for _ in case.made) + "]"
    else:
        target = f"E[{', '.join(':' for _ in case.made)}]"
    lines += [f"Tx.{case.scope}.{op}({target}, v[{at}]{more}, {axes}={case.axes}{extra})", "Tx.copy(D[t, :], r[:])"]
    params = (f'A: Tx.Buffer(({case.threads}, {case.registers}), "{dtype}"), D: Tx.Buffer(({case.threads}, {case.results}), '
              f'"{dtype}"), E: Tx.Buffer(({made},), "{dtype}")')  # fmt: skip
    return kernel("\n".join(lines), params, AXES)


def inputs(case: Case, dtype: str):
    rng = np.random.default_rng(5)
    start = np.full((case.threads, case.results), 2)  # copies of an element are alike
    given = (rng.integers(0, 4, (case.threads, case.registers)), start, rng.integers(0, 4, case.made))
    return [a.astype(dt.numpy_dtype(dtype)) for a in given]


def check(func, *given, policies=POLICIES):
    """Run under every policy with races looked for, compare all buffers; the compiled kernel."""
    made = compile_function(func)
    made.assemble()
    wanted = interpret(func, *given)
    for policy in policies:
        result = made.simulate(*given, policy=policy, seed=2)
        assert not result.faults, [str(f) for f in result.faults[:3]]
        for name, right in wanted.items():
            got, right = (np.asarray(x).astype(np.float64) for x in (result.arrays[name], right))
            np.testing.assert_array_equal(got, right, err_msg=f"{name} {policy}")
    return made


KINDS = (
    ("sum", "float32", ""), ("max", "float16", ""), ("min", "int32", ""), ("reduce_negate", "bfloat16", ""),
    ("sum", "float64", ", accum=True"), ("max", "uint8", ", accum=True"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("what", "op", "dtype", "extra"), [(w, *k) for i, w in enumerate(CASES) for j, k in enumerate(KINDS) if (i + j) % 2 == 0]
)
def test_registers_of_several_warps(what, op, dtype, extra):
    case = CASES[what]
    number = list(CASES).index(what)
    made = check(spread(case, op, dtype, extra), *inputs(case, dtype), policies=POLICIES[number % 3 :][:1])
    assert "ReduceWarpsOnce" in {k.choice.chosen.node for k in made.calls}


@pytest.mark.parametrize("what", ["one sum of a CTA, for all", "columns over all threads", "two of four warps"])
@pytest.mark.parametrize("extra", ["", ", accum=True"])
def test_results_in_memory(what, extra):
    """Threads take turns as writers; one of each row stores it."""
    case = CASES[what]
    check(spread(case, "sum", "float32", extra, to="memory"), *inputs(case, "float32"))


MEMORY = """
t = Tx.thread_id([{threads}])
w = Tx.warpgroup_id([{groups}])
s = Tx.alloc_shared(({rows}, {columns}), "{dtype}")
Tx.cta.copy(s[:, :], A[:, :])
Tx.cuda.cta_sync()
{call}
"""


@pytest.mark.parametrize(("rows", "columns", "threads", "dtype", "group"), [
    (1, 2048, 256, "float32", 256), (2, 1024, 128, "float16", 64), (3, 1024, 256, "float32", 64), (4, 4096, 512, "int32", 128),
])  # fmt: skip
def test_rows_of_memory_are_shared_by_more_than_a_warp(rows, columns, threads, dtype, group):
    text = MEMORY.format(threads=threads, groups=threads // 128, rows=rows, columns=columns, dtype=dtype,
                         call="Tx.cta.sum(D[:], s[:, :], axes=1)")  # fmt: skip
    func = kernel(text, f'A: Tx.Buffer(({rows}, {columns}), "{dtype}"), D: Tx.Buffer(({rows},), "{dtype}")')
    given = np.random.default_rng(1).integers(0, 2, (rows, columns)).astype(dt.numpy_dtype(dtype))
    made = check(func, given, np.zeros(rows, dt.numpy_dtype(dtype)), policies=("random",))
    chosen = made.calls[-1].choice
    assert chosen.chosen.node == "ReduceWarpsOnce" and Way.of(chosen.chosen.values[0]).group == group
    within = min(k.cycles for k in chosen.candidates if k.node == "ReduceMemory")
    assert chosen.chosen.cycles < within


LOOP = """
t = Tx.thread_id([128])
a = Tx.alloc_local((1,), "float32")
r = Tx.alloc_local((1,), "float32")
v = a.view(128, layout=TileLayout(S[(128,):(1 @ tx,)]))
u = r.view(1, layout=TileLayout(S[(1,):(1,)]))
for k in Tx.serial(4):
    a[0] = A[k, t]
    Tx.cta.sum(u[:], v[:])
    D[k, t] = r[0] * 2.0
    a[0] = r[0] + Tx.cast(t, "float32")
    Tx.cta.max(u[:], v[:])
    E[k, t] = r[0]
"""


def test_in_a_loop_calls_share_a_region_and_wait_for_each_other():
    func = kernel(LOOP, ", ".join(f'{n}: Tx.Buffer((4, 128), "float32")' for n in "ADE"), AXES)
    a = np.random.default_rng(0).integers(0, 9, (4, 128)).astype(np.float32)
    made = check(func, a, np.zeros_like(a), np.zeros_like(a))
    assert {k.choice.chosen.node for k in made.calls} == {"ReduceWarps"}
    assert made.ptx.count("bar.sync") == 4 and made.launch.dynamic_shared_bytes == 16
    assert any("in a loop" in str(r) for k in made.calls for r in k.choice.rejected["reduce/warps_once"])


def test_calls_made_once_have_regions_of_their_own():
    text = LOOP.replace("for k in Tx.serial(4):", "for k in Tx.unroll(2):")
    func = kernel(text, ", ".join(f'{n}: Tx.Buffer((4, 128), "float32")' for n in "ADE"), AXES)
    a = np.random.default_rng(0).integers(0, 9, (4, 128)).astype(np.float32)
    made = check(func, a, np.zeros_like(a), np.zeros_like(a))
    assert made.ptx.count("bar.sync") == 4 and made.launch.dynamic_shared_bytes == 3 * 128 + 16


ROLES = """
t = Tx.thread_id([256])
g = Tx.warpgroup_id([2])
a = Tx.alloc_local((2,), "int32")
r = Tx.alloc_local((2,), "int32")
v = a.view(128, 2, layout=TileLayout(S[(128, 2):(1 @ tid_in_wg, 1)]))
u = r.view(2, layout=TileLayout(S[(2,):(1,)]))
p = a.view(256, layout=TileLayout(S[(128, 2):(1 @ tid_in_wg, 1)]))
q = r.view(2, layout=TileLayout(S[(2,):(1,)]))
Tx.copy(a[:], A[t, :])
{sync}
if g == 0:
    for k in Tx.serial(3):
        Tx.wg.sum(u[:], v[:, :], axes=0)
        a[0] = a[0] + r[1]
else:
    for k in Tx.serial(5):
        Tx.wg.max(q[0:1], p[:])
        a[1] = a[1] + r[0]
Tx.copy(D[t, :], a[:])
"""
PARAMS = 'A: Tx.Buffer((256, 2), "int32"), D: Tx.Buffer((256, 2), "int32")'


def test_warpgroups_in_different_roles_have_barriers_and_parts_of_their_own():
    a = np.random.default_rng(0).integers(0, 9, (256, 2)).astype(np.int32)
    made = check(kernel(ROLES.format(sync=""), PARAMS, AXES), a, np.zeros_like(a))
    assert "bar.sync 0" not in made.ptx


def test_barriers_that_the_kernel_uses_are_left_alone():
    a = np.random.default_rng(0).integers(0, 9, (256, 2)).astype(np.int32)
    made = check(kernel(ROLES.format(sync="Tx.cuda.warpgroup_sync(14 + g)"), PARAMS, AXES), a, np.zeros_like(a))
    assert "13" in made.ptx
    taken = "\n".join(f"Tx.ptx.bar.sync({n}, 256)" for n in range(1, 16, 2))
    with pytest.raises(NoCandidate, match="barriers are left for the scope: the kernel uses"):
        compile_function(kernel(ROLES.format(sync=taken), PARAMS, AXES))


def test_no_room_beside_the_kernels_shared_memory():
    def func(own: int):
        case = CASES["columns over all threads"]
        return kernel(
            f's = Tx.alloc_shared(({own},), "uint8")\nt = Tx.thread_id([128])\na = Tx.alloc_local((4,), "float32")\n'
            'r = Tx.alloc_local((4,), "float32")\n'
            f"v = a.view(128, 4, layout=TileLayout({case.layout}))\nu = r.view(4, layout=TileLayout({case.target}))\n"
            "Tx.copy(a[:], A[t, :])\nTx.cta.sum(u[:], v[:, :], axes=0)\nTx.cta.max(u[:], v[:, :], axes=0)\n"
            "Tx.copy(D[t, :], r[:])",
            'A: Tx.Buffer((128, 4), "float32"), D: Tx.Buffer((128, 4), "float32")', AXES,
        )  # fmt: skip

    assert {k.choice.chosen.node for k in compile_function(func(1024)).calls} >= {"ReduceWarpsOnce"}
    tight = compile_function(func(232448 - 192))  # one region fits, two don't
    assert {k.choice.chosen.node for k in tight.calls} >= {"ReduceWarps"} and tight.launch.dynamic_shared_bytes <= 232448
    with pytest.raises(LoweringError, match="shared memory has room for partial results"):
        compile_function(func(232448))


def test_part_of_the_warps_is_refused():
    case = CASES["one sum of a CTA, for all"]
    text = spread(case, "sum", "float32")
    assert compile_function(text)
    with pytest.raises(LoweringError, match="not by whole ctas"):
        compile_function(kernel(
            't = Tx.thread_id([128])\nw = Tx.warp_id([4])\na = Tx.alloc_local((1,), "float32")\nr = Tx.alloc_local((1,), '
            '"float32")\nv = a.view(128, layout=TileLayout(S[(128,):(1 @ tx,)]))\n'
            "u = r.view(1, layout=TileLayout(S[(1,):(1,)]))\n"
            "if w < 2:\n    Tx.cta.sum(u[:], v[:])", "", AXES))  # fmt: skip


def changed(body, index, node):
    return tuple(node if k == index else n for k, n in enumerate(body) if k != index or node is not None)


def mutants(body):
    for k, node in enumerate(body):
        if isinstance(node, Instruction) and node.opcode.startswith("bar."):
            yield "no barrier", changed(body, k, None)
        if isinstance(node, Instruction) and node.opcode.startswith("ld.shared"):
            at = node.operands[1]
            yield "another partial", changed(body, k, dataclasses.replace(
                node, operands=(node.operands[0], Memory(at.root, at.offset + 4))))
        if isinstance(node, If):
            yield "all lanes store", (*body[:k], *node.then, *body[k + 1 :])
            yield "nobody stores", changed(body, k, None)
        if isinstance(node, Instruction) and node.opcode.startswith("add."):
            yield "a partial left out", changed(body, k, dataclasses.replace(
                node, opcode="mov.b32", operands=node.operands[:2]))


@pytest.mark.parametrize("looped", [False, True])
def test_every_mutant_breaks_the_equation(looped):
    if looped:
        func = kernel(LOOP, ", ".join(f'{n}: Tx.Buffer((4, 128), "float32")' for n in "ADE"), AXES)
    else:
        func = spread(CASES["columns over all threads"], "sum", "float32")
    choices, bodies, program, rest = lowered(func)
    choice = next(k for k in choices if k.chosen.node.startswith("ReduceWarps"))
    body = bodies[choice.context.index]
    assert verdict(choice, body, bodies, program, rest).status == "equal"
    seen = set()
    for what, mutant in mutants(body):
        assert status(choice, mutant, bodies, program, rest) == "different", what
        seen.add(what)
    assert seen >= {"no barrier", "another partial", "all lanes store", "nobody stores", "a partial left out"}


def test_a_barrier_of_the_wrong_threads_breaks_the_equation():
    choices, bodies, program, rest = lowered(kernel(ROLES.format(sync=""), PARAMS, AXES))
    choice = next(k for k in choices if k.chosen.node == "ReduceWarps")
    body = bodies[choice.context.index]
    half = Index(choice.context.launch.flat_tid() // 64)
    for wrong in (Instruction("bar.warp.sync", (0xFFFFFFFF,)), Instruction("bar.sync", (half, 64))):
        with pytest.raises(ProofError):
            mutant = tuple(wrong if isinstance(n, Instruction) and n.opcode == "bar.sync" else n for n in body)
            verdict(choice, mutant, bodies, program, rest)
