extern "C" __global__ void layernorm(const float *x, const float *g, float *y, int n) {
  __shared__ float red[2][8];
  float s = 0, q = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) { float v = x[blockIdx.x * n + i]; s += v; q += v * v; }
  for (int d = 16; d; d >>= 1) { s += __shfl_xor_sync(~0u, s, d); q += __shfl_xor_sync(~0u, q, d); }
  if (threadIdx.x % 32 == 0) { red[0][threadIdx.x / 32] = s; red[1][threadIdx.x / 32] = q; }
  __syncthreads();
  s = q = 0;
  for (int w = 0; w < blockDim.x / 32; ++w) { s += red[0][w]; q += red[1][w]; }
  float mean = s / n, r = rsqrtf(q / n - mean * mean + 1e-5f);
  for (int i = threadIdx.x; i < n; i += blockDim.x)
    y[blockIdx.x * n + i] = (x[blockIdx.x * n + i] - mean) * r * g[i];
}
