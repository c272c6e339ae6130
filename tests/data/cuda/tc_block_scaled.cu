// mxf8f6f4: e4m3 x e4m3 with ue8m0 scales, 128x64x32; scales reach tensor memory by tcgen05.cp.
#include "tc.cuh"
extern "C" __global__ void __launch_bounds__(128) tc_block_scaled(const uint4 *a, const uint4 *b, const uint4 *sa, const uint4 *sb, float *c) {
  __shared__ __align__(1024) char ba[4096], bb[2048];
  __shared__ __align__(128) uint4 fa[32], fb[32];
  __shared__ uint64_t bar;
  __shared__ uint32_t tbase;
  int t = threadIdx.x, warp = t / 32;
  if (warp == 0) tc_alloc<128>(smem(&tbase));
  if (t == 0) { bar_init(smem(&bar), 1); fence_init(); }
  // K-major without swizzle: core matrices of 8 rows x 16 bytes, row groups 128 bytes apart, the two K columns rows*16 apart
  for (int i = t; i < 256; i += 128) *(uint4 *)(ba + (i % 2) * 2048 + i / 2 * 16) = a[i];
  *(uint4 *)(bb + (t % 2) * 1024 + t / 2 * 16) = b[t];
  if (t < 32) { fa[t] = sa[t]; fb[t] = sb[t]; }
  proxy_fence();
  tc_before();
  __syncthreads();
  tc_after();
  uint32_t tm = *(volatile uint32_t *)&tbase;
  if (warp == 0 && elect()) {
    uint32_t ta = tm + 64, tb = tm + 68;
    asm volatile("tcgen05.cp.cta_group::1.32x128b.warpx4 [%0], %1;" ::"r"(ta), "l"(desc(smem(fa), 16, 128, 0)) : "memory");
    asm volatile("tcgen05.cp.cta_group::1.32x128b.warpx4 [%0], %1;" ::"r"(tb), "l"(desc(smem(fb), 16, 128, 0)) : "memory");
    uint32_t idesc = 8u << 17 | 1u << 23 | 1u << 27;
    asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, 0, 0;\n"
                 "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.scale_vec::1X [%0], %1, %2, %3, [%4], [%5], p;\n}"
                 ::"r"(tm), "l"(desc(smem(ba), 2048, 128, 0)), "l"(desc(smem(bb), 1024, 128, 0)), "r"(idesc), "r"(ta), "r"(tb) : "memory");
    tc_commit(smem(&bar));
  }
  __syncwarp();
  bar_wait(smem(&bar), 0);
  tc_after();
  for (int j = 0; j < 64; j += 8) {
    uint32_t r[8];
    tc_ld8(tm + (warp * 32 << 16) + j, r);
    tc_wait_ld();
    for (int i = 0; i < 8; ++i) c[t * 64 + j + i] = __uint_as_float(r[i]);
  }
  tc_before();
  __syncthreads();
  if (warp == 0) { tc_after(); tc_free<128>(tm); }
}
