"""What kernels of real libraries do beside tile primitives: maps that the kernel writes, arrays indexed at run time, words
of 128 bits, waits for global memory.  Compiled, assembled, executed, compared with numpy."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tirx_eq.errors import LoweringError, TirxError
from tirx_eq.interp import interpret
from tirx_eq.ir import BufferStore, Cast, StmtMutator
from tirx_eq.lower.kernel import compile_function
from tirx_eq.script import parse_source

from .kernels import HEADER, kernel, with_tensor_memory

RANDOM = np.random.default_rng(5)
POLICIES = ("late", "early", "random")


def host_kernel(host: str, body: str, params: str):
    """A kernel with statements before the device's entry."""
    lines = [*host.strip("\n").splitlines(), "Tx.device_entry()", *body.strip("\n").splitlines()]
    text = "\n".join("    " + line for line in lines)
    return parse_source(f"{HEADER}\n\n@Tx.prim_func\ndef k({params}):\n{text}\n", "k.py")["k"]


# -- arrays that are indexed at run time -----------------------------------------------------------------------------

ARRAYS = {
    "read and written": (
        "r[I[t] % 8] = r[(I[t] + 3) % 8] + Tx.float32(1.0)\nfor i in Tx.unroll(8):\n    C[t] = C[t] + r[i]"),
    "a loop of as many rounds as data say": (
        "for i in Tx.serial(I[t] % 8):\n    r[i] = r[i] * Tx.float32(2.0)\nC[t] = r[0] + r[I[t] % 8]"),
    "halves of words": (
        "h = Tx.decl_buffer((16,), 'float16', data=r.data, scope='local')\nh[I[t] % 16] = Tx.float16(1.5)\n"
        "C[t] = Tx.Cast('float32', h[(I[t] + 2) % 16]) + r[I[t] % 8]"),
    "where a branch says": (
        "if I[t] > 50:\n    r[I[t] % 3] = Tx.float32(9.0)\nelse:\n    r[0] = Tx.float32(4.0)\nC[t] = r[0] + r[t % 8]"),
    "written by an instruction": (
        "Tx.call_intrin('void', 'tirx.ptx.instruction', 'ld', 'ld.global.f32', r[t % 8], Tx.address_of(A[63 - t, 1]), '')\n"
        "C[t] = r[t % 8]"),
    "counters and values": (
        "n = Tx.alloc_local((4,), 'int32')\nfor i in Tx.unroll(4):\n    n[i] = 0\nfor i in Tx.serial(5):\n"
        "    n[(I[t] + i * i) % 4] = n[(I[t] + i * i) % 4] + 1\nC[t] = r[n[0]] + Tx.Cast('float32', n[3])"),
}  # fmt: skip


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_indexed_at_run_time(name):
    """They are in local memory, and the kernel says so."""
    body = "t = Tx.thread_id([64])\nr = Tx.alloc_local((8,), 'float32')\nfor i in Tx.unroll(8):\n    r[i] = A[t, i]\n"
    func = kernel(
        body + ARRAYS[name], 'A: Tx.Buffer((64, 8), "float32"), I: Tx.Buffer((64,), "int32"), C: Tx.Buffer((64,), "float32")'
    )
    with pytest.warns(UserWarning, match="of each thread.* is indexed at run time"):
        made = compile_function(func)
    assert "st.local" in made.ptx and "ld.local" in made.ptx
    made.assemble()
    a = RANDOM.integers(0, 64, (64, 8)).astype(np.float32)
    index, c = RANDOM.integers(0, 100, 64).astype(np.int32), np.zeros(64, np.float32)
    found = made.simulate(a, index, c)
    assert not found.faults
    np.testing.assert_array_equal(found.arrays["C"], interpret_or_self(func, name, a, index, c))


def interpret_or_self(func, name, a, index, c):
    """The interpreter's result; it doesn't know PTX instructions, so that one is written out."""
    if name == "written by an instruction":
        return a[::-1, 1]
    return interpret(func, a, index, c)["C"]


def test_arrays_of_known_elements_stay_in_registers():
    """An index that only simplification makes a number counts as one."""
    func = kernel(
        "t = Tx.thread_id([32])\nr = Tx.alloc_local((4,), 'int32')\nfor i in Tx.unroll(4):\n    r[i] = A[t] + i\n"
        "A[t] = r[(t * 8 + 2) % 4]", 'A: Tx.Buffer((32,), "int32")')  # fmt: skip
    made = compile_function(func)
    assert ".local" not in made.ptx and not made.warnings
    assert made.simulate(np.arange(32, dtype=np.int32)).arrays["A"].tolist() == list(range(2, 34))


def test_arrays_of_tile_primitives():
    """A primitive works on registers, into which the array comes before and out of which it goes after."""
    body = """
t = Tx.thread_id([32])
r = Tx.alloc_local((8,), "float16")
q = Tx.alloc_local((7,), "float16")
Tx.copy(r[:], A[t, :])
for i in Tx.unroll(7):
    q[i] = Tx.float16(1.0)
q[I[t] % 7] = r[(I[t] + 1) % 8]
Tx.add(r[0:4], r[0:4], q[2:6])
Tx.copy(B[t, :], r[:])
B[t, I[t] % 8] = q[I[t] % 7]
"""
    func = kernel(body, 'A: Tx.Buffer((32, 8), "float16"), I: Tx.Buffer((32,), "int32"), B: Tx.Buffer((32, 8), "float16")')
    with pytest.warns(UserWarning, match="'q' .14 bytes of each thread. is indexed at run time"):
        made = compile_function(func)
    made.assemble()
    a, index = RANDOM.random((32, 8)).astype(np.float16), RANDOM.integers(0, 100, 32).astype(np.int32)
    found = made.simulate(a, index, np.zeros((32, 8), np.float16))
    assert not found.faults
    np.testing.assert_array_equal(found.arrays["B"], interpret(func, a, index, np.zeros((32, 8), np.float16))["B"])


def test_arrays_that_come_from_tensor_memory():
    """They are waited for before they go to memory."""
    body = "tid = Tx.thread_id([128])\nw = Tx.warp_id([4])\n" + with_tensor_memory(
        """
t = Tx.decl_buffer((128, 8), "float32", scope="tmem", allocated_addr=addr[0],
                   layout=TileLayout(S[(128, 8):(1 @ TLane, 1 @ TCol)]))
a = Tx.alloc_local((8,), "float32")
b = Tx.alloc_local((8,), "float32")
va = a.view(128, 8, layout=TileLayout(S[(128, 8):(1 @ tid_in_wg, 1)]))
vb = b.view(128, 8, layout=TileLayout(S[(128, 8):(1 @ tid_in_wg, 1)]))
Tx.wg.copy(va[:, :], A[:, :])
a[tid % 8] = Tx.float32(7.0)
Tx.wg.copy_async(t[:, :], va[:, :])
Tx.ptx.tcgen05.wait.st()
Tx.wg.copy_async(vb[:, :], t[:, :])
Tx.ptx.tcgen05.wait.ld()
B[tid] = b[(tid + 1) % 8] + b[tid % 8]
""", 32)  # fmt: skip
    func = kernel(body, 'A: Tx.Buffer((128, 8), "float32"), B: Tx.Buffer((128,), "float32")')
    with pytest.warns(UserWarning, match="is indexed at run time"):
        made = compile_function(func)
    made.assemble()
    a, t = RANDOM.random((128, 8)).astype(np.float32), np.arange(128)
    for policy in POLICIES:
        found = made.simulate(a, np.zeros(128, np.float32), policy=policy)
        assert not found.faults, found.faults
        np.testing.assert_array_equal(found.arrays["B"], a[t, (t + 1) % 8] + np.float32(7.0))


# -- tensor maps -----------------------------------------------------------------------------------------------------

ENCODE = {
    "an operator": "Tx.evaluate(Tx.tensormap_encode_tiled(m, {at}, 64, 16, 128, 64, 8, 1, 1, descriptor_dtype='float16', "
                   "rank=2, swizzle=3, l2_promotion=2))",
    "a packed function": "Tx.call_intrin('int32', 'tirx.tvm_call_packed', 'runtime.cuTensorMapEncodeTiled', m, 'float16', 2, "
                         "{at}, 64, 16, 128, 64, 8, 1, 1, 0, 3, 2, 0)",
    "a packed function with the driver's type": "Tx.call_intrin('int32', 'tirx.tvm_call_packed', "
        "'runtime.cuTensorMapEncodeTiled', m, 'float16', 2, {at}, 64, 16, 128, 64, 8, 1, 1, 0, 3, 2, 0, 6)",
}  # fmt: skip
MAP = "m: Tx.let[Tx.TensorMap()] = Tx.call_intrin('handle', 'tirx.tvm_stack_alloca', 'tensormap', 1)\n"
MAP_PARAMS = 'A: Tx.Buffer((24, 64), "float16"), B: Tx.Buffer((8, 64), "float16"), W: Tx.Buffer((64,), "uint64")'
#: One box of the map at {map} comes to shared memory, and goes to B as it was.
FETCH = """
S = Tx.alloc_shared([8, 64], "float16", layout=Tx.ComposeLayout(3, 3, 3, Tx.TileLayout(S[512:1])))
bar = Tx.alloc_shared([1], "uint64")
if t == 0:
    Tx.ptx.mbarrier.init(Tx.address_of(bar[0]), 1)
    Tx.call_intrin("void", "tirx.ptx.instruction", "fence", "fence.mbarrier_init.release.cluster", "")
Tx.cuda.cta_sync()
if t == 0:
    Tx.ptx.mbarrier.arrive.expect_tx(Tx.address_of(bar[0]), 1024)
    Tx.ptx.cp_async.bulk.tensor.g2s_cta(2, Tx.address_of(S[0, 0]), Tx.address_of(bar[0]), {map}, 1, "", 0, 8)
Tx.ptx.mbarrier.try_wait(Tx.address_of(bar[0]), 0)
for i in Tx.unroll(16):
    B[(t + i * 32) // 64, (t + i * 32) % 64] = S[(t + i * 32) // 64, (t + i * 32) % 64]
"""


@pytest.mark.parametrize("name", ENCODE)
@pytest.mark.parametrize("offset", [0, 512])
def test_maps_of_the_host_part(name, offset):
    """Encoded by either operator, at the array's begin or some bytes into it."""
    at = f"Tx.handle_add_byte_offset(A.data, {offset})" if offset else "A.data"
    body = "t = Tx.thread_id([32])" + FETCH.replace("{map}", "Tx.address_of(m)")
    made = compile_function(host_kernel(MAP + ENCODE[name].replace("{at}", at), body, MAP_PARAMS))
    made.assemble()
    (given,) = [p.tensor_map for p in made.launch.params if p.tensor_map is not None]
    assert given.offset == offset and given.swizzle == "128B" and given.l2_promotion == "128B"
    a = RANDOM.standard_normal((24, 64)).astype(np.float16)
    for policy in POLICIES:
        found = made.simulate(a, np.zeros((8, 64), np.float16), np.zeros(64, np.uint64), policy=policy)
        assert not found.faults
        np.testing.assert_array_equal(found.arrays["B"], a[8 + offset // 128 : 16 + offset // 128])


@pytest.mark.parametrize(
    ("host", "message"),
    [
        (ENCODE["an operator"].replace("{at}", "m"), "a tensor map of what isn't a parameter's array"),
        (ENCODE["an operator"].replace("{at}", "A.data").replace("swizzle=3", "swizzle=9"), "a tensor map whose swizzle is 9"),
        (ENCODE["an operator"].replace("{at}", "A.data").replace("rank=2", "rank=3"), r"takes 4 \* rank \+ 1 operands"),
        (ENCODE["an operator"].replace("{at}", "A.data").replace("64, 8, 1, 1", "64, 300, 1, 1"), "300"),
        (ENCODE["a packed function"].replace("{at}", "A.data").replace("'float16'", "'bool'"), "isn't encoded as the driver"),
    ],
)
def test_maps_that_the_driver_refuses(host, message):
    body = "t = Tx.thread_id([32])" + FETCH.replace("{map}", "Tx.address_of(m)")
    with pytest.raises(TirxError, match=message):
        compile_function(host_kernel(MAP + host, body, MAP_PARAMS))


WORDS = {
    "loads through its address": """
q = Tx.alloc_local((16,), "uint64")
for i in Tx.unroll(4):
    Tx.call_intrin("void", "tirx.ptx.instruction", "ld_vec256", "ld.global.v4.b64", q[4 * i], q[4 * i + 1], q[4 * i + 2],
                   q[4 * i + 3], Tx.reinterpret("handle", Tx.address_of(m) + 32 * i), "")
""",
    "a view of its bytes": """
q = Tx.decl_buffer((16,), "uint64", data=Tx.reinterpret("handle", Tx.address_of(m)),
                   scope="param")
""",
}


@pytest.mark.parametrize("name", WORDS)
def test_maps_that_the_kernel_copies(name):
    """A kernel copies a map to its workspace, changes where it begins, and fetches through the copy."""
    copied = "\n".join("    " + line for line in WORDS[name].strip("\n").splitlines())
    body = f"""
t = Tx.thread_id([32])
if t == 0:
{copied}
    for i in Tx.unroll(16):
        W[i] = q[i]
    Tx.call_intrin("void", "tirx.ptx.instruction", "tensormap_replace_address",
                   "tensormap.replace.tile.global_address.global.b1024.b64", Tx.address_of(W[0]),
                   Tx.reinterpret("uint64", Tx.address_of(A[8, 0])), "")
    Tx.call_intrin("void", "tirx.ptx.instruction", "fence", "fence.proxy.tensormap::generic.release.gpu", "")
    Tx.call_intrin("void", "tirx.ptx.instruction", "fence", "fence.proxy.tensormap::generic.acquire.gpu",
                   Tx.reinterpret("handle", Tx.reinterpret("uint64", Tx.address_of(W[0]))), 128, "")
""" + FETCH.replace("{map}", "Tx.address_of(W[0])")
    made = compile_function(host_kernel(MAP + ENCODE["an operator"].replace("{at}", "A.data"), body, MAP_PARAMS))
    made.assemble()
    a = RANDOM.standard_normal((24, 64)).astype(np.float16)
    for policy in POLICIES:
        found = made.simulate(a, np.zeros((8, 64), np.float16), np.zeros(64, np.uint64), policy=policy)
        assert not found.faults, found.faults
        np.testing.assert_array_equal(found.arrays["B"], a[16:24])


@pytest.mark.parametrize(("name", "read"), [*zip(WORDS, (r"mov.b64 %rd\d+, m;", r"ld.param.b64 %rd\d+, \[m\+120\]"))])
def test_maps_among_the_parameters(name, read):
    """A map that the caller encodes: its bytes are those of the parameter."""
    body = f"t = Tx.thread_id([32]){WORDS[name]}for i in Tx.unroll(16):\n    W[i] = q[i]"
    made = compile_function(kernel(body, 'm: Tx.TensorMap(), W: Tx.Buffer((16,), "uint64")'))
    made.assemble()
    assert re.search(read, made.ptx)


def test_views_of_parameters_that_are_no_maps():
    body = "v = Tx.decl_buffer((2,), 'uint64', data=Tx.reinterpret('handle', Tx.address_of(W[0])), scope='param')\nW[1] = v[0]"
    with pytest.raises(LoweringError, match="is in param memory, but not at the address of a tensor map"):
        compile_function(kernel(body, 'W: Tx.Buffer((16,), "uint64")'))


# -- words of 128 bits, waits, constant conditions ------------------------------------------------------------------------


def test_registers_of_128_bits():
    body = """
t = Tx.thread_id([64])
w = Tx.alloc_local((2,), "uint128")
h = Tx.decl_buffer((8,), "uint32", data=w.data, scope="local")
Tx.call_intrin("void", "tirx.ptx.instruction", "ld", "ld.global.b128", w[1], Tx.address_of(A[t, 0]), "")
w[0] = w[1]
h[1] = h[1] + Tx.uint32(7)
Tx.call_intrin("void", "tirx.ptx.instruction", "st", "st.global.b128", Tx.address_of(B[t, 0]), w[0], "")
"""
    made = compile_function(kernel(body, 'A: Tx.Buffer((64, 4), "uint32"), B: Tx.Buffer((64, 4), "uint32")'))
    made.assemble()
    a = RANDOM.integers(0, 1 << 32, (64, 4), dtype=np.uint32)
    found = made.simulate(a, np.zeros_like(a))
    assert not found.faults
    np.testing.assert_array_equal(found.arrays["B"], a + np.array([0, 7, 0, 0], np.uint32))


@pytest.mark.parametrize("backoff", [0, 20])
def test_waits_for_a_word_of_global_memory(backoff):
    """The second CTA publishes, the first waits for it."""
    body = f"""
bx = Tx.cta_id([2])
t = Tx.thread_id([32])
seen = Tx.local_scalar("int32")
if bx == 1:
    A[t] = t * 3
    Tx.cuda.warp_sync()
    Tx.call_intrin("void", "tirx.ptx.instruction", "fence", "fence.acq_rel.gpu", "")
    if t == 0:
        Tx.call_intrin("void", "tirx.ptx.instruction", "red", "red.release.gpu.global.add.s32", Tx.address_of(N[0]), 5, "")
else:
    if t == 0:
        Tx.call_intrin("void", "tirx.cuda.wait_until", seen, Tx.address_of(N[0]), seen >= 5, "gpu", "global", "b32", {backoff})
        B[32] = seen
    Tx.cuda.warp_sync()
    B[t] = A[t] + 1
"""
    func = kernel(body, 'N: Tx.Buffer((1,), "int32"), A: Tx.Buffer((32,), "int32"), B: Tx.Buffer((33,), "int32")')
    made = compile_function(func)
    made.assemble()
    assert ("nanosleep" in made.ptx) == bool(backoff)
    for policy in POLICIES:
        found = made.simulate(np.zeros(1, np.int32), np.zeros(32, np.int32), np.zeros(33, np.int32), policy=policy)
        assert not found.faults, found.faults
        assert found.arrays["B"].tolist() == [*range(1, 97, 3), 5]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ('A[0], Tx.address_of(N[0]), seen >= 5, "gpu", "global", "b32", 0', "reads into a scalar of the thread"),
        ('seen, Tx.address_of(N[0]), seen >= 5, "gpu", "shared", "b32", 0', "waits in global memory .*, not in shared memory"),
        ('seen, Tx.address_of(N[0]), seen >= 5, "gpu", "global", "b128", 0', "a word of type 'b128'"),
    ],
)
def test_waits_that_are_none(args, message):
    body = f'seen = Tx.local_scalar("int32")\nTx.call_intrin("void", "tirx.cuda.wait_until", {args})'
    with pytest.raises(LoweringError, match=message):
        compile_function(kernel(body, 'N: Tx.Buffer((1,), "int32"), A: Tx.Buffer((32,), "int32")'))


def test_conditions_that_unrolling_makes_constant():
    """The branch that nobody takes is no code, so what needs whole warps may stand in it."""
    body = """
t = Tx.thread_id([32])
v = Tx.local_scalar("uint32")
for i in Tx.unroll(3):
    if i == 0:
        v = Tx.reinterpret("uint32", A[t])
    else:
        Tx.call_intrin("void", "tirx.ptx.instruction", "shfl_sync", "shfl.sync.bfly.b32", v, v, Tx.uint32(1) << (i - 1),
                       Tx.uint32(31), Tx.uint32(4294967295), "")
        if (i & 2) == 0 and i > 1:
            Tx.call_intrin("void", "tirx.ptx.instruction", "bar_warp_sync", "bar.sync", Tx.uint32(3), "")
A[t] = Tx.reinterpret("int32", v)
"""
    made = compile_function(kernel(body, 'A: Tx.Buffer((32,), "int32")'))
    made.assemble()
    assert "setp" not in made.ptx and "bar.sync" not in made.ptx
    found = made.simulate(np.arange(32, dtype=np.int32))
    assert not found.faults and found.arrays["A"].tolist() == [i ^ 3 for i in range(32)]


# -- operands of instructions ------------------------------------------------------------------------------------------------


def test_constants_where_an_instruction_wants_a_register():
    """Packed halves have no immediates."""
    body = """
t = Tx.thread_id([32])
r = Tx.local_scalar("uint32")
Tx.call_intrin("void", "tirx.ptx.instruction", "fma", "fma.rn.bf16x2", r, A[t], Tx.uint32(0x40003F80),
               Tx.uint32(0x3F803F80), "")
B[t] = r
"""
    made = compile_function(kernel(body, 'A: Tx.Buffer((32,), "uint32"), B: Tx.Buffer((32,), "uint32")'))
    made.assemble()
    a = np.full(32, 0x40404000, np.uint32)  # (2, 3) in bfloat16
    found = made.simulate(a, np.zeros(32, np.uint32))
    assert not found.faults and set(found.arrays["B"].tolist()) == {0x40E04040}  # (2 * 1 + 1, 3 * 2 + 1)


def test_a_pair_of_e2m1_in_a_byte():
    body = """
t = Tx.thread_id([64])
b = Tx.alloc_local((1,), "uint8")
r = Tx.local_scalar("uint32")
b[0] = Tx.Cast("uint8", A[t] & Tx.uint32(255))
Tx.call_intrin("void", "tirx.ptx.instruction", "cvt_f16x2_f4x2", "cvt.rn.f16x2.e2m1x2", r, b[0], "")
B[t] = r
"""
    made = compile_function(kernel(body, 'A: Tx.Buffer((64,), "uint32"), B: Tx.Buffer((64,), "uint32")'))
    made.assemble()
    a = np.arange(64, dtype=np.uint32) * 5 + 0x100
    values = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float16).view(np.uint16)
    want = values[a & 15].astype(np.uint32) | values[a >> 4 & 15].astype(np.uint32) << 16
    found = made.simulate(a, np.zeros(64, np.uint32))
    assert not found.faults
    np.testing.assert_array_equal(found.arrays["B"], want)


@pytest.mark.parametrize("dtype", ["float32", "float16", "float8_e4m3fn", "int32", "uint64"])
def test_casts_to_the_same_dtype(dtype):
    """The script makes none of them, but importers keep what they find."""

    class Casting(StmtMutator):
        def visit_buffer_store(self, s):
            return BufferStore(s.buffer, Cast(dtype, s.value), s.indices) if s.buffer.name == "A" else s

    body = f't = Tx.thread_id([32])\nx = Tx.alloc_local((1,), "{dtype}")\nx[0] = A[t]\nA[t] = x[0]'
    func = kernel(body, f'A: Tx.Buffer((32,), "{dtype}")')
    made = compile_function(Casting().visit_prim_func(func))
    made.assemble()
    assert "cvt.rn" not in made.ptx
