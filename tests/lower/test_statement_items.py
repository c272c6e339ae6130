"""What statements become, shown in the PTX of one kernel each: widths, products of counters, shared terms, alignment."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tirx_eq.interp.run import interpret
from tirx_eq.lower.kernel import Kernel, compile_function
from tirx_eq.ptx.ptxas import assemble, disassemble, find_tool

from .kernels import kernel

THREADS = "t = Tx.thread_id([128])\nb = Tx.cta_id([4])\n"


def compiled(body: str, params: str, *arrays: object, header: str = "") -> tuple[Kernel, dict[str, np.ndarray]]:
    """The kernel, and what it leaves in its buffers; the interpreter leaves the same."""
    func = kernel(THREADS + body, params, header)
    made = compile_function(func)
    ran = made.simulate(*arrays)
    assert not ran.faults, [str(f) for f in ran.faults[:3]]
    wanted = interpret(func, *arrays)
    for name, array in wanted.items():
        np.testing.assert_array_equal(ran.arrays[name], array)
    return made, ran.arrays


def pieces(ptx: str) -> tuple[str, str]:
    """The text before the loop and that in it."""
    head, _, rest = ptx.partition("\nL_for:")
    return head, rest.partition("@%p")[0] if rest else ""


@pytest.mark.parametrize(("rows", "wide"), [(4, False), (3_000_000, True)])
def test_addresses_have_the_width_that_they_need(rows, wide):
    """4 rows of 4000 bytes fit 32 bits; the last of three million doesn't, and only what may overflow is computed in 64."""
    body = f"for n in Tx.serial({rows}):\n    C[n, b * 128 + t] = A[n, b * 128 + t]"
    params = f'A: Tx.Buffer(({rows}, 1000), "float32"), C: Tx.Buffer(({rows}, 1000), "float32")'
    ptx = compile_function(kernel(THREADS + body, params)).ptx
    loop = ptx[ptx.index("L_for:") :]
    assert bool(re.search(r"(mul|mad)\.(lo|wide)\.[su](64|32) %rd|mul\.wide", loop)) == wide, ptx
    assert "cvt.u64.u32" in ptx  # what fits 32 bits is widened once, at the end
    if not wide:
        arrays = (np.arange(4000, dtype=np.float32).reshape(4, 1000), np.zeros((4, 1000), np.float32))
        _, found = compiled(body, params, *arrays)
        np.testing.assert_array_equal(found["C"][:, :512], arrays[0][:, :512])


def test_products_of_a_counter_become_sums():
    a = np.arange(4096, dtype=np.float32)
    made, _ = compiled(
        "x: Tx.float32 = 0.0\nfor k in Tx.serial(20):\n    x = x + A[k * 24 + t]\nC[b * 128 + t] = x",
        'A: Tx.Buffer((4096,), "float32"), C: Tx.Buffer((512,), "float32")', a, np.zeros(512, np.float32),
    )  # fmt: skip
    _, loop = pieces(made.ptx)
    assert "mul" not in loop and "mad" not in loop and re.search(r"add\.s32 (%r\d+), \1, (0x)?(60|96)", loop), loop


def test_what_two_accesses_share_is_computed_once():
    a = np.arange(4096, dtype=np.float32)
    made, _ = compiled(
        "C[(b * 128 + t) * 7] = A[(b * 128 + t) * 7] + A[(b * 128 + t) * 7 + 9]",
        'A: Tx.Buffer((4096,), "float32"), C: Tx.Buffer((4096,), "float32")', a, np.zeros(4096, np.float32),
    )  # fmt: skip
    assert len(re.findall(r"(mul|mad)\.", made.ptx)) <= 2
    assert len(set(re.findall(r"ld\.global\S* %r\d+, \[(%rd\d+)", made.ptx))) == 1, made.ptx
    assert re.search(r"\[%rd\d+\+36\]", made.ptx)  # the constant is part of the second load's address


@pytest.mark.parametrize(("shift", "vector"), [("4 * n", True), ("n", False)])
def test_wide_accesses_need_proved_alignment(shift, vector):
    """A row that begins at a multiple of 16 bytes is read 16 bytes at a time; else the report names the condition."""
    a, d = np.arange(1024, dtype=np.float32), np.zeros((512, 8), np.float32)
    made, _ = compiled(
        f"r = Tx.alloc_local((8,), 'float32')\nTx.copy(r[:], A[{shift} : {shift} + 8])\nTx.copy(C[b * 128 + t, :], r[:])",
        'A: Tx.Buffer((1024,), "float32"), C: Tx.Buffer((512, 8), "float32"), n: Tx.int32', a, d, 5,
    )  # fmt: skip
    assert ("ld.global.v4" in made.ptx) == vector
    refused = "aligned in the source (for 16): an access is not at a multiple of 16 bytes"
    assert (refused in made.explain()) != vector


@pytest.mark.skipif(find_tool("nvdisasm") is None, reason="NVDISASM IS NOT INSTALLED: nothing disassembled")
def test_small_branches_are_predicated_in_the_end():
    """PTX has branches around them: ptxas predicates what is short, and knows better which (guards in the PTX made kernels of
    the ladder longer)."""
    made, _ = compiled(
        "if b * 128 + t < 500:\n    C[b * 128 + t] = A[b * 128 + t] + Tx.float32(1)",
        'A: Tx.Buffer((500,), "float32"), C: Tx.Buffer((500,), "float32")', np.ones(500, np.float32), np.zeros(500, np.float32),
    )  # fmt: skip
    text = disassemble(assemble(made.ptx, "sm_100a").cubin)
    used = text[: text.index("EXIT", text.index("STG")) if "STG" in text else len(text)]
    assert re.search(r"@!?P\d+ (EXIT|LDG|STG)", used) and "BSSY" not in used


def test_a_persistent_scheduler_divides_by_shifts():
    """Coordinates of tiles: with a group of 4 rows of 8 tiles there is no division, and all the loop's threads agree on it."""
    made, arrays = compiled(
        "s = ClusterPersistentScheduler2D('s', 8, 8, 4, l2_group_size=4)\ns.init(b)\nwhile s.valid():\n"
        "    if t == 0:\n        C[s.m_idx, s.n_idx] = b + 1\n    s.next_tile()",
        'C: Tx.Buffer((8, 8), "int32")', np.zeros((8, 8), np.int32),
        header="from tirx_eq.script.lang import ClusterPersistentScheduler2D\n",
    )  # fmt: skip
    assert not re.search(r"\b(div|rem)\.", made.ptx)
    assert sorted(arrays["C"].ravel().tolist()) == sorted(16 * [1, 2, 3, 4])
