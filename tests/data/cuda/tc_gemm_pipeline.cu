// f16 GEMM, warp specialised: warp 0 loads by TMA into a ring of three stages, warp 1 issues MMAs, warps 2..5 store.
#include "tc.cuh"
constexpr int STAGES = 3;
extern "C" __global__ void __launch_bounds__(192) tc_gemm_pipeline(const __grid_constant__ CUtensorMap ma,
                                                                   const __grid_constant__ CUtensorMap mb, float *c, int n, int k) {
  extern __shared__ __align__(1024) char buf[];
  __shared__ uint64_t full[STAGES], empty[STAGES], done;
  __shared__ uint32_t tbase;
  int warp = threadIdx.x / 32, blocks = k / 64;
  if (threadIdx.x == 0) {
    for (int s = 0; s < STAGES; ++s) { bar_init(smem(full + s), 1); bar_init(smem(empty + s), 1); }
    bar_init(smem(&done), 1);
    fence_init();
  }
  if (warp == 1) tc_alloc<128>(smem(&tbase));
  tc_before();
  __syncthreads();
  tc_after();
  uint32_t tm = *(volatile uint32_t *)&tbase;
  if (warp == 0) {
    if (elect())
      for (int i = 0; i < blocks; ++i) {
        int s = i % STAGES;
        if (i >= STAGES) bar_wait(smem(empty + s), (i / STAGES - 1) & 1);
        bar_expect(smem(full + s), 32768);
        tma_load(smem(buf) + s * 32768, &ma, i * 64, blockIdx.y * 128, smem(full + s));
        tma_load(smem(buf) + s * 32768 + 16384, &mb, i * 64, blockIdx.x * 128, smem(full + s));
      }
  } else if (warp == 1) {
    if (elect()) {
      for (int i = 0; i < blocks; ++i) {
        int s = i % STAGES;
        bar_wait(smem(full + s), i / STAGES & 1);
        tc_after();
        for (int j = 0; j < 4; ++j)
          mma_f16(tm, desc(smem(buf) + s * 32768 + 32 * j, 16, 1024, 2), desc(smem(buf) + s * 32768 + 16384 + 32 * j, 16, 1024, 2),
                  0x08200010, i + j > 0);
        tc_commit(smem(empty + s));
      }
      tc_commit(smem(&done));
    }
  } else {
    bar_wait(smem(&done), 0);
    tc_after();
    int quarter = warp % 4, row = blockIdx.y * 128 + quarter * 32 + threadIdx.x % 32;
    for (int j = 0; j < 128; j += 8) {
      uint32_t r[8];
      tc_ld8(tm + (quarter * 32 << 16) + j, r);
      tc_wait_ld();
      uint4 *to = (uint4 *)(c + (size_t)row * n + blockIdx.x * 128 + j);
      to[0] = make_uint4(r[0], r[1], r[2], r[3]);
      to[1] = make_uint4(r[4], r[5], r[6], r[7]);
    }
    tc_before();
  }
  __syncthreads();
  if (warp == 1) { tc_after(); tc_free<128>(tm); }
}
