"""A functional simulator of PTX for Blackwell on numpy: runs PTX text, and reports races, missing fences and misuse.

It reads text only (``text``), decodes every instruction against a table (``isa`` and the families it names) before
anything runs, and executes all threads of a *wave* of clusters as numpy arrays (``wave``, ``scheduler``).

Time is adversarial.  An asynchronous operation (TMA, MMA, commit, bulk store, cp.async, tcgen05.ld/st) is queued at its
issue and takes effect as late as its completion mechanism allows (``late``), at once (``early``), or at seeded random
moments (``random``).  Faults do not depend on that luck: vector clocks (``clocks``) say what each thread, queue and mbarrier
phase knows to have happened, and every access to shared, global and tensor memory is checked against them:

* *happens-before*: bar, barrier.cluster, mbarrier arrive/wait, bulk and cp.async groups, strong accesses and fences;
* *proxies*: what was written through the generic proxy may be read by TMA and MMA only after fence.proxy.async for that
  state space somewhere on the way; a fresh mbarrier only after that or fence.mbarrier_init;
* *tcgen05 order*: operations of another thread need completion (commit or wait) and tcgen05.fence::after_thread_sync.

A ``Fault`` names its kind (``RULES``), line, thread, address and the rule; ``Result.warnings`` holds what the ISA's text does
not allow but shipped kernels rely on (lane addresses relative to the warp's window, tiles off their swizzle boundary,
convergence left to the compiler).

Not modelled, and refused by name: interleaved tensor maps, im2col::w, calls through pointers, textures; where no public
source says what happens, of tcgen05.mma.sp .ashift and the sparsity selectors 2 and 3, of cvt.rs the target e2m1x4;
mma.m8n8k4 of f16 and wmma beyond m16n16k16 of f16.  MMA sums are exact in float64 and rounded once per instruction; hardware
truncates, so compare real-valued results with a bound and integers exactly.
"""

from tirx_eq.sim.faults import RULES, Fault
from tirx_eq.sim.machine import Launch, Result, simulate
from tirx_eq.sim.text.parser import parse
from tirx_eq.sim.transfers.tensormap import Im2col, TensorMap

__all__ = ["RULES", "Fault", "Im2col", "Launch", "Result", "TensorMap", "parse", "simulate"]
