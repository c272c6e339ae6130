"""The machine model: what a candidate program costs.  Numbers rank candidates; they are never reported as measured time.

Unit: cycles of one SM for the participating threads of one call.
"""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Machine:
    """Throughputs of an SM.  Sources: CUDA C++ Programming Guide (throughput of native instructions), and published
    micro-benchmarks of B200 where the guide is silent."""

    issue: float = 1.0  # warp instructions per cycle and SM sub-partition
    subpartitions: int = 4
    shared_bytes: int = 128  # bytes per cycle; 32 banks of 4 bytes
    sector_bytes: int = 32  # granule of global memory traffic
    l2_bytes: float = 64.0  # bytes per cycle and SM from L2
    tmem_bytes: float = 57.0  # bytes per cycle and warp for tcgen05.ld (B300 bench notes; one source)
    mma_f16: float = 8192.0  # dense f16 FLOP per cycle
    convert: float = 16.0  # lanes of cvt per cycle and sub-partition
    special: float = 4.0  # lanes of ex2, lg2, rcp, rsqrt per cycle and sub-partition (16 per SM)


B200 = Machine()

#: SASS instructions of one PTX instruction where that isn't one: correctly rounded division, root and reciprocal are sequences
#: around rcp and rsqrt, and what is not .ftz scales subnormal numbers (counted in what ptxas emits for sm_100a, without the
#: slow paths).
SEQUENCES = {
    "div.rn.f32": 8, "sqrt.rn.f32": 6, "rcp.rn.f32": 4, "ex2.approx.f32": 4, "lg2.approx.f32": 4, "rcp.approx.f32": 7,
    "rsqrt.approx.f32": 4, "sqrt.approx.f32": 4, "div.full.f32": 9, "sin.approx.f32": 2, "cos.approx.f32": 2,
    "ex2.approx.ftz.bf16x2": 3, "tanh.approx.bf16x2": 3,
}  # fmt: skip
#: Issue slots that a barrier is worth, by scope: it waits for the latency of a store to shared memory (about 20 to 30 cycles in
#: published benchmarks).
BARRIER_SLOTS = {"warp": 12, "cta": 24}
SEQUENCES |= {"bar.warp.sync": BARRIER_SLOTS["warp"], "bar.sync": BARRIER_SLOTS["cta"]}


def slots(opcode: str) -> float:
    """Issue slots of an instruction."""
    return SEQUENCES.get(opcode, 1)


@dataclass(frozen=True)
class Price:
    """What a candidate takes, by resource.

    ``issue``: warp instructions of one warp; ``warps``: warps that execute them; ``wavefronts``: shared-memory cycles;
    ``sectors``: 32-byte pieces of global memory; ``tmem``: bytes through the tensor-memory port of a warp; ``tensor``:
    tensor-core cycles; ``converts``: lanes converted per warp; ``special``: lanes through the special function
    unit per warp; ``registers``: temporaries alive at once in a thread.
    """

    issue: float = 0
    warps: int = 1
    wavefronts: float = 0
    sectors: float = 0
    tmem: float = 0
    tensor: float = 0
    converts: float = 0
    special: float = 0
    registers: int = 0

    def cycles(self, machine: Machine = B200) -> float:
        """Cycles with every resource but issue slots overlapped badly: their sum.  Registers break ties only."""
        return sum(self.split(machine).values())

    def split(self, machine: Machine = B200) -> dict[str, float]:
        """The cycles by resource; see :meth:`cycles`."""
        rounds = -(-self.warps // machine.subpartitions)
        return {
            "issue": self.issue * rounds / machine.issue,
            "wavefronts": self.wavefronts,
            "sectors": self.sectors * machine.sector_bytes / machine.l2_bytes,
            "tmem": self.tmem / machine.tmem_bytes,
            "tensor": self.tensor,
            "converts": self.converts * rounds / machine.convert,
            "special": self.special * rounds / machine.special,
            "registers": self.registers / 1024,
        }

    def by_resource(self) -> dict[str, float]:
        """The non-zero entries, for reports."""
        return {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name)}
