#include <cuda_fp16.h>
#include <cuda_bf16.h>
extern "C" __global__ void half2_math(const half2 *a, const half2 *b, half2 *c, __nv_bfloat162 *d, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  half2 v = __hfma2(a[i], b[i], __hadd2(a[i], __float2half2_rn(0.5f)));
  c[i] = __hmax2(v, __hneg2(b[i]));
  float2 f = __half22float2(v);
  d[i] = __float22bfloat162_rn(f);
}
