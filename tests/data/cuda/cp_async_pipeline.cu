#include <cuda_pipeline.h>
extern "C" __global__ void cp_async_pipeline(const float4 *in, float4 *out, int tiles) {
  __shared__ float4 buf[3][128];
  int t = threadIdx.x;
  for (int s = 0; s < 2; ++s) {
    if (s < tiles) __pipeline_memcpy_async(&buf[s][t], &in[s * 128 + t], 16);
    __pipeline_commit();
  }
  for (int i = 0; i < tiles; ++i) {
    if (i + 2 < tiles) __pipeline_memcpy_async(&buf[(i + 2) % 3][t], &in[(i + 2) * 128 + t], 16);
    __pipeline_commit();
    __pipeline_wait_prior(2);
    __syncthreads();
    float4 v = buf[i % 3][127 - t];
    out[i * 128 + t] = make_float4(v.w, v.z, v.y, v.x);
    __syncthreads();
  }
}
