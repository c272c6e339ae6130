"""Conditions on operands of element-wise calls: dtypes, extents, where they are."""

from __future__ import annotations

from ...ir import IntImm
from ..context import CallContext, Operand
from .registry import SPACE_NAMES, holds, in_space, regions


@holds("operands have one dtype")
def _one_dtype(c: CallContext) -> str | None:
    dtypes = {o.dtype for o in regions(c)}
    shown = ", ".join(f"{o.name}: {o.dtype}" for o in regions(c))
    return None if len(dtypes) == 1 else f"dtypes are {shown} (`cast` converts)"


@holds("operands have equal extents")
def _equal_extents(c: CallContext) -> str | None:
    shapes = {o.shape for o in regions(c)}
    if len(shapes) == 1:
        return None
    return "extents are " + ", ".join(f"{o.name}: {list(o.extents)}" for o in regions(c))


@holds("source in memory")
def _source_memory(c: CallContext) -> str | None:
    return in_space(c.inputs[0], "global", "shared", "cluster")


@holds("destination in memory")
def _destination_memory(c: CallContext) -> str | None:
    return in_space(c.outputs[0], "global", "shared", "cluster")


@holds("source in registers")
def _source_registers(c: CallContext) -> str | None:
    return in_space(c.inputs[0], "local")


@holds("destination in registers")
def _destination_registers(c: CallContext) -> str | None:
    return in_space(c.outputs[0], "local")


@holds("source in tensor memory")
def _source_tmem(c: CallContext) -> str | None:
    return in_space(c.inputs[0], "tmem")


@holds("destination in tensor memory")
def _destination_tmem(c: CallContext) -> str | None:
    return in_space(c.outputs[0], "tmem")


@holds("both operands in registers")
def _both_registers(c: CallContext) -> str | None:
    for o in regions(c):
        reason = in_space(o, "local") or private(o)
        if reason:
            return reason
    return None


@holds("one operand in registers, one in memory")
def _registers_and_memory(c: CallContext) -> str | None:
    local = [o for o in regions(c) if o.root.space == "local"]
    memory = [o for o in regions(c) if o.root.space in ("global", "shared", "cluster")]
    if len(local) == 1 and len(memory) == 1:
        return private(local[0])
    return ", ".join(f"'{o.name}' is in {SPACE_NAMES[o.root.space]}" for o in regions(c))


def private(o: Operand) -> str | None:
    """Whether each thread holds the whole operand, at register numbers known at compile time."""
    if not all(isinstance(r.min, IntImm) for r in o.region.region):
        return f"'{o.name}' ({o.buffer.name}) is in registers, so where it begins must be constant"
    axes = sorted(axis for axis in o.places({}) if axis != "byte")
    return f"'{o.name}' is spread over threads along {', '.join(axes)}" if axes else None
