"""Tensor maps by their fields: the arguments of ``cuTensorMapEncodeTiled``, with the driver's rules checked when built.

The 128 opaque bytes of a map have no published layout; the host calls the driver with these fields.  Dimensions are
listed innermost first, as the driver and the coordinates of tensor copies do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tirx_eq.errors import PtxError, TirxError
from tirx_eq.ptx.extents import Extent, from_json, resolved, to_json
from tirx_eq.ptx.swizzle_modes import SWIZZLES

Array = np.ndarray


@dataclass(frozen=True)
class TensorMapType:
    """An element type.  ``code``: CUtensorMapDataType; ``bits``, ``shared_bits``: size in global and shared memory.

    Where the two differ, 16 elements are packed in the first bytes of 16, and what follows them is undefined (PTX ISA
    5.5.1.1, ``.b4x16_p64`` and ``.b6x16_p32``).
    """

    name: str
    code: int
    bits: int
    shared_bits: int
    is_float: bool = False

    @property
    def padded(self) -> bool:
        """Whether shared memory has gaps between groups of 16 elements."""
        return self.shared_bits != self.bits

    def place(self, element: Array) -> Array:
        """Bits from the first element of a box in shared memory to others of them, before the swizzle."""
        return element // 16 * 16 * self.shared_bits + element % 16 * self.bits


#: Element types by the name this package uses for the data.
TYPES: dict[str, TensorMapType] = {
    t.name: t
    for t in (
        TensorMapType("u8", 0, 8, 8),
        TensorMapType("u16", 1, 16, 16),
        TensorMapType("u32", 2, 32, 32),
        TensorMapType("s32", 3, 32, 32),
        TensorMapType("u64", 4, 64, 64),
        TensorMapType("s64", 5, 64, 64),
        TensorMapType("f16", 6, 16, 16, True),
        TensorMapType("f32", 7, 32, 32, True),
        TensorMapType("f64", 8, 64, 64, True),
        TensorMapType("bf16", 9, 16, 16, True),
        TensorMapType("f32_ftz", 10, 32, 32, True),
        TensorMapType("tf32", 11, 32, 32, True),
        TensorMapType("tf32_ftz", 12, 32, 32, True),
        TensorMapType("u4_align8", 13, 4, 4),
        TensorMapType("u4_align16", 14, 4, 8),
        TensorMapType("u6_align16", 15, 6, 8),
    )
}

#: Swizzles of types that pad (cuTensorMapEncodeTiled, ``swizzle``; the last of 6-bit elements is for stores only).
PADDED_SWIZZLES = {
    "u4_align16": ("none", "128B", "128B_ATOM_32B"), "u6_align16": ("none", "128B", "128B_ATOM_32B", "128B_ATOM_64B"),
}  # fmt: skip
#: Elements of a row of a box of such a type, and what its first coordinate and the array's rows are multiples of (PTX ISA
#: 9.7.9.27.1.1).
PADDED_ROW = 128

#: Types without a code of their own and the one that moves their bits.
CARRIERS = {"s8": "u8", "e4m3": "u8", "e5m2": "u8", "ue8m0": "u8", "ue4m3": "u8", "s16": "u16"}

INTERLEAVES = {"none": 0, "16B": 1, "32B": 2}
L2_PROMOTIONS = {"none": 0, "64B": 1, "128B": 2, "256B": 3}
OOB_FILLS = {"zero": 0, "nan": 1}

#: CUtensorMapSwizzle code and span in bytes of every swizzle; two of them have no matrix descriptor counterpart.
MAP_SWIZZLES: dict[str, tuple[int, int]] = {
    **{m.name: (m.tensor_map_code, m.span) for m in SWIZZLES.values()},
    "128B_ATOM_32B_FLIP_8B": (5, 128),
    "128B_ATOM_64B": (6, 128),
}


@dataclass(frozen=True)
class TensorMap:
    """One tensor map.

    ``tensor``: the kernel argument (global buffer) it describes, ``offset`` bytes into it; ``dtype``: key of
    ``TYPES`` or ``CARRIERS``; ``shape``: global extents in elements; ``strides``: bytes between neighbours along
    dimensions 1, 2, … (the innermost stride is the element size); ``box``: extents in elements of one copy;
    ``element_strides``: step in elements; all innermost first.  ``shape`` and ``strides`` of an array of symbolic shape are
    terms (see :mod:`tirx_eq.ptx.extents`).  Raises ``PtxError`` at construction if the driver would refuse the map, as far
    as its sizes are known.
    """

    tensor: str
    dtype: str
    shape: tuple[Extent, ...]
    strides: tuple[Extent, ...]
    box: tuple[int, ...]
    swizzle: str = "none"
    element_strides: tuple[int, ...] = ()
    interleave: str = "none"
    l2_promotion: str = "128B"
    oob_fill: str = "zero"
    offset: int = 0

    def __post_init__(self) -> None:
        for name in ("shape", "strides", "box", "element_strides"):
            plain = (v if isinstance(v, str | tuple) else int(v) for v in getattr(self, name))
            object.__setattr__(self, name, tuple(plain))
        if not self.element_strides:
            object.__setattr__(self, "element_strides", (1,) * len(self.shape))
        self._check_names()
        self._check_global()
        self._check_box()

    @property
    def type(self) -> TensorMapType:
        """The element type that the driver is told."""
        return TYPES[CARRIERS.get(self.dtype, self.dtype)]

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def alignment(self) -> int:
        """Alignment in bytes of the global address and the strides: 16, or 32 for some types and interleaves."""
        return 32 if self.interleave == "32B" or self.type.padded else 16

    @property
    def box_elements(self) -> int:
        """Elements of a full box."""
        elements = 1
        for extent, step in zip(self.box, self.element_strides):
            elements *= -(-extent // step)
        return elements

    @property
    def box_bytes(self) -> int:
        """Bytes that a full box takes in shared memory, gaps included."""
        return self.box_elements * self.type.shared_bits // 8

    @property
    def transaction_bytes(self) -> int:
        """What a copy adds to the transaction count of its barrier, out of bounds or not: the box's bytes in global memory.

        Gaps don't count (CUTLASS, ``TmaTransactionBytes`` of padded elements; CuTe DSL, ``TensorMap.global_tx_bytes``).
        """
        return self.box_elements * self.type.bits // 8

    @property
    def inner_bytes(self) -> int:
        """Bytes of one row of the box in shared memory."""
        return self.box[0] * self.type.shared_bits // 8

    @property
    def shared_alignment(self) -> int:
        """Alignment in bytes of a shared destination at which the swizzle pattern starts: 128 at least."""
        mode = SWIZZLES.get(self.swizzle)
        return max(128, mode.pattern if mode else 1024)

    def at(self, values: Mapping[str, int]) -> TensorMap:
        """The map for these values of scalar parameters, all sizes integers; raises PtxError if the driver would refuse it."""
        shape = tuple(resolved(e, values, f"tensor map of {self.tensor}: extent") for e in self.shape)
        strides = tuple(resolved(e, values, f"tensor map of {self.tensor}: stride") for e in self.strides)
        return replace(self, shape=shape, strides=strides)

    def _fail(self, rule: str) -> PtxError:
        return PtxError(f"tensor map of {self.tensor}: {rule}")

    def _check_names(self) -> None:
        if CARRIERS.get(self.dtype, self.dtype) not in TYPES:
            raise PtxError(
                f"tensor map of {self.tensor}: element type '{self.dtype}' has no tensor map type",
                hint="types: " + ", ".join([*TYPES, *CARRIERS]),
            )
        for what, value, known in (
            ("swizzle", self.swizzle, MAP_SWIZZLES),
            ("interleave", self.interleave, INTERLEAVES),
            ("L2 promotion", self.l2_promotion, L2_PROMOTIONS),
            ("out-of-bounds fill", self.oob_fill, OOB_FILLS),
        ):
            if value not in known:
                raise self._fail(f"unknown {what} '{value}' (known: {', '.join(known)})")
        if not 1 <= self.rank <= 5:
            raise self._fail(f"rank {self.rank} is outside 1..5")
        for what, values, length in (
            ("strides", self.strides, self.rank - 1),
            ("box", self.box, self.rank),
            ("element strides", self.element_strides, self.rank),
        ):
            if len(values) != length:
                raise self._fail(f"{len(values)} {what} given for rank {self.rank}, {length} are needed")

    def _check_global(self) -> None:
        align = self.alignment
        if self.offset % align:
            raise self._fail(f"offset {self.offset} bytes is not a multiple of {align}")
        for axis, extent in enumerate(self.shape):
            if not isinstance(extent, int):
                continue
            if not 1 <= extent <= 1 << 32:
                raise self._fail(f"extent {extent} of dimension {axis} is outside 1..2^32")
        for axis, stride in enumerate(self.strides, 1):
            if not isinstance(stride, int):
                continue
            if stride % align:
                raise self._fail(f"stride {stride} bytes of dimension {axis} is not a multiple of {align}")
            if not 0 <= stride < 1 << 40:
                raise self._fail(f"stride {stride} bytes of dimension {axis} is outside 0..2^40-1")
        row = self.shape[0]
        if self.type.padded and isinstance(row, int) and row % PADDED_ROW:
            raise self._fail(f"extent {row} of dimension 0 is not a multiple of {PADDED_ROW}, as {self.type.name} needs")
        if self.type.name == "u4_align8" and isinstance(row, int) and row % 2:
            raise self._fail(f"extent {row} of dimension 0 is odd, {self.type.name} needs an even one")
        if self.oob_fill == "nan" and not self.type.is_float:
            raise self._fail(f"out-of-bounds fill with NaN needs a floating-point type, not {self.dtype}")

    def _check_box(self) -> None:
        for axis, extent in enumerate(self.box):
            if not 1 <= extent <= 256:
                raise self._fail(f"box extent {extent} of dimension {axis} is outside 1..256")
        for axis, step in enumerate(self.element_strides):
            if not 1 <= step <= 8:
                raise self._fail(f"element stride {step} of dimension {axis} is outside 1..8")
        if self.interleave == "none" and self.element_strides[0] != 1:
            raise self._fail(f"element stride {self.element_strides[0]} of dimension 0: it has to be 1")
        if self.type.padded and self.box[0] != PADDED_ROW:
            raise self._fail(f"box extent {self.box[0]} of dimension 0 is not {PADDED_ROW}, as {self.type.name} needs")
        allowed = PADDED_SWIZZLES.get(self.type.name, tuple(MAP_SWIZZLES))
        if self.swizzle not in allowed:
            raise self._fail(f"{self.type.name} has swizzles {', '.join(allowed)}, not {self.swizzle}")
        if self.box[0] * self.type.shared_bits % 128:
            raise self._fail(
                f"box row of {self.box[0]} * {self._size()} = {self.box[0] * self.type.shared_bits / 8:g} bytes "
                "is not a multiple of 16 bytes"
            )
        if self.interleave != "none" and self.rank < 3:
            raise self._fail(f"interleave {self.interleave} needs rank 3 or more, not {self.rank}")
        if self.interleave == "32B" and self.swizzle != "32B":
            raise self._fail(f"interleave 32B needs swizzle 32B, not {self.swizzle}")
        span = MAP_SWIZZLES[self.swizzle][1]
        if self.interleave == "none" and span and self.inner_bytes > span:
            raise self._fail(
                f"box row of {self.box[0]} * {self._size()} = {self.inner_bytes} bytes exceeds the {span}-byte span of "
                f"swizzle {self.swizzle}"
            )

    def _size(self) -> str:
        return f"{self.type.shared_bits / 8:g}"

    def codes(self) -> dict[str, int]:
        """The enumerators of the driver call, as numbers."""
        return {
            "tensorDataType": self.type.code,
            "interleave": INTERLEAVES[self.interleave],
            "swizzle": MAP_SWIZZLES[self.swizzle][0],
            "l2Promotion": L2_PROMOTIONS[self.l2_promotion],
            "oobFill": OOB_FILLS[self.oob_fill],
        }

    def to_json(self) -> dict[str, Any]:
        """A JSON object that :meth:`from_json` reads back; the driver's codes are added for the host's convenience."""
        return {
            "tensor": self.tensor,
            "offset": self.offset,
            "dtype": self.dtype,
            "shape": [to_json(e) for e in self.shape],
            "strides": [to_json(e) for e in self.strides],
            "box": list(self.box),
            "element_strides": list(self.element_strides),
            "swizzle": self.swizzle,
            "interleave": self.interleave,
            "l2_promotion": self.l2_promotion,
            "oob_fill": self.oob_fill,
            "codes": self.codes(),
        }

    @staticmethod
    def from_json(data: dict[str, Any]) -> TensorMap:
        """Read and validate a JSON object written by :meth:`to_json`."""
        try:
            return TensorMap(
                tensor=str(data["tensor"]),
                dtype=str(data["dtype"]),
                shape=tuple(from_json(e) for e in data["shape"]),
                strides=tuple(from_json(e) for e in data["strides"]),
                box=tuple(data["box"]),
                swizzle=str(data["swizzle"]),
                element_strides=tuple(data["element_strides"]),
                interleave=str(data["interleave"]),
                l2_promotion=str(data["l2_promotion"]),
                oob_fill=str(data["oob_fill"]),
                offset=int(data["offset"]),
            )
        except PtxError:
            raise
        except (KeyError, TypeError, ValueError, TirxError) as error:
            raise PtxError(f"tensor map: {type(error).__name__}: {error}") from None
