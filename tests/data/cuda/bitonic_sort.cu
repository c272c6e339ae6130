extern "C" __global__ void bitonic_sort(int *x) {
  __shared__ int s[256];
  int t = threadIdx.x;
  s[t] = x[blockIdx.x * 256 + t];
  __syncthreads();
  for (int k = 2; k <= 256; k <<= 1)
    for (int j = k >> 1; j; j >>= 1) {
      int o = t ^ j;
      if (o > t && (s[t] > s[o]) == !(t & k)) { int u = s[t]; s[t] = s[o]; s[o] = u; }
      __syncthreads();
    }
  x[blockIdx.x * 256 + t] = s[t];
}
