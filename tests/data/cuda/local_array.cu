extern "C" __global__ void local_array(const int *x, int *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, a[16];
  for (int k = 0; k < 16; ++k) a[k] = x[i * 16 + k];
  int s = 0, at = i & 15;
  for (int k = 0; k < n; ++k) { s = s * 3 + a[at]; a[at] = s & 0xff; at = (at + a[(k * 7) & 15]) & 15; }
  y[i] = s;
}
