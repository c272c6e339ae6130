// f16 GEMM 128x128x64 of one CTA: ordinary copies into 128B-swizzled shared memory, four MMAs, f16 result.
#include "tc.cuh"
#include <cuda_fp16.h>
extern "C" __global__ void __launch_bounds__(128) tc_gemm_sync(const uint4 *a, const uint4 *b, half *c) {
  extern __shared__ __align__(1024) char buf[];
  __shared__ uint64_t bar;
  __shared__ uint32_t tbase;
  int t = threadIdx.x, warp = t / 32;
  if (warp == 0) tc_alloc<128>(smem(&tbase));
  if (t == 0) { bar_init(smem(&bar), 1); fence_init(); }
  for (int i = t; i < 1024; i += 128) {
    int row = i / 8, cell = i % 8;
    *(uint4 *)(buf + row * 128 + (cell ^ (row % 8)) * 16) = a[i];
    *(uint4 *)(buf + 16384 + row * 128 + (cell ^ (row % 8)) * 16) = b[i];
  }
  proxy_fence();
  tc_before();
  __syncthreads();
  tc_after();
  uint32_t tm = *(volatile uint32_t *)&tbase;
  if (warp == 0 && elect()) {
    for (int k = 0; k < 4; ++k)
      mma_f16(tm, desc(smem(buf) + 32 * k, 16, 1024, 2), desc(smem(buf) + 16384 + 32 * k, 16, 1024, 2), 0x08200010, k > 0);
    tc_commit(smem(&bar));
  }
  __syncwarp();
  bar_wait(smem(&bar), 0);
  tc_after();
  for (int j = 0; j < 128; j += 8) {
    uint32_t r[8];
    tc_ld8(tm + (warp * 32 << 16) + j, r);
    tc_wait_ld();
    half2 h[4];
    for (int i = 0; i < 4; ++i) h[i] = __floats2half2_rn(__uint_as_float(r[2 * i]), __uint_as_float(r[2 * i + 1]));
    *(uint4 *)(c + t * 128 + j) = *(uint4 *)h;
  }
  tc_before();
  __syncthreads();
  if (warp == 0) { tc_after(); tc_free<128>(tm); }
}
