"""The registry of operators: what a ``Call`` or a ``TilePrimitiveCall`` may name.

Operators are data: a name and what is known of it.  Tile primitives carry their operand roles (reference section 3.1).
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import ClassVar

from ..errors import IRError

TILE_PREFIX = "tirx.tile."


@dataclass(frozen=True)
class TilePrimitive:
    """Signature of a tile primitive: operand names in the order of ``TilePrimitiveCall.args``.

    ``outputs`` are written (regions), ``inputs`` read (regions, or scalars where ``scalar_inputs`` names them),
    ``flags`` are compile-time values that follow.
    """

    name: str
    outputs: tuple[str, ...]
    inputs: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    scalar_inputs: tuple[str, ...] = ()

    @property
    def operands(self) -> tuple[str, ...]:
        return self.outputs + self.inputs + self.flags


def _unary(*names: str) -> tuple[TilePrimitive, ...]:
    return tuple(TilePrimitive(n, ("dst",), ("src",)) for n in names)


def _unary_bias_scale(*names: str) -> tuple[TilePrimitive, ...]:
    return tuple(TilePrimitive(n, ("dst",), ("src", "bias", "scale"), scalar_inputs=("bias", "scale")) for n in names)


def _binary(*names: str) -> tuple[TilePrimitive, ...]:
    return tuple(TilePrimitive(n, ("dst",), ("a", "b"), scalar_inputs=("a", "b")) for n in names)


def _reduce(*names: str) -> tuple[TilePrimitive, ...]:
    return tuple(TilePrimitive(n, ("dst",), ("src",), ("axes", "accum")) for n in names)


TILE_PRIMITIVES: tuple[TilePrimitive, ...] = (
    *_unary("copy", "copy_async", "permute_layout", "zero", "cast", "reciprocal", "silu"),
    TilePrimitive("fill", ("dst",), ("value",), scalar_inputs=("value",)),
    TilePrimitive("memset", ("dst",), ("value",), scalar_inputs=("value",)),
    *_unary_bias_scale("sqrt", "exp", "exp2", "log2"),
    *_binary("add", "sub", "mul", "fdiv", "maximum", "minimum"),
    TilePrimitive("fma", ("dst",), ("src", "scale", "bias"), scalar_inputs=("scale", "bias")),
    TilePrimitive("select", ("dst",), ("a", "b"), ("predicate",), scalar_inputs=("a", "b")),
    *_reduce("sum", "max", "min"),
    TilePrimitive("gemm", ("D",), ("A", "B", "C"), ("transpose_A", "transpose_B", "alpha", "beta")),
    TilePrimitive("gemm_async", ("C",), ("A", "B"), ("transA", "transB", "accum")),
    TilePrimitive("reduce_negate", ("dst",), ("src",), ("axes", "accum", "reduce_op")),
    TilePrimitive(
        "binary_reduce", ("binary_output", "reduce_output"), ("binary_input1", "binary_input2"),
        ("binary_op", "reduce_op", "reduce_axes"), scalar_inputs=("binary_input1", "binary_input2"),
    ),
    TilePrimitive(
        "unary_reduce", ("unary_output", "reduce_output"), ("unary_input",),
        ("unary_op", "reduce_op", "bias", "scale", "reduce_axes"),
    ),
    TilePrimitive(
        "binary_chain", ("output",), ("data", "operand0", "operand1"), ("op0", "op1", "reverse1"),
        scalar_inputs=("operand0", "operand1"),
    ),
    TilePrimitive("compose_op", (), (), ("ops",)),
)  # fmt: skip

#: ``gemm_async`` with scale factors has two more inputs, after B.
GEMM_ASYNC_SCALED = TilePrimitive("gemm_async", ("C",), ("A", "B", "SFA", "SFB"), ("transA", "transB", "accum"))

_SCALAR_OPS = (
    "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "shift_left", "shift_right", "if_then_else",
    "address_of", "likely", "assume", "reinterpret", "exp", "exp2", "exp10", "log", "log2", "log10", "log1p",
    "expm1", "cbrt", "sqrt", "rsqrt", "sin", "cos", "tan", "tanh", "sigmoid", "erf", "abs", "fabs", "floor", "ceil", "round",
    "trunc", "nearbyint", "pow", "power", "fmod", "popcount", "clz", "fma", "isnan", "isinf", "isfinite",
    "min_value", "max_value", "infinity", "ret", "call_extern", "call_pure_extern", "tvm_access_ptr",
    "tvm_storage_sync", "tvm_stack_alloca", "vectorlow", "vectorhigh", "vectorcombine", "large_uint_imm",
    "isnullptr", "handle_add_byte_offset", "print_buffer", "undef", "break_loop", "continue_loop",
    "ptr_byte_offset", "buffer_data", "thread_return", "filter", "selector", "type_annotation",
)  # fmt: skip


@dataclass(frozen=True)
class Op:
    """A registered operator; obtain one with :meth:`Op.get`."""

    name: str
    tile: TilePrimitive | None = None

    type_key: ClassVar[str] = "ir.Op"
    by_identity: ClassVar[bool] = False

    @staticmethod
    def get(name: str) -> Op:
        """The registered operator ``name`` (``tirx.tile.copy``, ``tirx.bitwise_and``, ``tirx.ptx.elect_sync``…).

        Raises IRError, with the nearest names, if there is none.
        """
        _load()
        found = _REGISTRY.get(name)
        if found is None:
            near = difflib.get_close_matches(name, _REGISTRY, 3, 0.75)
            raise IRError(f"there is no operator '{name}'", hint=f"did you mean {', '.join(near)}?" if near else None)
        return found

    @staticmethod
    def exists(name: str) -> bool:
        _load()
        return name in _REGISTRY

    @staticmethod
    def names() -> tuple[str, ...]:
        """All registered names, sorted."""
        _load()
        return tuple(sorted(_REGISTRY))

    @property
    def is_tile_primitive(self) -> bool:
        return self.tile is not None

    @property
    def short_name(self) -> str:
        """The last part of the name: ``copy`` for ``tirx.tile.copy``."""
        return self.name.rsplit(".", 1)[-1]


_REGISTRY: dict[str, Op] = {}
_LOADED = False


def register(name: str, tile: TilePrimitive | None = None) -> Op:
    """Add an operator; registering the same again changes nothing, registering another under the name is an IRError."""
    made = Op(name, tile)
    if _REGISTRY.setdefault(name, made) != made:
        raise IRError(f"the operator '{name}' is registered already")
    return made


def _load() -> None:
    global _LOADED
    if _LOADED:
        return
    _LOADED = True
    for primitive in TILE_PRIMITIVES:
        register(TILE_PREFIX + primitive.name, primitive)
    for name in _SCALAR_OPS:
        register("tirx." + name)
    from .intrinsics import INTRINSICS

    for name in INTRINSICS:
        register(name)
