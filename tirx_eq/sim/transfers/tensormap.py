"""Tensor maps as data: the fields of cuTensorMapEncodeTiled, their rules, and the box they describe.

The 128 bytes of a CUtensorMap are opaque and unpublished; a simulation is given the fields instead (CUDA driver API,
cuTensorMapEncodeTiled; PTX ISA 5.5 "Tensors").
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tirx_eq.errors import PtxError

Array = np.ndarray

#: element type -> (elements per unit, bytes of a unit in global memory, bytes of a unit in shared memory)
UNITS = {
    "u8": (1, 1, 1), "u16": (1, 2, 2), "u32": (1, 4, 4), "s32": (1, 4, 4), "u64": (1, 8, 8), "s64": (1, 8, 8),
    "f16": (1, 2, 2), "bf16": (1, 2, 2), "f32": (1, 4, 4), "f32_ftz": (1, 4, 4), "f64": (1, 8, 8),
    "tf32": (1, 4, 4), "tf32_ftz": (1, 4, 4),
    "u4x16_align8": (16, 8, 8), "u4x16_align16": (16, 8, 16), "u6x16_align16": (16, 12, 16),
}
#: swizzle mode -> (span in bytes, function of the byte address)
SPANS = {"none": 0, "32B": 32, "64B": 64, "128B": 128, "128B_atom32B": 128, "128B_atom32B_flip8B": 128,
         "128B_atom64B": 128}
#: What pads has these swizzles only (cuTensorMapEncodeTiled, ``swizzle``), and coordinates that are multiples of 128.
PADDED = {"u4x16_align16": ("none", "128B", "128B_atom32B"),
          "u6x16_align16": ("none", "128B", "128B_atom32B", "128B_atom64B")}
ALIASES = {"fp16": "f16", "float16": "f16", "float32": "f32", "bfloat16": "bf16", "uint8": "u8", "int8": "u8",
           "e4m3": "u8", "e5m2": "u8", "s8": "u8", "int32": "s32", "uint32": "u32"}


def swizzle(address: Array, mode: str) -> Array:
    """Shared byte address after the XOR of a swizzle mode (PTX ISA, "Swizzling modes")."""
    if mode == "none":
        return address
    if mode == "32B":
        return address ^ ((address >> 3) & 0x10)
    if mode == "64B":
        return address ^ ((address >> 3) & 0x30)
    if mode == "128B":
        return address ^ ((address >> 3) & 0x70)
    if mode == "128B_atom32B":
        return address ^ ((address >> 2) & 0x60)
    if mode == "128B_atom32B_flip8B":
        moved = address ^ ((address >> 2) & 0x60)
        return moved ^ ((address >> 4) & 0x08)
    if mode == "128B_atom64B":
        return address ^ ((address >> 1) & 0x40)
    raise PtxError(f"unknown swizzle mode {mode}")


@dataclass(frozen=True)
class Im2col:
    """The bounding box of an im2col map: offsets of its corners from the first and the last pixel, in dimensions 1..rank-2
    (W, then H and D)."""

    lower: tuple[int, ...]
    upper: tuple[int, ...]


@dataclass(frozen=True)
class TensorMap:
    """One tensor map over the argument called ``array``.

    Shapes are in elements, innermost dimension first; ``global_strides_bytes`` holds rank-1 byte strides (of dimensions
    1 and up); ``offset_bytes`` is where in the array the tensor begins.  With ``im2col``, ``box_shape`` is (channels per pixel,
    pixels per column) and the outermost dimension counts images.  Raises ``PtxError`` where the driver would
    refuse the fields.
    """

    array: str
    element_type: str
    global_shape: tuple[int, ...]
    global_strides_bytes: tuple[int, ...]
    box_shape: tuple[int, ...]
    element_strides: tuple[int, ...] = ()
    interleave: str = "none"
    swizzle: str = "none"
    oob_fill: str = "zero"
    offset_bytes: int = 0
    im2col: Im2col | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "element_type", ALIASES.get(self.element_type, self.element_type))
        for name in ("global_shape", "global_strides_bytes", "box_shape", "element_strides"):
            object.__setattr__(self, name, tuple(int(v) for v in getattr(self, name)))
        rank = len(self.global_shape)
        if not self.element_strides:
            object.__setattr__(self, "element_strides", (1,) * rank)
        self._check(rank)

    def _check(self, rank: int) -> None:
        def refuse(message: str) -> PtxError:
            return PtxError(f"tensor map of {self.array}: {message}")
        if not 1 <= rank <= 5:
            raise refuse(f"rank {rank} is not in 1..5")
        if self.element_type not in UNITS:
            raise refuse(f"unknown element type {self.element_type}")
        if len(self.box_shape) != (2 if self.im2col else rank) or len(self.element_strides) != rank:
            raise refuse("box and element strides need one entry per dimension")
        if self.im2col:
            self._check_corners(self.im2col, rank)
        if len(self.global_strides_bytes) != rank - 1:
            raise refuse(f"{rank - 1} byte strides are needed, {len(self.global_strides_bytes)} given")
        if self.interleave != "none":
            raise refuse(f"interleave {self.interleave} is not modelled")
        if self.swizzle not in SPANS:
            raise refuse(f"unknown swizzle {self.swizzle}")
        if self.oob_fill not in ("zero", "nan"):
            raise refuse(f"unknown out-of-bounds fill {self.oob_fill}")
        align = 32 if self.element_type.endswith("align16") else 16
        for i, extent in enumerate(self.global_shape):
            if not 1 <= extent <= 1 << 32:
                raise refuse(f"extent {extent} of dimension {i} is not in 1..2^32")
        for i, stride in enumerate(self.global_strides_bytes):
            if stride % align or not 0 < stride < 1 << 40:
                raise refuse(f"byte stride {stride} of dimension {i + 1} is not a positive multiple of {align} below 2^40")
        for i, extent in enumerate(self.box_shape):
            if not 1 <= extent <= (1024 if self.im2col and i else 256):
                raise refuse(f"box extent {extent} of dimension {i} is not in 1..{1024 if self.im2col and i else 256}")
        for i, stride in enumerate(self.element_strides):
            if not 1 <= stride <= 8:
                raise refuse(f"element stride {stride} of dimension {i} is not in 1..8")
        if self.offset_bytes % align:
            raise refuse(f"the global address must be {align}-byte aligned")
        if self.element_type.endswith("align16") and (self.box_shape[0] != 128 or self.global_shape[0] % 128):
            raise refuse("packed 16-byte aligned types need box extent 128 and a global extent that is a multiple of 128")
        if self.swizzle not in PADDED.get(self.element_type, SPANS):
            raise refuse(f"{self.element_type} has no swizzle {self.swizzle}")
        inner = self.box_shape[0] * UNITS[self.element_type][2] // UNITS[self.element_type][0]
        if inner % 16:
            raise refuse(f"the box's innermost {inner} bytes are not a multiple of 16")
        span = SPANS[self.swizzle]
        if span and inner > span:
            raise refuse(f"{self.box_shape[0]} elements of {self.element_type} = {inner} bytes exceed the {span}-byte "
                         f"span of swizzle {self.swizzle}")

    def _check_corners(self, box: Im2col, rank: int) -> None:
        if not 3 <= rank <= 5 or len(box.lower) != rank - 2 or len(box.upper) != rank - 2:
            raise PtxError(f"tensor map of {self.array}: im2col needs 3 to 5 dimensions and corners in all but two")
        half = 1 << {3: 15, 4: 7, 5: 4}[rank]
        if any(not -half <= c < half for c in (*box.lower, *box.upper)):
            raise PtxError(f"tensor map of {self.array}: a corner of the bounding box is not in {-half}..{half - 1}")
        if self.element_strides[0] != 1 or self.element_strides[-1] != 1:
            raise PtxError(f"tensor map of {self.array}: im2col steps over pixels only, not channels or images")

    @property
    def rank(self) -> int:
        return len(self.global_shape)

    @property
    def row_bytes(self) -> int:
        """Bytes of one innermost row of the box in shared memory."""
        per, _, shared = UNITS[self.element_type]
        return -(-self.box_shape[0] // self.element_strides[0]) * shared // per

    def rows(self, count: int | None = None) -> int:
        """Rows of the box (product of all but the innermost extent)."""
        if self.im2col:
            return self.box_shape[1]
        total = 1
        for extent, stride in list(zip(self.box_shape, self.element_strides))[1:]:
            total *= -(-extent // stride)
        return count or total

    @property
    def box_bytes(self) -> int:
        """Bytes of the full box in shared memory."""
        return self.row_bytes * self.rows()

    def transaction_bytes(self, count: int | None = None) -> int:
        """What a load of the box adds to the transaction count: its bytes in global memory, without padding.

        So CUTLASS (``TmaTransactionBytes`` of unpacked elements), CuTe DSL (``TensorMap.global_tx_bytes``) and DeepGEMM
        (``num_arrival_bytes``) count; the ISA says "bytes" only.
        """
        _, source, shared = UNITS[self.element_type]
        return self.row_bytes * self.rows(count) * source // shared


@lru_cache(maxsize=256)
def row_coordinates(tensor: TensorMap) -> Array:
    """Offsets of each box row in dimensions 1.., shape (rows, rank - 1)."""
    axes = [np.arange(0, extent, stride) for extent, stride in zip(tensor.box_shape[1:], tensor.element_strides[1:])]
    if not axes:
        return np.zeros((1, 0), np.int64)
    grid = np.meshgrid(*reversed(axes), indexing="ij")
    return np.stack([g.ravel() for g in reversed(grid)], axis=1).astype(np.int64)


@lru_cache(maxsize=256)
def inner_bytes(tensor: TensorMap) -> tuple[Array, Array, Array]:
    """For each shared byte of a row: element index, byte in its global unit, and whether it carries data."""
    per, source, shared = UNITS[tensor.element_type]
    unit = np.arange(tensor.row_bytes) // shared
    byte = np.arange(tensor.row_bytes) % shared
    return unit * per * tensor.element_strides[0], byte, byte < source


def gather_index(tensor: TensorMap, coordinates: tuple[int, ...], rows: Array | None = None) \
        -> tuple[Array, Array]:
    """Global byte offsets (relative to the tensor) of a box at ``coordinates`` and which bytes are inside.

    Returns arrays of shape (rows, row bytes).  ``rows`` overrides the coordinates of dimensions 1.. (gather4).
    """
    per, source, _ = UNITS[tensor.element_type]
    element, byte, carries = inner_bytes(tensor)
    x = coordinates[0] + element
    inside_x = (x >= 0) & (x < tensor.global_shape[0]) & carries
    outer = row_coordinates(tensor) + np.array(coordinates[1:], np.int64) if rows is None else rows
    extent = np.array(tensor.global_shape[1:], np.int64)
    stride = np.array(tensor.global_strides_bytes, np.int64)
    inside_y: Array = np.all((outer >= 0) & (outer < extent), axis=1)
    base = (outer * stride).sum(axis=1)
    offsets = base[:, None] + (x // per * source + byte)[None, :]
    return offsets, inside_y[:, None] & inside_x[None, :]


def pixels(tensor: TensorMap, start: tuple[int, ...], offsets: tuple[int, ...]) -> Array:
    """Coordinates in dimensions 1.. of the pixels of an im2col copy, shape (pixels per column, rank - 1).

    From ``start`` (without the channel) along W with its traversal stride to the end of the bounding box, then on from its
    lower corner in the next row, and so on through H, D and the images; ``offsets`` shift all of it (PTX ISA 5.5.4).
    """
    box = tensor.im2col
    assert box is not None
    lower = box.lower
    upper = [extent - 1 + corner for extent, corner in zip(tensor.global_shape[1:-1], box.upper)]
    at, found = list(start), []
    for _ in range(tensor.box_shape[1]):
        found.append([*(c + o for c, o in zip(at, offsets)), at[-1]])
        for i, high in enumerate(upper):
            at[i] += tensor.element_strides[i + 1]
            if at[i] <= high:
                break
            at[i] = lower[i]
        else:
            at[-1] += 1
    return np.array(found, np.int64)


def shared_offsets(tensor: TensorMap, start: int, count: int | None = None) -> Array:
    """Swizzled shared byte addresses of every 16-byte chunk of the box, in box order; ``start`` absolute."""
    total = tensor.row_bytes * tensor.rows(count)
    return swizzle(start + np.arange(0, total, 16), tensor.swizzle)
