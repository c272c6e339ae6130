"""The tensor core and tensor memory by instruction (PTX ISA 9.7.16).

Descriptors are values of a kernel's own: those that the compiler builds for tile primitives are made by the same code
(:mod:`tirx_eq.ptx.descriptor`, :mod:`tirx_eq.ptx.idesc`).
"""

from __future__ import annotations

from ...errors import LoweringError
from ...ir import Expr, IntImm, const
from ...ptx.descriptor import MatrixDescriptor
from ...ptx.idesc import BlockScaledDescriptor, InstructionDescriptor, check_shape
from ...ptx.swizzle_modes import swizzle_of_code
from .language import Arguments, Template, constant

#: dtype names -> PTX names of operands of tcgen05.mma.
_PTX = {
    "float16": "f16", "bfloat16": "bf16", "tensor_float32": "tf32", "float32": "f32", "int32": "s32", "int8": "s8",
    "uint8": "u8",
    "float8_e4m3fn": "e4m3", "float8_e4m3fnuz": "e4m3", "float8_e5m2": "e5m2", "float6_e2m3fn": "e2m3", "float6_e3m2fn": "e3m2",
    "float4_e2m1fn": "e2m1", "float8_e8m0fnu": "ue8m0",
    "fp16": "f16", "bf16": "bf16", "tf32": "tf32", "fp32": "f32", "s32": "s32", "s8": "s8", "u8": "u8", "e4m3": "e4m3",
    "e5m2": "e5m2", "e2m3": "e2m3", "e3m2": "e3m2", "e2m1": "e2m1", "ue8m0": "ue8m0",
}  # fmt: skip
_SMALL = ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1")
#: Swizzle mode in the arguments of encode_matrix_descriptor -> code in the descriptor.
_SWIZZLES = {0: 0, 1: 6, 2: 4, 3: 2, 4: 1}


def _type(given: Arguments, name: str) -> str:
    written = str(constant(given[name])).lstrip(".")
    if written not in _PTX:
        raise LoweringError(f"{name}={written!r} is no type of the tensor core")
    return _PTX[written]


def kind_of(given: Arguments) -> str:
    """The kind of tcgen05.mma for the dtypes of an intrinsic."""
    a, b = _type(given, "a_dtype"), _type(given, "b_dtype")
    if given.get("sfa_dtype") is not None:
        if {a, b} == {"e2m1"}:
            return "mxf4" if _type(given, "sfa_dtype") == "ue8m0" else "mxf4nvf4"
        return "mxf8f6f4"
    for kind, types in (("f16", ("f16", "bf16")), ("tf32", ("tf32",)), ("i8", ("s8", "u8")), ("f8f6f4", _SMALL)):
        if a in types and b in types:
            return kind
    raise LoweringError(f"there is no kind of tcgen05.mma for {a} and {b}")


def _multiply(given: Arguments) -> Arguments:
    masks = given.get("disable_output_lane", ())
    kind = kind_of(given)
    made: dict[str, object] = {"kind": kind, "masked": int(any(constant(m) != 0 for m in masks))}
    if given.get("sfa_dtype") is not None:
        made["vector"] = {"mxf8f6f4": 1, "mxf4": 2, "mxf4nvf4": 4}[kind]
    return made


def _product(sparse: str) -> tuple[Template, ...]:
    """``tcgen05.mma``, dense or sparse, A in shared memory (a descriptor) or tensor memory."""
    made = []
    meta = "[sp_tmem_addr] " if sparse else ""
    derive = _multiply
    for a, when in (("[a_operand]", "use_a_tmem=1"), ("a_operand", "")):
        for mask, masked in (("*disable_output_lane ", "masked"), ("", "!masked")):
            for scale, scaled in ((" scale_input_d", "scale_input_d"), ("", "!scale_input_d")):
                made.append(Template(
                    f"tcgen05.mma{sparse}.cta_group::{{cta_group}}.kind::{{kind}} [d_tmem_addr] {a} b_desc {meta}i_desc "
                    f"{mask}enable_input_d{scale}", f"{when} {masked} {scaled} !weight_stationary", derive))  # fmt: skip
    if not sparse:
        for a, when in (("[a_operand]", "use_a_tmem=1"), ("a_operand", "")):
            made.append(Template(f"tcgen05.mma.ws.cta_group::1.kind::{{kind}} [d_tmem_addr] {a} b_desc i_desc enable_input_d",
                                 f"{when} weight_stationary"))  # fmt: skip
    return tuple(made)


def _scaled_product(sparse: str) -> tuple[Template, ...]:
    meta = "[sp_tmem_addr] " if sparse else ""
    opcode = f"tcgen05.mma{sparse}.cta_group::{{cta_group}}.kind::{{kind}}.block_scale.scale_vec::{{vector}}X"
    return tuple(
        Template(f"{opcode} [d_tmem_addr] {a} b_desc {meta}i_desc [sfa_tmem_addr] [sfb_tmem_addr] enable_input_d", when,
                 _multiply)
        for a, when in (("[a_operand]", "use_a_tmem=1"), ("a_operand", ""))
    )


def _matrix_descriptor(given: Arguments) -> str:
    """The start address is known when the kernel runs; what is constant is encoded here."""
    mode = constant(given["swizzle"])
    if mode not in _SWIZZLES:
        raise LoweringError("the swizzle of a matrix descriptor must be a constant from 0 to 4")
    ldo, sdo = constant(given["ldo"]), constant(given["sdo"])
    name = swizzle_of_code(_SWIZZLES[int(mode)]).name
    known = isinstance(ldo, int) and isinstance(sdo, int)
    template = MatrixDescriptor(0, (int(ldo or 0) & 0x3FFF) * 16, (int(sdo or 0) & 0x3FFF) * 16, name) if known else (
        MatrixDescriptor(0, 0, 0, name))  # fmt: skip
    low, high = template.encode() & 0xFFFFFFFF, template.encode() >> 32
    start = f"mov.b32 %s &addr; shr.u32 %t %s 4; and.b32 %u %t 0x3fff; or.b32 %l %u {low:#x}; "
    if known:
        return start + f"mov.b32 %h {high:#x}; mov.b64 desc %l %h"
    return start + (
        f"mov.b32 %o ldo; shl.b32 %p %o 16; or.b32 %q %l %p; mov.b32 %r sdo; and.b32 %v %r 0x3fff; or.b32 %h %v {high:#x}; "
        "mov.b64 desc %q %h"
    )


def _flag(given: Arguments, name: str) -> bool:
    return bool(constant(given.get(name)))


def _instruction_descriptor(given: Arguments) -> str:
    m, n = (int(constant(given[x]) or 0) for x in "MN")
    kind = kind_of(given)
    check_shape(kind, m, n, int(constant(given["n_cta_groups"]) or 1), sparse=_flag(given, "is_sparse"))
    made = InstructionDescriptor(
        kind, m, n, _type(given, "a_dtype"), _type(given, "b_dtype"), _type(given, "d_dtype"),
        transpose_a=_flag(given, "trans_a"), transpose_b=_flag(given, "trans_b"), negate_a=_flag(given, "neg_a"),
        negate_b=_flag(given, "neg_b"), saturate=_flag(given, "sat_d"), sparse=_flag(given, "is_sparse"),
    )  # fmt: skip
    return f"mov.b32 desc {made.encode():#x}"


def _scaled_descriptor(given: Arguments) -> str:
    m, n = (int(constant(given[x]) or 0) for x in "MN")
    scale = _type(given, "sfa_dtype")
    kind = kind_of(given)
    check_shape(kind, m, n, int(constant(given["n_cta_groups"]) or 1), sparse=_flag(given, "is_sparse"))
    made = BlockScaledDescriptor(
        kind, m, n, _type(given, "a_dtype"), _type(given, "b_dtype"), "ue8m0" if scale == "ue8m0" else "ue4m3",
        transpose_a=_flag(given, "trans_a"), transpose_b=_flag(given, "trans_b"), negate_a=_flag(given, "neg_a"),
        negate_b=_flag(given, "neg_b"), sparse=_flag(given, "is_sparse"),
    )  # fmt: skip
    return f"mov.b32 desc {made.encode():#x}"


def at(address: Expr, row: Expr | int, column: Expr | int) -> Expr:
    """A tensor-memory address moved by lanes and columns."""
    found = address
    for count, unit in ((row, 1 << 16), (column, 1)):
        if constant(count) == 0:
            continue
        more = const(count) * unit
        found = found + (more if more.dtype == found.dtype else more.astype(found.dtype))
    return found


def _placed(given: Arguments) -> Arguments:
    base = next(given[n] for n in ("src_addr", "dst_addr", "taddr") if n in given)
    made: dict[str, object] = {"at": at(base, given["row"], given["col"])}
    if constant(given["shape"]) == "16x32bx2":
        packed = _flag(given, "pack") or _flag(given, "unpack")
        made["split"] = IntImm("int32", int(constant(given["num"]) or 0) * (2 if packed else 1))
    return made


_GROUP = "cta_group::{cta_group}"
TEMPLATES: dict[str, tuple[Template, ...]] = {
    "tirx.ptx.tcgen05_alloc": (Template(f"tcgen05.alloc.{_GROUP}.sync.aligned.shared::cta.b32 [dst_ptr] n_cols"),),
    "tirx.ptx.tcgen05_dealloc": (Template(f"tcgen05.dealloc.{_GROUP}.sync.aligned.b32 taddr n_cols"),),
    "tirx.ptx.tcgen05_relinquish_alloc_permit": (Template(f"tcgen05.relinquish_alloc_permit.{_GROUP}.sync.aligned"),),
    "tirx.ptx.tcgen05_commit": (
        Template(f"tcgen05.commit.{_GROUP}.mbarrier::arrive::one.shared::cluster.b64 [bar]", "cta_mask=0"),
        Template(f"tcgen05.commit.{_GROUP}.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [bar] cta_mask"),
    ),
    "tirx.ptx.tcgen05_fence_before_thread_sync": (Template("tcgen05.fence::before_thread_sync"),),
    "tirx.ptx.tcgen05_fence_after_thread_sync": (Template("tcgen05.fence::after_thread_sync"),),
    "tirx.ptx.tcgen05_wait_ld": (Template("tcgen05.wait::ld.sync.aligned"),),
    "tirx.ptx.tcgen05_wait_st": (Template("tcgen05.wait::st.sync.aligned"),),
    "tirx.ptx.tcgen05_encode_matrix_descriptor": (Template(_matrix_descriptor),),
    "tirx.ptx.tcgen05_encode_instr_descriptor": (Template(_instruction_descriptor),),
    "tirx.ptx.tcgen05_encode_instr_descriptor_block_scaled": (Template(_scaled_descriptor),),
    "tirx.ptx.tcgen05_mma": _product(""), "tirx.ptx.tcgen05_mma_sp": _product(".sp"),
    "tirx.ptx.tcgen05_mma_block_scale": _scaled_product(""), "tirx.ptx.tcgen05_mma_sp_block_scale": _scaled_product(".sp"),
    "tirx.ptx.tcgen05_cp": (
        Template(f"tcgen05.cp.{_GROUP}.{{shape}}{{.multicast}}{{.decompress}} [at] src_desc", derive=_placed),
    ),
    "tirx.ptx.tcgen05_shift": (Template(f"tcgen05.shift.{_GROUP}.down [taddr]"),),
    "tirx.ptx.tcgen05_ld": (
        Template("tcgen05.ld.sync.aligned.{shape}.x{num}{.pack:pack::16b}.b32 *regs [at] split", "split?", _placed),
        Template("tcgen05.ld.sync.aligned.{shape}.x{num}{.pack:pack::16b}.b32 *regs [at]"),
    ),
    "tirx.ptx.tcgen05_st": (
        Template("tcgen05.st.sync.aligned.{shape}.x{num}{.unpack:unpack::16b}.b32 [at] split *regs", "split?", _placed),
        Template("tcgen05.st.sync.aligned.{shape}.x{num}{.unpack:unpack::16b}.b32 [at] *regs"),
    ),
}  # fmt: skip
