extern "C" __global__ void double_math(const double *a, const double *b, double *c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = fma(a[i], b[i], sqrt(fabs(a[i])) / (b[i] * b[i] + 1.0));
}
