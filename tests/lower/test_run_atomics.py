"""Atomic operations: compiled, assembled, run under every policy of the simulator, compared with the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from tirx_eq.errors import LoweringError
from tirx_eq.interp.run import interpret
from tirx_eq.ir import dtype as dt
from tirx_eq.lower.code.atomics import OPERANDS, TYPES
from tirx_eq.lower.kernel import compile_function

from .kernels import kernel

POLICIES = ("late", "early", "random")
CELLS = [(op, kind) for op, kinds in TYPES.items() if op != "cas" for kind in kinds]
#: dtype of the buffer for a type: of halves, their own.
ELEMENT = {"f16x2": "float16", "bf16x2": "bfloat16"}


def check(func, *given, policies=POLICIES):
    """Run a kernel, compare every buffer with the interpreter's; the PTX."""
    made = compile_function(func)
    made.assemble()
    wanted = interpret(func, *given)
    for policy in policies:
        result = made.simulate(*given, policy=policy, seed=3)
        assert not result.faults, [str(f) for f in result.faults[:3]]
        for name, right in wanted.items():
            np.testing.assert_array_equal(np.asarray(result.arrays[name]), np.asarray(right), err_msg=f"{name} {policy}")
    return made.ptx


def one_operation(op: str, kind: str, space: str, wants: bool):
    element, operand = ELEMENT.get(kind, OPERANDS[kind]), OPERANDS[kind]
    step = 2 if kind.endswith("x2") else 1
    call = f'Tx.ptx.{"atom" if wants else "red"}_scalar({{at}}, V[t], op="{op}", ptx_type="{kind}", space="{space}")'
    if kind in ("f16", "bf16"):  # TVM names them by the dtype of atomic_add
        call = "Tx.cuda.atomic_add({at}, V[t])"
        call = call if wants else f"Tx.evaluate({call})"
    at = f"{'s' if space == 'shared' else 'D'}.ptr_to([t % 4 * {step}])"
    body = [f't = Tx.thread_id([64])\ns = Tx.alloc_shared(({4 * step},), "{element}")']
    if space == "shared":
        body.append(f"if t < {4 * step}:\n    s[t] = D[t]\nTx.cuda.cta_sync()")
    # The old values come in any order: what is left for each thread is that they aren't lost.
    body.append(f"O[t] = {call.format(at=at)}" if wants else call.format(at=at))
    if space == "shared":
        body.append(f"Tx.cuda.cta_sync()\nif t < {4 * step}:\n    D[t] = s[t]")
    params = f'D: Tx.Buffer(({4 * step},), "{element}"), V: Tx.Buffer((64,), "{operand}")'
    if wants:
        params += f', O: Tx.Buffer((64,), "{operand}")'
    return kernel("\n".join(body), params), element, operand, step


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize(("op", "kind"), CELLS, ids=lambda x: x)
def test_every_operation_and_type(op, kind, space):
    wants = op == "exch" or (CELLS.index((op, kind)) + (space == "shared")) % 3 == 0
    if kind.endswith("x2"):
        wants = False
    func, element, operand, step = one_operation(op, kind, space, wants)
    rng = np.random.default_rng(len(op) + len(kind))
    start = rng.integers(0, 8, 4 * step).astype(dt.numpy_dtype(element))
    values = rng.integers(0, 8, 64)
    if op in ("inc", "dec"):  # with one limit the order doesn't matter
        values[:] = 5
    if kind.startswith("s"):
        values = values - 4
    given = values.astype(dt.numpy_dtype(operand))
    if kind.endswith("x2"):
        given = rng.integers(0, 4, 128).astype(dt.numpy_dtype(element)).view(np.uint32)
    arrays = [start, given] + ([np.zeros(64, dt.numpy_dtype(operand))] if wants else [])
    ptx = check(func, *arrays, policies=POLICIES if not wants else ("late",))
    typed = "u64" if (op, kind) == ("add", "s64") else kind  # sums of signed numbers have the same bits
    form = f"{'atom' if wants else 'red'}.{space}.{op}{'.noftz' if '16' in kind and 'f' in kind else ''}.{typed}"
    assert form in ptx


def test_halves_are_added_each_by_itself():
    func, *_ = one_operation("add", "f16x2", "global", False)
    given = np.full(128, 0.5, np.float16).view(np.uint32)
    assert interpret(func, np.zeros(8, np.float16), given)["D"].tolist() == [8.0] * 8
    check(func, np.zeros(8, np.float16), given)


def test_the_type_decides_what_is_compared():
    """-1 as an unsigned number is the largest."""
    func = kernel('t = Tx.thread_id([32])\nTx.ptx.red_scalar(D.ptr_to([0]), V[t], op="max", ptx_type="u32")',
                  'D: Tx.Buffer((1,), "uint32"), V: Tx.Buffer((32,), "int32")')  # fmt: skip
    given = np.zeros(1, np.uint32), np.arange(-1, 31, dtype=np.int32)
    check(func, *given)
    assert interpret(func, *given)["D"][0] == 2**32 - 1


SPLIT_K = """
bz, by = Tx.cta_id([{split}, 4])
t = Tx.thread_id([64])
acc: Tx.float32 = 0.0
for k in Tx.serial(K // {split}):
    acc = acc + A[by * 8 + t // 8, bz * (K // {split}) + k] * B[t % 8, bz * (K // {split}) + k]
Tx.evaluate(Tx.cuda.atomic_add(C.ptr_to([by * 8 + t // 8, t % 8]), acc))
"""


@pytest.mark.parametrize("split", [2, 8])
def test_a_product_with_k_split_among_ctas(split):
    """Each CTA adds its part of the sum to the result in global memory."""
    func = kernel(
        SPLIT_K.format(split=split).replace("K", "32"),
        'A: Tx.Buffer((32, 32), "float32"), B: Tx.Buffer((8, 32), "float32"), C: Tx.Buffer((32, 8), "float32")',
    )
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, s).astype(np.float32) for s in ((32, 32), (8, 32)))
    ptx = check(func, a, b, np.ones((32, 8), np.float32))
    assert ptx.count("red.global.add.f32") == 1 and "atom." not in ptx
    np.testing.assert_array_equal(interpret(func, a, b, np.ones((32, 8), np.float32))["C"], a @ b.T + 1)


def test_the_last_cta_of_a_split_sum_finishes_it():
    """Partial sums in global memory; whoever counts last adds them up (release and acquire through the counter)."""
    func = kernel(
        """
bz = Tx.cta_id([4])
t = Tx.thread_id([32])
last = Tx.alloc_shared((1,), "uint32")
P[bz, t] = A[bz, t] * 2.0
Tx.cuda.cta_sync()
if t == 0:
    last[0] = Tx.ptx.atom_scalar(N.ptr_to([0]), Tx.uint32(1), sem="acq_rel", scope="gpu", op="add", ptx_type="u32")
Tx.cuda.cta_sync()
if last[0] == 3:
    Tx.cuda.thread_fence()
    C[t] = P[0, t] + P[1, t] + P[2, t] + P[3, t]
""",
        'A: Tx.Buffer((4, 32), "float32"), P: Tx.Buffer((4, 32), "float32"), N: Tx.Buffer((1,), "uint32"), '
        'C: Tx.Buffer((32,), "float32")',
    )
    a = np.arange(128, dtype=np.float32).reshape(4, 32)
    check(func, a, np.zeros_like(a), np.zeros(1, np.uint32), np.zeros(32, np.float32))


def test_compare_and_swap_takes_turns():
    """A lock that nobody gets twice: each thread that finds its number adds one."""
    func = kernel(
        """
t = Tx.thread_id([32])
done: Tx.int32 = 0
while done == 0:
    old: Tx.uint32 = Tx.cuda.atomic_cas(D.ptr_to([0]), Tx.cast(t, "uint32"), Tx.cast(t + 1, "uint32"))
    if old == Tx.cast(t, "uint32"):
        done = 1
""",
        'D: Tx.Buffer((1,), "uint32")',
    )
    made = compile_function(func)
    result = made.simulate(np.zeros(1, np.uint32))
    assert not result.faults and result.arrays["D"][0] == 32 and made.ptx.count("atom.global.cas.b32") == 1


def test_in_the_shared_memory_of_another_cta():
    func = kernel(
        """
cb = Tx.cta_id_in_cluster([2])
b = Tx.cta_id([2])
t = Tx.thread_id([32])
s = Tx.alloc_shared((1,), "int32")
if t == 0:
    s[0] = 100 * cb
Tx.cuda.cluster_sync()
there: Tx.let = Tx.reinterpret("handle", Tx.ptx.map_shared_rank(s.ptr_to([0]), 1 - cb))
far = Tx.decl_buffer((1,), "int32", data=there, scope="shared")
Tx.evaluate(Tx.cuda.atomic_add(far.ptr_to([0]), 1))
Tx.cuda.cluster_sync()
if t == 0:
    D[cb] = s[0]
""",
        'D: Tx.Buffer((2,), "int32")',
    )
    ptx = check(func, np.zeros(2, np.int32))
    assert "red.shared::cluster.add.s32" in ptx


def test_an_atomic_value_that_is_used_twice_is_made_once():
    func = kernel("t = Tx.thread_id([32])\nx: Tx.int32 = Tx.cuda.atomic_add(D.ptr_to([t]), 5)\nC[t] = x * x + x",
                  'D: Tx.Buffer((32,), "int32"), C: Tx.Buffer((32,), "int32")')  # fmt: skip
    ptx = check(func, np.arange(32, dtype=np.int32), np.zeros(32, np.int32))
    assert ptx.count("atom.") == 1


def test_two_equal_atomics_are_two():
    func = kernel("t = Tx.thread_id([32])\nC[t] = Tx.cuda.atomic_add(D.ptr_to([t]), 5) + Tx.cuda.atomic_add(D.ptr_to([t]), 5)",
                  'D: Tx.Buffer((32,), "int32"), C: Tx.Buffer((32,), "int32")')  # fmt: skip
    assert check(func, np.arange(32, dtype=np.int32), np.zeros(32, np.int32)).count("atom.") == 2


@pytest.mark.parametrize("wants", [True, False])
def test_cache_policies_orders_and_scopes(wants):
    call = (f'Tx.ptx.{"atom" if wants else "red"}_scalar(D.ptr_to([t % 4]), V[t], op="add", ptx_type="s64", sem="relaxed", '
            'scope="sys", cache_hint="evict_last")')  # fmt: skip
    func = kernel("t = Tx.thread_id([32])\n" + (f"O[t] = {call}" if wants else call),
                  'D: Tx.Buffer((4,), "int64"), V: Tx.Buffer((32,), "int64"), O: Tx.Buffer((32,), "int64")')  # fmt: skip
    values = np.arange(-16, 16, dtype=np.int64) << 40
    ptx = check(func, np.zeros(4, np.int64), values, np.zeros(32, np.int64), policies=("late",) if wants else POLICIES)
    assert f"{'atom' if wants else 'red'}.relaxed.sys.global.add.L2::cache_hint.u64" in ptx


#: (operation, type) of a vector -> how many there are in one, the dtype in memory.
VECTORS = [
    ("add", "f32", 2, "float32"), ("add", "f32", 4, "float32"), ("add.noftz", "f16", 8, "float16"),
    ("max.noftz", "bf16", 2, "bfloat16"), ("add.noftz", "f16x2", 4, "float16"), ("min.noftz", "bf16x2", 2, "bfloat16"),
]  # fmt: skip


@pytest.mark.parametrize(("op", "kind", "count", "dtype"), VECTORS)
def test_vectors_by_the_instruction_itself(op, kind, count, dtype):
    """red.global of vectors (sm_90), as TVM 0.27 writes instructions: each element by itself, 16 bytes at a time at most."""
    size = count * (2 if kind.endswith("x2") else 1)
    held = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}.get(kind, "uint32")
    per = size // count
    view = f'W = Tx.decl_buffer((32, {count}), "{held}", data=V.data)\n' if per > 1 else "W = V\n"
    values = ", ".join(f"W[t, {k}]" for k in range(count))
    func = kernel(
        f't = Tx.thread_id([32])\n{view}'
        f'Tx.call_intrin("void", "tirx.ptx.instruction", "red", "red.global.{op}.v{count}.{kind}", '
        f'Tx.address_of(D[t % 4, 0]), {values}, "")',
        f'D: Tx.Buffer((4, {size}), "{dtype}"), V: Tx.Buffer((32, {size}), "{dtype}")')  # fmt: skip
    made = compile_function(func)
    made.assemble()
    rng = np.random.default_rng(1)
    start, given = (rng.integers(-4, 5, (n, size)).astype(dt.numpy_dtype(dtype)) for n in (4, 32))
    combine = {"add": np.add, "max": np.maximum, "min": np.minimum}[op.split(".")[0]]
    wanted = start.astype(np.float64)
    for t in range(32):
        wanted[t % 4] = combine(wanted[t % 4], given[t].astype(np.float64))
    for policy in POLICIES:
        result = made.simulate(start, given, policy=policy, seed=2)
        assert not result.faults, [str(f) for f in result.faults[:3]]
        np.testing.assert_array_equal(result.arrays["D"].astype(np.float64), wanted)


@pytest.mark.parametrize(("dtype", "count"), [("float32", 2), ("float32", 4), ("float16", 8), ("bfloat16", 4)])
def test_a_vector_is_added_in_one_operation(dtype, count):
    func = kernel(
        f"t = Tx.thread_id([32])\n"
        f"Tx.evaluate(Tx.cuda.atomic_add(D.ptr_to([t % 4 * {count}]), V[Tx.ramp(t * {count}, 1, {count})]))",
        f'D: Tx.Buffer(({4 * count},), "{dtype}"), V: Tx.Buffer(({32 * count},), "{dtype}")')  # fmt: skip
    given = np.random.default_rng(0).integers(-4, 5, 32 * count).astype(dt.numpy_dtype(dtype))
    ptx = check(func, np.ones(4 * count, dt.numpy_dtype(dtype)), given)
    assert ptx.count("red.global.add") == 1 and f".v{count}." in ptx


BAD = {
    "a type that PTX doesn't add": ('Tx.ptx.red_scalar(D.ptr_to([0]), 1, op="add", ptx_type="b32")', "no atomic add of b32"),
    "a cache policy where there is no cache": (
        'Tx.ptx.red_scalar(S.ptr_to([0]), 1, op="add", ptx_type="s32", space="shared", cache_hint="evict_last")', "L2 cache"),
    "a vector in shared memory": ("Tx.evaluate(Tx.cuda.atomic_add(F.ptr_to([0]), Tx.Broadcast(Tx.float32(1), 4)))",
                                  "PTX has it in global memory"),
    "a vector of three": ("Tx.evaluate(Tx.cuda.atomic_add(F.ptr_to([0]), Tx.Broadcast(Tx.float32(1), 3)))", "adds vectors of"),
    "an operation of other types": ('Tx.ptx.red_scalar(D.ptr_to([0]), 1, op="inc", ptx_type="s32")', "no atomic inc of s32"),
    "bytes": ("Tx.evaluate(Tx.cuda.atomic_add(U.ptr_to([0]), Tx.uint8(1)))", "of uint8: PTX adds"),
    "another space": ('Tx.ptx.red_scalar(D.ptr_to([0]), 1, op="add", ptx_type="s32", space="shared")',
                      "in shared memory, but 'D' is in global memory"),
    "registers": ("r = Tx.alloc_local((1,), 'int32')\nTx.evaluate(Tx.cuda.atomic_add(r.ptr_to([0]), 1))", "memory is needed"),
    "a side of a choice": ("D[t] = Tx.if_then_else(t < 3, Tx.cuda.atomic_add(D.ptr_to([0]), 1), 0)", "may not be evaluated"),
    "beside a load": ("D[t] = D[0] + Tx.cuda.atomic_add(D.ptr_to([0]), 1)", "read and changed atomically"),
    "pairs at odd places": ('Tx.ptx.red_scalar(H.ptr_to([t]), Tx.uint32(1), op="add", ptx_type="f16x2")',
                            "a multiple of 4 bytes"),
    "words of other sizes": (
        'Tx.ptx.red_scalar(D.ptr_to([0]), Tx.float16(1), op="add", ptx_type="f16")', "on elements of int32"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_bad_atomics_are_refused(what):
    text, says = BAD[what]
    func = kernel(f"t = Tx.thread_id([32])\nS = Tx.alloc_shared((4,), 'int32')\nF = Tx.alloc_shared((4,), 'float32')\n{text}",
                  'D: Tx.Buffer((32,), "int32"), U: Tx.Buffer((32,), "uint8"), H: Tx.Buffer((64,), "float16")')  # fmt: skip
    with pytest.raises(LoweringError, match=says) as info:
        compile_function(func)
    assert "k.py:" in str(info.value)
