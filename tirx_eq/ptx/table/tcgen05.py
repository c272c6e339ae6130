"""Tensor memory and fifth-generation tensor core instructions (PTX ISA 9.7.16), targets sm_100a and relatives.

All ``cta_group`` instructions of one kernel must agree; the builder checks that.
"""

from __future__ import annotations

import itertools

from tirx_eq.ptx.syntax import (
    Bound,
    Instruction,
    Need,
    Operand,
    Range,
    addr,
    dst,
    imm,
    instruction,
    pred,
    rsrc,
    src,
)

_SEC = "9.7.16"
#: A constant predicate.
_BOOL = Range(0, 1)
_CG = "cg=cta_group::{1,2}"
_COLLECTOR_A = "coll=collector::a::{fill,use,lastuse,discard}?"
_COLLECTOR_B = "coll=collector::b{0,1,2,3}::{fill,use,lastuse,discard}?"
_DENSE = "kind=kind::{f16,tf32,f8f6f4,i8}"
_SCALED = "kind=kind::{mxf8f6f4,mxf4,mxf4nvf4}"
_SV = "sv=scale_vec::{1X,2X,4X}|block{16,32}?"
_I8 = Need("kind", ("kind::i8",), "tcgen05.i8")
_NVF4 = Need("kind", ("kind::mxf4nvf4",), "", (8, 7))
_SCALE_VEC = Need("sv", ("scale_vec::1X", "scale_vec::2X", "scale_vec::4X"), "tcgen05.scale_vec")
_SPARSE_FP4 = Need("kind", ("kind::mxf4", "kind::mxf4nvf4"), "tcgen05.sparse_fp4")
_SCALE_INPUT = Need("kind", (), "tcgen05.scale_input_d")
_BLOCK = Need("sv", ("block16", "block32"), "", (8, 8))

#: Scale-vector modifiers that each block-scaled kind takes; "" means the modifier may be left out.
SCALE_VECTORS = {
    "kind::mxf8f6f4": ("", "scale_vec::1X", "block32"),
    "kind::mxf4": ("", "scale_vec::2X", "block32"),
    "kind::mxf4nvf4": ("scale_vec::2X", "scale_vec::4X", "block16", "block32"),
}

#: Legal operand of tcgen05.alloc: columns of 32-bit cells.
COLUMNS = Range(32, 512, pow2=True)


def _scale_vector(bound: Bound) -> str | None:
    legal = SCALE_VECTORS[bound["kind"]]
    written = bound.get("sv", "")
    if written in legal:
        return None
    written = "." + written if written else "no scale vector size"
    return f".{bound['kind']} does not take {written}, but one of {', '.join('.' + s if s else 'none' for s in legal)}"


def _ashift(bound: Bound) -> str | None:
    if bound["ashift"] and bound["coll"].endswith(("use", "fill")) and not bound["coll"].endswith("lastuse"):
        return f".ashift cannot be combined with .{bound['coll']}"
    return None


def _at_most_128(bound: Bound) -> str | None:
    from tirx_eq.ptx.table.counts import tmem_registers

    n = tmem_registers(bound)
    return (
        None
        if n <= 128
        else f".{bound['shape']}.{bound['num']} moves {n} registers per thread, at most 128 are possible"
    )


def _tmem(name: str, **kw: object) -> Operand:
    return addr(name, "tmem", **kw)


def _mma_dense() -> list[Instruction]:
    rows = []
    for sparse in (False, True):
        mnemonic = "tcgen05.mma.sp" if sparse else "tcgen05.mma"
        meta = (_tmem("sp_meta"),) if sparse else ()
        mask = Operand("disable_lane", "value", "b32", count="mask", anyimm=False, when="?")
        for scaled_d in (False, True):
            kinds = "kind=kind::{f16,tf32}" if scaled_d else _DENSE
            needs = (_I8, *((_SCALE_INPUT,) if scaled_d else ()))
            tail = (src("idesc"), mask, pred("enable_input_d", imm=_BOOL),
                    *((imm("scale_input_d", 0, 15),) if scaled_d else ()))  # fmt: skip
            rows.append(instruction(
                mnemonic, f"{_CG} {kinds} {_COLLECTOR_A}",
                _tmem("d"), rsrc("a_desc", "b64"), rsrc("b_desc", "b64"), *meta, *tail,
                feature="tcgen05", ptx=(8, 6), section=_SEC, needs=needs, note="A in shared memory"))  # fmt: skip
            rows.append(instruction(
                mnemonic, f"{_CG} {kinds} ashift=ashift? {_COLLECTOR_A}",
                _tmem("d"), _tmem("a"), rsrc("b_desc", "b64"), *meta, *tail,
                feature="tcgen05", ptx=(8, 6), section=_SEC, needs=needs, checks=(_ashift,),
                note="A in tensor memory"))  # fmt: skip
    return rows


def _mma_scaled() -> list[Instruction]:
    rows = []
    for sparse in (False, True):
        scaled_needs = (_NVF4, _SCALE_VEC, _BLOCK, *((_SPARSE_FP4,) if sparse else ()))
        meta = (_tmem("sp_meta"),) if sparse else ()
        # without a vector size the default is a block size, which is newer than scale_vec
        forms = ((_SV.removesuffix("?"), (8, 6)), ("", (8, 8)))
        for (vector, ptx), a in itertools.product(forms, (rsrc("a_desc", "b64"), _tmem("a"))):
            rows.append(instruction(
                "tcgen05.mma.sp" if sparse else "tcgen05.mma", f"{_CG} {_SCALED} block_scale {vector} {_COLLECTOR_A}",
                _tmem("d"), a, rsrc("b_desc", "b64"), *meta, src("idesc"), _tmem("scale_a"), _tmem("scale_b"),
                pred("enable_input_d", imm=_BOOL),
                feature="tcgen05", ptx=ptx, section=_SEC, needs=scaled_needs,
                checks=(_scale_vector,)))  # fmt: skip
    return rows


def _mma_ws() -> list[Instruction]:
    rows = []
    for sparse in (False, True):
        meta = (_tmem("sp_meta"),) if sparse else ()
        for a in (rsrc("a_desc", "b64"), _tmem("a")):
            rows.append(instruction(
                "tcgen05.mma.ws.sp" if sparse else "tcgen05.mma.ws", f"cg=cta_group::1 {_DENSE} {_COLLECTOR_B}",
                _tmem("d"), a, rsrc("b_desc", "b64"), *meta, src("idesc"), pred("enable_input_d", imm=_BOOL),
                rsrc("zero_column_mask", "b64", when="?"),
                feature="tcgen05", ptx=(8, 6), section=_SEC, needs=(_I8,), note="weight stationary"))  # fmt: skip
    return rows


def _load_store() -> list[Instruction]:
    plain = "shape={32x32b,16x64b,16x128b,16x256b}"
    num = "num=x{1,2,4,8,16,32,64,128}"
    split = Range(-(1 << 31), (1 << 31) - 1)
    off = Operand("half_split_off", "value", "b32", imm=split, reg=False)
    common = {"issuer": "warp", "feature": "tcgen05", "ptx": (8, 6), "section": _SEC, "checks": (_at_most_128,)}
    loaded = Operand("r", "value", "b32", dst=True, count="tmem", anyimm=False)
    stored = Operand("r", "value", "b32", count="tmem", anyimm=False)
    rows = [
        instruction("tcgen05.ld", f"sync.aligned {plain} {num} pack::16b? b32", loaded, _tmem("taddr"), **common),
        instruction("tcgen05.ld", f"sync.aligned shape=16x32bx2 {num} pack::16b? b32",
                    loaded, _tmem("taddr"), off, **common),
        instruction("tcgen05.st", f"sync.aligned {plain} {num} unpack::16b? b32", _tmem("taddr"), stored, **common),
        instruction("tcgen05.st", f"sync.aligned shape=16x32bx2 {num} unpack::16b? b32",
                    _tmem("taddr"), off, stored, **common),
    ]  # fmt: skip
    red = {**common, "feature": "tcgen05.ld.red"}
    for shape, tail in (("32x32b", ()), ("16x32bx2", (off,))):
        for op in ("{min,max} abs? NaN? T=f32", "{min,max} T={u32,s32}"):
            rows.append(instruction(
                "tcgen05.ld.red", f"sync.aligned shape={shape} num=x{{2,4,8,16,32,64,128}} {op}",
                Operand("r", "value", "$T", dst=True, count="tmem", anyimm=False), dst("reduced", "$T"),
                _tmem("taddr"), *tail, **red))  # fmt: skip
    return rows


_COMMON = {"feature": "tcgen05", "ptx": (8, 6), "section": _SEC}
_COMMIT = f"{_CG} mbarrier::arrive::one ss=shared::cluster? "

ROWS: tuple[Instruction, ...] = (
    instruction("tcgen05.alloc", f"{_CG} sync.aligned ss=shared::cta? b32",
                addr("dst", "$ss"), src("ncols", "b32", COLUMNS), issuer="warp", **_COMMON),
    instruction("tcgen05.dealloc", f"{_CG} sync.aligned b32",
                rsrc("taddr"), src("ncols", "b32", COLUMNS), issuer="warp", **_COMMON),
    instruction("tcgen05.relinquish_alloc_permit", f"{_CG} sync.aligned", issuer="warp", **_COMMON),
    *_mma_dense(),
    *_mma_scaled(),
    *_mma_ws(),
    instruction("tcgen05.cp",
                f"{_CG} shape={{128x256b,4x256b,128x128b,64x128b.warpx2::02_13,64x128b.warpx2::01_23,32x128b.warpx4}} "
                "fmt=b8x16.{b6x16_p32,b4x16_p64}?", _tmem("taddr"), rsrc("s_desc", "b64"), **_COMMON),
    instruction("tcgen05.shift", f"{_CG} down", _tmem("taddr"),
                **{**_COMMON, "feature": "tcgen05.shift"}),
    *_load_store(),
    instruction("tcgen05.wait::ld", "sync.aligned", issuer="warp", **_COMMON),
    instruction("tcgen05.wait::st", "sync.aligned", issuer="warp", **_COMMON),
    instruction("tcgen05.fence::before_thread_sync", "", **_COMMON),
    instruction("tcgen05.fence::after_thread_sync", "", **_COMMON),
    instruction("tcgen05.commit", _COMMIT + "b64", addr("mbar", "$ss"), **_COMMON),
    instruction("tcgen05.commit", _COMMIT + "multicast::cluster b64",
                addr("mbar", "$ss"), rsrc("cta_mask", "b16"), **_COMMON),
)  # fmt: skip
