"""PTX of the device intrinsics that statements call (``tirx.cuda.*``, ``tirx.ptx.*``), as a table.

A template gives the opcode and how the call's arguments become operands: ``shared(i)`` the shared address in argument i,
``value(i)`` its integer value, ``imm(i)`` its compile-time value.  ``{i}`` in an opcode is argument i, a constant.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..errors import LoweringError
from ..ir import BufferLoad, Call, Expr, IntImm, StringImm
from .program import Index, Instruction, Memory, Operand, Pointer

MemoryOf = Callable[[BufferLoad], Memory]


@dataclass(frozen=True)
class Argument:
    """How an argument becomes an operand: ``shared``, ``value``, ``tmem`` or ``imm``."""

    kind: str
    index: int
    bits: int = 32


@dataclass(frozen=True)
class Template:
    """One instruction.  ``aligned``: all threads of the warp must be converged (``.sync.aligned``)."""

    opcode: str
    operands: tuple[Argument | int, ...] = ()
    aligned: bool = False
    optional: tuple[int, ...] = ()


def _shared(i: int) -> Argument:
    return Argument("shared", i)


def _value(i: int, bits: int = 32) -> Argument:
    return Argument("value", i, bits)


def _imm(i: int) -> Argument:
    return Argument("imm", i)


#: PTX ISA 9.7.12 (barriers, fences, mbarrier) and 9.7.16 (tcgen05).
TEMPLATES: dict[str, Template] = {
    "tirx.cuda.cta_sync": Template("bar.sync", (0,)),
    "tirx.cuda.warp_sync": Template("bar.warp.sync", (0xFFFFFFFF,)),
    "tirx.cuda.warpgroup_sync": Template("bar.sync", (_value(0), 128)),
    "tirx.ptx.bar_sync": Template("bar.sync", (_value(0), _value(1))),
    "tirx.ptx.bar_arrive": Template("bar.arrive", (_value(0), _value(1))),
    "tirx.ptx.mbarrier_init": Template("mbarrier.init.shared::cta.b64", (_shared(0), _value(1))),
    "tirx.ptx.fence_mbarrier_init": Template("fence.mbarrier_init.release.cluster"),
    "tirx.ptx.fence": Template("fence.{0}.{1}"),
    "tirx.ptx.fence_proxy_async": Template("fence.proxy.async{.0}"),
    "tirx.ptx.tcgen05_alloc": Template(
        "tcgen05.alloc.cta_group::{2}.sync.aligned.shared::cta.b32", (_shared(0), _imm(1)), aligned=True
    ),
    "tirx.ptx.tcgen05_dealloc": Template(
        "tcgen05.dealloc.cta_group::{2}.sync.aligned.b32", (Argument("tmem", 0), _imm(1)), aligned=True
    ),
    "tirx.ptx.tcgen05_relinquish_alloc_permit": Template(
        "tcgen05.relinquish_alloc_permit.cta_group::{0}.sync.aligned", aligned=True
    ),
    "tirx.ptx.tcgen05_commit": Template(
        "tcgen05.commit.cta_group::{1}.mbarrier::arrive::one.shared::cluster.b64", (_shared(0),)
    ),
    "tirx.ptx.tcgen05_fence_before_thread_sync": Template("tcgen05.fence::before_thread_sync"),
    "tirx.ptx.tcgen05_fence_after_thread_sync": Template("tcgen05.fence::after_thread_sync"),
    "tirx.ptx.tcgen05_wait_ld": Template("tcgen05.wait::ld.sync.aligned", aligned=True),
    "tirx.ptx.tcgen05_wait_st": Template("tcgen05.wait::st.sync.aligned", aligned=True),
    "tirx.ptx.griddepcontrol_wait": Template("griddepcontrol.wait"),
    "tirx.ptx.griddepcontrol_launch_dependents": Template("griddepcontrol.launch_dependents"),
}

#: Calls that wait for a phase of an mbarrier: (barrier, parity) -> ordering modifiers.
PARITY_WAITS = {
    "tirx.ptx.mbarrier_try_wait": "",
    "tirx.ptx.mbarrier_try_wait_acquire_cluster": "acquire.cluster",
}


def constant(e: Any) -> int | str | None:
    """The compile-time value of an argument, or None."""
    if isinstance(e, (IntImm, StringImm)):
        return e.value
    return e if isinstance(e, (int, str)) else None


def instruction_of(call: Call, memory_of: MemoryOf) -> Instruction:
    """The instruction of an intrinsic call.

    Raises LoweringError for an intrinsic without PTX here, or an argument that must be constant or an address and isn't.
    """
    template = TEMPLATES.get(call.op.name)
    if template is None:
        raise LoweringError(f"there is no PTX for the intrinsic '{call.op.name}'", span=call.span)
    operands = tuple(a if isinstance(a, int) else _operand(a, call, memory_of) for a in template.operands)
    if call.op.name == "tirx.ptx.tcgen05_commit" and len(call.args) > 2 and constant(call.args[2]) not in (0, None):
        raise LoweringError("tcgen05.commit with a multicast mask is not lowered yet", span=call.span)
    return Instruction(_opcode(template.opcode, call), operands)


def _opcode(text: str, call: Call) -> str:
    for i, arg in enumerate(call.args):
        value = constant(arg)
        for form, shown in ((f"{{{i}}}", str(value)), (f"{{.{i}}}", f".{value}" if value else "")):
            if form in text:
                if value is None:
                    raise LoweringError(f"argument {i} of '{call.op.name}' must be constant", span=call.span)
                text = text.replace(form, shown)
    return text.replace("{.0}", "")


def _operand(a: Argument, call: Call, memory_of: MemoryOf) -> Operand:
    if a.index >= len(call.args):
        raise LoweringError(f"'{call.op.name}' needs an argument {a.index}", span=call.span)
    arg = call.args[a.index]
    if a.kind == "shared":
        load = address_operand(arg)
        if load is None:
            raise LoweringError(
                f"argument {a.index} of '{call.op.name}' must be the address of an element of a shared buffer",
                span=call.span,
            )
        memory = memory_of(load)
        if memory.root.space != "shared":
            raise LoweringError(
                f"argument {a.index} of '{call.op.name}' must be in shared memory, but '{load.buffer.name}' is not",
                span=call.span,
            )
        return memory
    if a.kind == "imm":
        value = constant(arg)
        if not isinstance(value, int):
            raise LoweringError(f"argument {a.index} of '{call.op.name}' must be constant", span=call.span)
        return value
    if not isinstance(arg, Expr):
        raise LoweringError(f"argument {a.index} of '{call.op.name}' must be an integer", span=call.span)
    return Pointer(arg) if a.kind == "pointer" else Index(arg, a.bits)


def address_operand(arg: Any) -> BufferLoad | None:
    """The element whose address ``arg`` is (``address_of(B[i])``), or None."""
    if isinstance(arg, Call) and arg.op.name == "tirx.address_of" and isinstance(arg.args[0], BufferLoad):
        return arg.args[0]
    return None
