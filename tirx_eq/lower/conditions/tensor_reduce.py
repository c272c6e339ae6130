"""Conditions on tensor copies that combine with what is in global memory (PTX ISA, cp.reduce.async.bulk.tensor)."""

from __future__ import annotations

from ..context import CallContext
from ..intrinsics.language import constant
from .registry import holds

#: Operation -> dtypes of a tensor map that it is for.
REDUCTIONS: dict[str, tuple[str, ...]] = {
    "add": ("uint32", "int32", "uint64", "float16", "bfloat16", "float32"),
    "min": ("uint32", "int32", "uint64", "int64", "float16", "bfloat16"),
    "max": ("uint32", "int32", "uint64", "int64", "float16", "bfloat16"),
    "inc": ("uint32",), "dec": ("uint32",),
    **dict.fromkeys(("and", "or", "xor"), ("uint32", "int32", "uint64", "int64")),
}  # fmt: skip


def reduction_of(c: CallContext) -> str | None:
    """The operation that ``use_tma_reduce`` names, or None."""
    given = constant(c.call.config.get("use_tma_reduce"))
    return None if given is None else str(given)


@holds("no reduction is named")
def _none(c: CallContext) -> str | None:
    op = reduction_of(c)
    return None if op is None else f"use_tma_reduce={op}: it is combined with what is there"


@holds("a reduction that the copy engine has for the dtype")
def _known(c: CallContext) -> str | None:
    op = reduction_of(c)
    if op is None:
        return "use_tma_reduce= names none"
    dtype = c.outputs[0].dtype
    if dtype in REDUCTIONS.get(op, ()):
        return None
    there = ", ".join(REDUCTIONS.get(op, ())) or "nothing"
    return f"use_tma_reduce={op} of {dtype}; there is one of {there}"
