// A 2-d TMA load, a change in shared memory, and a TMA store to another place.
#include "tc.cuh"
extern "C" __global__ void tma_transpose(const __grid_constant__ CUtensorMap in, const __grid_constant__ CUtensorMap out) {
  __shared__ __align__(1024) float a[32 * 32], b[32 * 32];
  __shared__ uint64_t bar;
  if (threadIdx.x == 0) { bar_init(smem(&bar), 1); fence_init(); }
  __syncthreads();
  if (threadIdx.x == 0) {
    bar_expect(smem(&bar), sizeof(a));
    tma_load(smem(a), &in, blockIdx.x * 32, blockIdx.y * 32, smem(&bar));
  }
  bar_wait(smem(&bar), 0);
  for (int i = threadIdx.x; i < 1024; i += blockDim.x) {
    int r = i / 32, q = i % 32;
    b[q * 32 + ((r / 4) ^ (q % 8)) * 4 + r % 4] = a[r * 32 + ((q / 4) ^ (r % 8)) * 4 + q % 4];
  }
  proxy_fence();
  __syncthreads();
  if (threadIdx.x == 0) {
    tma_store(&out, blockIdx.y * 32, blockIdx.x * 32, smem(b));
    bulk_commit();
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
}
