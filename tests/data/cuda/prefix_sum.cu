extern "C" __global__ void prefix_sum(const int *x, int *y) {
  __shared__ int sums[32];
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, v = x[threadIdx.x];
  for (int d = 1; d < 32; d <<= 1) { int u = __shfl_up_sync(~0u, v, d); if (lane >= d) v += u; }
  if (lane == 31) sums[warp] = v;
  __syncthreads();
  if (warp == 0) {
    int s = lane < blockDim.x / 32 ? sums[lane] : 0;
    for (int d = 1; d < 32; d <<= 1) { int u = __shfl_up_sync(~0u, s, d); if (lane >= d) s += u; }
    sums[lane] = s;
  }
  __syncthreads();
  if (warp) v += sums[warp - 1];
  y[threadIdx.x] = v;
}
