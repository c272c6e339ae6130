"""PTX of a conversion plan: a kernel of one CTA that loads the source registers, converts, and stores the result.

Parameters: ``src`` (threads x source registers, 32-bit words) and ``dst`` (threads x destination registers) in global
memory.  The conversion itself is what is between the two comments; it is what a larger kernel would contain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...errors import LayoutError
from ...ptx.builder import Kernel, Module, Param
from ...ptx.launch import Launch
from ...ptx.operands import Imm, Reg, Symbol, addr, special
from ...redistribution.plan import Barrier, Choose, Get, Permute, Plan, Put, Shuffle, Term

FULL = Imm(0xFFFFFFFF, hex=True)
TARGET = "sm_100a"
#: term operator -> PTX (PTX ISA 9.7.1, 9.7.8); numbers are not negative and below 2**31
_OPS = {
    "add": "add.u32", "mul": "mul.lo.u32", "div": "div.u32", "mod": "rem.u32", "and": "and.b32", "xor": "xor.b32",
    "or": "or.b32", "shl": "shl.b32", "shr": "shr.u32",
}  # fmt: skip
#: PTX ISA 9.7.14.5.15-16; 8-bit matrices need sm_100a
_MATRIX_STORES = {
    "matrix": "stmatrix.sync.aligned.m8n8.x{}.shared.b16", "trans": "stmatrix.sync.aligned.m8n8.x{}.trans.shared.b16",
    "trans8": "stmatrix.sync.aligned.m16n8.x{}.trans.shared.b8",
}  # fmt: skip
_MATRIX_LOADS = {
    "matrix": "ldmatrix.sync.aligned.m8n8.x{}.shared.b16", "trans": "ldmatrix.sync.aligned.m8n8.x{}.trans.shared.b16",
    "trans8": "ldmatrix.sync.aligned.m16n16.x{}.trans.shared.b8",
}  # fmt: skip
_COMPARE = {"eq": "setp.eq.u32", "lt": "setp.lt.u32"}


@dataclass(frozen=True)
class PlanKernel:
    """What the simulator and a host need; ``name`` is the entry's."""

    name: str
    ptx: str
    launch: Launch

    def simulate(self, *arrays: Any, **options: Any) -> Any:
        """Run it on (source registers, destination registers); see :func:`tirx_eq.sim.kernel.simulate_kernel`."""
        from ...sim.kernel import simulate_kernel

        return simulate_kernel(self, arrays, **options)  # type: ignore[arg-type]

    def assemble(self) -> Any:
        """What ``ptxas`` makes of it; PtxError if it refuses."""
        from ...ptx.ptxas import assemble

        return assemble(self.ptx, TARGET)


def kernel_of(plan: Plan, name: str = "convert") -> PlanKernel:
    """The kernel of a plan."""
    module = Module(TARGET)
    k = module.kernel(name, [Param.pointer("src"), Param.pointer("dst")], (plan.threads, 1, 1))
    shared = k.dynamic_shared("tile", plan.shared, 128) if plan.shared else None
    _Code(k, plan, shared).run()
    return PlanKernel(name, module.text(), k.launch((1, 1, 1)))


class _Code:
    def __init__(self, k: Kernel, plan: Plan, shared: Symbol | None) -> None:
        self.k, self.plan = k, plan
        self.tid = k.op("mov.u32", special("tid.x"))
        self.base = k.op("mov.u32", shared) if shared is not None else None
        self.values: dict[int, Reg] = {}
        self.terms: dict[Any, Reg | Imm] = {}
        self.conditions: dict[Any, Reg] = {}

    def run(self) -> None:
        k, plan = self.k, self.plan
        self._registers("src", plan.inputs, load=True)
        k.comment("conversion begins")
        for step in plan.steps:
            if isinstance(step, Permute):
                self.values[step.out] = k.op("prmt.b32", self.values[step.a], self.values[step.b], Imm(step.selector, hex=True))
            elif isinstance(step, Choose):
                p = self.condition(("ne0", step.condition))
                self.values[step.out] = k.op("selp.b32", self.values[step.a], self.values[step.b], p)
            elif isinstance(step, Shuffle):
                self._shuffle(step)
            elif isinstance(step, Barrier):
                if step.scope == "warp":
                    k.emit("bar.warp.sync", FULL)
                else:
                    k.emit("bar.sync", 0)
            elif isinstance(step, Put):
                self._put(step)
            else:
                self._get(step)
        k.comment("conversion ends")
        self._registers("dst", len(plan.outputs), load=False)
        k.emit("ret")

    def _registers(self, name: str, count: int, load: bool) -> None:
        k = self.k
        base = k.op("cvta.to.global.u64", k.load_param(name))
        at = k.op("mad.wide.u32", self.tid, 4 * count, base)
        for i in range(count):
            if load:
                self.values[i] = k.op("ld.global.b32", addr(at, 4 * i))
                continue
            value = self.plan.outputs[i]
            if value is not None:
                k.emit("st.global.b32", addr(at, 4 * i), self.values[value])

    def _shuffle(self, step: Shuffle) -> None:
        if step.flip is not None:
            self.values[step.out] = self.k.op("shfl.sync.bfly.b32", self.values[step.value], step.flip, 31, FULL)
            return
        lane = self.term(step.lane)
        self.values[step.out] = self.k.op("shfl.sync.idx.b32", self.values[step.value], lane, 31, FULL)

    def _address(self, step: Put | Get) -> Any:
        assert self.base is not None
        key = ("address", step.address)
        if key not in self.terms:
            offset = self.term(step.address)
            nothing = isinstance(offset, Imm) and not offset.value
            self.terms[key] = self.base if nothing else self.k.op("add.u32", self.base, offset)
        at = self.terms[key]
        assert isinstance(at, Reg)
        return addr(at, step.offset)

    def _put(self, step: Put) -> None:
        k, at = self.k, self._address(step)
        words = [self.values[w] for w in step.words]
        guard = None if step.guard is None else self.condition(step.guard)
        if step.matrix:
            k.emit(_MATRIX_STORES[step.matrix].format(len(words)), at, words)
        elif step.width < 4:
            part = k.op("cvt.u16.u32", words[0])
            k.emit(f"st.shared.b{8 * step.width}", at, part, pred=guard)
        else:
            k.emit(f"st.shared.{_vector(len(words))}b32", at, words if len(words) > 1 else words[0], pred=guard)

    def _get(self, step: Get) -> None:
        k, at = self.k, self._address(step)
        guard = None if step.guard is None else self.condition(step.guard)
        if step.matrix:
            outs = k.regs("b32", len(step.outs))
            k.emit(_MATRIX_LOADS[step.matrix].format(len(outs) // (2 if step.matrix == "trans8" else 1)), outs, at)
        elif step.width < 4:
            part = k.op("mov.b16", 0) if guard else k.reg("b16")
            k.emit(f"ld.shared.u{8 * step.width}", part, at, pred=guard)
            outs = [k.op("cvt.u32.u16", part)]
        else:
            # A load that is off leaves its registers as they are: give them a value.
            outs = [k.op("mov.b32", 0) if guard else k.reg("b32") for _ in step.outs]
            k.emit(f"ld.shared.{_vector(len(outs))}b32", outs if len(outs) > 1 else outs[0], at, pred=guard)
        self.values.update(zip(step.outs, outs))

    # -- terms over the thread number ------------------------------------------------------------------------------

    def term(self, t: Term) -> Reg | Imm:
        if t == "tid":
            return self.tid
        if isinstance(t, int):
            return Imm(t)
        if t not in self.terms:
            self.terms[t] = self._computed(t)
        return self.terms[t]

    def _computed(self, t: Any) -> Reg:
        op, *args = t
        if op not in _OPS:
            raise LayoutError(f"convert: an address uses '{op}', which has no PTX here")
        return self.k.op(_OPS[op], self.register(args[0]), self.term(args[1]))

    def register(self, t: Term) -> Reg:
        value = self.term(t)
        return value if isinstance(value, Reg) else self.k.op("mov.b32", value)

    def condition(self, t: Any) -> Reg:
        if t not in self.conditions:
            op, *args = t
            if op == "ne0":
                self.conditions[t] = self.k.op("setp.ne.u32", self.register(args[0]), 0)
            elif op in _COMPARE:
                self.conditions[t] = self.k.op(_COMPARE[op], self.register(args[0]), self.term(args[1]))
            else:
                raise LayoutError(f"convert: a condition uses '{op}', which has no PTX here")
        return self.conditions[t]


def _vector(count: int) -> str:
    return f"v{count}." if count > 1 else ""
