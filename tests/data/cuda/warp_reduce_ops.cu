extern "C" __global__ void warp_reduce_ops(const int *x, unsigned *y) {
  int t = threadIdx.x, v = x[blockIdx.x * blockDim.x + t];
  unsigned *o = y + (blockIdx.x * blockDim.x + t) * 6;
  o[0] = __reduce_add_sync(~0u, (unsigned)v); o[1] = __reduce_max_sync(~0u, v); o[2] = __reduce_xor_sync(~0u, (unsigned)v);
  o[3] = __match_any_sync(~0u, v & 7); o[4] = __any_sync(~0u, v == 5) * 2 + __all_sync(~0u, v < 100); o[5] = __activemask();
}
