"""Tensor maps in memory: their 128 bytes, tensormap.replace, tensormap.cp_fenceproxy and the fences of their proxy.

NVIDIA does not publish the bits of a CUtensorMap, so the simulator has its own: kernels may copy the 128 bytes and change
fields by ``tensormap.replace`` (PTX ISA 9.7.9.28), but must not look inside.  Zeros are a blank map, all of whose fields
are set before it is used (Triton makes its maps so).  A map that the kernel has written must be released
(``cp_fenceproxy`` or ``fence.proxy.tensormap::generic.release``) by the thread that wrote it, and acquired since by the
thread that uses it or by one it is ordered after (PTX ISA 8.6, proxies).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tirx_eq.errors import PtxError
from tirx_eq.sim.clocks import HB, STRIDE
from tirx_eq.sim.control import aligned
from tirx_eq.sim.isa import entry
from tirx_eq.sim.loads import SPACES, locate, place
from tirx_eq.sim.memory import GLOBAL, PARAM, Buffers
from tirx_eq.sim.program import ALU, SYNC, Decoder, Run
from tirx_eq.sim.text.syntax import Imm, Instr
from tirx_eq.sim.transfers.copies import each_row, smem_address
from tirx_eq.sim.transfers.tensormap import TensorMap
from tirx_eq.sim.wave import Group, Wave

Array = np.ndarray
SIZE = 128
#: in place of the rank: a map that ``tensormap.replace`` (which is for tiled maps) cannot describe
IM2COL = 255
FORMAT = np.dtype({
    "names": ["global_address", "global_stride", "global_dim", "box_dim", "element_stride", "rank", "elemtype",
              "interleave_layout", "swizzle_mode", "swizzle_atomicity", "fill_mode"],
    "formats": ["<u8", ("<u8", 4), ("<u4", 5), ("<u4", 5), ("<u4", 5), "u1", "u1", "u1", "u1", "u1", "u1"],
    "offsets": [0, 8, 40, 60, 80, 100, 101, 102, 103, 104, 105], "itemsize": SIZE})
#: the values of the enumerated fields, in order of their codes (PTX ISA 9.7.9.28, table of ``new_val``)
ELEMENTS = ("u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f32_ftz", "f64", "bf16", "tf32", "tf32_ftz",
            "u4x16_align8", "u4x16_align16", "u6x16_align16")
MODES = ("none", "32B", "64B", "128B")
ATOMS = ("", "_atom32B", "_atom32B_flip8B", "_atom64B")
INTERLEAVES = ("none", "16B", "32B")
FILLS = ("zero", "nan")
FIELDS = FORMAT.names or ()
CODES = {"elemtype": len(ELEMENTS), "interleave_layout": len(INTERLEAVES), "swizzle_mode": len(MODES),
         "swizzle_atomicity": len(ATOMS), "fill_mode": len(FILLS)}
BY_DIMENSION = ("box_dim", "global_dim", "global_stride", "element_stride")


def encode(tensor: TensorMap, flat: int) -> Array:
    """The 128 bytes of a map whose tensor begins at the flat global offset ``flat``."""
    raw = np.zeros(1, FORMAT)
    raw["global_address"] = GLOBAL + flat
    rank = tensor.rank
    if tensor.im2col:
        raw["rank"] = IM2COL
        return raw.view(np.uint8)
    raw["global_stride"][0, : rank - 1] = tensor.global_strides_bytes
    raw["global_dim"][0, :rank] = np.array(tensor.global_shape, np.uint64).astype(np.uint32)
    raw["box_dim"][0, :rank] = tensor.box_shape
    raw["element_stride"][0, :rank] = tensor.element_strides
    mode, _, atom = tensor.swizzle.partition("_")
    raw["rank"], raw["elemtype"] = rank - 1, ELEMENTS.index(tensor.element_type)
    raw["interleave_layout"], raw["fill_mode"] = INTERLEAVES.index(tensor.interleave), FILLS.index(tensor.oob_fill)
    raw["swizzle_mode"], raw["swizzle_atomicity"] = MODES.index(mode), ATOMS.index("_" + atom if atom else "")
    return raw.view(np.uint8)


def decode(raw: Array, buffers: Buffers) -> tuple[TensorMap, int]:
    """The map that 128 bytes describe and the flat offset of its tensor; ``PtxError`` where the driver would refuse it."""
    found = np.ascontiguousarray(raw).view(FORMAT)[0]
    if found["rank"] == IM2COL:
        raise PtxError("im2col maps in memory are not modelled, only those of parameters")
    flat = int(found["global_address"]) - GLOBAL
    if not buffers.inside(np.array([flat]), 1)[0]:
        raise PtxError(f"the tensor map's global address {int(found['global_address']):#x} is in no global buffer")
    which = int(np.searchsorted(buffers.low, flat, side="right")) - 1
    rank = int(found["rank"]) + 1
    codes = {name: int(found[name]) for name in CODES}
    if rank > 5 or any(code >= CODES[name] for name, code in codes.items()):
        raise PtxError("these 128 bytes are no tensor map")
    tensor = TensorMap(
        buffers.names[which], ELEMENTS[codes["elemtype"]], tuple(found["global_dim"][:rank].tolist()),
        tuple(found["global_stride"][: rank - 1].tolist()), tuple(found["box_dim"][:rank].tolist()),
        tuple(found["element_stride"][:rank].tolist()), INTERLEAVES[codes["interleave_layout"]],
        MODES[codes["swizzle_mode"]] + ATOMS[codes["swizzle_atomicity"]], FILLS[codes["fill_mode"]],
        flat - buffers.starts[which])
    return tensor, flat


@dataclass
class Maps:
    """Tensor maps of a launch: those of parameters by offset, those of memory by their bytes, and the fences seen."""

    parameters: dict[int, tuple[TensorMap, int]]
    decoded: dict[bytes, tuple[TensorMap, int]] = field(default_factory=dict)
    #: actor -> its last epoch that a release covers
    released: dict[int, int] = field(default_factory=dict)
    #: flat offset of a map -> (actor, epoch, the bytes at that time) of its acquires
    acquired: dict[int, list[tuple[int, int, bytes]]] = field(default_factory=dict)


def find_map(w: Wave, row: int, address: int, rank: int) -> tuple[TensorMap, int]:
    """The tensor map at a generic or parameter address and the flat offset of its tensor."""
    found = from_memory(w, row, address) if address >= GLOBAL \
        else w.context.maps.parameters.get(address - PARAM if address >= PARAM else address)
    if found is None:
        w.report("tensormap", "a tensor map must be a parameter of the kernel or lie in global or constant memory",
                 row=row, address=address, fatal=True)
        raise AssertionError
    if found[0].rank != rank:
        w.report("tensormap", f"a rank-{found[0].rank} tensor map is used with a {rank}d instruction", row=row, fatal=True)
    return found


def from_memory(w: Wave, row: int, address: int) -> tuple[TensorMap, int]:
    context = w.context
    rows = np.array([row])
    at = w.global_flat(np.array([address]), rows, SIZE, 64)
    cells = context.shadow.cells(at, SIZE)
    w.checker.read(context.shadow, cells, rows, what="the tensor map")
    flat = int(at[0])
    raw = context.buffers.data[flat : flat + SIZE]
    fences(w, row, flat, cells, raw.tobytes())
    found = context.maps.decoded.get(raw.tobytes())
    if found is None:
        try:
            found = decode(raw, context.buffers)
        except PtxError as error:
            w.report("tensormap", str(error), row=row, address=address, fatal=True)
            raise AssertionError from None
        context.maps.decoded[raw.tobytes()] = found
    return found


def fences(w: Wave, row: int, flat: int, cells: Array, raw: bytes) -> None:
    """Has what this launch wrote to a map been released by its writers and acquired before its use by ``row``?"""
    shadow, maps, clocks = w.context.shadow, w.context.maps, w.clocks
    written = shadow.writer[cells] >= 0
    if not w.checker.enabled or not written.any():
        return
    address = GLOBAL + flat
    for actor, epoch in set(zip(shadow.writer[cells][written].tolist(), shadow.write_epoch[cells][written].tolist())):
        if actor % STRIDE < clocks.per_cluster and maps.released.get(actor, 0) < epoch:
            w.report("proxy", f"the tensor map was written by {w.checker.name(actor)} with no tensormap.cp_fenceproxy or "
                              "fence.proxy.tensormap::generic.release since", row=row, address=address)
            return
    for actor, epoch, seen in maps.acquired.get(flat, ()):
        mine = actor // STRIDE == int(clocks.cluster[row]) and clocks.know[HB, row, actor % STRIDE] >= epoch
        if seen == raw and (mine or actor == int(clocks.actor[row])):
            return
    w.report("proxy", "the tensor map was written in this launch, and neither this thread nor one it is ordered after has "
                      "executed fence.proxy.tensormap::generic.acquire on it since", row=row, address=address)


# -- instructions -------------------------------------------------------------------------------------
def replace(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """tensormap.replace.tile: change one field of the map at an address."""
    name = next(p for p in instr.parts if p in FIELDS)
    spaces = [SPACES[p] for p in instr.parts if p in SPACES]
    where = decoder.address(instr.operands[0])
    value = decoder.wide(instr.operands[-1], instr.parts[-1].replace("b", "u"))
    order = 0
    if name in BY_DIMENSION:
        dimension = instr.operands[1]
        if not isinstance(dimension, Imm) or not 0 <= dimension.value < (4 if name == "global_stride" else 5):
            raise decoder.error("the dimension must be an immediate within the map's rank")
        order = dimension.value
    elif name in CODES:
        code = instr.operands[1]
        if not isinstance(code, Imm) or not 0 <= code.value < CODES[name]:
            raise decoder.error(f"{name} must be an immediate in 0..{CODES[name] - 1}")
    if (instr.parts[-1] == "b64") != (name in ("global_address", "global_stride")):
        raise decoder.error(f"{name} is not a .{instr.parts[-1]}")

    def run(w: Wave, g: Group) -> None:
        values = np.broadcast_to(value(w, g), (g.n,))
        for at in locate(w, g, spaces[0] if spaces else "generic", where(w, g), SIZE, 64):
            if at.shadow is None:
                w.report("bounds", "only a map in global or shared memory can be changed", row=int(at.rows[0]), fatal=True)
                raise AssertionError
            cells = at.shadow.cells(at.flat, SIZE)
            w.checker.read(at.shadow, cells, at.rows, what=at.name)
            w.checker.write(at.shadow, cells, at.rows, what=at.name)
            for flat, new in zip(at.flat.tolist(), values if at.mask is None else values[at.mask]):
                raw = at.data[flat : flat + SIZE].view(FORMAT)
                if raw[name].ndim == 1:
                    raw[name] = new
                else:
                    raw[name][0, order] = new
    return run, ALU


def copy_and_release(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """tensormap.cp_fenceproxy: a warp copies a map from shared to global memory and releases it."""
    to, source = decoder.address(instr.operands[0]), smem_address(decoder, instr, instr.operands[1])
    size = instr.operands[2]
    if not isinstance(size, Imm) or size.value != SIZE:
        raise decoder.error("the size must be 128")

    def inner(w: Wave, g: Group) -> None:
        first = np.unique(w.warp[g.idx], return_index=True)[1].tolist()
        to_all, source_all = (np.broadcast_to(read(w, g), (g.n,)) for read in (to, source))
        for i in first:
            rows = g.idx[i : i + 1]
            mine = w.warp[g.idx] == w.warp[rows[0]]
            if (to_all[mine] != to_all[i]).any() or (source_all[mine] != source_all[i]).any():
                w.report("collective", "the lanes of a warp give different addresses", row=int(rows[0]), fatal=True)
            left = place(w, "shared", source_all[i : i + 1], rows, SIZE, SIZE)
            right = place(w, "global", to_all[i : i + 1], rows, SIZE, SIZE)
            assert left.shadow is not None and right.shadow is not None
            w.checker.read(left.shadow, left.shadow.cells(left.flat, SIZE), rows, what=left.name)
            w.checker.write(right.shadow, right.shadow.cells(right.flat, SIZE), rows, what=right.name)
            a, b = int(left.flat[0]), int(right.flat[0])
            right.data[b : b + SIZE] = left.data[a : a + SIZE]
        release(w, g)
    return aligned(inner), SYNC


def release(w: Wave, g: Group) -> None:
    maps, clocks = w.context.maps, w.clocks
    for actor, epoch in zip(clocks.actor[g.idx].tolist(), clocks.epoch[g.idx].tolist()):
        maps.released[actor] = epoch
    clocks.epoch[g.idx] += 1


def proxy_fence(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """fence.proxy.tensormap::generic: release, or acquire of the map at an address."""
    if "acquire" not in instr.parts:
        return (lambda w, g: release(w, g)), ALU
    where = decoder.address(instr.operands[0])
    size = instr.operands[1]
    if not isinstance(size, Imm) or size.value != SIZE:
        raise decoder.error("the size must be 128")

    def run(w: Wave, g: Group) -> None:
        maps, clocks = w.context.maps, w.clocks
        for row, address in each_row(g, where(w, g)):
            if address < GLOBAL:
                continue
            flat = int(w.global_flat(np.array([address]), np.array([row]), SIZE, 64)[0])
            raw = w.context.buffers.data[flat : flat + SIZE].tobytes()
            actor = int(clocks.actor[row])
            kept = [a for a in maps.acquired.get(flat, ()) if a[0] != actor]
            maps.acquired[flat] = [*kept, (actor, int(clocks.epoch[row]), raw)]
        clocks.epoch[g.idx] += 1
    return run, ALU


ENTRIES = [
    *entry("tensormap.replace.tile", " ".join(FIELDS) + " global shared::cta b1024 b32 b64", replace),
    *entry("tensormap.cp_fenceproxy", "global shared::cta tensormap::generic release cta cluster gpu sys sync aligned",
           copy_and_release),
    *entry("fence.proxy.tensormap::generic", "acquire release cta cluster gpu sys", proxy_fence),
]
