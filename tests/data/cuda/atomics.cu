// Atomics of several kinds on shared and global memory.
extern "C" __global__ void atomics(const int *x, int *mx, int *count, float *sum, unsigned long long *both, int n) {
  __shared__ int top;
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (threadIdx.x == 0) top = -1000000;
  __syncthreads();
  if (i < n) {
    atomicMax(&top, x[i]);
    atomicAdd(sum, (float)(x[i] & 15));
    int old = *(volatile int *)count, seen;
    do { seen = old; old = atomicCAS(count, seen, seen + 2); } while (old != seen);
    atomicAdd(both, 1ull << 32 | (unsigned)(x[i] & 7));
  }
  __syncthreads();
  if (threadIdx.x == 0) atomicMax(mx, top);
}
