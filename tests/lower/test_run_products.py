"""Products of matrices in registers: every kind of mma.sync, compiled, proved, assembled, run and compared."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tirx_eq.interp.run import interpret
from tirx_eq.ir import dtype as dt
from tirx_eq.lower.kernel import compile_function
from tirx_eq.lower.mma_sync import MMA_KINDS

from .kernels import kernel
from .product_kernels import AXES, register_product
from .test_equation import lowered, status, verdict
from .test_equation import mutants as memory_mutants


def whole(shape: tuple[int, int], dtype: str, seed: int) -> np.ndarray:
    values = np.random.default_rng(seed).integers(0 if dtype.startswith("uint") else -3, 4, shape)
    return values.astype(dt.numpy_dtype(dtype))


def given(shape, dtypes, transposed=(False, False)):
    m, n, k = shape
    sizes = ((k, m) if transposed[0] else (m, k), (n, k) if transposed[1] else (k, n), (m, n), (m, n))
    return [whole(s, d, i) for i, (s, d) in enumerate(zip(sizes, (*dtypes, dtypes[2])))]


def check(func, arrays, assemble=False):
    """Compile, run, compare D with the interpreter's and with numpy's; the description of what was chosen for the product."""
    made = compile_function(func)
    result = made.simulate(*arrays)
    assert not result.faults, [str(f) for f in result.faults[:3]]
    wanted = np.asarray(interpret(func, *arrays)["D"])
    np.testing.assert_array_equal(np.asarray(result.arrays["D"]).astype(np.float64), wanted.astype(np.float64))
    if assemble:
        assert made.assemble().spill_stores == 0
    (product,) = [c for c in made.calls if c.choice.context.op == "gemm"]
    assert product.equation.status == "equal"
    return product.choice


#: Every kind at its largest depth; of each family one at every depth.
FAMILIES = ("float16", "bfloat16", "tfloat32", "float64", "int8", "float8_e4m3fn")
CASES = [
    (dtypes, depth)
    for dtypes, kind in MMA_KINDS.items()
    for depth in (kind.depths if dtypes[0] == dtypes[1] and dtypes[0] in FAMILIES else kind.depths[:1])
]


@pytest.mark.parametrize(("dtypes", "depth"), CASES, ids=lambda x: "-".join(x) if isinstance(x, tuple) else str(x))
def test_every_kind_and_depth(dtypes, depth):
    shape = (16, 8, depth)
    choice = check(register_product(shape, dtypes), given(shape, dtypes), assemble=True)
    assert choice.chosen.describe() == f"MmaSync(m16n8k{depth})"


def test_the_cheapest_depth_is_the_largest_that_divides():
    """48 = 3 * 16, but 24 only 3 * 8: of two legal depths the one with fewer instructions is taken."""
    dtypes = ("bfloat16", "bfloat16", "float32")
    for k, wanted in ((48, ["m16n8k16", "m16n8k8"]), (24, ["m16n8k8"])):
        shape = (16, 8, k)
        choice = check(register_product(shape, dtypes), given(shape, dtypes))
        assert [x.describe() for x in choice.candidates if x.node == "MmaSync"] == [f"MmaSync({w})" for w in wanted]
        assert choice.chosen is choice.candidates[0]


def test_the_transposed_product():
    """The accumulator as the fragment of its transpose: B's columns are the rows of the instruction."""
    func = kernel(
        """
tid = Tx.thread_id([32])
ra = Tx.alloc_local((4,), "float16")
rb = Tx.alloc_local((8,), "float16")
rd = Tx.alloc_local((4,), "float32")
a = ra.view(8, 16, layout=TileLayout(S[(8, 2, 4, 2):(4 @ laneid, 2, 1 @ laneid, 1)]))
b = rb.view(16, 16, layout=TileLayout(S[(2, 4, 2, 2, 8):(4, 1 @ laneid, 1, 2, 4 @ laneid)]))
d = rd.view(8, 16, layout=TileLayout(S[(4, 2, 2, 8):(1 @ laneid, 1, 2, 4 @ laneid)]))
Tx.warp.copy(a[:, :], A[:, :])
Tx.warp.copy(b[:, :], B[:, :])
Tx.warp.gemm(d[:, :], a[:, :], b[:, :], d[:, :], beta=0.0)
Tx.warp.copy(D[:, :], d[:, :])
""",
        'A: Tx.Buffer((8, 16), "float16"), B: Tx.Buffer((16, 16), "float16"), D: Tx.Buffer((8, 16), "float32")', AXES,
    )  # fmt: skip
    arrays = [whole((8, 16), "float16", 1), whole((16, 16), "float16", 2), np.zeros((8, 16), np.float32)]
    assert check(func, arrays).chosen.describe() == "MmaSync(m16n8k16, transposed product)"


@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("scope", ["warp", "wg", "cta"])
def test_scopes_and_transposed_operands(scope, transposed):
    shape = (64 if scope != "warp" else 32, 16, 32)  # several tiles and slices
    dtypes = ("float16", "float16", "float32")
    func = register_product(shape, dtypes, scope, transposed, beta=0.0, in_place=False)
    arrays = given(shape, dtypes, transposed)
    check(func, arrays)
    a, b = (x.astype(np.float64).T if t else x.astype(np.float64) for x, t in zip(arrays, transposed))
    np.testing.assert_array_equal(compile_function(func).simulate(*arrays).arrays["D"], (a @ b).astype(np.float32))


SCALARS = ", alpha: Tx.float32, beta: Tx.float32, n: Tx.int32"


@pytest.mark.parametrize(("alpha", "beta"), [(2.0, 1.0), (1.0, 3.0), (0.5, 0.0), ("alpha", "beta"), ("alpha", 0.0), (1.0, "n"),
                                             ("beta * 2.0", 1.0)])  # fmt: skip
def test_scaled_products(alpha, beta):
    """alpha and beta, constant or known at run time only: the product is formed by itself and then scaled."""
    shape, dtypes = (32, 16, 32), ("float16", "float16", "float32")
    func = register_product(shape, dtypes, beta=beta, alpha=alpha, in_place=alpha != 2.0, scalars=SCALARS)
    given_values = {"alpha": np.float32(0.5), "beta": np.float32(-2.0), "n": np.int32(3)}
    choice = check(func, [*given(shape, dtypes), *given_values.values()], assemble=True)
    assert choice.chosen.describe() == "MmaSyncScaled(m16n8k16)"
    a, b, c, d = given(shape, dtypes)
    named = {"alpha": 0.5, "beta": -2.0, "n": 3.0, "beta * 2.0": -4.0}
    wanted = named.get(alpha, alpha) * (a.astype(np.float64) @ b.astype(np.float64)) + named.get(beta, beta) * c
    made = compile_function(func).simulate(a, b, c, d, *given_values.values())
    np.testing.assert_array_equal(made.arrays["D"].astype(np.float64), wanted)


@pytest.mark.parametrize(("dtypes", "scalars"), [
    (("int8", "int8", "int32"), ", alpha: Tx.int32, beta: Tx.int32"),
    (("float64", "float64", "float64"), ", alpha: Tx.float64, beta: Tx.float32"),
])  # fmt: skip
def test_scaled_products_of_other_dtypes(dtypes, scalars):
    shape = (16, 8, 32 if dtypes[0] == "int8" else 16)
    func = register_product(shape, dtypes, beta="beta", alpha="alpha", scalars=scalars)
    factors = [np.dtype(s.rpartition(".")[2]).type(v) for s, v in zip(scalars.split(",")[1:], (3, -2))]
    assert check(func, [*given(shape, dtypes), *factors], assemble=True).chosen.node == "MmaSyncScaled"


@pytest.mark.parametrize(("dtypes", "alpha", "beta"), [
    (("float16", "float16", "float16"), 0.5, 1.0), (("float16", "float16", "float16"), "alpha", "beta"),
    (("bfloat16", "bfloat16", "bfloat16"), 1.0, 1.0), (("bfloat16", "bfloat16", "bfloat16"), "alpha", 0.0),
    (("float8_e4m3fn", "float8_e5m2", "float16"), 2.0, 3.0), (("float16", "float16", "bfloat16"), 1.0, 1.0),
])  # fmt: skip
def test_results_of_16_bits_are_rounded_once(dtypes, alpha, beta):
    """Sums and what they are scaled by in 32 bits: D = 2 A·B would be beyond f16 in between, and isn't in the end."""
    shape = (32, 16, 32)
    func = register_product(shape, dtypes, beta=beta, alpha=alpha, scalars=SCALARS)
    arrays = given(shape, dtypes)
    factors = {"alpha": np.float32(0.25), "beta": np.float32(-3.0)}
    made = compile_function(func)
    made.assemble()
    got = made.simulate(*arrays, *factors.values(), np.int32(1)).arrays["D"]
    a, b, c = (x.astype(np.float64) for x in arrays[:3])
    exact = factors.get(alpha, alpha) * (a @ b) + factors.get(beta, beta) * c
    np.testing.assert_array_equal(got, exact.astype(got.dtype))
    assert {"MmaSyncScaled", "MmaSync"} & {k.choice.chosen.node for k in made.calls}
    assert all(k.equation.status == "equal" for k in made.calls)


def test_a_product_beyond_the_range_of_the_result_before_it_is_scaled():
    func = register_product((16, 8, 16), ("float16", "float16", "float16"), alpha=1 / 64, beta=0.0)
    arrays = given((16, 8, 16), ("float16", "float16", "float16"))
    arrays[0][:], arrays[1][:] = 128, 128  # 16 products of 2^14, 2^18 in all, of which a 64th is 2^12
    got = compile_function(func).simulate(*arrays).arrays["D"]
    assert (got == 4096).all()


@pytest.mark.parametrize("result", ["float32", "float16", "int32"])
def test_factors_of_products_from_memory_known_at_run_time(result):
    kind = "int32" if result == "int32" else "float32"
    source = "int8" if result == "int32" else "float16"
    func = kernel(
        "tid = Tx.thread_id([128])\nTx.cta.gemm(D[:, :], A[:, :], B[:, :], C[:, :], False, True, alpha, beta)",
        f'A: Tx.Buffer((8, 4), "{source}"), B: Tx.Buffer((8, 4), "{source}"), C: Tx.Buffer((8, 8), "{result}"), '
        f'D: Tx.Buffer((8, 8), "{result}"), alpha: Tx.{kind}, beta: Tx.int32',
    )
    arrays = [whole((8, 4), source, 0), whole((8, 4), source, 1), whole((8, 8), result, 2), whole((8, 8), result, 3)]
    factors = [np.dtype(kind).type(2), np.int32(-3)]
    assert check(func, [*arrays, *factors], assemble=True).chosen.node == "ProductFma"


def test_every_mutant_of_a_scaled_product_breaks_the_equation():
    func = register_product((16, 8, 16), ("float16", "float16", "float32"), alpha="alpha", beta="beta", scalars=SCALARS)
    choices, bodies, program, rest = lowered(func)
    choice = next(c for c in choices if c.context.op == "gemm")
    body = bodies[choice.context.index]
    assert verdict(choice, body, bodies, program, rest).status == "equal"
    found = []
    for i, node in enumerate(body):
        opcode = getattr(node, "opcode", "")
        if opcode.startswith(("fma", "mul")):
            d, *values = node.operands
            for turned in ((*values[1:], values[0]), (values[0], values[0], *values[2:])):
                if list(turned) != values and not (opcode.startswith("mul") and set(turned) == set(values)):
                    found.append((*body[:i], dataclasses.replace(node, operands=(d, *turned)), *body[i + 1 :]))
            found.append((*body[:i], *body[i + 1 :]))
    assert len(found) >= 8
    for mutant in found:
        assert status(choice, mutant, bodies, program, rest) == "different"


def mutants(body):
    """Registers of an operand swapped, an operand of another instruction, one instruction left out, A for B's type."""
    for i, node in enumerate(body):
        if not node.opcode.startswith("mma"):
            continue

        def at(*new, i=i):
            return (*body[:i], *new, *body[i + 1 :])

        for k, o in enumerate(node.operands):
            if len(o) > 1 and o[0] != o[1]:
                turned = (*o[1:], o[0])
                operands = (*node.operands[:k], turned, *node.operands[k + 1 :])
                yield f"operand {k} turned", at(dataclasses.replace(node, operands=operands))
        yield "left out", at()
        yield "twice", at(node, node)


@pytest.mark.parametrize("dtypes", [("float16", "float16", "float32"), ("int8", "uint8", "int32")])
def test_every_mutant_breaks_the_equation(dtypes):
    depth = 2 * MMA_KINDS[dtypes].depths[0]
    choices, bodies, program, rest = lowered(register_product((16, 8, depth), dtypes))
    choice = next(c for c in choices if c.context.op == "gemm")
    body = bodies[choice.context.index]
    assert verdict(choice, body, bodies, program, rest).status == "equal"
    found = list(mutants(body))
    assert len(found) >= 10
    for what, mutant in found:
        assert verdict(choice, mutant, bodies, program, rest).status == "different", what


#: (A's dtype, D's) -> alpha and beta of a product from memory.
FROM_MEMORY = {
    ("float32", "float32"): (2.0, 1.0), ("float16", "float16"): (1.0, 0.0), ("int8", "int32"): (1, 1),
    ("float64", "float64"): (1.0, 0.5), ("bfloat16", "float32"): (1.0, 1.0), ("int64", "int64"): (3, 0),
}  # fmt: skip


@pytest.mark.parametrize(("dtype", "result"), FROM_MEMORY)
@pytest.mark.parametrize("scope", ["thread", "warp", "wg", "cta"])
def test_element_by_element(dtype, result, scope):
    """Operands in memory, or in one thread's registers: multiplications and additions of single elements."""
    alpha, beta = FROM_MEMORY[dtype, result]
    guard = {"thread": "if tid == 0:\n    Tx", "warp": "if w == 0:\n    Tx.warp"}.get(scope, f"Tx.{scope}")
    rest = f"False, True, {alpha}, {beta}"
    func = kernel(
        f"tid = Tx.thread_id([128])\nw = Tx.warp_id([4])\n{guard}.gemm(D[:, :], A[:, :], B[:, :], C[:, :], {rest})",
        f'A: Tx.Buffer((8, 4), "{dtype}"), B: Tx.Buffer((8, 4), "{dtype}"), C: Tx.Buffer((8, 8), "{result}"), '
        f'D: Tx.Buffer((8, 8), "{result}")',
    )
    arrays = [whole((8, 4), dtype, 0), whole((8, 4), dtype, 1), whole((8, 8), result, 2), whole((8, 8), result, 3)]
    assert check(func, arrays, assemble=scope == "cta").chosen.node == "ProductFma"


def test_products_of_one_thread():
    func = kernel(
        """
tid = Tx.thread_id([32])
a = Tx.alloc_local((2, 4), "float16")
b = Tx.alloc_local((4, 2), "float16")
c = Tx.alloc_local((2, 2), "float32")
Tx.copy(a[:, :], A[tid, :, :])
Tx.copy(b[:, :], B[tid, :, :])
Tx.gemm(c[:, :], a[:, :], b[:, :], c[:, :])
Tx.copy(D[tid, :, :], c[:, :])
""",
        'A: Tx.Buffer((32, 2, 4), "float16"), B: Tx.Buffer((32, 4, 2), "float16"), D: Tx.Buffer((32, 2, 2), "float32")',
    )
    rng = np.random.default_rng(4)
    shapes = (((32, 2, 4), "float16"), ((32, 4, 2), "float16"), ((32, 2, 2), "float32"))
    arrays = [rng.integers(-3, 4, s).astype(t) for s, t in shapes]
    assert check(func, arrays).chosen.node == "ProductFma"


def test_every_mutant_of_a_product_element_by_element_breaks_the_equation():
    func = kernel(
        "tid = Tx.thread_id([32])\nTx.cta.gemm(D[:, :], A[:, :], B[:, :], D[:, :], beta=2.0)",
        'A: Tx.Buffer((4, 4), "float32"), B: Tx.Buffer((4, 8), "float32"), D: Tx.Buffer((4, 8), "float32")',
    )
    choices, bodies, program, rest = lowered(func)
    (choice,) = choices
    body = bodies[choice.context.index]
    assert verdict(choice, body, bodies, program, rest).status == "equal"
    found = list(memory_mutants(body))
    for i, node in enumerate(body):
        if node.opcode.startswith(("fma", "mul")):
            d, a, _, *c = node.operands
            nothing = dataclasses.replace(node, operands=(d, a, 0.0, *c))
            found.append((f"{node.opcode} {i} of nothing", (*body[:i], nothing, *body[i + 1 :])))
    assert len(found) > 10
    for what, mutant in found:
        assert verdict(choice, mutant, bodies, program, rest).status == "different", what
