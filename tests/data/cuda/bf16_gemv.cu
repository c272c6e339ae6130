#include <cuda_bf16.h>
extern "C" __global__ void bf16_gemv(const __nv_bfloat16 *a, const __nv_bfloat16 *x, float *y, int n) {
  int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  float s = 0;
  for (int i = threadIdx.x % 32; i < n; i += 32) s += __bfloat162float(a[row * n + i]) * __bfloat162float(x[i]);
  for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(~0u, s, d);
  if (threadIdx.x % 32 == 0) y[row] = s;
}
