// Two producer warps and two consumer warps hand a buffer over with bar.sync and bar.arrive on named barriers.
extern "C" __global__ void __launch_bounds__(128) named_barriers(const int *x, int *y, int rounds) {
  __shared__ int buf[64];
  int t = threadIdx.x;
  if (t < 64) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    for (int i = 0; i < rounds; ++i) {
      if (i) asm volatile("bar.sync 2, 128;" ::: "memory");
      buf[t] = x[i * 64 + t];
      asm volatile("bar.arrive 1, 128;" ::: "memory");
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    for (int i = 0; i < rounds; ++i) {
      asm volatile("bar.sync 1, 128;" ::: "memory");
      y[i * 64 + t - 64] = buf[127 - t] + i;
      if (i + 1 < rounds) asm volatile("bar.arrive 2, 128;" ::: "memory");
    }
  }
  asm volatile("griddepcontrol.launch_dependents;\ngriddepcontrol.wait;" ::: "memory");
}
