extern "C" __global__ void divergent(const int *x, int *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, v = x[i], steps = 0;
  while (v != 1 && steps < n) {
    if (v & 1) v = 3 * v + 1; else v >>= 1;
    ++steps;
    if (steps % 5 == 0) continue;
    if (v > 100000) break;
  }
  switch (steps % 4) { case 0: y[i] = steps; break; case 1: y[i] = -steps; break; case 2: y[i] = steps * steps; break; default: y[i] = v; }
}
