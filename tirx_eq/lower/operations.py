"""What element-wise tile primitives compute: an expression of operands per call, and the dtypes it goes through."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ir import BufferRegion, Expr, IntImm, Op, TilePrimitiveCall
from ..ir import dtype as dt
from .code.functions import NARROW_FORMS
from .code.lanes import bits_of
from .code.recipes import ARITHMETIC, ARITHMETIC_DTYPES, CONVERTED, FLOATS, TRUTH, cast_path
from .intrinsics.language import constant

#: An operand's name, or an operation on trees.
Tree = str | tuple[Any, ...]

#: Element-wise primitives with what they compute; those with bias and scale, and chains, are built from the call.
SIMPLE: dict[str, Tree] = {
    "fill": "value", "memset": "value", "zero": "zero", "cast": "src", "permute_layout": "src",
    "reciprocal": ("reciprocal", "src"), "silu": ("silu", "src"),
    **{op: (op, "a", "b") for op in ("add", "sub", "mul", "fdiv", "maximum", "minimum")},
    "fma": ("fma", "src", "scale", "bias"), "select": ("select", "a", "b"),
}  # fmt: skip
AFFINE = ("sqrt", "exp", "exp2", "log2")
CHAINS = ("binary_chain",)
REDUCTIONS = ("sum", "max", "min", "reduce_negate")

#: The family whose rules lower a primitive, besides rules for itself.
FAMILIES: dict[str, str] = {
    **dict.fromkeys((*SIMPLE, *AFFINE, *CHAINS), "map"),
    **dict.fromkeys(REDUCTIONS, "reduce"),
}
#: Primitives that bring elements as they are to other places, also to other threads, and what rules call them all.
EXCHANGED, EXCHANGE = ("copy", "permute_layout"), "exchange"


def tree_of(call: TilePrimitiveCall) -> Tree:
    """What the call computes for each element, as an expression of operand names."""
    name = call.op.short_name
    if name in SIMPLE:
        return SIMPLE[name]
    if name in AFFINE:
        inner: Tree = "src"
        bias, scale = call.operand("bias"), call.operand("scale")
        if bias is not None and scale is not None and _regions_dtype(call, ("src", "scale", "bias")) in CONVERTED:
            inner = ("add", ("mul", inner, "scale"), "bias")  # each is rounded
        elif bias is not None and scale is not None:
            inner = ("fma", inner, "scale", "bias")
        elif scale is not None:
            inner = ("mul", inner, "scale")
        elif bias is not None:
            inner = ("add", inner, "bias")
        return (name, inner)
    first: Tree = (operation_name(call.operand("op0")), "operand0", "data")
    second = operation_name(call.operand("op1"))
    flag = call.operand("reverse1")
    reverse = bool(flag.value if isinstance(flag, IntImm) else flag)
    return (second, "operand1", first) if reverse else (second, first, "operand1")


def operation_name(op: Any) -> str:
    return op.short_name if isinstance(op, Op) else str(op)


def leaves(tree: Tree) -> list[str]:
    """Operand names of a tree, in order, each once."""
    if isinstance(tree, str):
        return [tree]
    return list(dict.fromkeys(name for child in tree[1:] for name in leaves(child)))


def operations(tree: Tree) -> list[str]:
    """Operations of a tree."""
    if isinstance(tree, str):
        return []
    return [tree[0], *(op for child in tree[1:] for op in operations(child))]


def widest(dtypes: list[str]) -> str:
    """The dtype in which operands of several are combined: floats before integers, then the wider."""
    first = dtypes[0]
    for d in dtypes[1:]:
        if (dt.is_float(d), dt.bits(d)) > (dt.is_float(first), dt.bits(first)):
            first = d
    return first


def common_dtype(call: TilePrimitiveCall) -> str:
    """The dtype that all operands are brought to; plain numbers follow the regions."""
    return _regions_dtype(call, [n for n in leaves(tree_of(call)) if n != "zero"])


def _regions_dtype(call: TilePrimitiveCall, names: Sequence[str]) -> str:
    given = [call.operand(n) for n in names]
    regions = [g.dtype for g in given if isinstance(g, BufferRegion)]
    return widest(regions) if regions else call.dsts[0].dtype


def rounds_each(dtype: str) -> bool:
    """Whether every operation of several is rounded to ``dtype``: where it has none of its own, intermediate values would have
    another range and, for scale factors, a sign."""
    return dtype in CONVERTED or dtype == "bool"


def scalar_dtype(value: Any) -> str:
    """The dtype of a scalar operand as it is given."""
    if isinstance(value, Expr):
        return value.dtype
    return "float32" if isinstance(value, float) else "int32"


def native(tree: Tree, dtype: str) -> bool:
    """Whether every operation of the tree has an instruction for the dtype itself.

    Functions of narrow floats have one of their own only where the argument is a number of the dtype, not a sum or product.
    """
    ops = operations(tree)
    if len(ops) > 1 and any((op, dtype) in NARROW_FORMS for op in ops):
        return False
    return all(op == "select" or (op, dtype, 1) in ARITHMETIC for op in ops)


def work_dtype(call: TilePrimitiveCall) -> str:
    """The dtype of the arithmetic: the operands' own if all operations have it, else float32."""
    common = common_dtype(call)
    tree = tree_of(call)
    if native(tree, common):
        return common
    # Integers of 8 bits have no instructions: those of 16 bits give the same low bits.
    return "float32" if common in FLOATS else {"int8": "int16", "uint8": "uint16", "bool": "uint16"}.get(common, common)


def unsupported(call: TilePrimitiveCall) -> str | None:
    """Why the dtypes or operations of an element-wise call have no PTX, or None."""
    tree = tree_of(call)
    for region in call.regions():
        if region.dtype not in (*ARITHMETIC_DTYPES, "bool"):
            return f"'{region.buffer.name}' is of {region.dtype}"
    common, work, target = common_dtype(call), work_dtype(call), call.dsts[0].dtype
    for op in operations(tree):
        if common == "bool" and op not in TRUTH:
            return f"truth values have no {op}: cast them first"
        if op != "select" and (op, work, 1) not in ARITHMETIC:
            return f"there is no {op} of {common}"
    for name in leaves(tree):
        value = None if name == "zero" else call.operand(name)
        if isinstance(value, BufferRegion) and (path := _path(value.dtype, common, work)) is not None:
            return path
    return _path(common, common, target)


def filled(call: TilePrimitiveCall) -> int | str:
    """The bits of the constant that a call puts into every element, or why it does no such thing."""
    name = call.op.short_name
    tree = SIMPLE.get(name)
    if tree not in ("value", "zero"):
        return f"'{name}' computes each element"
    value = constant(call.operand(tree)) if tree == "value" else 0
    if not isinstance(value, (bool, int, float)):
        return "the value is known at run time only"
    if (reason := unsupported(call)) is not None:
        return reason
    return bits_of(call.dsts[0].dtype, value)


def _path(source: str, *steps: str) -> str | None:
    for step in steps:
        if cast_path(source, step) is None:
            return f"there is no conversion from {source} to {step}"
        source = step
    return None
