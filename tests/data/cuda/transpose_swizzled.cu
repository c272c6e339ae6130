extern "C" __global__ void transpose_swizzled(const float *in, float *out, int n) {
  __shared__ float tile[32 * 32];
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32;
  for (int j = threadIdx.y; j < 32; j += 8) tile[j * 32 + (threadIdx.x ^ j)] = in[(y + j) * n + x];
  __syncthreads();
  x = blockIdx.y * 32 + threadIdx.x; y = blockIdx.x * 32;
  for (int j = threadIdx.y; j < 32; j += 8) out[(y + j) * n + x] = tile[threadIdx.x * 32 + (j ^ threadIdx.x)];
}
