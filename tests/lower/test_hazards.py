"""Races that are certain from the text of a program are refused, each with what meets what and what is missing between."""

from __future__ import annotations

import pytest

from tirx_eq.errors import LoweringError
from tirx_eq.lower.kernel import compile_function

from .kernels import kernel

HEAD = """
tid = Tx.thread_id([128])
w = Tx.warp_id([4])
pool = Tx.SMEMPool()
addr = Tx.alloc_shared([1], "uint32")
a = pool.alloc((128, 64), "float16", layout=mma_shared_layout("float16", 3, (128, 64)))
b = pool.alloc((128, 64), "float16", layout=mma_shared_layout("float16", 3, (128, 64)))
bar = pool.alloc((2,), "uint64", align=8)
pool.commit()
if tid == 0:
    Tx.ptx.mbarrier.init(bar.ptr_to([0]), 1)
    Tx.ptx.mbarrier.init(bar.ptr_to([1]), 1)
    Tx.ptx.fence.mbarrier_init()
if w == 0:
    Tx.ptx.tcgen05.alloc(Tx.address_of(addr[0]), n_cols=128, cta_group=1)
Tx.cuda.cta_sync()
acc = Tx.decl_buffer((128, 128), "float32", scope="tmem", allocated_addr=addr[0],
                     layout=TileLayout(S[(128, 128) : (1 @ TLane, 1 @ TCol)]))
regs = Tx.alloc_local((128,), "float32")
view = regs.view(128, 128, layout=TileLayout(S[(128, 128) : (1 @ tid_in_wg, 1)]))
half = Tx.alloc_local((128,), "float16")
"""
TAIL = """
Tx.cuda.cta_sync()
if w == 0:
    Tx.ptx.tcgen05.dealloc(addr[0], n_cols=128, cta_group=1)
"""
PARAMS = 'A: Tx.Buffer((128, 64), "float16"), B: Tx.Buffer((128, 64), "float16"), D: Tx.Buffer((128, 128), "float32")'
FILL = "Tx.cta.copy(a[:, :], A[:, :])\nTx.cta.copy(b[:, :], B[:, :])\n"
FENCE = 'Tx.ptx.fence.proxy_async("shared::cta")\n'
SYNC = "Tx.cuda.cta_sync()\n"
MMA = "if w == 1:\n    if Tx.ptx.elect_sync():\n        Tx.gemm_async(acc[:, :], a[:, :], b[:, :], accum=False)\n"
COMMIT = "        Tx.ptx.tcgen05.commit(bar.ptr_to([1]), cta_group=1)\n"
DONE = "Tx.ptx.mbarrier.try_wait(bar.ptr_to([1]), 0)\nTx.ptx.tcgen05.fence.after_thread_sync()\n"
READ = "Tx.wg.copy_async(view[:, :], acc[:, :])\n"
LOADED = "Tx.ptx.tcgen05.wait.ld()\n"
WRITE = "Tx.copy(D[tid, :], regs[:])\n"
TMA = (
    "if w == 0:\n    if Tx.ptx.elect_sync():\n        Tx.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), 32768)\n"
    "        Tx.copy_async(a[:, :], A[:, :], mbar=bar.ptr_to([0]))\n"
    "        Tx.copy_async(b[:, :], B[:, :], mbar=bar.ptr_to([0]))\n"
)
FULL = "Tx.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)\n"
STORE = "if w == 0:\n    if Tx.ptx.elect_sync():\n        Tx.copy_async(A[:, :], a[:, :])\n        Tx.ptx.cp_async.bulk.commit_group()\n"
STORED = "        Tx.ptx.cp_async.bulk.wait_group(0)\n"
GOOD = FILL + FENCE + SYNC + MMA + COMMIT + DONE + READ + LOADED + WRITE


def made(body: str):
    return kernel(HEAD + body + TAIL, PARAMS)


def loop(body: str) -> str:
    return "for k in Tx.serial(3):\n" + "".join(f"    {line}\n" for line in body.splitlines())


@pytest.mark.parametrize(
    "body",
    [
        GOOD,
        TMA + FULL + MMA + COMMIT + DONE + READ + LOADED + WRITE,
        loop(FILL + FENCE + SYNC + MMA + COMMIT + "Tx.ptx.mbarrier.try_wait(bar.ptr_to([1]), k % 2)\n"),
        FILL + FENCE + SYNC + STORE + STORED + SYNC + FILL,
        # waits that stand elsewhere may order what is used here
        MMA + COMMIT + "Tx.ptx.mbarrier.try_wait(bar.ptr_to([1]), 0)\n" + FILL,
        # other elements of the buffer
        "Tx.cta.copy(a[0:64, :], A[0:64, :])\n" + FENCE + SYNC + STORE.replace("A[:, :], a[:, :]", "A[64:128, :], a[64:128, :]")
        + "Tx.cta.copy(a[0:64, :], A[0:64, :])\n",
        # perhaps never executed
        FILL + FENCE + SYNC + MMA + COMMIT + "if D[0, 0] > Tx.float32(0):\n    Tx.copy(a[tid, :], half[0:64])\n",
    ],
)  # fmt: skip
def test_what_is_ordered_passes(body):
    compile_function(made(body))


@pytest.mark.parametrize(
    ("body", "says", "hint"),
    [
        (FILL + SYNC + MMA + COMMIT + DONE, r"'gemm_async' reads 'a\[0, 0\]' through the asynchronous proxy, but no fence", "proxy_async"),
        (FILL + FENCE + MMA + COMMIT + DONE, r"'gemm_async' reads 'a\[0, 0\]', which 'copy at k.py:\d+:5' wrote by 128 of 128", "cta_sync"),
        (TMA + MMA + COMMIT + DONE, r"'gemm_async' reads 'a\[0, 0\]' before the copy 'copy_async at .*' is known to be complete", "mbar"),
        (TMA + "Tx.copy(half[0:64], a[tid, :])\n" + FULL, r"'copy' reads 'a\[0, 0\]' before the copy", "mbar"),
        (FILL + FENCE + SYNC + MMA + COMMIT + SYNC + "Tx.cta.copy(a[64:128, :], A[64:128, :])\n",
         r"'copy' overwrites 'a\[64, 0\]' while 'gemm_async at .*' may still be reading it", "commit"),
        (FILL + FENCE + SYNC + MMA + COMMIT + TMA, r"'copy_async' overwrites 'a\[0, 0\]' while 'gemm_async", "commit"),
        (loop(FILL + FENCE + SYNC + MMA + COMMIT), r"'copy' overwrites 'a\[0, 0\]' while 'gemm_async", "commit"),
        (FILL + FENCE + SYNC + STORE + SYNC + FILL, r"'copy' overwrites 'a\[0, 0\]' while 'copy_async at .*' may", "wait_group"),
        (FILL + FENCE + SYNC + STORE + FULL + TMA, r"'copy_async' overwrites 'a\[0, 0\]' while 'copy_async at .*' may", "wait_group"),
        (FILL + FENCE + SYNC + MMA + COMMIT + READ, r"'copy_async' reads 'acc\[0, 0\]' before the products of 'gemm_async", "commit"),
        (FILL + FENCE + SYNC + MMA + COMMIT + DONE + READ + WRITE, r"'copy' reads the registers of 'regs.* before 'copy_async", "wait.ld"),
        ("Tx.wg.copy_async(acc[:, :], view[:, :])\n" + READ, r"'copy_async' reads 'acc\[0, 0\]' before what 'copy_async at", "wait.st"),
        ("Tx.cta.copy_async(a[:, :], A[:, :])\n" + SYNC + "Tx.copy(half[0:64], a[tid, :])\n",
         r"'copy' reads 'a\[0, 0\]' before the copy .* no cp.async.wait_group", "wait_group"),
    ],
)  # fmt: skip
def test_what_certainly_races_is_refused(body, says, hint):
    with pytest.raises(LoweringError, match=says) as error:
        compile_function(made(body))
    assert error.value.span is not None and hint in error.value.hint
