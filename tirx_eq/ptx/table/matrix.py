"""Warp-level matrix instructions: ldmatrix, stmatrix, movmatrix, mma.sync (PTX ISA 9.7.14)."""

from __future__ import annotations

from tirx_eq.ptx.syntax import Instruction, Need, Operand, addr, dst, instruction, rsrc

_SEC = "9.7.14"
_WARP = {"issuer": "warp", "section": _SEC, "needs": (Need("ss", ("shared::cta",), "", (7, 8)),)}
_SHARED = "ss={shared,shared::cta}?"


def _fragment(name: str, type_: str, count: str, written: bool = False) -> Operand:
    return Operand(name, "value", type_, dst=written, count=count, anyimm=False)


def _mma(
    shape: str, ab: str, cd: str, ptx: tuple[int, int], feature: str, flags: str = "", kind: str = ""
) -> Instruction:
    """mma.sync; ``ab`` is "a,b" types; registers hold the packed types."""
    a, b = ab.split(";") if ";" in ab else (ab, ab)
    c_type = {"f16": "b32", "f32": "f32", "s32": "b32", "f64": "f64"}[cd]
    ab_type = "f64" if a == "f64" else "b32"
    order = f"shape={shape} row.col {kind} {flags} dt={cd} at={a} bt={b} ct={cd}"
    return instruction(
        "mma.sync", f"aligned {order}", _fragment("d", c_type, "fragD", True), _fragment("a", ab_type, "fragA"),
        _fragment("b", ab_type, "fragB"), _fragment("c", c_type, "fragC"), feature=feature,
        ptx=ptx, **_WARP)  # fmt: skip


def _mma_rows() -> list[Instruction]:
    fp8 = "{e4m3,e5m2};{e4m3,e5m2}"
    f8f6f4 = "{e4m3,e5m2,e2m3,e3m2,e2m1};{e4m3,e5m2,e2m3,e3m2,e2m1}"
    int8 = "{u8,s8};{u8,s8}"
    return [
        _mma("{m16n8k8,m16n8k16}", "f16", "f16", (7, 0), ""),
        _mma("{m16n8k8,m16n8k16}", "f16", "f32", (7, 0), ""),
        _mma("{m16n8k8,m16n8k16}", "bf16", "f32", (7, 0), ""),
        _mma("{m16n8k4,m16n8k8}", "tf32", "f32", (7, 0), ""),
        _mma("{m8n8k16,m16n8k16,m16n8k32}", int8, "s32", (7, 0), "", "satfinite?"),
        _mma("m8n8k4", "f64", "f64", (7, 0), ""),
        _mma("{m16n8k4,m16n8k8,m16n8k16}", "f64", "f64", (7, 8), "sm_90"),
        _mma("m16n8k16", fp8, "f32", (8, 7), "sm_89"),
        _mma("m16n8k32", fp8, "f32", (8, 4), "sm_89"),
        _mma("{m16n8k16,m16n8k32}", fp8, "f16", (8, 7), "sm_89"),
        *(_mma("m16n8k32", fp8, cd, (8, 7), "narrow", kind="kind=kind::f8f6f4") for cd in ("f16", "f32")),
        *(_mma("m16n8k32", f8f6f4, cd, (8, 7), "mma.fp4", kind="kind=kind::f8f6f4") for cd in ("f16", "f32")),
    ]


def _matrix_moves() -> list[Instruction]:
    got = Operand("r", "value", "b32", dst=True, count="matrix", anyimm=False)
    given = Operand("r", "value", "b32", count="matrix", anyimm=False)
    x = "num=x{1,2,4}"
    return [
        instruction("ldmatrix.sync", f"aligned m8n8 {x} trans? {_SHARED} b16", got, addr("a", "$ss"), **_WARP),
        instruction("ldmatrix.sync", f"aligned m16n16 num=x{{1,2}} trans {_SHARED} b8", Operand(
                    "r", "value", "b32", dst=True, count="matrix2", anyimm=False), addr("a", "$ss"), ptx=(8, 6),
                    feature="narrow", **_WARP),
        instruction("ldmatrix.sync", f"aligned m16n16 num=x{{1,2}} trans {_SHARED} b8x16.b{{6x16_p32,4x16_p64}}",
                    Operand("r", "value", "b32", dst=True, count="matrix2", anyimm=False), addr("a", "$ss"),
                    ptx=(8, 6), feature="narrow", **_WARP),
        instruction("ldmatrix.sync", f"aligned m8n16 {x} {_SHARED} b8x16.b{{6x16_p32,4x16_p64}}", got,
                    addr("a", "$ss"), ptx=(8, 6), feature="narrow", **_WARP),
        instruction("stmatrix.sync", f"aligned m8n8 {x} trans? {_SHARED} b16", addr("a", "$ss"), given, ptx=(7, 8),
                    feature="sm_90", **_WARP),
        instruction("stmatrix.sync", f"aligned m16n8 {x} trans {_SHARED} b8", addr("a", "$ss"), given, ptx=(8, 6),
                    feature="narrow", **_WARP),
        instruction("movmatrix.sync", "aligned m8n8 trans b16", dst("d", "b32"), rsrc("a", "b32"), ptx=(7, 8), **_WARP),
    ]  # fmt: skip


ROWS: tuple[Instruction, ...] = (*_matrix_moves(), *_mma_rows())
