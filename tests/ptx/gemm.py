"""The smallest complete tcgen05 GEMM tile, with the builder: C[128,128] f32 = A[128,64] f16 x B[128,64]^T f16."""

from __future__ import annotations

from tirx_eq.ptx.builder import Kernel, Module, Param
from tirx_eq.ptx.descriptor import InstructionDescriptor, MatrixDescriptor
from tirx_eq.ptx.operands import SINK, Imm, Pair, addr, special, tensor

FULL_WARP = Imm(0xFFFFFFFF)


def build_gemm(target: str = "sm_100a", version: str | None = None) -> tuple[Module, Kernel]:
    """A module with one kernel of 128 threads; tensor maps of A and B, pointer to C, its row pitch in elements."""
    module = Module(target, version)
    k = module.kernel(
        "gemm_min",
        [Param.tensor_map("tmA"), Param.tensor_map("tmB"), Param.pointer("pC"), Param.scalar("ldc", "u32")],
    )
    tile_a, tile_b = k.shared("sA", 16384, 1024), k.shared("sB", 16384, 1024)
    full, done, tbase = k.shared("full", 8, 8), k.shared("done", 8, 8), k.shared("tbase", 4, 4)

    tid = k.op("mov.u32", special("tid.x"))
    warp = k.op("shr.u32", tid, 5)
    n0 = k.op("shl.b32", k.op("mov.u32", special("ctaid.x")), 7)
    m0 = k.op("shl.b32", k.op("mov.u32", special("ctaid.y")), 7)
    bar_full, bar_done = k.op("mov.u32", full), k.op("mov.u32", done)
    smem_a, smem_b = k.op("mov.u32", tile_a), k.op("mov.u32", tile_b)
    warp0 = k.op("setp.eq.u32", warp, 0)
    thread0 = k.op("setp.eq.u32", tid, 0)

    k.comment("prologue: barriers and tensor memory")
    with k.if_(thread0):
        k.emit("mbarrier.init.shared::cta.b64", addr(bar_full), 1)
        k.emit("mbarrier.init.shared::cta.b64", addr(bar_done), 1)
        k.emit("fence.mbarrier_init.release.cluster")
    with k.if_(warp0):
        k.emit("bar.warp.sync", FULL_WARP)
        k.emit("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32", addr(tbase), 128)
        k.emit("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned")
    k.emit("tcgen05.fence::before_thread_sync")
    k.emit("bar.sync", 0)
    k.emit("tcgen05.fence::after_thread_sync")
    taddr = k.op("ld.shared.b32", addr(tbase))

    with k.if_(warp0, "wait_done"):
        elected = k.reg("pred")
        k.emit("elect.sync", Pair(SINK, elected), FULL_WARP)
        with k.if_(elected):
            k.emit("mbarrier.arrive.expect_tx.shared::cta.b64", SINK, addr(bar_full), 32768)
            map_a, map_b = k.load_param("tmA"), k.load_param("tmB")
            load = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
            k.emit(load, addr(smem_a), tensor(map_a, [0, m0]), addr(bar_full))
            k.emit(load, addr(smem_b), tensor(map_b, [0, n0]), addr(bar_full))
            k.wait_parity(bar_full, 0)
            descriptor = MatrixDescriptor(0, 16, 1024, "128B")
            descs = []
            for smem in (smem_a, smem_b):
                field = k.op("cvt.u64.u32", k.op("and.b32", k.op("shr.u32", smem, 4), 0x3FFF))
                descs.append(k.op("or.b64", field, Imm(descriptor.template, hex=True)))
            idesc = k.op("mov.b32", Imm(InstructionDescriptor("f16", 128, 128, "f16", "f16").encode(), hex=True))
            accumulate = k.op("setp.ne.u32", idesc, idesc), k.op("setp.eq.u32", idesc, idesc)
            for step in range(4):
                a, b = (d if step == 0 else k.op("add.s64", d, 2 * step) for d in descs)
                k.emit("tcgen05.mma.cta_group::1.kind::f16", addr(taddr), a, b, idesc, accumulate[step > 0])
            k.emit("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64", addr(bar_done))
        k.emit("bar.warp.sync", FULL_WARP)
    k.wait_parity(bar_done, 0)
    k.emit("tcgen05.fence::after_thread_sync")

    k.comment("epilogue: thread t stores row t")
    source = k.op("add.s32", taddr, k.op("shl.b32", warp, 21))
    base = k.op("cvta.to.global.u64", k.load_param("pC"))
    row = k.op("add.s32", m0, tid)
    element = k.op("add.s64", k.op("mul.wide.u32", row, k.load_param("ldc")), k.op("cvt.u64.u32", n0))
    out = k.op("add.s64", base, k.op("shl.b64", element, 2))
    for column in range(0, 128, 32):
        values = k.ops("tcgen05.ld.sync.aligned.32x32b.x32.b32", addr(source, column))
        k.emit("tcgen05.wait::ld.sync.aligned")
        for j in range(0, 32, 4):
            k.emit("st.global.v4.b32", addr(out, 4 * (column + j)), values[j : j + 4])
    k.emit("tcgen05.fence::before_thread_sync")
    k.emit("bar.sync", 0)
    with k.if_(warp0):
        k.emit("tcgen05.fence::after_thread_sync")
        k.emit("tcgen05.dealloc.cta_group::1.sync.aligned.b32", taddr, 128)
    k.emit("ret")
    return module, k
