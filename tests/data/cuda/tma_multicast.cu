// One TMA load of the leader lands in every CTA of the cluster, each waits on its own barrier.
#include "tc.cuh"
extern "C" __global__ void __cluster_dims__(4, 1, 1) tma_multicast(const __grid_constant__ CUtensorMap in, int *out) {
  __shared__ __align__(128) int a[8 * 32];
  __shared__ uint64_t bar;
  if (threadIdx.x == 0) { bar_init(smem(&bar), 1); fence_init(); bar_expect(smem(&bar), sizeof(a)); }
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
  if (blockIdx.x % 4 == 0 && threadIdx.x == 0)
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;"
                 ::"r"(smem(a)), "l"(&in), "r"(-4), "r"(int(blockIdx.x) * 2), "r"(smem(&bar)), "h"((uint16_t)0xf) : "memory");
  bar_wait(smem(&bar), 0);
  for (int i = threadIdx.x; i < 256; i += blockDim.x) out[blockIdx.x * 256 + i] = a[i] + (blockIdx.x & 3);
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
