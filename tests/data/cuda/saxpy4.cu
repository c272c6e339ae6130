extern "C" __global__ void saxpy4(float s, const float4 *x, float4 *y, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    float4 u = x[i], v = y[i];
    v.x = fmaf(s, u.x, v.x); v.y = fmaf(s, u.y, v.y); v.z = fmaf(s, u.z, v.z); v.w = fmaf(s, u.w, v.w);
    y[i] = v;
  }
}
