// Blackwell's packed and three-operand arithmetic.
#include <cstdint>
extern "C" __global__ void packed_math(const float2 *a, const float2 *b, float2 *c, float *m) {
  int t = threadIdx.x;
  uint64_t x = *(const uint64_t *)(a + t), y = *(const uint64_t *)(b + t), z, w;
  asm("fma.rn.f32x2 %0, %1, %2, %1;" : "=l"(z) : "l"(x), "l"(y));
  asm("mul.rz.ftz.f32x2 %0, %1, %2;" : "=l"(w) : "l"(z), "l"(y));
  asm("add.rn.f32x2 %0, %1, %2;" : "=l"(w) : "l"(w), "l"(x));
  *(uint64_t *)(c + t) = w;
  float r, s = a[t].x, u = a[t].y, v = b[t].x;
  asm("max.f32 %0, %1, %2, %3;" : "=f"(r) : "f"(s), "f"(u), "f"(v));
  float q;
  asm("redux.sync.max.f32 %0, %1, 0xffffffff;" : "=f"(q) : "f"(r));
  m[t] = r + q;
}
