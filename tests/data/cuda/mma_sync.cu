#include <cuda_fp16.h>
extern "C" __global__ void mma_sync(const half *a, const half *b, float *c) {
  __shared__ alignas(16) half sa[16 * 16], sb[8 * 16];
  int t = threadIdx.x;
  ((uint4 *)sa)[t] = ((const uint4 *)a)[t];
  if (t < 16) ((uint4 *)sb)[t] = ((const uint4 *)b)[t];
  __syncwarp();
  unsigned ra[4], rb[2];
  unsigned pa = (unsigned)__cvta_generic_to_shared(&sa[(t % 16) * 16 + (t / 16) * 8]);
  unsigned pb = (unsigned)__cvta_generic_to_shared(&sb[(t % 8) * 16 + (t / 8 % 2) * 8]);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(ra[0]), "=r"(ra[1]), "=r"(ra[2]), "=r"(ra[3]) : "r"(pa));
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];" : "=r"(rb[0]), "=r"(rb[1]) : "r"(pb));
  float d[4] = {0, 0, 0, 0};
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
  int g = t / 4, q = t % 4;
  c[g * 8 + 2 * q] = d[0]; c[g * 8 + 2 * q + 1] = d[1]; c[(g + 8) * 8 + 2 * q] = d[2]; c[(g + 8) * 8 + 2 * q + 1] = d[3];
}
