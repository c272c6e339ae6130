"""What the threads of a warp, or of a CTA, do together: shuffles, votes, reductions (PTX ISA 9.7.9.6, 9.7.13)."""

from __future__ import annotations

from functools import partial

from ...errors import LoweringError
from ...ir import Expr, IntImm
from ...ir import dtype as dt
from .language import Arguments, Template, constant

#: Clamp of the lane number within its segment, by mode.
_CLAMP = {"idx": 31, "up": 0, "down": 31, "bfly": 31}


def _segment(mode: str, given: Arguments) -> Arguments:
    """The operand of shfl that holds the segments: ``width`` lanes, a constant."""
    width = constant(given["width"])
    if width not in (1, 2, 4, 8, 16, 32):
        raise LoweringError("the width of a shuffle must be a constant power of two up to 32")
    value = next(given[n] for n in ("var", "value") if n in given)
    bits = dt.bits(value.dtype)
    if dt.lanes(value.dtype) != 1 or bits not in (16, 32, 64):
        raise LoweringError(f"a shuffle of {value.dtype}: it moves 32 bits, or halves of 64")
    return {"segment": IntImm("int32", (32 - int(width)) << 8 | _CLAMP[mode]), "held": value, "bits": bits}


def _shuffle(mode: str, lane: str) -> tuple[Template, ...]:
    derive = partial(_segment, mode)
    move = f"shfl.sync.{mode}.b32"
    return (
        Template(f"{move} %d held {lane} segment mask", "bits=32", derive),
        Template(f"mov.b16 %h held; cvt.u32.u16 %w:b32 %h; {move} %m:b32 %w {lane} segment mask; "
                 "cvt.u16.u32 %d:b16 %m", "bits=16"),
        Template(f"mov.b64 %l:b32 %h:b32 held; mov.b32 %n:b32 {lane}; {move} %x:b32 %l %n segment mask; "
                 f"{move} %y:b32 %h %n segment mask; mov.b64 %d %x %y", "bits=64"),
    )  # fmt: skip


_COMBINE = {
    "sum": {"float32": "add.rn.f32", "int32": "add.s32", "uint32": "add.u32", "float16": "add.rn.f16",
            "bfloat16": "add.rn.bf16"},
    "max": {"float32": "max.f32", "int32": "max.s32", "uint32": "max.u32", "float16": "max.f16", "bfloat16": "max.bf16"},
    "min": {"float32": "min.f32", "int32": "min.s32", "uint32": "min.u32", "float16": "min.f16", "bfloat16": "min.bf16"},
}  # fmt: skip
#: Neutral elements, as bits.
_NEUTRAL = {
    "sum": dict.fromkeys(("float32", "int32", "uint32"), 0),
    "max": {"float32": 0xFF800000, "int32": 0x80000000, "uint32": 0},
    "min": {"float32": 0x7F800000, "int32": 0x7FFFFFFF, "uint32": 0xFFFFFFFF},
}


def _combining(given: Arguments) -> tuple[str, Expr, str]:
    """(instruction, value, operation) of a reduction."""
    value, op = given["value"], str(constant(given["op"]))
    known = _COMBINE.get(op, {})
    if value.dtype not in known:
        raise LoweringError(f"a reduction '{op}' of {value.dtype} over a warp: {', '.join(known)} are moved by shuffles")
    return known[value.dtype], value, op


def butterfly(first: str, last: str, combine: str, width: int, guard: str = "", half: bool = False) -> str:
    """Lanes of each ``width`` combined, the farthest first; the registers are ``first``, then new ones, then ``last``.

    With ``half`` the registers have 16 bits, and shuffles go through 32.
    """
    lines, held, step = [], first, width // 2
    while step:
        made = last if step == 1 else f"{last}{step}"
        moved = f"{last}_from{step}"
        if half:
            lines.append(f"{guard}cvt.u32.u16 {moved}w:b32 {held}")
            lines.append(f"{guard}shfl.sync.bfly.b32 {moved}m:b32 {moved}w {step} 31 0xffffffff")
            lines.append(f"{guard}cvt.u16.u32 {moved}:b16 {moved}m")
        else:
            lines.append(f"{guard}shfl.sync.bfly.b32 {moved}:b32 {held} {step} 31 0xffffffff")
        lines.append(f"{guard}{combine} {made} {held} {moved}")
        held, step = made, step // 2
    return "; ".join(lines)


def _warp_reduce(given: Arguments) -> str:
    combine, value, _ = _combining(given)
    width = constant(given["width"])
    if width not in (2, 4, 8, 16, 32):
        raise LoweringError("the width of warp_reduce must be a constant power of two from 2 to 32")
    half = dt.bits(value.dtype) == 16
    return f"mov.b{dt.bits(value.dtype)} %v value; " + butterfly("%v", "%d", combine, int(width), half=half)


def _cta_reduce(given: Arguments) -> str:
    """Over each warp, then the first warp over the partial results, which lie in ``scratch``."""
    combine, value, op = _combining(given)
    warps = constant(given["num_warps"])
    if warps not in (1, 2, 4, 8, 16, 32) or value.dtype not in _NEUTRAL[op]:
        raise LoweringError("cta_reduce takes 32-bit values and a constant power of two of warps up to 32")
    return "; ".join((
        "mov.b32 %v value", butterfly("%v", "%w", combine, 32),
        "mov.u32 %x <tid.x>; mov.u32 %y <tid.y>; mov.u32 %z <tid.z>; mov.u32 %nx <ntid.x>; mov.u32 %ny <ntid.y>",
        "mad.lo.u32 %yz %z %ny %y; mad.lo.u32 %t %yz %nx %x; and.b32 %lane %t 31; shr.u32 %warp %t 5",
        "setp.eq.u32 %first %lane 0; mov.b32 %at &scratch; shl.b32 %o %warp 2; add.s32 %mine %at %o",
        "@%first st.shared.b32 [%mine] %w; bar.sync 0",
        f"setp.eq.u32 %zero %warp 0; setp.lt.u32 %in %t {warps}; shl.b32 %lo %lane 2; add.s32 %part %at %lo",
        f"mov.b32 %p {_NEUTRAL[op][value.dtype]:#x}; @%in ld.shared.b32 %p [%part]",
        butterfly("%p", "%q", combine, 32, "@%zero "),
        "setp.eq.u32 %only %t 0; @%only st.shared.b32 [%at] %q; bar.sync 0; ld.shared.b32 %d [%at]",
    ))  # fmt: skip



TEMPLATES: dict[str, tuple[Template, ...]] = {
    "tirx.cuda.__shfl_sync": _shuffle("idx", "lane"),
    "tirx.cuda.__shfl_up_sync": _shuffle("up", "delta"),
    "tirx.cuda.__shfl_down_sync": _shuffle("down", "delta"),
    "tirx.cuda.__shfl_xor_sync": _shuffle("bfly", "lane_mask"),
    "tirx.tvm_warp_shuffle": _shuffle("idx", "lane"),
    "tirx.tvm_warp_shuffle_up": _shuffle("up", "lane"),
    "tirx.tvm_warp_shuffle_down": _shuffle("down", "lane"),
    "tirx.tvm_warp_shuffle_xor": _shuffle("bfly", "lane"),
    "tirx.tvm_warp_activemask": (Template("activemask.b32 %d"),),
    "tirx.cuda.__activemask": (Template("activemask.b32 %d"),),
    "tirx.cuda.ballot_sync": (Template("vote.sync.ballot.b32 %d pred mask"),),
    "tirx.ptx.any_sync": (Template("vote.sync.any.pred %d pred mask"),),
    "tirx.cuda.reduce_add_sync_u32": (Template("redux.sync.add.u32 %d value mask"),),
    "tirx.cuda.reduce_min_sync_u32": (Template("redux.sync.min.u32 %d value mask"),),
    "tirx.cuda.warp_reduce": (Template(_warp_reduce),),
    "tirx.cuda.cta_reduce": (Template(_cta_reduce),),
}  # fmt: skip
