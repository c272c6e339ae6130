"""Small programs in the source language, as text.

Between them they use every statement and expression node.  The text is written against one set of import lines
(:data:`IMPORTS`), so that the same program can be given to TVM (:func:`theirs`) and to this package (:func:`ours`).
"""

from __future__ import annotations

import re

IMPORTS = """\
from __future__ import annotations

from {script} import tirx as T
from {script}.tirx import tile as Tx
from {layout} import S, R, TCol, TileLayout, TLane, laneid, tid_in_wg
from {hardware} import mma_shared_layout
"""


def ours(name: str) -> str:
    """The program's text with imports of this package."""
    lines = IMPORTS.format(script="tirx_eq.script", layout="tirx_eq.layout", hardware="tirx_eq.layout")
    return lines + PROGRAMS[name]


def theirs(name: str) -> str:
    """The program's text with imports of apache-tvm 0.26."""
    lines = IMPORTS.format(
        script="tvm.script", layout="tvm.tirx.layout", hardware="tvm.backend.cuda.tile_primitive.tma_utils"
    )
    return lines + PROGRAMS[name]


#: name of the program (and of its function) -> text without imports
PROGRAMS: dict[str, str] = {}


def _add(text: str) -> None:
    name = re.findall(r"@T\.prim_func.*\ndef (\w+)", text)[-1]
    PROGRAMS[name] = "\n" + text


_add('''
@T.prim_func
def arithmetic(A: T.Buffer((64,), "int32"), n: T.int32, m: T.int64, u: T.uint32, x: T.float32):
    T.device_entry()
    tx = T.thread_id([64])
    A[0] = tx + n - 3
    A[1] = tx * 4 + n * n
    A[2] = tx // 8 + tx % 8 + n // -3
    A[3] = T.truncdiv(n, 5) + T.truncmod(n, 5)
    A[4] = T.min(tx, n) + T.max(n, 0)
    A[5] = T.ceildiv(n, 16)
    A[6] = (tx << 2) | (n & 7) ^ (tx >> 1)
    A[7] = ~n + -tx
    A[8] = T.Cast("int32", m * 2 + n)
    A[9] = T.Cast("int32", u + n)
    A[10] = T.Cast("int32", T.int64(7) * m)
    A[11] = T.popcount(n) + T.clz(n) + T.abs(n)
    A[12] = T.floordiv(n, 3) + T.floormod(n, 3)
    A[13] = (n + 1) * (n - 1) - (n - (tx - 2))
    A[14] = T.shift_left(n, 3) + T.bitwise_xor(n, tx) + T.bitwise_not(tx)
    A[15] = T.Cast("int32", x * 1.5)
''')

_add('''
@T.prim_func
def conditions(A: T.Buffer((64,), "float32"), n: T.int32, flag: T.bool):
    T.device_entry()
    tx = T.thread_id([64])
    if tx < n and tx >= 2 or not tx == 5:
        A[tx] = 1.0
    elif tx != n:
        A[tx] = 2.0
    else:
        A[tx] = A[tx] + 1
    if 0 <= tx and tx <= n and (n > 3) == flag:
        A[0] = T.if_then_else(n > 1, A[1], A[2] * 2.0)
    A[3] = T.Select(tx > 3, A[0], T.float32(0))
    A[4] = 1.0 if n < 4 else 2.0
    if T.likely(tx < n):
        A[5] = T.float32(0.5)
    if True:
        A[6] = -1.0
    if T.bool(True):
        A[7] = T.float32("inf")
''')

_add('''
@T.prim_func
def loops(A: T.Buffer((16, 16), "float32"), n: T.int32):
    T.device_entry()
    tx = T.thread_id([32])
    for i in range(16):
        A[i, 0] = 0.0
    for i in range(2, n):
        A[i, 1] = T.float32(i)
    for i in range(0, n, 4):
        A[i, 2] = 2.0
    for i, j in T.grid(4, 4):
        A[i, j] = A[j, i]
    for i, j in T.grid((1, 3), n):
        A[i, j] = A[i, j] + A[i - 1, j]
    for i in T.serial(n, annotations={"hint": 1}):
        A[0, i] = 1.0
    for i in T.unroll(4):
        for j in T.vectorized(4):
            A[i, j] = A[i, j] + 1.0
    for i in T.parallel(n - 1, n + 3):
        A[i, 3] = 0.0
    for i in T.thread_binding(8, thread="threadIdx.y"):
        A[i, 4] = 4.0
    for i in range(tx * 4, (tx + 1) * 4):
        A[i, 5] = 5.0
    for i in range(8):
        if i == tx:
            continue
        if i > n:
            break
        A[i, 6] = 6.0
''')

_add('''
@T.prim_func
def scalars(A: T.Buffer((64,), "int32"), n: T.int32) -> T.int32:
    T.device_entry()
    tx = T.thread_id([64])
    x: T.int32 = 3
    y: T.let = x + n
    z: T.let[T.int32] = 5
    count = 0
    count += 2
    s = T.shared_scalar("int32")
    s = tx
    f: T.float16
    f = 1.5
    v: T.float32[4]
    v[2] = T.Cast("float32", f)
    flag = True
    while count < n:
        count = count + x
        if count == 40:
            break
    w = T.alloc_local([1], "int32")
    w = y + z + s
    w[0] = w[0] + 1
    copied = tx
    A[copied] = w[0] + count
    p = A.ptr_to([3])
    q: T.let[T.handle("int32")] = A.data
    assert n > 0, ("ValueError", ["n must be ", "positive"])
    k = T.bind(n * 2)
    if flag:
        return k
    j = T.int32()
    A[1] = T.Let(j + 1, where={j: n})
''')

_add('''
@T.prim_func
def vectors(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), I: T.Buffer((8,), "int32")):
    T.device_entry()
    tx = T.thread_id([8])
    A[tx * 4 : tx * 4 + 4] = B[T.Ramp(tx * 4, 1, 4)]
    A[T.Ramp(0, 2, 4)] = T.Broadcast(T.float32(1.0), 4)
    A[32:40:2] = T.Broadcast(B[0], 4)
    B.vstore([8], A.vload([8], "float32x4"))
    I[0:2] = T.Shuffle([tx, I[1]], [1, 0])
    A[16:20] = T.Cast("float32x4", T.Ramp(tx, 1, 4))
    A[20:24] = T.Broadcast(A[3], 4) * B[T.Ramp(4, 1, 4)]
''')

_add('''
@T.prim_func
def symbolic(a: T.handle, b: T.handle, n: T.int32, k: T.int64):
    A = T.match_buffer(a, (n, 16), "float16")
    B = T.match_buffer(b, (n * 16,), "float16", layout=None)
    T.func_attr({"tirx.noalias": True})
    T.device_entry()
    bx, by = T.cta_id([n, 2])
    tx = T.thread_id([16])
    B[bx * 16 + tx] = A[bx, tx]
    Tx.cta.copy(A[bx, 0:16], B[bx * 16 : bx * 16 + 16])
    Tx.copy(B[bx * 16 : (bx + 1) * 16], A[bx, :])
''')

_add('''
@T.prim_func
def quoted_shape(A: T.Buffer(("m", 4), "float32"), m: T.int32, C: T.Buffer((4,), "float32", layout=None)):
    T.device_entry()
    tx = T.thread_id([4])
    for i in range(m):
        C[tx] = C[tx] + A[i, tx]
''')

_add('''
@T.prim_func
def views(A: T.Buffer((128, 64), "float16"), D: T.Buffer((16, 16), "float32", align=16)):
    T.device_entry()
    tx = T.thread_id([128])
    flat = A.view(8192)
    again = A.view(64, -1)
    turned = A.permute(1, 0)
    part = A.sub[32:64, 0:32]
    row = A.sub[tx]
    strided = T.decl_buffer((4, 4), "float32", data=D.data, elem_offset=3, strides=[16, 2], scope="global")
    regs = T.alloc_local((64,), "float32")
    tile = regs.view(128, 64, layout=TileLayout(S[(128, 64) : (1 @ tid_in_wg, 1)]))
    mine = tile.local()
    warp_tile = T.alloc_buffer((32, 4), "float32", scope="local", layout=TileLayout(S[(32, 4) : (1 @ laneid, 1)]))
    spread = T.alloc_buffer((4,), "float32", scope="local", layout=TileLayout(S[4:1] + R[32 : 1 @ laneid]))
    mine[0] = T.Cast("float32", flat[tx]) + T.Cast("float32", again[0, tx]) + strided[1, 1] + regs[0]
    turned[0, tx] = part[0, 0] + row[3]
    warp_tile.local()[2] = spread[1]
''')

_add('''
@T.prim_func
def attributes(A: T.Buffer((64,), "float32")):
    with T.launch_thread("blockIdx.x", 4) as bx:
        with T.attr({"tirx.hint": 1, "name": "inner"}):
            A[bx] = 1.0
        tx = T.launch_thread("threadIdx.x", 16)
        with T.attr(0, "pragma", "text"):
            T.evaluate(tx)
        A[bx * 16 + tx] = 2.0
        with T.hint("first", level=2):
            A[0] = 0.0
''')

_add('''
@T.prim_func
def intrinsics(A: T.Buffer((64,), "float32"), out: T.Buffer((64,), "uint32")):
    T.device_entry()
    cbx = T.cta_id_in_cluster([2])
    warp = T.warp_id([2])
    lane = T.lane_id([32])
    tx = T.thread_id([64])
    bar = T.alloc_shared((2,), "uint64")
    if T.ptx.elect_sync():
        T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
        T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), 128)
        T.ptx.mbarrier.arrive(bar.ptr_to([1]), remote=1, pred=True)
    T.ptx.fence.proxy_async("shared::cta")
    T.ptx.fence.mbarrier_init()
    T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
    T.ptx.barrier.cluster.arrive()
    T.ptx.barrier.cluster.wait(acquire=True)
    T.ptx.setmaxnreg(False, 40)
    T.ptx.cp_async(bar.ptr_to([0]), A.ptr_to([0]), 16, cache_hint="evict_first")
    T.ptx.cp_async.commit_group()
    T.ptx.cp_async.wait_group(1)
    out[0] = T.cuda.cvta_generic_to_shared(bar.ptr_to([0]))
    out[1] = T.ptx.ld_acquire(out.ptr_to([0]), "uint32", "u32", scope="gpu")
    T.ptx.st(out.ptr_to([0]), T.uint32(1), space="global", ptx_type="u32")
    out[2] = T.ptx.atom_scalar(out.ptr_to([0]), T.uint32(1), op="add", ptx_type="u32")
    out[3] = T.cuda.ballot_sync(T.uint32(0xFFFFFFFF), tx > 3)
    A[1] = T.cuda.__shfl_xor_sync(T.uint32(0xFFFFFFFF), A[tx], 16, 32)
    A[2] = T.cuda.warp_sum(A[tx])
    T.cuda.printf("%d %f\\n", tx, A[0])
    T.cuda.atomic_add(A.ptr_to([0]), 1.0)
    out[4] = T.reinterpret("uint32", A[3])
    peer = T.ptx.map_shared_rank(bar.ptr_to([0]), 1)
    pointer = T.reinterpret("handle", peer)
    A[4] = T.call_extern("float32", "device_function", A.data, "text", 3)
    A[5] = T.exp(A[0]) + T.sqrt(A[1]) * T.sigmoid(A[2]) / T.pow(A[3], 2.0)
    A[6] = T.fma(A[0], A[1], 1.0) + T.round(A[2]) + T.fmod(A[3], A[4])
    T.tvm_storage_sync("shared")
    T.evaluate(bar.access_ptr("rw"))
    T.cuda.cluster_sync()
    T.cuda.cta_sync()
''')

_add('''
@T.prim_func
def tiles(A: T.Buffer((128, 64), "float32"), B: T.Buffer((128, 64), "float32"), r: T.Buffer((128,), "float32")):
    T.device_entry()
    bx = T.cta_id([1])
    tx = T.thread_id([128])
    pool = T.SMEMPool()
    As = pool.alloc((128, 64), "float32", align=128)
    Bs = pool.alloc((128, 64), "float32")
    pool.commit()
    Tx.cta.copy(As, A)
    Tx.cta.copy(Bs[:, :], B[0:128, 0:64], vec_len=4)
    T.cuda.cta_sync()
    Tx.cta.add(As, As, Bs)
    Tx.cta.mul(As[0:64, :], As[0:64, :], 2.0)
    Tx.cta.sub(As, As, T.float32(1.0))
    Tx.cta.fdiv(As, As, Bs)
    Tx.cta.maximum(As, As, Bs)
    Tx.cta.minimum(As, As, 0.0)
    Tx.cta.fma(As, Bs, 2.0, As)
    Tx.cta.exp(As, Bs)
    Tx.cta.sqrt(As)
    Tx.cta.log2(As, As, None, 2.0)
    Tx.cta.reciprocal(As, As)
    Tx.cta.silu(Bs, As)
    Tx.cta.zero(Bs)
    Tx.cta.fill(As, 0.0)
    Tx.cta.sum(r, As, axes=1)
    Tx.warp.max(r[0:32], As[0:32, :], axes=(1,), accum=True)
    Tx.cta.min(r, As, -1)
    Tx.copy(r[0:1], As[tx, 0:1])
    Tx.warp.permute_layout(As[0:32, 0:32], Bs[0:32, 0:32])
    Tx.cta.select(As, Bs, 0.0, lambda i, j: i < j)
    Tx.cta.copy(A, As, workspace={"scratch": Bs}, dispatch="vec_auto")
''')

_add('''
@T.prim_func
def fused_tiles(A: T.Buffer((64,), "float32"), r: T.Buffer((1,), "float32")):
    T.device_entry()
    tx = T.thread_id([32])
    Tx.binary_reduce(A[0:32], r[0:1], A[0:32], 1.0, "add", "sum")
    Tx.unary_reduce(A[0:32], r[0:1], A[32:64], "sqrt", "max")
    Tx.binary_chain(A[0:32], A[0:32], 1.0, 2.0, "add", "mul", True)
    with Tx.compose_op():
        Tx.add(A[0:32], A[0:32], 2.0)
        Tx.exp(A[0:32], A[0:32])
    Tx.reduce_negate(r[0:1], A[0:32], "sum")
    Tx.memset(A[0:32], 0)
''')

_add('''
@T.prim_func
def tensor_core(A: T.Buffer((128, 64), "float16"), D: T.Buffer((128, 128), "float32")):
    T.device_entry()
    cta = T.cta_id([2])
    wg = T.warpgroup_id([1])
    warp = T.warp_id_in_wg([4])
    tid = T.thread_id_in_wg([128])
    pool = T.SMEMPool()
    As = pool.alloc_tcgen05_mma_AB((128, 64), "float16")
    bar = pool.alloc((1,), "uint64", align=8)
    tmem = T.TMEMPool(pool, 256)
    pool.commit()
    acc = tmem.alloc((128, 128), "float32")
    tmem.commit()
    Tx.copy_async(As, A, dispatch="tma_auto", mbar=bar.ptr_to([0]), cache_hint="evict_last")
    if T.ptx.elect_sync():
        for k in T.unroll(4):
            Tx.gemm_async(acc, As, As, accum=k != 0, dispatch="tcgen05", cta_group=1)
        T.ptx.tcgen05.commit(bar.ptr_to([0]))
    T.ptx.tcgen05.fence.after_thread_sync()
    frag = T.wg_reg_tile(128)
    Tx.wg.copy_async(frag, acc)
    T.ptx.tcgen05.wait.ld()
    half = T.alloc_local((128,), "float16")
    Tx.cast(half, frag.local())
    Tx.copy(D[tid, 0:128], frag.local())
    tmem.dealloc()
''')

_add('''
@T.inline
def store_twice(buffer, i, value, again=True):
    buffer[i] = value
    if again:
        buffer[i + 1] = value


@T.prim_func
def host_program(A: T.Buffer((64,), "float32")):
    T.device_entry()
    tx = T.thread_id([16])
    step = T.meta_var(4)
    store_twice(A, tx, 1.0)
    store_twice(A, tx * step, T.float32(2), again=False)

    @T.inline
    def local(k):
        A[k + step] = T.float32(k)

    for i in range(2):
        local(i)
    values = T.meta_var([T.float32(j * j) for j in range(4)])
    A[7] = values[3]
    names = T.meta_var({"one": 1})
    A[names["one"]] = 3.0
    if len(values) == 4:
        A[8] = 8.0
    T.static_assert(step == 4)
''')

_add('''
@T.prim_func
def reductions(A: T.Buffer((64,), "float32"), B: T.Buffer((1,), "float32")):
    k = T.int32()
    B[0] = T.Reduce(
        T.comm_reducer(lambda x, y: x + y, [T.float32(0)]),
        [A[k]], [T.iter_var(k, T.Range(0, 64), "CommReduce", "")], T.bool(True), 0, [],
    )
''')

_add('''
@T.prim_func(private=True)
def pointers(p: T.handle("float32"), map: T.TensorMap(), n: T.int32):
    T.device_entry()
    tx = T.thread_id([32])
    cluster = T.cluster_id([2])
    rank = T.cta_id_in_cluster([2])
    pair = T.cta_id_in_pair()
    view = T.decl_buffer((n,), "float32", data=p, scope="global")
    view[tx] = 1.0
    T.ptx.prefetch_tensormap(T.address_of(view[0]))
    T.evaluate(T.tvm_access_ptr("float32", p, 0, n, 3))
    T.thread_return()
''')
