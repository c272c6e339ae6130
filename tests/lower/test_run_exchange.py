"""Registers that change threads: shuffles within warps and scratch in shared memory, run under every policy."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tirx_eq.errors import LoweringError
from tirx_eq.interp.run import interpret
from tirx_eq.ir import dtype as dt
from tirx_eq.lower.kernel import compile_function
from tirx_eq.lower.program import If, Instruction, Memory

from .kernels import kernel
from .test_equation import lowered, status, verdict

AXES = "from tirx_eq.layout import laneid, warpid, wid_in_wg, tx\n"
ROWS, TURNED = "S[(128, 8):(1 @ tx, 1)]", "S[(8, 16, 8):(1, 8 @ tx, 1 @ tx)]"
#: name -> (scope, threads, shape, source, destination, registers of either side)
SHAPES = {
    "rows to columns of a CTA": ("cta", 128, (128, 8), ROWS, TURNED, 8, 8),
    "of one of two warpgroups": (
        "wg", 256, (128, 8), ROWS.replace("tx", "tid_in_wg"), TURNED.replace("tx", "tid_in_wg"), 8, 8),
    "within warps of a CTA": (
        "cta", 64, (64, 8), "S[(64, 8):(1 @ tx, 1)]", "S[(2, 8, 4, 8):(32 @ tx, 1, 8 @ tx, 1 @ tx)]", 8, 8),
    "of a warp": ("warp", 64, (32, 8), "S[(32, 8):(1 @ laneid, 1)]", "S[(8, 4, 8):(1, 8 @ laneid, 1 @ laneid)]", 8, 8),
    "to copies in every warp": (
        "cta", 128, (128, 4), "S[(128, 4):(1 @ tx, 1)]", "S[(32, 4, 4):(1 @ laneid, 4, 1)] + R[4:1 @ warpid]", 4, 16),
    "from copies in every warp": (
        "cta", 128, (32, 16), "S[(32, 16):(1 @ laneid, 1)] + R[4:1 @ warpid]", "S[(16, 2, 4, 4):(4 @ tx, 64 @ tx, 1 @ tx, 1)]",
        16, 4),
    "three warps, six columns": ("cta", 96, (96, 6), "S[(96, 6):(1 @ tx, 1)]", "S[(6, 16, 6):(1, 6 @ tx, 1 @ tx)]", 6, 6),
    "fragments to rows": (
        "wg", 128, (64, 16), "S[(4, 2, 8, 2, 4, 2):(1 @ wid_in_wg, 2, 4 @ laneid, 4, 1 @ laneid, 1)]",
        "S[(64, 2, 8):(2 @ tid_in_wg, 1 @ tid_in_wg, 1)]", 8, 8),
}  # fmt: skip


def exchange(what: str, dtype: str, op: str = "copy", config: str = "", loop: bool = False):
    scope, threads, shape, first, second, source, target = SHAPES[what]
    size = ", ".join(map(str, shape))
    guard = {"wg": "if g == 0:\n    ", "warp": "if w == 1:\n    "}.get(scope, "") if threads > 128 or scope == "warp" else ""
    guard = guard.replace("if w == 1", "for k in Tx.serial(3)") if loop and guard else guard
    guard = "for k in Tx.serial(3):\n    " if loop and not guard else guard
    return kernel(
        f"""
t = Tx.thread_id([{threads}])
{f"g = Tx.warpgroup_id([{threads // 128}])" if threads % 128 == 0 else ""}
w = Tx.warp_id([{threads // 32}])
a = Tx.alloc_local(({source},), "{dtype}")
b = Tx.alloc_local(({target},), "{dtype}")
Tx.copy(a[:], A[t, :])
Tx.copy(b[:], B[t, :])
va = a.view({size}, layout=TileLayout({first}))
vb = b.view({size}, layout=TileLayout({second}))
{guard}Tx.{scope}.{op}(vb[:, :], va[:, :]{config})
Tx.copy(B[t, :], b[:])
""",
        f'A: Tx.Buffer(({threads}, {source}), "{dtype}"), B: Tx.Buffer(({threads}, {target}), "{dtype}")',
        AXES,
    )


def check(func, dtype: str, policies=("late", "early", "random")):
    made = compile_function(func)
    made.assemble()
    shapes = [func.buffer_map[p].const_shape() for p in func.params]
    given = [np.random.default_rng(k).integers(0, 100, s).astype(dt.numpy_dtype(dtype)) for k, s in enumerate(shapes)]
    if "R[4" in str(func.script()) and shapes[0][1] == 16:  # copies in every warp are alike
        given[0] = np.tile(given[0][:32], (4, 1))
    wanted = np.asarray(interpret(func, *given)["B"]).astype(np.float64)
    for policy in policies:
        result = made.simulate(*given, policy=policy, seed=1)
        assert not result.faults, [str(f) for f in result.faults[:3]]
        np.testing.assert_array_equal(np.asarray(result.arrays["B"]).astype(np.float64), wanted)
    return made


DTYPES = ("float32", "float16", "uint8", "float64")
#: Half of the shapes for each size, in turn.
CASES = [(w, d) for i, w in enumerate(SHAPES) for j, d in enumerate(DTYPES) if (i + j) % 2 == 0]


@pytest.mark.parametrize(("what", "dtype"), CASES)
def test_every_shape_and_size(what, dtype):
    made = check(exchange(what, dtype), dtype, policies=[("late", "early", "random")[len(what) % 3]])
    (call,) = (k for k in made.calls if k.choice.context.scope != "thread")
    assert call.choice.chosen.node in ("ExchangeOnce", "Exchange", "Shuffle") and call.equation.status == "equal"


@pytest.mark.parametrize("what", ["rows to columns of a CTA", "of a warp", "fragments to rows"])
def test_permute_layout_changes_threads_too(what):
    check(exchange(what, "float32", "permute_layout"), "float32")


def test_permute_layout_by_shuffles():
    made = check(exchange("of a warp", "float32", "permute_layout", ", dispatch='exchange'"), "float32")
    assert any(k.choice.chosen.node == "Exchange" for k in made.calls)
    made = check(exchange("of a warp", "float32", "permute_layout", ", dispatch='shuffle'"), "float32")
    assert "shfl.sync" in made.ptx and "st.shared" not in made.ptx


def test_no_bank_conflicts_and_wide_accesses():
    made = check(exchange("rows to columns of a CTA", "float32"), "float32")
    assert "st.shared.v4" in made.ptx
    (call,) = (k for k in made.calls if k.choice.context.scope == "cta")
    price = call.choice.chosen.price
    assert price.wavefronts == 2 * 128 * 8 * 4 / 128  # each byte once, 128 in a cycle, both ways


def test_in_a_loop_the_region_is_left_behind_a_barrier():
    made = check(exchange("rows to columns of a CTA", "float32", loop=True), "float32")
    assert any(k.choice.chosen.node == "Exchange" for k in made.calls) and made.ptx.count("bar.sync") == 2


def test_part_of_a_register_is_written_alone():
    """A column of halves: the other half of each register stays."""
    func = kernel(
        """
t = Tx.thread_id([64])
a = Tx.alloc_local((2,), "float16")
b = Tx.alloc_local((2,), "float16")
Tx.copy(a[:], A[t, :])
Tx.copy(b[:], B[t, :])
va = a.view(64, 2, layout=TileLayout(S[(64, 2):(1 @ tx, 1)]))
vb = b.view(64, 2, layout=TileLayout(S[(2, 32, 2):(1 @ tx, 2 @ tx, 1)]))
Tx.cta.copy(vb[:, 1:2], va[:, 0:1])
Tx.copy(B[t, :], b[:])
""",
        'A: Tx.Buffer((64, 2), "float16"), B: Tx.Buffer((64, 2), "float16")', AXES,
    )  # fmt: skip
    check(func, "float16")


def test_in_place():
    func = kernel(
        """
t = Tx.thread_id([64])
a = Tx.alloc_local((4,), "float32")
Tx.copy(a[:], A[t, :])
va = a.view(64, 4, layout=TileLayout(S[(64, 4):(1 @ tx, 1)]))
vb = a.view(64, 4, layout=TileLayout(S[(4, 16, 4):(1, 4 @ tx, 1 @ tx)]))
Tx.cta.permute_layout(vb[:, :], va[:, :])
Tx.copy(B[t, :], a[:])
""",
        'A: Tx.Buffer((64, 4), "float32"), B: Tx.Buffer((64, 4), "float32")', AXES,
    )  # fmt: skip
    try:
        check(func, "float32")
    except LoweringError as error:  # refused with the reason, if the primitive doesn't allow it
        assert "same" in str(error) or "disjoint" in str(error)


def test_no_shared_memory_is_left():
    func = exchange("rows to columns of a CTA", "float32")
    text = kernel(
        's = Tx.alloc_shared((232448,), "uint8")\nt = Tx.thread_id([128])\na = Tx.alloc_local((8,), "float32")\n'
        'b = Tx.alloc_local((8,), "float32")\n'
        f"va = a.view(128, 8, layout=TileLayout({ROWS}))\nvb = b.view(128, 8, layout=TileLayout({TURNED}))\n"
        "Tx.cta.copy(vb[:, :], va[:, :])", "", AXES,
    )  # fmt: skip
    assert compile_function(func)
    with pytest.raises(LoweringError, match="0 bytes of shared memory are left"):
        compile_function(text)


def test_a_tile_larger_than_what_is_left_goes_in_rounds():
    func = kernel(
        's = Tx.alloc_shared((230400,), "uint8")\nt = Tx.thread_id([128])\na = Tx.alloc_local((8,), "float32")\n'
        'b = Tx.alloc_local((8,), "float32")\nTx.copy(a[:], A[t, :])\n'
        f"va = a.view(128, 8, layout=TileLayout({ROWS}))\nvb = b.view(128, 8, layout=TileLayout({TURNED}))\n"
        "Tx.cta.copy(vb[:, :], va[:, :])\nTx.copy(B[t, :], b[:])",
        'A: Tx.Buffer((128, 8), "float32"), B: Tx.Buffer((128, 8), "float32")', AXES,
    )  # fmt: skip
    made = check(func, "float32")
    assert made.ptx.count("bar.sync") > 1 and made.launch.dynamic_shared_bytes <= 232448


def mutants(body):
    for k, node in enumerate(body):
        inner = node.then[0] if isinstance(node, If) else node
        if not isinstance(inner, Instruction):
            continue

        def put(new, k=k):
            return (*body[:k], *([new] if new is not None else []), *body[k + 1 :])

        if inner.opcode.startswith("bar."):
            yield "no barrier", put(None)
        if ".shared" in inner.opcode:
            yield "left out", put(None)
            moved = tuple(Memory(o.root, o.offset + 16) if isinstance(o, Memory) else o for o in inner.operands)
            yield "another place", put(dataclasses.replace(inner, operands=moved))
        if inner.opcode == "prmt.b32":
            yield "another byte", put(dataclasses.replace(inner, operands=(*inner.operands[:3], inner.operands[3] ^ 0x1111)))


@pytest.mark.parametrize(("what", "dtype", "loop"), [
    ("three warps, six columns", "float32", False), ("of a warp", "float16", False), ("of a warp", "uint8", True),
])  # fmt: skip
def test_every_mutant_breaks_the_equation(what, dtype, loop):
    choices, bodies, program, rest = lowered(exchange(what, dtype, loop=loop))
    choice = next(k for k in choices if k.chosen.node in ("Exchange", "ExchangeOnce"))
    body = bodies[choice.context.index]
    assert verdict(choice, body, bodies, program, rest).status == "equal"
    seen = set()
    for what, mutant in mutants(body):
        assert status(choice, mutant, bodies, program, rest) == "different", what
        seen.add(what)
    assert seen >= {"no barrier", "left out", "another place"}


@pytest.mark.parametrize(("threads", "unit", "axis"), [(256, 128, "tid_in_wg"), (384, 128, "tid_in_wg"), (128, 32, "laneid")])
def test_units_that_no_layout_tells_apart_exchange_each_their_own(threads, unit, axis):
    """At CTA scope, in layouts of a warpgroup (or a warp): every one of them has a tile of its own."""
    func = kernel(
        f"""
tid = Tx.thread_id([{threads}])
a = Tx.alloc_local((4,), "float32")
b = Tx.alloc_local((4,), "float32")
Tx.copy(a[:], A[tid, :])
v = a.view({unit}, 4, layout=TileLayout(S[({unit}, 4):(1 @ {axis}, 1)]))
u = b.view({unit}, 4, layout=TileLayout(S[(4, {unit // 4}, 4):(1, 4 @ {axis}, 1 @ {axis})]))
Tx.cta.copy(u[:, :], v[:, :])
Tx.copy(D[tid, :], b[:])
""",
        ", ".join(f'{n}: Tx.Buffer(({threads}, 4), "float32")' for n in "AD"), "from tirx_eq.layout import laneid\n",
    )  # fmt: skip
    given = [np.random.default_rng(0).standard_normal((threads, 4)).astype(np.float32), np.zeros((threads, 4), np.float32)]
    made = compile_function(func)
    for policy in ("late", "early", "random"):
        result = made.simulate(*given, policy=policy)
        assert not result.faults
        np.testing.assert_array_equal(result.arrays["D"], interpret(func, *given)["D"])
