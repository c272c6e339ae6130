// Work stealing by cluster launch control: a CTA goes on with the block of a CTA that was never launched.
#include "tc.cuh"
extern "C" __global__ void clc_persistent(const int *x, int *y, int *ran) {
  __shared__ __align__(16) uint4 response;
  __shared__ uint64_t bar;
  int block = blockIdx.x, phase = 0;
  if (threadIdx.x == 0) { bar_init(smem(&bar), 1); fence_init(); atomicAdd(ran, 1); }
  __syncthreads();
  for (;;) {
    if (threadIdx.x == 0) {
      bar_expect(smem(&bar), 16);
      asm volatile("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%0], [%1];"
                   ::"r"(smem(&response)), "r"(smem(&bar)) : "memory");
    }
    y[block * blockDim.x + threadIdx.x] = x[block * blockDim.x + threadIdx.x] * 3 + block;
    bar_wait(smem(&bar), phase);
    phase ^= 1;
    uint32_t granted, next;
    asm volatile("{\n.reg .pred p;\n.reg .b128 q;\nld.shared.b128 q, [%2];\n"
                 "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, q;\nselp.u32 %0, 1, 0, p;\nmov.u32 %1, 0;\n"
                 "@p clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%1, _, _, _}, q;\n}"
                 : "=r"(granted), "=r"(next) : "r"(smem(&response)) : "memory");
    proxy_fence();
    __syncthreads();
    if (!granted) break;
    block = next;
  }
}
