"""Types and values of the script: ``Tx.float32``, ``Tx.let``, ``Tx.meta_var``, conversions to expressions."""

from __future__ import annotations

from typing import Any

from ..errors import IRError
from ..ir import Buffer, BufferRegion, Expr, FloatImm, PointerType, PrimType, TensorMapType, Var, cast, const
from ..ir import dtype as dt
from ..ir.expr import Type
from .builder import maybe_current

_BASES = (
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
    "bfloat16", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2",
    "float8_e5m2fnuz", "float8_e8m0fnu", "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn",
)  # fmt: skip
_LANES = (1, 2, 4, 8, 16, 32, 64)
_SHORT = {
    "f16": "float16", "f32": "float32", "f64": "float64", "bf16": "bfloat16", "i8": "int8", "i16": "int16",
    "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
}  # fmt: skip


class Dtype:
    """A data type of the namespace.

    ``Tx.int32`` annotates a parameter or a scalar; ``Tx.int32(3)`` is a constant or a conversion; ``Tx.int32()`` is a
    new variable; ``x: Tx.float32[8]`` is a local buffer.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, value: Any = None) -> Expr:
        if value is None:
            return new_var(PrimType(self.name))
        if isinstance(value, str):
            if value not in ("inf", "-inf", "nan"):
                raise IRError(f"{self.name}({value!r}): a number, or one of 'inf', '-inf', 'nan'")
            value = float(value)
        if isinstance(value, (bool, int, float)):
            if dt.is_integer(self.name) and isinstance(value, float):
                return cast(self.name, const(value))
            return const(value, self.name)
        return cast(self.name, as_expr(value))

    def __getitem__(self, shape: Any) -> LocalVector:
        return LocalVector(self.name, shape if isinstance(shape, tuple) else (shape,))

    def __or__(self, other: Any) -> Dtype:
        return self

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"Tx.{self.name}"


class LocalVector:
    """The annotation ``Tx.float32[M, N]``: a local buffer of that shape."""

    def __init__(self, dtype: str, shape: tuple[Any, ...]) -> None:
        self.dtype = dtype
        self.shape = shape


class LetAnnotation:
    """The annotation ``Tx.let`` or ``Tx.let[type]``: a name for a value, not a scalar that can change."""

    def __init__(self, type_spec: Any = None) -> None:
        self.type_spec = type_spec

    def __getitem__(self, type_spec: Any) -> LetAnnotation:
        return LetAnnotation(type_spec)


class MetaVar:
    """A value that keeps its expression: assigning it gives a name to the expression itself."""

    def __init__(self, value: Any) -> None:
        self.value = value


class ConstexprAnnotation:
    """The annotation of a parameter whose value is given to ``specialize``."""

    def __or__(self, other: Any) -> ConstexprAnnotation:
        return self


class OptionalAnnotation:
    """The annotation of a parameter that ``specialize`` may leave out."""

    def __init__(self, annotation: Any) -> None:
        self.annotation = annotation


let = LetAnnotation()
constexpr = ConstexprAnnotation()


def meta_var(value: Any) -> MetaVar:
    """Give a name to an expression without making a scalar of it."""
    return MetaVar(value)


def optional(annotation: Any) -> OptionalAnnotation:
    """A parameter that ``specialize(name=None)`` leaves out."""
    return OptionalAnnotation(annotation)


def new_var(ty: Type, name: str = "v") -> Var:
    """A new variable; in a kernel it takes the name of what it is bound to."""
    var = Var(name, ty)
    builder = maybe_current()
    return builder.unnamed(var) if builder is not None else var


def handle(dtype: Any = None, storage_scope: str = "global") -> Var:
    """A pointer variable or parameter; ``handle("TensorMap")`` is a tensor map."""
    if dtype in ("TensorMap", "tensormap", "CUtensorMap", "cuTensorMap"):
        return tensor_map()
    element = PrimType("void" if dtype is None else dtype_name(dtype))
    return new_var(PointerType(element, storage_scope))


def tensor_map() -> Var:
    """A tensor-map parameter."""
    return new_var(TensorMapType())


def boolean(value: Any = None) -> Expr:
    """A bool constant, conversion or variable."""
    return DTYPES["bool"](value)


def void(value: Any = None) -> Expr:
    """A variable without value."""
    return new_var(PrimType("void"))


def dtype_name(value: Any) -> str:
    """The name of a dtype given by name, by a constructor of the namespace, or by a numpy type."""
    if isinstance(value, Dtype):
        return value.name
    if isinstance(value, PrimType):
        return value.dtype
    return dt.normalize(value)


def as_expr(value: Any, dtype: str | None = None) -> Expr:
    """A value as an expression: numbers become constants, a fixed-extent region a load."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, BufferRegion):
        return value.as_load()
    if isinstance(value, MetaVar):
        return as_expr(value.value, dtype)
    if isinstance(value, Buffer):
        raise IRError(f"the buffer '{value.name}' is used where a value is wanted", hint=f"index it: {value.name}[…]")
    if isinstance(value, (bool, int, float, str)) or hasattr(value, "__index__"):
        return const(value, dtype)
    raise IRError(f"a {type(value).__name__} can't be used as an expression")


def attribute_value(value: Any, what: str) -> Any:
    """A value of an attribute, annotation or config as the IR keeps it: plain data or nodes, lists as tuples.

    Raises IRError, naming ``what``, for anything else.
    """
    if isinstance(value, MetaVar):
        return attribute_value(value.value, what)
    if isinstance(value, Dtype):
        return value.name
    if isinstance(value, (list, tuple)):
        return tuple(attribute_value(v, what) for v in value)
    if isinstance(value, dict):
        return {str(k): attribute_value(v, what) for k, v in value.items()}
    if value is None or isinstance(value, (bool, int, float, str)) or hasattr(type(value), "type_key"):
        return value
    if hasattr(value, "__index__"):
        return int(value)
    raise IRError(f"{what} can't be a {type(value).__name__}")


def pointer_type(value: Expr) -> PointerType | TensorMapType | None:
    """The type of a pointer-valued expression as far as it can be told; None if it isn't a pointer."""
    from ..ir import Call

    if isinstance(value, Var):
        return None if isinstance(value.ty, PrimType) else value.ty
    if value.dtype != "handle" or not isinstance(value, Call):
        return None
    if value.op.name == "tirx.address_of":
        buffer = value.args[0].buffer
        return PointerType(PrimType(buffer.dtype), buffer.scope)
    if value.op.name in ("tirx.tvm_access_ptr", "tirx.ptr_byte_offset", "tirx.handle_add_byte_offset"):
        for arg in value.args:
            if isinstance(arg, Var) and isinstance(arg.ty, PointerType):
                return PointerType(PrimType("void"), arg.ty.storage_scope)
    return PointerType(PrimType("void"), "global")




def dtype_constructor(name: str) -> Dtype | None:
    """The constructor of a dtype by its name, also of one that isn't listed (``int4``, ``float32x3``); None if none."""
    known = DTYPES.get(name)
    if known is None and name.startswith(("int", "uint", "float", "bfloat", "bool")):
        try:
            dt.parse(name)
        except IRError:
            return None
        known = Dtype(name)
    return known


#: (lowest, largest) finite values; those of 4 to 16 bits are from the OCP formats.
FLOAT_LIMITS: dict[str, tuple[float, float]] = {
    "float64": (-1.7976931348623157e308, 1.7976931348623157e308),
    "float32": (-3.4028234663852886e38, 3.4028234663852886e38),
    "float16": (-65504.0, 65504.0),
    "bfloat16": (-3.3895313892515355e38, 3.3895313892515355e38),
    "float8_e4m3fn": (-448.0, 448.0),
    "float8_e5m2": (-57344.0, 57344.0),
    "float4_e2m1fn": (-6.0, 6.0),
    "float6_e2m3fn": (-7.5, 7.5),
    "float6_e3m2fn": (-28.0, 28.0),
}


def max_value(dtype: Any) -> Expr:
    """The largest finite value of a dtype."""
    return _limit(dtype_name(dtype), 1)


def min_value(dtype: Any) -> Expr:
    """The lowest finite value of a dtype."""
    return _limit(dtype_name(dtype), 0)


def _limit(name: str, side: int) -> Expr:
    kind, bits, _ = dt.parse(name)
    if name in FLOAT_LIMITS:
        return FloatImm(name, FLOAT_LIMITS[name][side])
    if kind == "int":
        return const((-(1 << (bits - 1)), (1 << (bits - 1)) - 1)[side], name)
    if kind in ("uint", "bool"):
        return const((0, (1 << bits) - 1)[side], name)
    raise IRError(f"the limits of {name} are not known")


def infinity(dtype: Any) -> Expr:
    """Positive infinity of a floating-point dtype."""
    return const(float("inf"), dtype_name(dtype))


DTYPES: dict[str, Dtype] = {
    **{dt.with_lanes(base, n): Dtype(dt.with_lanes(base, n)) for base in _BASES for n in _LANES},
    "bool": Dtype("bool"),
}
DTYPES.update({short: DTYPES[name] for short, name in _SHORT.items()})
