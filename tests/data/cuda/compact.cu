extern "C" __global__ void compact(const int *x, int *y, int *n_out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  bool keep = i < n && x[i] > 0;
  unsigned mask = __ballot_sync(~0u, keep);
  int lane = threadIdx.x & 31, base = 0;
  if (lane == 0 && mask) base = atomicAdd(n_out, __popc(mask));
  base = __shfl_sync(~0u, base, 0);
  if (keep) y[base + __popc(mask & ((1u << lane) - 1))] = x[i];
}
