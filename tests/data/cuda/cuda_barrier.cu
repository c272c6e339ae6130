#include <cuda/barrier>
using barrier = cuda::barrier<cuda::thread_scope_block>;
#pragma nv_diag_suppress static_var_with_dynamic_init
extern "C" __global__ void cuda_barrier(const int *in, int *out) {
  __shared__ int buf[256];
  __shared__ barrier bar;
  if (threadIdx.x == 0) init(&bar, blockDim.x);
  __syncthreads();
  for (int k = 0; k < 4; ++k) {
    buf[threadIdx.x] = in[k * 256 + threadIdx.x];
    bar.arrive_and_wait();
    out[k * 256 + threadIdx.x] = buf[255 - threadIdx.x];
    bar.arrive_and_wait();
  }
}
