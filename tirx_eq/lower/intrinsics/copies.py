"""Asynchronous copies (PTX ISA 9.7.9.25 to 9.7.9.27)."""

from __future__ import annotations

from typing import Any

from ...ir import NE, IntImm, Select, const
from .language import Arguments, Template, constant
from .memory import moved

_HINT = "{.has_policy:L2::cache_hint}"
_POLICY = "policy?has_policy"
_TO_CLUSTER = "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
_FROM_GLOBAL = "cp.async.bulk.shared::{to}.global.mbarrier::complete_tx::bytes"
_BYTES = "mbarrier::complete_tx::bytes"
_LOAD = f"{{.gather:tile::gather4}}.{_BYTES}"
_CP = f"cp.async.{{cache}}.shared.global{_HINT}{{.prefetch_size:L2::$B}} [dst_ptr] [src_ptr] cp_size"


def _cp_async(given: Arguments) -> Arguments:
    """16 bytes pass by the first-level cache; with ``fill_mode`` zeros stand for what isn't read."""
    size, predicate = given["cp_size"], given["predicate"]
    known: dict[str, Any] = {"cache": "cg" if constant(size) == 16 else "ca"}
    if constant(predicate) == -1:
        return known
    condition = predicate if predicate.dtype == "bool" else NE(predicate, const(0, predicate.dtype))
    if constant(given["fill_mode"]) == "zero":
        return {**known, "src_size": Select(condition, IntImm("int32", int(constant(size) or 0)), IntImm("int32", 0))}
    return {**known, "pred": condition}


def _raw_cp_async(given: Arguments) -> Arguments:
    """The older form: element offsets beside the pointers."""
    ends = {}
    for end in ("dst", "src"):
        pointer, offset = given[f"{end}_ptr"], given[f"{end}_offset"]
        ends[f"{end}_ptr"] = moved(pointer, 0) if constant(offset) == 0 else _offset(pointer, offset)
    filled = {**given, **ends, "predicate": -1 if given.get("predicate") is None else given["predicate"]}
    filled["fill_mode"] = "" if given.get("predicate") is None else "zero"
    return {**ends, "has_policy": 0, "prefetch_size": -1, "policy": None, "src_size": None, **_cp_async(filled)}


def _offset(pointer: Any, offset: Any) -> Any:
    from ...ir import Call, Op, PointerType
    from ...ir import dtype as dt

    ty = getattr(pointer, "ty", None)
    size = dt.storage_bits(ty.element_type.dtype) // 8 if isinstance(ty, PointerType) else 1
    kind = Call("uint8", Op.get("tirx.type_annotation"), ())
    return Call("handle", Op.get("tirx.ptr_byte_offset"), (pointer, offset * size, kind))


def _gathers(given: Arguments) -> Arguments:
    return {"gather": int(constant(given["load_mode"]) == "tile_gather4")}


TEMPLATES: dict[str, tuple[Template, ...]] = {
    "tirx.ptx.cp_async": (
        Template(f"{_CP} src_size {_POLICY}", "src_size?", _cp_async), Template(f"{_CP} {_POLICY}"),
    ),
    "tirx.ptx.cp_async_raw": (
        Template(f"{_CP} src_size", "src_size?", _raw_cp_async), Template(_CP),
    ),
    "tirx.ptx.cp_async_commit_group": (Template("cp.async.commit_group"),),
    "tirx.ptx.cp_async_wait_group": (Template("cp.async.wait_group num"),),
    "tirx.ptx.cp_async_mbarrier_arrive": (Template("cp.async.mbarrier.arrive{.noinc}.{space}.b64 [bar]"),),
    "tirx.ptx.cp_async_bulk_commit_group": (Template("cp.async.bulk.commit_group"),),
    "tirx.ptx.cp_async_bulk_wait_group": (Template("cp.async.bulk.wait_group{.read} n"),),
    "tirx.ptx.cp_async_bulk_shared_to_cluster": (Template(f"{_TO_CLUSTER} [dst_ptr] [src_ptr] size [mbar]"),),
    "tirx.ptx.cp_async_bulk_s2s_cluster": (Template(f"{_TO_CLUSTER} [dst_ptr] [src_ptr] num_bytes [mbarrier]"),),
    "tirx.ptx.cp_async_bulk_g2s_cta": (
        Template(_FROM_GLOBAL.format(to="cta") + f"{_HINT} [dst_ptr] [src_ptr] num_bytes [mbarrier_ptr] {_POLICY}",
                 "!ignore_oob"),
    ),
    "tirx.ptx.cp_async_bulk_g2s_cluster": (
        Template(_FROM_GLOBAL.format(to="cluster") + f".multicast::cluster{_HINT} [dst_ptr] [src_ptr] num_bytes "
                 f"[mbarrier_ptr] cta_mask {_POLICY}", "multicast"),
        Template(_FROM_GLOBAL.format(to="cluster") + f"{_HINT} [dst_ptr] [src_ptr] num_bytes [mbarrier_ptr] {_POLICY}"),
    ),
    "tirx.ptx.cp_async_bulk_s2g": (
        Template(f"cp.async.bulk.global.shared::cta.bulk_group{_HINT}.cp_mask [dst_ptr] [src_ptr] num_bytes {_POLICY} "
                 "byte_mask", "cp_mask"),
        Template(f"cp.async.bulk.global.shared::cta.bulk_group{_HINT} [dst_ptr] [src_ptr] num_bytes {_POLICY}"),
    ),
    "tirx.ptx.cp_async_bulk_tensor_g2s_cta": (
        Template(f"cp.async.bulk.tensor.{{dim}}d.shared::cta.global{_LOAD}.cta_group::{{cta_group}}{_HINT} [dst_ptr] "
                 f"tensormap_addr *coords [mbar] {_POLICY}", derive=_gathers),
    ),
    "tirx.ptx.cp_async_bulk_tensor_g2s_cluster": (
        Template(f"cp.async.bulk.tensor.{{dim}}d.shared::cluster.global{_LOAD}.multicast::cluster.cta_group::{{cta_group}}"
                 f"{_HINT} [dst_ptr] tensormap_addr *coords [mbar] cta_mask {_POLICY}", "multicast", _gathers),
        Template(f"cp.async.bulk.tensor.{{dim}}d.shared::cluster.global{_LOAD}.cta_group::{{cta_group}}{_HINT} [dst_ptr] "
                 f"tensormap_addr *coords [mbar] {_POLICY}"),
    ),
    "tirx.ptx.cp_async_bulk_tensor_shared_to_global": (
        Template(f"cp.async.bulk.tensor.{{dim}}d.global.shared::cta.tile.bulk_group{_HINT} tensormap_addr *coords [src_ptr] "
                 f"{_POLICY}"),
    ),
    "tirx.ptx.cp_async_bulk_tensor_shared_to_global_reduce": (
        Template(f"cp.reduce.async.bulk.tensor.{{dim}}d.global.shared::cta.{{red_op}}.tile.bulk_group{_HINT} tensormap_addr "
                 f"*coords [src_ptr] {_POLICY}"),
    ),
    "tirx.ptx.cp_async_bulk_tensor_prefetch": (
        Template(f"cp.async.bulk.prefetch.tensor.{{dim}}d.L2.global.tile{_HINT} tensormap_addr *coords {_POLICY}"),
    ),
    "tirx.ptx.prefetch_tensormap": (Template("prefetch{.space}.tensormap [tensormap_addr]"),),
}  # fmt: skip
