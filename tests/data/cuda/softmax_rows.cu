extern "C" __global__ void softmax_rows(const float *x, float *y, int n) {
  int lane = threadIdx.x % 32, row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  const float *in = x + row * n;
  float m = -INFINITY, s = 0;
  for (int i = lane; i < n; i += 32) m = fmaxf(m, in[i]);
  for (int d = 16; d; d >>= 1) m = fmaxf(m, __shfl_xor_sync(~0u, m, d));
  for (int i = lane; i < n; i += 32) s += __expf(in[i] - m);
  for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(~0u, s, d);
  for (int i = lane; i < n; i += 32) y[row * n + i] = __fdividef(__expf(in[i] - m), s);
}
