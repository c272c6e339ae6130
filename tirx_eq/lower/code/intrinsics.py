"""PTX of the device intrinsics that statements call (``tirx.cuda.*``, ``tirx.ptx.*``), as a table.

A template gives the opcode and how the call's arguments, by name, become operands.  In an opcode ``{name}`` stands for a
constant argument and ``{.name}`` for ``.value``, or nothing where the value is empty or zero.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, Protocol

from ...errors import LoweringError
from ...ir import BufferLoad, Call, Expr, FloatImm, IntImm, StringImm, const
from ...ir.intrinsics import arguments_of
from ..program import Block, If, Index, Instruction, Kept, Memory, Operand, Temp
from ..storage import remote_address


class MemoryOf(Protocol):
    """The place of an element; with a rank, of the same element in that CTA of the cluster."""

    def __call__(self, load: BufferLoad, rank: Expr | None = None) -> Memory: ...



@dataclass(frozen=True)
class Argument:
    """How the argument ``name`` becomes an operand: its address (``shared``, ``global``, or ``cluster`` for shared memory of
    any CTA of the cluster), ``value`` its integer, ``imm`` its constant.

    ``when`` False leaves the operand out if the argument is absent.
    """

    kind: str
    name: str
    bits: int = 32
    optional: bool = False


@dataclass(frozen=True)
class Template:
    """One instruction.

    ``aligned``: all threads of the warp must be converged (``.sync.aligned``).  ``needs``: arguments that must have just
    this value, since other values mean another instruction.
    """

    opcode: str
    operands: tuple[Argument | int | Kept, ...] = ()
    aligned: bool = False
    needs: tuple[tuple[str, Any], ...] = ()


def _shared(name: str) -> Argument:
    return Argument("shared", name)


def _value(name: str, optional: bool = False) -> Argument:
    return Argument("value", name, 32, optional)


def _imm(name: str) -> Argument:
    return Argument("imm", name)


def _at(name: str) -> Argument:
    return Argument("cluster", name)


_TO_CLUSTER = "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
_FULL = 0xFFFFFFFF

#: PTX ISA 9.7.9 (copies), 9.7.12 (barriers, fences), 9.7.13 (mbarrier), 9.7.16 (tcgen05), 9.7.19 (miscellaneous).
TEMPLATES: dict[str, Template] = {
    "tirx.cuda.cta_sync": Template("bar.sync", (0,)),
    "tirx.cuda.warp_sync": Template("bar.warp.sync", (_FULL,)),
    "tirx.cuda.warpgroup_sync": Template("bar.sync", (_value("bar_no"), 128)),
    "tirx.cuda.nano_sleep": Template("nanosleep.u32", (_value("time"),)),
    "tirx.cuda.thread_fence": Template("fence.acq_rel.gpu"),
    "tirx.ptx.bar_sync": Template("bar.sync", (_value("name_bar_id"), _value("thread_count"))),
    "tirx.ptx.barrier_sync": Template("barrier.sync", (_value("name_bar_id"), _value("thread_count"))),
    "tirx.ptx.bar_arrive": Template("bar.arrive", (_value("name_bar_id"), _value("thread_count"))),
    "tirx.ptx.barrier_cluster_arrive": Template("barrier.cluster.arrive{.sem}.aligned", needs=(("aligned", 1),), aligned=True),
    "tirx.ptx.barrier_cluster_wait": Template("barrier.cluster.wait{.acquire}.aligned", needs=(("aligned", 1),), aligned=True),
    "tirx.ptx.mbarrier_init": Template("mbarrier.init.shared::cta.b64", (_shared("bar"), _value("thread_count"))),
    "tirx.ptx.mbarrier_arrive": Template(
        "mbarrier.arrive{.sem}{.scope}.shared::cta.b64", (Kept(), _shared("bar"), _value("count", True))
    ),
    "tirx.ptx.mbarrier_arrive_expect_tx": Template(
        "mbarrier.arrive.expect_tx{.sem}{.scope}.shared::cta.b64", (Kept(), _shared("bar"), _value("byte_count"))
    ),
    "tirx.ptx.mbarrier_complete_tx": Template(
        "mbarrier.complete_tx.relaxed{.scope}.shared::cta.b64", (_shared("bar"), _value("tx_count"))
    ),
    "tirx.ptx.fence_mbarrier_init": Template("fence.mbarrier_init.release.cluster"),
    "tirx.ptx.fence": Template("fence.{sem}.{scope}"),
    "tirx.ptx.fence_proxy_async": Template("fence.proxy.async{.space}"),
    "tirx.ptx.cp_async_bulk_shared_to_cluster": Template(
        _TO_CLUSTER, (_at("dst_ptr"), _shared("src_ptr"), _value("size"), _at("mbar"))
    ),
    "tirx.ptx.cp_async_bulk_s2s_cluster": Template(
        _TO_CLUSTER, (_at("dst_ptr"), _shared("src_ptr"), _value("num_bytes"), _at("mbarrier"))
    ),
    "tirx.ptx.clc_try_cancel": Template(
        "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.multicast::cluster::all.b128",
        (_shared("handle"), _shared("mbar")),
    ),
    "tirx.ptx.cp_async_commit_group": Template("cp.async.commit_group"),
    "tirx.ptx.cp_async_wait_group": Template("cp.async.wait_group", (_imm("num"),)),
    "tirx.ptx.cp_async_bulk_commit_group": Template("cp.async.bulk.commit_group"),
    "tirx.ptx.cp_async_bulk_wait_group": Template("cp.async.bulk.wait_group{.read}", (_imm("n"),)),
    "tirx.ptx.tcgen05_alloc": Template(
        "tcgen05.alloc.cta_group::{cta_group}.sync.aligned.shared::cta.b32", (_shared("dst_ptr"), _imm("n_cols")), aligned=True
    ),
    "tirx.ptx.tcgen05_dealloc": Template(
        "tcgen05.dealloc.cta_group::{cta_group}.sync.aligned.b32", (_value("taddr"), _imm("n_cols")), aligned=True
    ),
    "tirx.ptx.tcgen05_relinquish_alloc_permit": Template(
        "tcgen05.relinquish_alloc_permit.cta_group::{cta_group}.sync.aligned", aligned=True
    ),
    "tirx.ptx.tcgen05_commit": Template(
        "tcgen05.commit.cta_group::{cta_group}.mbarrier::arrive::one.shared::cluster.b64", (_shared("bar"),),
        needs=(("cta_mask", 0), ("pred", None)),
    ),
    "tirx.ptx.tcgen05_fence_before_thread_sync": Template("tcgen05.fence::before_thread_sync"),
    "tirx.ptx.tcgen05_fence_after_thread_sync": Template("tcgen05.fence::after_thread_sync"),
    "tirx.ptx.tcgen05_wait_ld": Template("tcgen05.wait::ld.sync.aligned", aligned=True),
    "tirx.ptx.tcgen05_wait_st": Template("tcgen05.wait::st.sync.aligned", aligned=True),
    "tirx.ptx.griddepcontrol_wait": Template("griddepcontrol.wait"),
    "tirx.ptx.griddepcontrol_launch_dependents": Template("griddepcontrol.launch_dependents"),
}  # fmt: skip

#: Calls that wait for a phase of an mbarrier -> ordering modifiers.
PARITY_WAITS = {
    "tirx.ptx.mbarrier_try_wait": "",
    "tirx.ptx.mbarrier_try_wait_acquire_cluster": "acquire.cluster",
}


def named_arguments(call: Call) -> dict[str, Any]:
    """The arguments of an intrinsic call by parameter name; absent ones are None."""
    found = arguments_of(call)
    if found is None:
        raise LoweringError(f"the operands of '{call.op.name}' are not those of the intrinsic", span=call.span)
    intrinsic, args, kwargs = found
    positional = [p.name for p in intrinsic.parameters if p.kind == "positional"]
    defaults = {p.name: p.default for p in intrinsic.parameters}
    return {**defaults, **dict(zip(positional, args)), **kwargs}


def constant(e: Any) -> int | str | float | None:
    """The compile-time value of an argument, or None."""
    if isinstance(e, (IntImm, StringImm, FloatImm)):
        return e.value
    return e if isinstance(e, (int, str, float)) else None


def program_of(call: Call, memory_of: MemoryOf) -> Block:
    """The instructions of an intrinsic call.

    Raises LoweringError for an intrinsic without PTX here, or an argument that must be constant or an address and isn't.
    """
    if call.op.name == "tirx.cuda.cluster_sync":
        return Instruction("barrier.cluster.arrive.aligned"), Instruction("barrier.cluster.wait.aligned")
    arguments = named_arguments(call)
    if call.op.name == "tirx.ptx.tcgen05_commit" and constant(arguments["cta_mask"]) != 0:
        return _predicated(arguments, _multicast_commit(call, memory_of))
    template = TEMPLATES.get(call.op.name)
    if template is None:
        raise LoweringError(f"there is no PTX for the intrinsic '{call.op.name}'", span=call.span)
    for name, wanted in template.needs:
        given = arguments.get(name)
        if given is not None and constant(given) != wanted:
            raise LoweringError(f"'{call.op.name}' with {name}= is not lowered", span=call.span)
    operands = []
    for a in template.operands:
        if isinstance(a, Argument):
            if a.optional and arguments.get(a.name) is None:
                continue
            operands.append(_operand(a, call, arguments, memory_of))
        else:
            operands.append(a)
    made = Instruction(_opcode(template.opcode, call, arguments), tuple(operands))
    if arguments.get("remote") is not None:
        made = _in_peer(made, call, arguments, memory_of)
    return _predicated(arguments, (made,))


def _predicated(arguments: dict[str, Any], made: Block) -> Block:
    """The instructions, where the argument ``pred`` holds if there is one."""
    pred = arguments.get("pred")
    if pred is None or constant(pred) == 1:
        return made
    return (If(pred != 0 if pred.dtype != "bool" else pred, made),)


def _in_peer(made: Instruction, call: Call, arguments: dict[str, Any], memory_of: MemoryOf) -> Instruction:
    """The instruction on the barrier of CTA ``remote``.  What it releases is for threads of another CTA."""
    load = address_operand(arguments["bar"])
    rank = arguments["remote"]
    if load is None:
        raise LoweringError(f"argument 'bar' of '{call.op.name}' must be the address of a shared element", span=call.span)
    peer = memory_of(load, const(rank))
    opcode = made.opcode.replace("shared::cta", "shared::cluster")
    if constant(arguments.get("sem")) == "" and constant(arguments.get("scope")) == "":
        opcode = opcode.replace(".shared", ".release.cluster.shared")
    return replace(made, opcode=opcode, operands=tuple(peer if isinstance(o, Memory) else o for o in made.operands))


def _multicast_commit(call: Call, memory_of: MemoryOf) -> tuple[Instruction, ...]:
    """Commit that arrives on the barrier at one offset in every CTA of a mask; the mask is a 16-bit register."""
    arguments = named_arguments(call)
    mask = Temp("b16")
    group = _opcode("{cta_group}", call, arguments)
    opcode = f"tcgen05.commit.cta_group::{group}.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64"
    value = constant(arguments["cta_mask"])
    if isinstance(value, int):
        made = Instruction("mov.b16", (mask, value))
    else:
        made = Instruction("cvt.u16.u32", (mask, Index(arguments["cta_mask"])))
    return made, Instruction(opcode, (_operand(_shared("bar"), call, arguments, memory_of), mask))


def _opcode(text: str, call: Call, arguments: dict[str, Any]) -> str:
    def fill(match: re.Match[str]) -> str:
        dot, name = match[1], match[2]
        value = constant(arguments.get(name))
        if value is None and not dot:
            raise LoweringError(f"argument '{name}' of '{call.op.name}' must be constant", span=call.span)
        if not dot:
            return str(value)
        # A flag such as read=True is spelled by its own name.
        return "" if value in (None, "", 0) else f".{name}" if value == 1 else f".{value}"

    return re.sub(r"\{(\.?)(\w+)\}", fill, text)


def _operand(a: Argument, call: Call, arguments: dict[str, Any], memory_of: MemoryOf) -> Operand:
    arg = arguments.get(a.name)
    where = f"argument '{a.name}' of '{call.op.name}'"
    if a.kind in ("shared", "cluster"):
        remote = remote_address(arg)
        load = remote[0] if remote else address_operand(arg)
        if load is None:
            raise LoweringError(f"{where} must be the address of an element of a shared buffer", span=call.span)
        memory = memory_of(load, remote[1]) if remote else memory_of(load)
        if memory.root.space not in ("shared", a.kind):
            what = "shared memory" if memory.root.space != "cluster" else "the CTA's own shared memory"
            raise LoweringError(f"{where} must be in {what}, but '{load.buffer.name}' is not", span=call.span)
        return memory
    if a.kind == "imm":
        value = constant(arg)
        if not isinstance(value, int):
            raise LoweringError(f"{where} must be constant", span=call.span)
        return value
    if isinstance(arg, int):
        return arg
    if not isinstance(arg, Expr):
        raise LoweringError(f"{where} must be an integer", span=call.span)
    return Index(arg, a.bits)


def address_operand(arg: Any) -> BufferLoad | None:
    """The element whose address ``arg`` is (``address_of(B[i])``), or None."""
    if isinstance(arg, Call) and arg.op.name == "tirx.address_of" and isinstance(arg.args[0], BufferLoad):
        return arg.args[0]
    return None
