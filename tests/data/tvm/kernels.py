"""TIRx kernels compiled by apache-tvm 0.26 (pipeline "tirx", target sm_100a) and nvcc 13.0 into tests/data/ptx/tvm/."""

import tvm
from tvm.script import tirx as T
from tvm.script.tirx import tile as Tx
from tvm.tirx.layout import TileLayout, S, R, TLane, TCol, tid_in_wg
from tvm.tirx.layout import *
from tvm.backend.cuda.tile_primitive.tma_utils import mma_shared_layout, SwizzleMode
A_layout = mma_shared_layout("float16", 3, (128, 64))

@T.prim_func
def tvm_scale(A: T.Buffer((1024,), "float32"), B: T.Buffer((1024,), "float32")):
    T.device_entry()
    bx = T.cta_id([4])
    tx = T.thread_id([256])
    i = T.meta_var(bx*256+tx)
    B[i] = A[i] * T.float32(2.0)

@T.prim_func
def tvm_gemm(A: T.Buffer((128,64), "float16"), B: T.Buffer((128,64), "float16"), D: T.Buffer((128,128), "float16")):
    T.device_entry()
    bx = T.cta_id([1])
    wg_id = T.warpgroup_id([1])
    warp_id = T.warp_id_in_wg([4])
    lane_id = T.lane_id([32])
    tid = T.thread_id([128])
    pool = T.SMEMPool()
    A_s = pool.alloc((128,64), "float16", layout=A_layout)
    B_s = pool.alloc((128,64), "float16", layout=A_layout)
    mbar = pool.alloc((1,), "uint64", align=8)
    tmem_addr = pool.alloc((1,), "uint32", align=4)
    pool.commit()
    if warp_id == 0:
        if lane_id == 0:
            T.ptx.mbarrier.init(mbar.ptr_to([0]), 1)
        T.ptx.tcgen05.alloc(tmem_addr.ptr_to([0]), n_cols=128, cta_group=1)
    T.ptx.fence.mbarrier_init()
    T.cuda.cta_sync()
    tmem = T.decl_buffer((128,128), "float32", scope="tmem", allocated_addr=tmem_addr[0], layout=TileLayout(S[(128,128):(1@TLane,1@TCol)]))
    Tx.cta.copy(A_s[:,:], A[:,:])
    Tx.cta.copy(B_s[:,:], B[:,:])
    T.ptx.fence.proxy_async("shared::cta")
    T.cuda.cta_sync()
    if warp_id == 0:
        if T.ptx.elect_sync():
            Tx.gemm_async(tmem[:,:], A_s[:,:], B_s[:,:], accum=False, dispatch="tcgen05", cta_group=1)
            T.ptx.tcgen05.commit(mbar.ptr_to([0]), cta_group=1)
    T.ptx.mbarrier.try_wait(mbar.ptr_to([0]), 0)
    T.ptx.tcgen05.fence.after_thread_sync()
    D_reg = T.alloc_local((128,), "float32")
    D_wg = D_reg.view(128,128, layout=TileLayout(S[(128,128):(1@tid_in_wg,1)]))
    Tx.wg.copy_async(D_wg[:,:], tmem[:,:])
    T.ptx.tcgen05.wait.ld()
    D16 = T.alloc_local((128,), "float16")
    Tx.cast(D16[:], D_reg[:])
    Tx.copy(D[tid, :], D16[:])
    T.cuda.cta_sync()
    if warp_id == 0:
        T.ptx.tcgen05.relinquish_alloc_permit(cta_group=1)
        T.ptx.tcgen05.dealloc(tmem_addr[0], n_cols=128, cta_group=1)

@T.prim_func
def tvm_reduce(A: T.Buffer((64, 128), "float32"), B: T.Buffer((64,), "float32")):
    T.device_entry()
    bx = T.cta_id([1])
    warp_id = T.warp_id([4])
    lane_id = T.lane_id([32])
    tid = T.thread_id([128])
    A_s = T.alloc_buffer((64, 128), "float32", scope="shared")
    B_s = T.alloc_buffer((64,), "float32", scope="shared")
    Tx.cta.copy(A_s[:, :], A[:, :])
    T.cuda.cta_sync()
    Tx.cta.sum(B_s[:], A_s[:, :], (1,))
    T.cuda.cta_sync()
    if tid < 64:
        B[tid] = B_s[tid]

@T.prim_func
def tvm_elementwise(A: T.Buffer((64, 64), "float32"), B: T.Buffer((64, 64), "float32")):
    T.device_entry()
    bx = T.cta_id([1])
    warp_id = T.warp_id([4])
    lane_id = T.lane_id([32])
    tid = T.thread_id([128])
    A_s = T.alloc_buffer((64, 64), "float32", scope="shared")
    B_s = T.alloc_buffer((64, 64), "float32", scope="shared")
    Tx.cta.copy(A_s[:, :], A[:, :])
    T.cuda.cta_sync()
    Tx.cta.sqrt(B_s[:, :], A_s[:, :])
    T.cuda.cta_sync()
    Tx.cta.copy(B[:, :], B_s[:, :])
