"""Scalar operators whose calls are determined by their operands: name -> (number of operands, dtype of the result).

``=k`` is the dtype of operand k; ``?`` bool with the lanes of operand 0; ``@`` means that the dtype is written first.
The script namespace offers these names, and the printer writes them.
"""

from __future__ import annotations

_SAME = (
    "exp", "exp2", "exp10", "log", "log2", "log10", "log1p", "expm1", "cbrt", "sqrt", "rsqrt", "sin", "cos", "tan", "sinh",
    "cosh", "asin", "acos", "atan", "asinh", "acosh", "atanh", "tanh", "sigmoid", "erf", "popcount", "fabs", "floor", "ceil",
    "round", "trunc", "nearbyint",
)  # fmt: skip

SCALAR_FUNCTIONS: dict[str, tuple[int, str]] = {
    **dict.fromkeys(_SAME, (1, "=0")),
    **dict.fromkeys(("fmod", "atan2", "copysign", "hypot", "nextafter", "ldexp", "pow"), (2, "=0")),
    "isnan": (1, "?"),
    "clz": (1, "int32"),
    "fma": (3, "=0"),
    "if_then_else": (3, "=1"),
    "likely": (1, "=0"), "assume": (1, "bool"), "isnullptr": (1, "bool"),
    "filter": (2, "bool"), "selector": (2, "bool"),
    "undef": (0, "int32"), "vscale": (0, "int32"),
    "thread_return": (0, "void"),
    "handle_add_byte_offset": (2, "handle"),
    "tvm_warp_shuffle": (5, "=1"), "tvm_warp_shuffle_up": (5, "=1"), "tvm_warp_shuffle_down": (5, "=1"),
    "tvm_warp_shuffle_xor": (5, "=1"), "tvm_warp_activemask": (0, "uint32"),
    "tvm_storage_sync": (3, "void"),
    "tvm_access_ptr": (5, "handle"),
    "address_of": (1, "handle"),
    "dp4a": (3, "int32"),
    "type_annotation": (0, "@"), "reinterpret": (1, "@"), "vectorlow": (1, "@"), "vectorhigh": (1, "@"),
    "vectorcombine": (2, "@"), "call_extern": (-1, "@"), "call_pure_extern": (-1, "@"),
}  # fmt: skip

BIT_OPERATIONS = ("bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right")
