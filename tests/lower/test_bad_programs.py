"""Bad programs are refused, each with the operation, the operand, the condition, where there is one the first coordinate at
which it fails, and the line of the source."""

from __future__ import annotations

import pytest

from tirx_eq.errors import TirxError
from tirx_eq.lower.kernel import compile_function

from .cluster_kernels import multicast, pair
from .kernels import kernel
from .test_conditions import gemm, tmem, ts

HALVES = 'A: Tx.Buffer((64, 64), "float16"), B: Tx.Buffer((64, 64), "float16")'
IDS = "tid = Tx.thread_id([128])\nw = Tx.warp_id([4])\n"
LOAD = IDS + (
    's = Tx.alloc_shared(({rows}, {columns}), "{dtype}")\nbar = Tx.alloc_shared((1,), "uint64")\n'
    "if w == 0:\n    if Tx.ptx.elect_sync():\n"
    "        Tx.copy_async(s[:, :], A[0:{rows}, {first} : {first} + {columns}], mbar=bar.ptr_to([0]))"
)
MMA = "tmem[:, :], A_s[:, :], B_s[:, :]"


def plain(body: str, params: str = HALVES):
    return lambda: kernel(IDS + body, params)


def load(shape=(64, 64), dtype="float16", rows=64, columns=8, first=0):
    return lambda: kernel(LOAD.format(rows=rows, columns=columns, dtype=dtype, first=first), f'A: Tx.Buffer({shape}, "{dtype}")')


def example(*changes: tuple[str, str]):
    return lambda: gemm(*changes)


BAD = {
    # threads
    "allocation by some lanes": (example(("    if warp_id == 0:\n", "    if lane_id == 0:\n")),
                                 "'tcgen05_alloc' needs whole warps, but it is reached by 4 of 128 threads"),
    "tensor memory read by a warp": (lambda: tmem("if w == 0:\n    Tx.wg.copy_async(v[:, :], t[:, :])"),
                                     "it is reached by 32 of 128 threads, not by whole warpgroups"),
    "product by many threads": (example(("        if Tx.ptx.elect_sync():\n", "        if lane_id < 2:\n")),
                                "one thread issues: it is reached by 2 of 128 threads"),
    "copy at CTA scope in a branch": (plain("if w == 0:\n    Tx.cta.copy(B[:, :], A[:, :])"),
                                      "it is reached by 32 of 128 threads, not by whole ctas"),
    "a barrier that some threads miss": (plain("if tid < 40:\n    Tx.cuda.cta_sync()"),
                                         "'cta_sync' waits for all 128 threads of the CTA, but it is reached by 40 of them: thread 40 never arrives"),
    "a cluster barrier in part of a warp": (lambda: kernel("r = Tx.cta_id_in_cluster([2])\ntid = Tx.thread_id([64])\nif tid < 8:\n    Tx.cuda.cluster_sync()", HALVES),
                                            "'cluster_sync' needs whole warps, but it is reached by 8 of 64 threads"),
    "a barrier of 40 threads": (plain("Tx.ptx.bar.sync(1, 40)"), "operand 2 .threads. is 40: 40 is not a multiple of 32"),
    "a barrier number": (plain("Tx.ptx.bar.sync(16, 128)"), "operand 1 .id. is 16: 16 is outside 0..15"),
    # memory
    "shared memory": (plain('s = Tx.alloc_shared((120000,), "float16")'),
                      "the kernel needs 240000 bytes of shared memory; a CTA has 232448: 's' ends beyond"),
    "a view beyond its storage": (plain('s = Tx.alloc_shared((64,), "float16")\nv = Tx.decl_buffer((8, 8), "float16", data=s.data, '
                                        'scope="shared", layout=TileLayout(S[(8, 8):(9, 1)]))\nv[tid % 8, 0] = A[0, 0]'),
                                  "buffer 'v' reaches 142 bytes into 's', which has 128"),
    "a region outside": (plain("Tx.cta.copy(B[:, :], A[32:96, :])"), r"slice of 'A', dimension 0: \[32:96\] is out of bounds .extent 64."),
    "an element outside": (plain("B[tid % 64, 0] = A[tid, 0]"), "a load of 'A': index 64 of dimension 0 is outside of 0..63 in thread 64"),
    "a store outside": (plain("if tid >= 64:\n    B[tid - 65, 0] = A[0, 0]"), "a store of 'B': index -1 of dimension 0 is outside of 0..63 in thread 64"),
    # tensor copies
    "box over 256": (load((300, 64), rows=300), "box extent 300 of dimension 1 is outside 1..256"),
    "misaligned tensor map": (load((64, 60)), "stride 120 bytes of dimension 1 is not a multiple of 16"),
    "a box of 8 bytes": (load(columns=4), "box row of 4 . 2 = 8 bytes is not a multiple of 16"),
    "columns of a matrix": (lambda: kernel(
        IDS + 'V = Tx.decl_buffer((64, 64), "float16", data=A.data, layout=TileLayout(S[(64, 64):(1, 64)]))\n'
        + LOAD.removeprefix(IDS).format(rows=64, columns=64, dtype="float16", first=0).replace("A[", "V["), HALVES),
        "neighbours along the last dimension of 'V' are 128 bytes apart, not 2"),
    # tensor memory
    "96 columns": (example(("n_cols=128", "n_cols=96")), "tcgen05.alloc of 96 columns: it must be 32, 64, 128, 256 or 512"),
    "too few columns": (example(("n_cols=128", "n_cols=64")),
                        r"'gemm_async': element \[0, 127\] of 'tmem' is in column 127 of tensor memory, but tcgen05.alloc at gemm.py:\d+:9 gives 64 columns"),
    "never freed": (example(("        Tx.ptx.tcgen05.dealloc(tmem_addr[0], n_cols=128, cta_group=1)\n", "")),
                    "128 columns of tensor memory are allocated, none are freed by tcgen05.dealloc"),
    "freed otherwise": (example(("dealloc(tmem_addr[0], n_cols=128", "dealloc(tmem_addr[0], n_cols=64")),
                        "128 columns of tensor memory are allocated; 64 are freed by tcgen05.dealloc"),
    "lanes in another order": (example(("S[(128, 128) : (1 @ TLane, 1 @ TCol)]", "S[(2, 64, 128) : (1 @ TLane, 2 @ TLane, 1 @ TCol)]")),
                               r"D\[1, 0\] is at lane 2, column 0; the tensor core puts it at lane 1, column 0"),
    # the tensor core
    "unsupported dtypes": (example(('A_s = pool.alloc((128, 64), "float16", layout=operand_layout)', 'A_s = pool.alloc((128, 64), "uint16", layout=operand_layout)'),
                                   ('    A: Tx.Buffer((128, 64), "float16")', '    A: Tx.Buffer((128, 64), "uint16")')),
                           "no dense kind takes A of uint16, B of float16 and an accumulator of float32"),
    "32 rows": (example((MMA, "tmem[0:32, :], A_s[0:32, :], B_s[:, :]")), "M is 32, not 64 or 128"),
    "24 columns": (example((MMA, "tmem[:, 0:24], A_s[:, :], B_s[0:24, :]")), "N = 24 is not permitted"),
    "plain rows": (example(('A_s = pool.alloc((128, 64), "float16", layout=operand_layout)', 'A_s = pool.alloc((128, 64), "float16")')),
                   r"element \[0, 8\] of 'A' is at byte 16, the descriptor reads byte \d+|element \[1, 0\] of 'A' is at byte 128, the descriptor reads byte 16"),
    "A in tensor memory, transposed lanes": (lambda: ts(("S[(128, 64) : (1 @ TLane, 1 @ TCol)]", "S[(2, 64, 64) : (1 @ TLane, 2 @ TLane, 1 @ TCol)]")),
                                             r"A\[1, 0\] is at lane 2, element 0 of the lane"),
    "no function": (plain('r = Tx.alloc_local((8,), "int32")\nTx.exp(r[:], r[:])'),
                    "the operation exists for the dtypes: there is no exp of int32"),
    # pairs and clusters
    "a pair of one": (example((MMA + ', accum=False, dispatch="tcgen05", cta_group=1',
                               'tmem[:, :], A_s[:, :], B_s[0:64, :], accum=False, dispatch="tcgen05", cta_group=2')),
                      "cta_group is 2, but a cluster has 1 CTA"),
    "two groups": (lambda: pair(("n_cols=128, cta_group=2)\n    Tx.ptx.tcgen05.fence.before", "n_cols=128, cta_group=1)\n    Tx.ptx.tcgen05.fence.before")),
                   r"'dealloc|'gemm_async' has cta_group=2, but 'alloc' at pair.py:\d+:9 has cta_group=1|'commit' has cta_group=2, but 'alloc'"),
    "a mask beyond the cluster": (lambda: multicast("cta_mask=16"), "the mask is 0x10, but the cluster has 4 CTAs"),
    "a commit beyond the cluster": (lambda: pair(("cta_mask=3", "cta_mask=5")), "the mask is 0x5, but the cluster has 2 CTAs"),
    "a barrier beyond the cluster": (lambda: pair(("full.remote_view(0)", "full.remote_view(2)")), "CTA 2 is named, but a cluster has 2 CTAs"),
    "another pair's barrier": (lambda: pair(("cta_group=2)\n            Tx.copy_async(B_s", "cta_group=1)\n            Tx.copy_async(B_s")),
                               "is in another CTA, which only cta_group=2 can signal"),
    # barriers
    "no barrier there": (plain('bar = Tx.alloc_shared((1,), "uint64")\nTx.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)'),
                         "'mbarrier_try_wait' waits on 'bar', which no mbarrier.init makes a barrier"),
    "nothing arrives": (plain('bar = Tx.alloc_shared((1,), "uint64")\nif tid == 0:\n    Tx.ptx.mbarrier.init(bar.ptr_to([0]), 1)\nTx.cuda.cta_sync()\n'
                              "Tx.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)"),
                        "waits for phase 0 of 'bar', but nothing arrives there: the wait never ends"),
    "an empty barrier": (plain('bar = Tx.alloc_shared((1,), "uint64")\nTx.ptx.mbarrier.init(bar.ptr_to([0]), 0)'), "0 is outside 1..1048575"),
    # places and sizes
    "an extent known at run time": (plain('r = Tx.alloc_local((tid + 1,), "float32")'), "'r' is allocated here, so its extents must be constant"),
    "no operand": (plain("Tx.cta.add(B[:, :], A[:, :], None)"), "add: 'src2' must be a region or a value, got None"),
    "a string": (plain('Tx.cta.add(B[:, :], A[:, :], "x")'), "add: 'src2' must be a region or a value, got the string 'x'"),
    "too many threads": (lambda: kernel("tid = Tx.thread_id([1025])\nB[0, 0] = A[0, 0]", HALVES), "1025 threads in a CTA: the limit is 1024"),
    "too many CTAs": (lambda: kernel("r = Tx.cta_id_in_cluster([4, 8])\ntid = Tx.thread_id([64])\nB[0, 0] = A[0, 0]", HALVES),
                      "32 CTAs in a cluster: the limit is 16"),
    "threads twice": (plain("t2 = Tx.thread_id([64])"), r"the threads of a cta are declared with extents \[128\], and here with \[64\]"),
    "warps that disagree": (lambda: kernel("tid = Tx.thread_id([128])\nw = Tx.warp_id([3])", HALVES), "thread_id says 128, warp_id says 96"),
    "a jump from nowhere": (plain("break"), "'break' outside of a loop"),
    "an element of tensor memory": (lambda: tmem("v[0, 0] = t[0, 0]"), r"a load of 't' .tmem.: elements on axis TCol, TLane have no address"),
    "shared memory by thread": (plain('s = Tx.alloc_shared((128, 8), "float16", layout=TileLayout(S[(128, 8):(1 @ tid_in_wg, 1)]))\n'
                                      "Tx.cta.copy(s[0:64, :], A[:, 0:8])"), r"'copy' of 's' .shared.*: elements on axis tid_in_wg have no address"),
    "a copy onto itself": (plain("Tx.cta.copy(B[1:33, :], B[0:32, :])"), r"reads element \[1, 0\] of the region of 'src' in 'B', which it also writes"),
    "two elements in one place": (plain('s = Tx.alloc_shared((64, 64), "float16", layout=TileLayout(S[(64, 64):(1, 1)]))\nTx.cta.copy(s[:, :], A[:, :])'),
                                  r"'copy' writes elements \[0, 1\] and \[1, 0\] of the region of 's' .'dst'. to one place"),
    "before the start": (plain('s = Tx.alloc_shared((64, 64), "float16", layout=TileLayout(S[(64, 64):(-64, 1)]))'),
                         "the layout of 's' puts an element 4032 elements before the buffer's start"),
    "a barrier in an elected branch": (plain("if Tx.ptx.elect_sync():\n    Tx.cuda.cta_sync()"),
                                       "'cta_sync' waits for all threads, but it is reached by one lane of each of 4 warps"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_refused_with_the_reason(name):
    make, says = BAD[name]
    with pytest.raises(TirxError, match=says) as error:
        compile_function(make())
    span = error.value.span
    assert span is not None and span.line > 0 and span.text.strip(), "the message has no place in the source"
