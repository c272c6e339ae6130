"""Barriers, mbarriers, fences, cluster and grid synchronisation (PTX ISA 9.7.13)."""

from __future__ import annotations

from tirx_eq.ptx.syntax import Bound, Instruction, Need, Operand, Range, addr, dst, imm, instruction, pred, rsrc, src

_SEC = "9.7.13"
_MBAR = "9.7.13.15"
_ID = Range(0, 15)
_THREADS = Range(32, 1024, 32)
_SS = "ss=shared|shared::cta"
_CTA = (Need("ss", ("shared::cta", "shared::cluster"), "", (7, 8)),)
_ORDER = "sem={release,relaxed}? scope={cta,cluster}?"
_WAIT = "sem={acquire,relaxed}? scope={cta,cluster}?"
_RELAXED = Need("sem", ("relaxed",), "sm_90", (8, 6))
_RELEASE = Need("sem", ("release",), "", (8, 0))
_SCOPED = (Need("scope", ("cta",), "", (8, 0)), Need("scope", ("cluster",), "sm_90", (8, 0)))
_STATE = dst("state", "b64", sink=True)
_PHASE = Range(0, 1)


def _both_or_none(bound: Bound) -> str | None:
    if bound["sem"] and not bound["scope"]:
        return f".{bound['sem']} needs a scope (.cta or .cluster)"
    if bound["scope"] and not bound["sem"]:
        return f"the scope .{bound['scope']} needs .release, .acquire or .relaxed before it"
    return None


def _mbarrier() -> list[Instruction]:
    needs = (*_CTA, _RELAXED, _RELEASE, *_SCOPED)
    rows = [
        instruction("mbarrier.init", f"{_SS}? b64", addr("mbar", "$ss"), src("count", "u32", Range(1, (1 << 20) - 1)),
                    section=_MBAR, ptx=(7, 0), needs=_CTA),
        instruction("mbarrier.inval", f"{_SS}? b64", addr("mbar", "$ss"), section=_MBAR, ptx=(7, 0), needs=_CTA),
        instruction("mbarrier.pending_count", "b64", dst("count", "b32"), rsrc("state", "b64"), section=_MBAR,
                    ptx=(7, 0)),
    ]  # fmt: skip
    for op in ("arrive", "arrive_drop"):
        m = f"mbarrier.{op}"
        count = src("count", "u32", when="?")
        rows += [
            instruction(m, f"{_ORDER} {_SS}? b64", _STATE, addr("mbar", "$ss"), section=_MBAR,
                        ptx=(7, 0), needs=needs, checks=(_both_or_none,)),
            instruction(m, f"{_ORDER} {_SS}? b64", _STATE, addr("mbar", "$ss"), src("count", "u32"), section=_MBAR,
                        ptx=(7, 8), needs=needs, feature="sm_90", checks=(_both_or_none,)),
            instruction(m, f"{_ORDER} ss=shared::cluster b64", Operand("state", "value", "b64", dst=True, reg=False,
                        sink=True, anyimm=False), addr("mbar", "$ss"), count, section=_MBAR, ptx=(8, 0),
                        feature="sm_90", needs=(_RELAXED,), checks=(_both_or_none,)),
            instruction(m, f"expect_tx {_ORDER} {_SS}? b64", _STATE, addr("mbar", "$ss"), src("bytes", "u32"),
                        section=_MBAR, ptx=(8, 0), feature="sm_90", needs=(_RELAXED,), checks=(_both_or_none,)),
            instruction(m, f"expect_tx {_ORDER} ss=shared::cluster b64", Operand("state", "value", "b64", dst=True,
                        reg=False, sink=True, anyimm=False), addr("mbar", "$ss"), src("bytes", "u32"), section=_MBAR,
                        ptx=(8, 0), feature="sm_90", needs=(_RELAXED,), checks=(_both_or_none,)),
            instruction(m, f"noComplete sem=release? scope=cta? {_SS}? b64", _STATE, addr("mbar", "$ss"),
                        src("count", "u32"), section=_MBAR, ptx=(7, 0), needs=(*_CTA, _RELEASE),
                        checks=(_both_or_none,)),
        ]  # fmt: skip
    for op in ("expect_tx", "complete_tx"):
        rows.append(instruction(
            f"mbarrier.{op}", "sem=relaxed? scope={cta,cluster}? ss=shared|shared::cta|shared::cluster? b64",
            addr("mbar", "$ss"), src("bytes", "u32"), section=_MBAR, ptx=(8, 0), feature="sm_90",
            checks=(_both_or_none,)))  # fmt: skip
    done = Operand("done", "pred", "pred", dst=True)
    for op in ("test_wait", "try_wait"):
        hint = (src("time_ns", "u32", when="?"),) if op == "try_wait" else ()
        for parity in (False, True):
            which = src("parity", "u32", _PHASE) if parity else rsrc("state", "b64")
            rows.append(instruction(
                f"mbarrier.{op}" + (".parity" if parity else ""), f"{_WAIT} {_SS}? b64", done, addr("mbar", "$ss"),
                which, *hint, section=_MBAR, ptx=(7, 8), feature="sm_90" if op == "try_wait" else "",
                needs=needs, checks=(_both_or_none,)))  # fmt: skip
    return rows


def _cta_barriers() -> list[Instruction]:
    rows = []
    ident, count = src("id", "u32", _ID), src("threads", "u32", _THREADS, when="?")
    need = src("threads", "u32", _THREADS)
    for mnemonic, aligned in (("bar", ""), ("barrier", "aligned?"), ("bar.cta", ""), ("barrier.cta", "aligned?")):
        kw = {"issuer": "warp", "section": _SEC, "ptx": (7, 8) if "cta" in mnemonic else (6, 0)}
        out = Operand("p", "pred", "pred", dst=True)
        rows += [
            instruction(f"{mnemonic}.sync", aligned, ident, count, **kw),
            instruction(f"{mnemonic}.arrive", aligned, ident, need, **kw),
            instruction(f"{mnemonic}.red.popc", f"{aligned} u32", dst("d", "b32"), ident, count, pred("c"), **kw),
            instruction(f"{mnemonic}.red", f"{{and,or}} {aligned} pred", out, ident, count, pred("c"), **kw),
        ]
    return rows


def _fences() -> list[Instruction]:
    scope = "scope={cta,cluster,gpu,sys}"
    needs = (Need("scope", ("cluster",), "sm_90", (7, 8)),)
    sm90 = {"section": _SEC, "feature": "sm_90", "ptx": (8, 0)}
    return [
        instruction("fence", f"sem={{sc,acq_rel}} {scope}", section=_SEC, needs=needs),
        instruction("fence", f"sem={{acquire,release}} {scope}", section=_SEC, feature="sm_90", ptx=(8, 6)),
        instruction("fence.acquire", "sync_restrict::shared::cluster cluster", **{**sm90, "ptx": (8, 6)}),
        instruction("fence.release", "sync_restrict::shared::cta cluster", **{**sm90, "ptx": (8, 6)}),
        instruction("fence.mbarrier_init", "release cluster", **sm90),
        instruction("fence.proxy", "alias", section=_SEC, ptx=(7, 5)),
        instruction("fence.proxy.async", "ss={global,shared::cta,shared::cluster}?", **sm90),
        instruction("fence.proxy.async::generic.acquire", "sync_restrict::shared::cluster cluster",
                    **{**sm90, "ptx": (8, 6)}),
        instruction("fence.proxy.async::generic.release", "sync_restrict::shared::cta cluster",
                    **{**sm90, "ptx": (8, 6)}),
        instruction("fence.proxy.tensormap::generic.release", scope, **{**sm90, "ptx": (8, 3)}),
        instruction("fence.proxy.tensormap::generic.acquire", scope, addr("map", ""), imm("bytes", 128, 128),
                    **{**sm90, "ptx": (8, 3)}),
        instruction("membar", "{cta,gl,sys}", section=_SEC),
    ]  # fmt: skip


ROWS: tuple[Instruction, ...] = (
    *_cta_barriers(),
    instruction("bar.warp.sync", "", src("mask", "b32"), issuer="warp", section=_SEC),
    instruction("barrier.cluster.arrive", "sem={release,relaxed}? aligned?", issuer="warp", section=_SEC,
                feature="sm_90", ptx=(7, 8), needs=(Need("sem", (), "sm_90", (8, 0)),)),
    instruction("barrier.cluster.wait", "sem=acquire? aligned?", issuer="warp", section=_SEC, feature="sm_90",
                ptx=(7, 8), needs=(Need("sem", (), "sm_90", (8, 0)),)),
    *_fences(),
    *_mbarrier(),
    instruction("griddepcontrol", "{wait,launch_dependents}", section=_SEC, feature="sm_90", ptx=(7, 8)),
    instruction("clusterlaunchcontrol.try_cancel.async", "ss=shared::cta? mbarrier::complete_tx::bytes "
                "mc=multicast::cluster::all? b128", addr("dst", "$ss"), addr("mbar", "$ss"), section=_SEC,
                feature="sm_100", ptx=(8, 6), needs=(Need("mc", (), "clc.multicast", (8, 6)),)),
    instruction("clusterlaunchcontrol.query_cancel.is_canceled", "pred.b128", Operand("p", "pred", "pred", dst=True),
                rsrc("response", "b128"), section=_SEC, feature="sm_100", ptx=(8, 6)),
    instruction("clusterlaunchcontrol.query_cancel.get_first_ctaid", "v4.b32.b128",
                Operand("xyzw", "value", "b32", dst=True, count=4, sink=True, anyimm=False), rsrc("response", "b128"),
                section=_SEC, feature="sm_100", ptx=(8, 6)),
    *(instruction(f"clusterlaunchcontrol.query_cancel.get_first_ctaid::{axis}", "b32.b128", dst("d", "b32"),
                  rsrc("response", "b128"), section=_SEC, feature="sm_100", ptx=(8, 6)) for axis in "xyz"),
)  # fmt: skip
