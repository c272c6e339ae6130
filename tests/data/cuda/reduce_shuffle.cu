extern "C" __global__ void reduce_shuffle(const int *x, int *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, v = i < n ? x[i] : 0;
  for (int d = 16; d; d >>= 1) v += __shfl_xor_sync(~0u, v, d);
  __shared__ int part[32];
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x < 32) {
    v = threadIdx.x < blockDim.x / 32 ? part[threadIdx.x] : 0;
    for (int d = 16; d; d >>= 1) v += __shfl_down_sync(~0u, v, d);
    if (threadIdx.x == 0) atomicAdd(out, v);
  }
}
