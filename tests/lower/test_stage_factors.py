"""``gemm`` with operands in tensor memory: rows in registers, the factor that all threads want through shared memory."""

from __future__ import annotations

import numpy as np
import pytest

from tirx_eq.interp.run import interpret
from tirx_eq.lower.candidates import NoCandidate
from tirx_eq.lower.kernel import compile_function

from .kernels import kernel

HEAD = """
tid = Tx.thread_id([{threads}])
w = Tx.warp_id([{warps}])
g = Tx.warpgroup_id([{groups}])
addr = Tx.alloc_shared([1], "uint32")
if w == 0:
    Tx.ptx.tcgen05.alloc(Tx.address_of(addr[0]), n_cols=512, cta_group=1)
Tx.ptx.tcgen05.fence.before_thread_sync()
Tx.cuda.cta_sync()
Tx.ptx.tcgen05.fence.after_thread_sync()
"""
OPERAND = """
t{name} = Tx.decl_buffer((128, {columns}), "float32", scope="tmem", allocated_addr=addr[0] + {first}, layout={layout})
r{name} = Tx.alloc_local(({row},), "float32")
v{name} = r{name}.view(128, {row}, layout=TileLayout(S[(128, {row}) : (1 @ tid_in_wg, 1)]))
Tx.copy(r{name}[:], {name}[tid, :])
Tx.wg.copy_async(t{name}[:, g * {row} : g * {row} + {row}], v{name}[:, :])
Tx.ptx.tcgen05.wait.st()
"""
TAIL = """
Tx.wg.copy_async(vD[:, :], tD[:, g * 8 : g * 8 + 8])
Tx.ptx.tcgen05.wait.ld()
Tx.copy(D[tid, :], rD[:])
Tx.ptx.tcgen05.fence.before_thread_sync()
Tx.cuda.cta_sync()
Tx.ptx.tcgen05.fence.after_thread_sync()
if w == 0:
    Tx.ptx.tcgen05.relinquish_alloc_permit(cta_group=1)
    Tx.ptx.tcgen05.dealloc(addr[0], n_cols=512, cta_group=1)
"""
COLUMNS = "g * 8 : g * 8 + 8"


def product(call: str, groups: int = 1, a: int = 8):
    """A kernel of ``groups`` warpgroups, each with its columns of A (``a`` of them), B, C and D in tensor memory."""
    text = HEAD.format(threads=128 * groups, warps=4 * groups, groups=groups)
    first, params = 0, []
    for name, row in (("A", a), ("B", 8), ("C", 8), ("D", 8)):
        columns = row * groups
        layout = f"TileLayout(S[(128, {columns}) : (1 @ TLane, 1 @ TCol)])"
        text += OPERAND.format(name=name, row=row, columns=columns, first=first, layout=layout)
        params.append(f'{name}: Tx.Buffer(({128 * groups}, {row}), "float32")')
        first += columns
    return kernel(text + call + TAIL, ", ".join(params), "from tirx_eq.layout import TCol, TLane, tid_in_wg\n")


def run(func, seed=0):
    """D of the simulator, after it was compared with the interpreter's, and what A, B and C were."""
    rng = np.random.default_rng(seed)
    given = [rng.integers(-3, 4, tuple(int(e) for e in func.buffer_map[p].shape)).astype(np.float32) for p in func.params]
    made = compile_function(func)
    for policy in ("late", "early", "random"):
        result = made.simulate(*given, policy=policy, seed=3)
        assert not result.faults, [str(f) for f in result.faults[:3]]
        np.testing.assert_array_equal(result.arrays["D"], interpret(func, *given)["D"])
    return result.arrays["D"], given


WHOLE = f"Tx.{{}}.gemm(tD[:, {COLUMNS}], tA[:, {COLUMNS}], tB[0:8, {COLUMNS}], tC[:, {COLUMNS}], beta={{}})"


@pytest.mark.parametrize("scope", ["wg", "cta"])
@pytest.mark.parametrize("beta", [0, 1])
def test_all_in_tensor_memory(scope, beta):
    got, (a, b, c, _) = run(product(WHOLE.format(scope, beta)))
    np.testing.assert_array_equal(got, a @ b[:8] + beta * c)


def test_each_warpgroup_has_its_factor():
    got, (a, b, _, _) = run(product(WHOLE.format("wg", 0), groups=2))
    np.testing.assert_array_equal(got, np.concatenate([a[:128] @ b[:8], a[128:] @ b[128:136]]))


def test_the_first_warpgroup_multiplies_for_a_cta_of_two():
    call = "Tx.cta.gemm(tD[:, 0:8], tA[:, 0:8], tB[0:8, 0:8], tC[:, 0:8], beta=1)\n"
    between = "Tx.ptx.tcgen05.fence.before_thread_sync()\nTx.cuda.cta_sync()\nTx.ptx.tcgen05.fence.after_thread_sync()\n"
    got, (a, b, c, d) = run(product(between + call + between, groups=2))
    np.testing.assert_array_equal(got, np.concatenate([a[:128] @ b[:8] + c[:128], d[128:]]))


def test_each_warp_has_its_factor():
    rows = "w * 32 : w * 32 + 32"
    call = f"Tx.warp.gemm(tD[{rows}, 0:8], tA[{rows}, 0:8], tB[w * 32 : w * 32 + 8, 0:8], tC[{rows}, 0:8], beta=1)"
    got, (a, b, c, _) = run(product(call))
    parts = [a[w : w + 32] @ b[w : w + 8] for w in range(0, 128, 32)]
    np.testing.assert_array_equal(got, np.concatenate(parts) + c)


def test_rows_in_the_middle_of_the_lanes():
    call = "Tx.wg.gemm(tD[:, :], tA[:, :], tB[100:108, :], tC[:, :], transpose_B=True, alpha=2.0, beta=0)"
    got, (a, b, _, _) = run(product(call))
    np.testing.assert_array_equal(got, 2 * (a @ b[100:108].T))


def test_a_transposed_factor():
    got, (a, b, _, _) = run(product("Tx.wg.gemm(tD[:, :], tA[0:4, :], tB[0:4, :], tC[:, :], transpose_A=True, beta=0)", a=128))
    np.testing.assert_array_equal(got, a[:4].T @ b[:4])


def test_in_a_loop_the_next_factor_waits_until_this_one_is_read():
    call = (
        "for i in range(3):\n"
        "    Tx.wg.gemm(tD[:, :], tA[:, :], tB[0:8, :], tD[:, :], beta=1)\n"
        "    Tx.wg.add(tB[:, :], tB[:, :], 1.0)\n"
    )
    got, (a, b, _, d) = run(product(call))
    np.testing.assert_array_equal(got, d + sum(a @ (b[:8] + i) for i in range(3)))


@pytest.mark.parametrize(("call", "groups"), [
    ("Tx.gemm(tD[0:1, 0:8], tA[0:1, 0:8], tB[0:8, 0:8], tC[0:1, 0:8], beta=0)", 1),  # a thread
    ("if w == 0:\n    Tx.warp.gemm(tD[0:32, :], tA[0:32, :], tB[28:36, :], tC[0:32, :], beta=0)", 1),  # lanes of two warps
])  # fmt: skip
def test_lanes_that_are_not_reached(call, groups):
    with pytest.raises(NoCandidate, match="is in tensor memory"):
        compile_function(product(call, groups))
