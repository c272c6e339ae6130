"""Loads and stores by address (PTX ISA 9.7.9)."""

from __future__ import annotations

from typing import Any

from ...errors import LoweringError
from ...ir import Call, Expr, Op, const
from ...ir import dtype as dt
from ...ptx.syntax import TYPE_BITS
from .language import Arguments, Template, constant

_LEVELS = "{.l1_evict}{.l2_evict}{.has_policy:L2::cache_hint}{.prefetch_size}{.vec}.{ptx_type}"
_STORED = "{.l1_evict}{.l2_evict}{.has_policy:L2::cache_hint}{.vec}.{ptx_type}"


def moved(pointer: Expr, count: int) -> Expr:
    """An address ``count`` bytes further."""
    kind = Call("uint8", Op.get("tirx.type_annotation"), ())
    return Call("handle", Op.get("tirx.ptr_byte_offset"), (pointer, const(count), kind)) if count else pointer


def _elements(given: Arguments) -> tuple[int, int]:
    """(number of elements, bytes of one) of a vector access."""
    vec = str(constant(given.get("vec")) or "")
    return int(vec[1:] or 1), max(8, TYPE_BITS[str(constant(given["ptx_type"]))]) // 8


def _destinations(given: Arguments) -> Arguments:
    """One pointer to all elements stands for one to each."""
    targets = given.get("dst", ())
    count, size = _elements(given)
    if len(targets) == 1 and count > 1:
        return {"dst": tuple(moved(targets[0], k * size) for k in range(count))}
    return {}


def _sources(given: Arguments) -> Arguments:
    if given.get("src") is None:
        return {}
    count, size = _elements(given)
    return {"sources": tuple(moved(given["src"], k * size) for k in range(count))}


def _load(opcode: str, policy: bool = True) -> tuple[Template, ...]:
    tail = " policy?has_policy" if policy else ""
    return (
        Template(f"{opcode} *dst [addr]{tail}", "result=void", _destinations),
        Template(f"{opcode} %d [addr]{tail}"),
    )


def _store(opcode: str, policy: bool = True) -> tuple[Template, ...]:
    tail = " policy?has_policy" if policy else ""
    return (
        Template(f"{opcode} [address] ^*sources{tail}", "src?", _sources),
        Template(f"{opcode} [address] *values{tail}"),
    )


def _acquired(given: Arguments) -> Arguments:
    return {"bits": dt.bits(given["res"].dtype)}


def _level(given: Arguments) -> dict[str, Any]:
    """The cache of a hint: LLVM's locality 3 keeps the line in all levels; instructions are nobody's to fetch."""
    if constant(given["cache_type"]) != 1:
        raise LoweringError("a prefetch of instructions: PTX has it for data")
    return {"level": 1 if constant(given["locality"]) == 3 else 2}


_DEVICE_LOAD, _DEVICE_STORE = (f"{verb}.mmio.relaxed.sys.global.{{ptx_type}}" for verb in ("ld", "st"))
_LDG = {"int8": "s8", "uint8": "u8", "int16": "s16", "uint16": "u16", "float16": "b16", "bfloat16": "b16", "int32": "s32",
        "uint32": "u32", "float32": "f32", "int64": "s64", "uint64": "u64", "float64": "f64"}  # fmt: skip


def _cached(given: Arguments) -> dict[str, Any]:
    dtype = str(constant(given["dtype"]))
    if dtype not in _LDG:
        raise LoweringError(f"cuda.ldg of {dtype}: one of {', '.join(_LDG)} is wanted")
    return {"ptx_type": _LDG[dtype], "vec": given.get("vec", "")}


TEMPLATES: dict[str, tuple[Template, ...]] = {
    "tirx.ptx.ld": _load("ld{.weak}{.space}{.cop}" + _LEVELS),
    "tirx.ptx.ld_global_nc": _load("ld.global{.cop}.nc" + _LEVELS),
    "tirx.ptx.ld_relaxed": _load("ld.relaxed.{scope}{.space}" + _LEVELS),
    "tirx.ptx.ld_acquire": _load("ld.acquire.{scope}{.space}" + _LEVELS, policy=False),
    "tirx.ptx.ld_volatile": _load("ld.volatile{.space}{.prefetch_size}{.vec}.{ptx_type}", policy=False),
    "tirx.ptx.ld_global_acquire": (Template("ld.acquire.gpu.global.b{bits} res [addr]", derive=_acquired),),
    "tirx.cuda.ldg": (
        Template("ld.global.nc{.vec}.{ptx_type} *dst [addr]", "result=void", _cached),
        Template("ld.global.nc.{ptx_type} %d [addr]"),
    ),
    "tirx.ptx.st": _store("st{.weak}{.space}{.cop}" + _STORED),
    "tirx.ptx.st_relaxed": _store("st.relaxed.{scope}{.space}" + _STORED),
    "tirx.ptx.st_release": _store("st.release.{scope}{.space}" + _STORED),
    "tirx.ptx.st_volatile": _store("st.volatile{.space}{.vec}.{ptx_type}", policy=False),
    # Those that order other accesses are of PTX 9.3: a fence and the relaxed one are as good.
    "tirx.ptx.ld_mmio": (
        Template(f"{_DEVICE_LOAD} *dst [addr]; fence.acq_rel.sys", "result=void sem=acquire"),
        Template(f"{_DEVICE_LOAD} *dst [addr]", "result=void"),
        Template(f"{_DEVICE_LOAD} %d [addr]; fence.acq_rel.sys", "sem=acquire"), Template(f"{_DEVICE_LOAD} %d [addr]"),
    ),
    "tirx.ptx.st_mmio": (
        Template(f"fence.acq_rel.sys; {_DEVICE_STORE} [address] value", "sem=release"),
        Template(f"{_DEVICE_STORE} [address] value"),
    ),
    "tirx.prefetch": (Template("prefetch.global.L{level} [address]", derive=_level),),
    "tirx.ptx.st_bulk": (Template("mov.b32 %a &ptr; mov.b64 %n num_bytes; st.bulk{.weak}{.space} [%a] %n 0"),),
    "tirx.cuda.cvta_generic_to_shared": (Template("mov.b32 %d &ptr"),),
    "tirx.cuda.smem_addr_from_uint64": (Template("mov.b32 %d &cluster_addr"),),
    "tirx.cuda.sm100_2sm_leader_smem_addr": (Template("mov.b32 %a &ptr; and.b32 %d %a 0xFEFFFFFF"),),
    "tirx.cuda.get_tmem_addr": (
        Template("mov.b32 %a addr; shl.b32 %r row_offset 16; add.s32 %b %a %r; add.s32 %d %b col_offset"),
    ),
    "tirx.ptx.mapa": (
        Template("mov.b32 %a &ptr; mapa.shared::cluster.u32 %d %a rank", "result=uint32"),
        Template("mov.b32 %a &ptr; mapa.shared::cluster.u32 %b %a rank; cvt.u64.u32 %d %b"),
    ),
    "tirx.ptx.map_shared_rank": (Template("mov.b32 %a &ptr; mapa.shared::cluster.u32 %b %a rank; cvt.u64.u32 %d %b"),),
}  # fmt: skip
