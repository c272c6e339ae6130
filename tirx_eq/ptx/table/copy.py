"""Asynchronous copies: cp.async, bulk copies, tensor copies (PTX ISA 9.7.9.25 to 9.7.9.27),
and addresses of other CTAs' shared memory."""

from __future__ import annotations

from tirx_eq.ptx.syntax import Bound, Instruction, Need, Operand, Range, addr, dst, imm, instruction, rsrc, src

_ASYNC = "9.7.9.25"
_TENSOR = "9.7.9.27"
_SIZE16 = Range(0, (1 << 20) - 16, 16)
_HINT = "hint=L2::cache_hint?"
_POLICY = rsrc("policy", "b64", when="hint")
_BYTES = "mbarrier::complete_tx::bytes"
_MAP = Operand("map", "tensor")
_SM90 = {"feature": "sm_90", "ptx": (8, 0), "section": _ASYNC}
_CTA_DST = {**_SM90, "ptx": (8, 6)}


def _cp_async() -> list[Instruction]:
    kw = {"section": _ASYNC, "ptx": (7, 0)}
    tail = f"ss=shared|shared::cta global {_HINT} pre=L2::{{64B,128B,256B}}?"
    needs = (Need("ss", ("shared::cta",), "", (7, 8)), Need("hint", (), "", (7, 4)), Need("pre", (), "", (7, 4)))
    rows = []
    for ignore in (src("src_size", "u32", when="?"), Operand("ignore_src", "pred", "pred", when="?")):
        for op, size in (("ca", (4, 16)), ("cg", (16, 16))):
            rows.append(instruction("cp.async", f"{op} {tail}", addr("dst", "$ss"), addr("src", "global"),
                                    imm("size", *size, pow2=True), ignore, _POLICY, needs=needs, **kw))  # fmt: skip
    return [
        *rows,
        instruction("cp.async.commit_group", "", **kw),
        instruction("cp.async.wait_group", "", imm("groups", 0, 7), **kw),
        instruction("cp.async.wait_all", "", **kw),
        instruction("cp.async.mbarrier.arrive", "noinc? ss=shared|shared::cta? b64", addr("mbar", "$ss"), needs=needs,
                    **kw),
    ]  # fmt: skip


def _bulk() -> list[Instruction]:
    size = src("size", "u32", _SIZE16)
    c, g = "shared::cta", "global"
    reduce_ops = ("op={and,or,xor} T={b32,b64}", "op=add T={u32,s32,u64}", "op={inc,dec} T=u32",
                  "op={min,max} T={u32,s32}")  # fmt: skip
    global_ops = ("op={min,max} T={u64,s64,f16,bf16}", "op=add T={f32,f64}", "op=add noftz T={f16,bf16}")
    kw = _SM90
    rows = [
        instruction("cp.async.bulk", f"shared::cluster global {_BYTES} {_HINT}", addr("dst", "shared::cluster"),
                    addr("src", g), size, addr("mbar", "shared::cta"), _POLICY, **kw),
        instruction("cp.async.bulk", f"shared::cluster global {_BYTES} multicast::cluster {_HINT}",
                    addr("dst", "shared::cluster"), addr("src", g), size, addr("mbar", "shared::cta"),
                    src("cta_mask", "b16"), _POLICY, **kw),
        instruction("cp.async.bulk", f"shared::cta global {_BYTES} {_HINT}", addr("dst", c), addr("src", g), size,
                    addr("mbar", "shared::cta"), _POLICY, **_CTA_DST),
        instruction("cp.async.bulk", f"shared::cluster shared::cta {_BYTES}", addr("dst", "shared::cluster"),
                    addr("src", c), size, addr("mbar", "shared::cluster"), **kw),
        instruction("cp.async.bulk", f"global shared::cta bulk_group {_HINT}", addr("dst", g), addr("src", c), size,
                    _POLICY, **kw),
        instruction("cp.async.bulk", f"global shared::cta bulk_group {_HINT} cp_mask", addr("dst", g), addr("src", c),
                    size, _POLICY, src("byte_mask", "b16"), **{**kw, "feature": "sm_100", "ptx": (8, 6)}),
        instruction("cp.async.bulk.prefetch", f"L2 global {_HINT}", addr("src", g), size, _POLICY, **kw),
        instruction("cp.async.bulk.commit_group", "", **kw),
        instruction("cp.async.bulk.wait_group", "", imm("groups", 0, 7), **kw),
        instruction("cp.async.bulk.wait_group.read", "", imm("groups", 0, 7), **kw),
    ]  # fmt: skip
    for ops in reduce_ops:
        rows.append(instruction("cp.reduce.async.bulk", f"shared::cluster shared::cta {_BYTES} {ops}",
                                addr("dst", "shared::cluster"), addr("src", c), size, addr("mbar", "shared::cluster"),
                                checks=(_reduce_cluster,), **kw))  # fmt: skip
    for ops in reduce_ops + global_ops:
        rows.append(instruction("cp.reduce.async.bulk", f"global shared::cta bulk_group {_HINT} {ops}", addr("dst", g),
                                addr("src", c), size, _POLICY, **kw))  # fmt: skip
    return rows


def _reduce_cluster(bound: Bound) -> str | None:
    if bound["op"] in ("and", "or", "xor") and bound["T"] == "b64":
        return f".{bound['op']} between shared memories takes .b32, not .b64"
    return None


def _tensor_copies() -> list[Instruction]:
    kw = {"section": _TENSOR, "feature": "sm_90", "ptx": (8, 0)}
    cta_kw = {**kw, "ptx": (8, 6)}
    dims = "dim={1d,2d,3d,4d,5d}"
    im2col = "dim={3d,4d,5d}"
    pair = "cg=cta_group::{1,2}?"
    needs = (Need("cg", (), "tma.cta_group", (8, 6)),)
    offsets = Operand("im2col_offsets", "value", "b16", count="im2col", wide=False)
    mask = src("cta_mask", "b16")
    m = "cp.async.bulk.tensor"
    rows: list[Instruction] = []
    # (modes and dimensions, offsets operand, feature of the mode)
    loads: tuple[tuple[str, tuple[Operand, ...], str], ...] = (
        (f"{dims} DST global mode=tile?", (), "sm_90"),
        ("dim=2d DST global mode=tile::gather4", (), "gather4"),
        (f"{im2col} DST global mode=im2col", (offsets,), "sm_90"),
    )
    for shape, extra, feature in loads:
        gather = feature == "gather4"
        cluster = {**kw, **({"feature": "tma.gather4", "ptx": (8, 6)} if gather else {})}
        local = {**cta_kw, **({"feature": "sm_100"} if gather else {})}
        to_cluster = shape.replace("DST", "shared::cluster")
        rows += [
            instruction(m, f"{to_cluster} {_BYTES} {pair} {_HINT}", addr("dst", "shared::cluster"), _MAP,
                        addr("mbar", "shared::cluster"), *extra, _POLICY, needs=needs, **cluster),
            instruction(m, f"{to_cluster} {_BYTES} multicast::cluster {pair} {_HINT}", addr("dst", "shared::cluster"),
                        _MAP, addr("mbar", "shared::cluster"), *extra, mask, _POLICY, needs=needs, **cluster),
            instruction(m, f"{shape.replace('DST', 'shared::cta')} {_BYTES} {pair} {_HINT}", addr("dst", "shared::cta"),
                        _MAP, addr("mbar", "shared::cta"), *extra, _POLICY, needs=needs, **local),
        ]  # fmt: skip
    stores = ((dims, "mode=tile?", kw), ("dim={3d,4d,5d}", "mode=im2col_no_offs", kw),
              ("dim=2d", "mode=tile::scatter4", {**kw, "feature": "tma.gather4", "ptx": (8, 6)}))  # fmt: skip
    for dim, mode, store_kw in stores:
        rows.append(instruction(m, f"{dim} global shared::cta {mode} bulk_group {_HINT}", _MAP,
                                addr("src", "shared::cta"), _POLICY, **store_kw))  # fmt: skip
    for dim, mode in ((dims, "mode=tile?"), ("dim={3d,4d,5d}", "mode=im2col_no_offs")):
        rows.append(instruction("cp.reduce.async.bulk.tensor", f"{dim} global shared::cta "
                                f"op={{add,min,max,inc,dec,and,or,xor}} {mode} bulk_group {_HINT}", _MAP,
                                addr("src", "shared::cta"), _POLICY, **kw))  # fmt: skip
    rows += [
        instruction("cp.async.bulk.prefetch.tensor", f"{dims} L2 global mode=tile? {_HINT}", _MAP, _POLICY, **kw),
        instruction("cp.async.bulk.prefetch.tensor", f"dim=2d L2 global mode=tile::gather4 {_HINT}", _MAP, _POLICY,
                    **{**kw, "feature": "tma.gather4", "ptx": (8, 6)}),
        instruction("cp.async.bulk.prefetch.tensor", f"{im2col} L2 global mode=im2col {_HINT}", _MAP, offsets, _POLICY,
                    **kw),
    ]  # fmt: skip
    return rows


def _cluster_addresses() -> list[Instruction]:
    kw = {"section": "9.7.9", "feature": "sm_90", "ptx": (7, 8)}
    return [
        instruction("mapa.shared::cluster", "u32", dst("d", "b32"), src("a", "b32"), src("cta", "b32"), **kw),
        instruction("mapa", "u64", dst("d", "b64"), rsrc("a", "b64"), src("cta", "b32"), **kw),
        instruction("getctarank.shared::cluster", "u32", dst("d", "b32"), rsrc("a", "b32"), **kw),
        instruction("mapa.shared::cluster", "u64", dst("d", "b64"), rsrc("a", "b64"), src("cta", "b32"), **kw),
        instruction("getctarank.shared::cluster", "u64", dst("d", "b32"), rsrc("a", "b64"), **kw),
        instruction("getctarank", "u64", dst("d", "b32"), rsrc("a", "b64"), **kw),
        instruction("tensormap.cp_fenceproxy", "global shared::cta tensormap::generic release "
                    "scope={cta,cluster,gpu,sys} sync.aligned", addr("dst", "global"), addr("src", "shared::cta"),
                    imm("size", 128, 128), issuer="warp", section="9.7.13", feature="sm_90", ptx=(8, 3)),
    ]  # fmt: skip


def _tensormap_replace() -> list[Instruction]:
    """Change one field of a tensor map in memory; fields of one element, fields of one dimension, enumerators."""
    kw = {"section": "9.7.9.27", "feature": "setmaxnreg", "ptx": (8, 3)}
    space = "ss={global,shared::cta}? b1024"
    at = addr("map", "$ss")
    dim = imm("dimension", 0, 4)
    rows = [
        instruction("tensormap.replace.tile", f"global_address {space} b64", at, src("value", "b64"), **kw),
        instruction("tensormap.replace.tile", f"rank {space} b32", at, src("value", "b32"), **kw),
        instruction("tensormap.replace.tile", f"{{box_dim,global_dim,element_stride}} {space} b32", at, dim,
                    src("value", "b32"), **kw),
        instruction("tensormap.replace.tile", f"global_stride {space} b64", at, dim, src("value", "b64"), **kw),
    ]  # fmt: skip
    for field, high in (("elemtype", 15), ("interleave_layout", 2), ("swizzle_mode", 3), ("fill_mode", 1)):
        rows.append(instruction("tensormap.replace.tile", f"{field} {space} b32", at, imm("value", 0, high), **kw))
    kw = {"section": "9.7.9.27", "feature": "narrow", "ptx": (8, 6)}
    rows.append(instruction("tensormap.replace.tile", f"swizzle_atomicity {space} b32", at, imm("value", 0, 3), **kw))
    return rows


ROWS: tuple[Instruction, ...] = (
    *_cp_async(),
    *_bulk(),
    *_tensor_copies(),
    *_cluster_addresses(),
    *_tensormap_replace(),
)
