// cta_group::2: a pair of CTAs computes 256x128x64; each loads its half of A and B, the leader issues the MMAs.
#include "tc.cuh"
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(128)
tc_pair(const __grid_constant__ CUtensorMap ma, const __grid_constant__ CUtensorMap mb, float *c) {
  extern __shared__ __align__(1024) char buf[];
  __shared__ uint64_t full, done;
  __shared__ uint32_t tbase;
  int t = threadIdx.x, warp = t / 32, rank = blockIdx.x % 2;
  if (t == 0) { bar_init(smem(&full), 1); bar_init(smem(&done), 1); fence_init(); }
  __syncwarp();
  if (warp == 0) {
    asm volatile("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], 128;" ::"r"(smem(&tbase)) : "memory");
    asm volatile("tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;");
  }
  tc_before();
  __syncthreads();
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
  tc_after();
  uint32_t tm = *(volatile uint32_t *)&tbase;
  if (warp == 0 && elect()) {
    uint32_t lead = smem(&full) & 0xFEFFFFFF;
    if (rank == 0) bar_expect(lead, 49152);
    asm volatile("cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                 ::"r"(smem(buf)), "l"(&ma), "r"(0), "r"(rank * 128), "r"(lead) : "memory");
    asm volatile("cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                 ::"r"(smem(buf) + 16384), "l"(&mb), "r"(0), "r"(rank * 64), "r"(lead) : "memory");
    if (rank == 0) {
      bar_wait(lead, 0);
      tc_after();
      for (int k = 0; k < 4; ++k)
        asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %4, 0;\ntcgen05.mma.cta_group::2.kind::f16 [%0], %1, %2, %3, p;\n}"
                     ::"r"(tm), "l"(desc(smem(buf) + 32 * k, 16, 1024, 2)), "l"(desc(smem(buf) + 16384 + 32 * k, 16, 1024, 2)),
                     "r"(0x10200010), "r"(k) : "memory");
      asm volatile("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;"
                   ::"r"(smem(&done)), "h"((uint16_t)3) : "memory");
    }
  }
  __syncwarp();
  bar_wait(smem(&done), 0);
  tc_after();
  for (int j = 0; j < 128; j += 8) {
    uint32_t r[8];
    tc_ld8(tm + (warp * 32 << 16) + j, r);
    tc_wait_ld();
    for (int i = 0; i < 8; ++i) c[(rank * 128 + t) * 128 + j + i] = __uint_as_float(r[i]);
  }
  tc_before();
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
  if (warp == 0) { tc_after(); asm volatile("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, 128;" ::"r"(tm)); }
}
