extern "C" __global__ void matmul_tiled(const float *a, const float *b, float *c, int n) {
  __shared__ float sa[16][16], sb[16][16];
  int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
  float sum = 0;
  for (int k = 0; k < n; k += 16) {
    sa[ty][tx] = a[row * n + k + tx];
    sb[ty][tx] = b[(k + ty) * n + col];
    __syncthreads();
    for (int i = 0; i < 16; ++i) sum += sa[ty][i] * sb[i][tx];
    __syncthreads();
  }
  c[row * n + col] = sum;
}
