// Every CTA of a cluster sends its values to the next one with st.async and adds into the one after with red.async.
#include "tc.cuh"
extern "C" __global__ void __cluster_dims__(4, 1, 1) st_async_ring(const int *x, int *y) {
  __shared__ int inbox[32], total;
  __shared__ uint64_t bar;
  uint32_t rank = blockIdx.x % 4, t = threadIdx.x, to, to_bar, sum, sum_bar;
  if (t == 0) { total = 0; bar_init(smem(&bar), 1); fence_init(); bar_expect(smem(&bar), 32 * 8); proxy_fence(); }
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(to) : "r"(smem(inbox + t)), "r"((rank + 1) % 4));
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(to_bar) : "r"(smem(&bar)), "r"((rank + 1) % 4));
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(sum) : "r"(smem(&total)), "r"((rank + 2) % 4));
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(sum_bar) : "r"(smem(&bar)), "r"((rank + 2) % 4));
  int v = x[blockIdx.x * 32 + t];
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.s32 [%0], %1, [%2];" ::"r"(to), "r"(v), "r"(to_bar) : "memory");
  asm volatile("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.s32 [%0], %1, [%2];"
               ::"r"(sum), "r"(v), "r"(sum_bar) : "memory");
  bar_wait(smem(&bar), 0);
  y[blockIdx.x * 32 + t] = inbox[31 - t] * 1000 + total;
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
