extern "C" __global__ void bit_tricks(const unsigned *x, unsigned *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned v = x[i], *o = y + i * 12;
  o[0] = __popc(v); o[1] = __clz(v); o[2] = __brev(v); o[3] = __ffs(v);
  o[4] = __byte_perm(v, ~v, 0x3715); o[5] = __funnelshift_l(v, ~v, v & 31); o[6] = __umulhi(v, 0x9e3779b9u);
  o[7] = v / 7u; o[8] = (unsigned)((int)v % 13); o[9] = (v >> 5 & 0x1ff) | (v & 0xf0f) ^ ~(v << 3);
  o[10] = (unsigned)(((unsigned long long)v * v) >> 17); o[11] = (unsigned)max((int)v, -5) - (unsigned)min((int)v, 77);
}
