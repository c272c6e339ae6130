"""Conditions on matrix multiplication with tcgen05.mma, dense kinds (PTX ISA 9.7.16)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...errors import PtxError
from ...ir import Expr, const
from ...ptx.descriptor import MMA_K, BlockScaledDescriptor, InstructionDescriptor, MatrixDescriptor, element_address
from ...ptx.idesc import check_shape
from ...ptx.swizzle_modes import SWIZZLES, SwizzleMode
from ...ptx.target import target_has
from ..context import CallContext, Operand
from .registry import coordinate, holds, in_space
from .tmem_place import cells, moves_as_a_whole


@dataclass(frozen=True)
class Kind:
    """A dense kind of tcgen05.mma, and the PTX names of the types of A, B and D."""

    name: str
    a: str
    b: str
    d: str
    scales: int = 0  # scale factors of a row that one instruction takes; 0 for dense kinds
    scale_type: str = ""

    @property
    def k(self) -> int:
        """Elements of K that one instruction takes."""
        return MMA_K[self.name]

    def container(self, bits: int) -> int:
        """Bits that an element of A or B takes up in memory: 8 of 256 bits of K are the least but for fp4 alone."""
        return max(bits, 256 // self.k)


_FP4 = "float4_e2m1fn"
_EIGHT_BIT = {"float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2"}
#: Elements in containers of 8 bits: those of 4 bits are padded, 16 of them in 8 of 16 bytes.
_UP_TO_EIGHT = {**_EIGHT_BIT, _FP4: "e2m1"}
_BYTES = {"int8": "s8", "uint8": "u8"}

#: (A, B, D) -> kind.  PTX ISA 9.7.16.2, table of kinds; f32 operands are read as tf32.
KINDS: dict[tuple[str, str, str], Kind] = {
    ("float16", "float16", "float32"): Kind("f16", "f16", "f16", "f32"),
    ("float16", "float16", "float16"): Kind("f16", "f16", "f16", "f16"),
    ("bfloat16", "bfloat16", "float32"): Kind("f16", "bf16", "bf16", "f32"),
    ("float32", "float32", "float32"): Kind("tf32", "tf32", "tf32", "f32"),
    ("tfloat32", "tfloat32", "float32"): Kind("tf32", "tf32", "tf32", "f32"),
    **{(a, b, d): Kind("f8f6f4", x, y, z) for a, x in _UP_TO_EIGHT.items() for b, y in _UP_TO_EIGHT.items()
       for d, z in (("float32", "f32"), ("float16", "f16"))},
    **{(a, b, "int32"): Kind("i8", x, y, "s32") for a, x in _BYTES.items() for b, y in _BYTES.items()},
}  # fmt: skip

#: (A, B, type of the factors, elements of K per factor) -> block-scaled kind; the accumulator is f32.
SCALED_KINDS: dict[tuple[str, str, str, int], Kind] = {
    **{(a, b, "float8_e8m0fnu", 32): Kind("mxf8f6f4", x, y, "f32", 1, "ue8m0")
       for a, x in _UP_TO_EIGHT.items() for b, y in _UP_TO_EIGHT.items()},
    (_FP4, _FP4, "float8_e8m0fnu", 32): Kind("mxf4", "e2m1", "e2m1", "f32", 2, "ue8m0"),
    (_FP4, _FP4, "float8_e8m0fnu", 16): Kind("mxf4nvf4", "e2m1", "e2m1", "f32", 4, "ue8m0"),
    (_FP4, _FP4, "float8_e4m3fn", 16): Kind("mxf4nvf4", "e2m1", "e2m1", "f32", 4, "ue4m3"),
}  # fmt: skip


def kind_of(c: CallContext) -> Kind | None:
    """The kind that takes the call's dtypes, and its scale factors if it has any."""
    a, b, d = (c.operands[n].dtype for n in "ABC")
    if "SFA" not in c.operands:
        return KINDS.get((a, b, d))
    shape, factors = mma_shape(c), c.operands["SFA"].size
    per_factor = shape.m * shape.k // factors if factors else 0
    return SCALED_KINDS.get((a, b, c.operands["SFA"].dtype, per_factor)) if d == "float32" else None


def transposed(c: CallContext, name: str) -> bool:
    """Whether operand A or B is stored with K outermost (MN-major)."""
    return bool(int(const(c.call.operand(f"trans{name}"))))  # type: ignore[call-overload]


def cta_group(c: CallContext) -> int:
    """1, or 2 for a pair of CTAs that multiply together."""
    return int(c.call.config.get("cta_group", 1))


@dataclass(frozen=True)
class Shape:
    """Rows of A that this CTA has, columns of D, depth; ``pair_m`` counts the rows of all CTAs of the group."""

    m: int
    n: int
    k: int
    pair_m: int


def mma_shape(c: CallContext) -> Shape:
    """The shape of the product.  In a pair each CTA has its own rows of A and half of the columns in its B."""
    a, b = c.operands["A"].shape, c.operands["B"].shape
    m, k = reversed(a) if transposed(c, "A") else a
    n = b[1] if transposed(c, "B") else b[0]
    return Shape(m, n * cta_group(c), k, m * cta_group(c))


def instruction_descriptor(c: CallContext) -> InstructionDescriptor:
    """The 32-bit descriptor of the call: types, shape, majorness."""
    kind, shape = kind_of(c), mma_shape(c)
    assert kind is not None
    return InstructionDescriptor(
        kind.name, shape.pair_m, shape.n, kind.a, kind.b, kind.d, transposed(c, "A"), transposed(c, "B")
    )


def matrices(c: CallContext) -> str | None:
    """None if A, B and C are matrices, else which isn't."""
    for name in ("A", "B", "C"):
        if len(c.operands[name].shape) != 2:
            return f"'{name}' has extents {list(c.operands[name].extents)}, not two that exceed 1"
    return None


@holds("A in shared memory")
def _a_shared(c: CallContext) -> str | None:
    return in_space(c.operands["A"], "shared")


@holds("A in tensor memory")
def _a_tmem(c: CallContext) -> str | None:
    return in_space(c.operands["A"], "tmem")


@holds("B in shared memory")
def _b_shared(c: CallContext) -> str | None:
    return in_space(c.operands["B"], "shared")


@holds("accumulator in tensor memory")
def _c_tmem(c: CallContext) -> str | None:
    return in_space(c.operands["C"], "tmem")


@holds("a dense kind takes the dtypes")
def _kind(c: CallContext) -> str | None:
    a, b, d = (c.operands[n].dtype for n in "ABC")
    if "SFA" in c.operands:
        return "the call has scale factors"
    kind = kind_of(c)
    if kind is None:
        return f"no dense kind takes A of {a}, B of {b} and an accumulator of {d}"
    if kind.name == "i8" and not target_has(c.target, "tcgen05.i8"):
        return f"{c.target} has no kind::i8"
    return None


@holds("the CTAs of the group are there")
def _group(c: CallContext) -> str | None:
    group = cta_group(c)
    if group not in (1, 2):
        return f"cta_group is {group}, not 1 or 2"
    ctas = c.launch.cluster[0] * c.launch.cluster[1] * c.launch.cluster[2]
    return None if group == 1 or ctas % 2 == 0 else f"cta_group is 2, but a cluster has {ctas} CTA"


@holds("shapes of A, B and C agree")
def _shapes(c: CallContext) -> str | None:
    if (reason := matrices(c)) is not None:
        return reason
    a, b, d = (c.operands[n].shape for n in "ABC")
    depth = b[0] if transposed(c, "B") else b[1]
    shape = mma_shape(c)
    if depth == shape.k and d == (shape.m, shape.n):
        return None
    return f"A is {list(a)}, B is {list(b)}, C is {list(d)}" + (" in a pair of CTAs" if cta_group(c) == 2 else "")


@holds("the kind has the shape")
def _legal_shape(c: CallContext) -> str | None:
    if (reason := matrices(c)) is not None:
        return reason
    kind, shape = kind_of(c), mma_shape(c)
    if kind is None:
        return "no kind takes the dtypes"
    if shape.k % kind.k:
        return f"K is {shape.k}, not a multiple of {kind.k}"
    group = cta_group(c)
    legal = ((64, 128) if group == 1 else (128, 256)) if not kind.scales else (128, 128 * group)
    if shape.pair_m not in legal:
        return f"M is {shape.pair_m}, not {legal[0]} or {legal[1]}"
    try:
        check_shape(kind.name, shape.pair_m, shape.n, group, narrow_b=transposed(c, "B") and kind.k == 32)
    except PtxError as error:
        return f"N is {shape.n}: {error.message}"
    try:
        if kind.scales:
            major = (transposed(c, "A"), transposed(c, "B"))
            BlockScaledDescriptor(kind.name, shape.pair_m, shape.n, kind.a, kind.b, kind.scale_type, 0, 0, *major)
        else:
            instruction_descriptor(c)
    except PtxError as error:
        return error.message
    return None


@holds("A is K-major")
def _a_k_major(c: CallContext) -> str | None:
    return "transA is set" if transposed(c, "A") else None


def _accumulator_places(shape: Shape, group: int) -> tuple[np.ndarray, np.ndarray]:
    """Lane and column of D[m][n]: PTX ISA 9.7.16, data path layouts D (M = 128), F (64), A (256), B (pair of 64)."""
    m, n = shape.m, shape.n
    row, column = np.unravel_index(np.arange(m * n), (m, n))
    if group == 2 and shape.pair_m == 128:
        return row + 64 * (column >= n // 2), column % (n // 2)
    return (row if m == 128 else row % 16 + 32 * (row // 16)), column


@holds("the accumulator has the datapath layout")
def _accumulator(c: CallContext) -> str | None:
    return accumulator_elsewhere(c, lambda: _accumulator_places(mma_shape(c), cta_group(c)))


def accumulator_elsewhere(c: CallContext, places_of: Callable[[], tuple[np.ndarray, np.ndarray]]) -> str | None:
    """None if the accumulator is a matrix in tensor memory at these lanes and columns (asked for only then), else why not."""
    d = c.operands["C"]
    places = matrix_places(c, d, "the accumulator")
    if isinstance(places, str):
        return places
    return misplaced(d, places, *cells(d, places), *places_of())


def matrix_places(c: CallContext, o: Operand, what: str) -> dict[str, np.ndarray] | str:
    """Lanes and columns of a matrix in tensor memory, or why it isn't one."""
    if o.root.space != "tmem" or matrices(c) is not None:
        return f"{what} is not a matrix in tensor memory"
    places = o.places(c.lowest())
    if "TLane" not in places or "TCol" not in places:
        return f"'{o.buffer.name}' has no layout on TLane and TCol"
    return moves_as_a_whole(c, o) or places


def misplaced(
    d: Operand, places: dict[str, np.ndarray], cell: np.ndarray, part: np.ndarray, lane: np.ndarray, column: np.ndarray
) -> str | None:
    """None if element e of ``d`` has the cell at ``lane[e]``, ``column[e]`` after the first; else the first that hasn't."""
    bad = np.flatnonzero((places["TLane"] != lane) | (cell - cell[0] != column) | (part != 0))
    if not len(bad):
        return None
    k = int(bad[0])
    return (
        f"D{coordinate(d, k)} is at lane {int(places['TLane'][k])}, column {int(cell[k])}; "
        f"the tensor core puts it at lane {int(lane[k])}, column {int(cell[0]) + int(column[k])}"
    )


@dataclass(frozen=True)
class KSlice:
    """The elements of K of one instruction: descriptor with everything at its lowest, and the slice's first byte."""

    descriptor: MatrixDescriptor
    start: Expr


def matrix_addresses(o: Operand, by_rows: bool, at: dict[object, np.ndarray]) -> np.ndarray:
    """Byte addresses of an operand as an array [row along M or N, k], from the shared block's start."""
    byte = (o.places(at)["byte"] + o.root.offset).reshape(o.shape)  # type: ignore[arg-type]
    return byte if by_rows else byte.T


def matrix_bits(o: Operand, by_rows: bool, at: dict[object, np.ndarray]) -> np.ndarray:
    """The same in bits: elements of 4 bits share bytes."""
    bit = (o.bit_places(at) + 8 * o.root.offset).reshape(o.shape)  # type: ignore[arg-type]
    return bit if by_rows else bit.T


def element_bits(
    descriptor: MatrixDescriptor, major: str, bits: int, container: int, row: np.ndarray, k: np.ndarray
) -> np.ndarray:
    """Absolute bit address of elements (row, k) that a descriptor describes.

    Elements that are padded to their containers fill the first bytes of every 16, in order (PTX ISA 9.7.16.10.2, packing).
    """
    if container == bits:
        byte = element_address(descriptor, major, bits, row, k)  # type: ignore[arg-type]
        return np.asarray(byte) * 8 + k * bits % 8
    first = element_address(descriptor, major, container, row, k // 16 * 16)  # type: ignore[arg-type]
    return np.asarray(first) * 8 + k % 16 * bits


def k_slices(c: CallContext, name: str) -> list[KSlice] | str:
    """The K slices of a shared operand under the first swizzle mode that describes it, or why none does."""
    reasons = []
    for mode in ("128B", "64B", "32B", "none", "128B_ATOM_32B"):
        found = _slices(c, name, SWIZZLES[mode])
        if not isinstance(found, str):
            return found
        reasons.append(f"with swizzle {mode}, {found}")
    return "; ".join(reasons)


def _slices(c: CallContext, name: str, mode: SwizzleMode) -> list[KSlice] | str:
    """LBO, SBO and the starts are read off the operand's layout; then every element's address is compared with what the
    descriptor means (PTX ISA 9.7.16.4, canonical layouts).  The tile must begin at a whole swizzle pattern."""
    o, kind = c.operands[name], kind_of(c)
    if o.root.space != "shared" or len(o.shape) != 2 or kind is None:
        return f"'{o.name}' is not a matrix in shared memory"
    major = "MN" if transposed(c, name) else "K"
    if mode.name == "128B_ATOM_32B" and (major == "K" or kind.name != "tf32"):
        return "the mode is for MN-major tf32"
    if mode.name != "128B_ATOM_32B" and major == "MN" and kind.name == "tf32":
        return "MN-major tf32 needs the 32-byte atom"
    address = matrix_addresses(o, major == "K", c.lowest())  # type: ignore[arg-type]
    places = matrix_bits(o, major == "K", c.lowest())  # type: ignore[arg-type]
    container = kind.container(o.bits)
    rows, depth = address.shape
    if depth % kind.k:
        return f"K is {depth}, not a multiple of {kind.k}"
    lbo, sbo = _distances(address, major, mode, container)
    if sbo <= 0 or lbo <= 0 or sbo % 16 or lbo % 16:
        return f"the distances between its parts ({lbo} and {sbo} bytes) are not multiples of 16"
    if (reason := begins_in_a_row(c, o, mode, int(address[0, 0]), major)) is not None:
        return reason
    found = []
    row, k = np.meshgrid(np.arange(rows), np.arange(kind.k), indexing="ij")
    for step in range(0, depth, kind.k):
        try:
            descriptor = MatrixDescriptor(int(address[0, step]), lbo, sbo, mode.name)
        except PtxError as error:
            return error.message
        wanted = element_bits(descriptor, major, o.bits, container, row, k)
        bad = np.argwhere(wanted != places[:, step : step + kind.k])
        if len(bad):
            i, j = (int(v) for v in bad[0])
            at = [i, step + j] if major == "K" else [step + j, i]
            return (
                f"element {at} of '{o.name}' is at byte {int(address[i, step + j])}, "
                f"the descriptor reads byte {int(wanted[i, j]) // 8}"
            )
        found.append(KSlice(descriptor, o.byte_offset(step if major == "K" else step * rows) + o.root.offset))
    return found


def begins_in_a_row(c: CallContext, o: Operand, mode: SwizzleMode, lowest: int, major: str) -> str | None:
    """None if a matrix begins in the first row of a swizzle pattern, wherever along it; ``lowest``: the first element's byte.

    A descriptor's address is added to offsets before the swizzle (PTX ISA 9.7.16.4), so K-major slices may begin at any 16
    bytes of the row: that is how K advances.  Where a row begins at different places they are multiples of the 32 bytes of
    a slice.  In another row the ISA asks for a base offset, which tells where the pattern begins, not which row is first.
    """
    scope = c.scope_with()
    tile = c.term(o.byte_offset(0) + o.root.offset, scope)
    within = lowest % mode.pattern
    if c.compare(("mod", tile, mode.pattern), within, scope).status == "equal":
        if within < max(16, mode.span):
            return None
        return (
            f"'{o.name}' begins in row {within // mode.span} of a swizzle pattern's {mode.rows}; a descriptor can tell where "
            "patterns begin (base offset), not in which row a matrix does"
        )
    span = ("mod", tile, mode.span) if mode.span else 0
    along = major == "K" and c.compare(("mod", tile, 32), 0, scope).status == "equal"
    if along and c.compare(("mod", tile, mode.pattern), span, scope).status == "equal":
        return None
    return f"'{o.name}' may begin off the {mode.pattern}-byte boundary"


def _distances(address: np.ndarray, major: str, mode: SwizzleMode, bits: int) -> tuple[int, int]:
    """(leading, stride) byte offsets as the layout has them; 16 or the packed distance where only one part exists."""
    rows, depth = address.shape

    def step(row: int, k: int, packed: int) -> int:
        return int(address[row, k] - address[0, 0]) if row < rows and k < depth else packed

    per16 = 128 // bits
    if major == "K":
        return (step(0, per16, 16) if mode.name == "none" else 16), step(8, 0, 8 * max(16, mode.span))
    if mode.name == "none":
        return step(0, 8, 128), step(per16, 0, 128)
    return step(mode.span * 8 // bits, 0, 16), step(0, mode.rows, mode.rows * mode.span)


@holds("A has matrix descriptors")
def _a_descriptors(c: CallContext) -> str | None:
    found = k_slices(c, "A")
    return found if isinstance(found, str) else None


@holds("B has matrix descriptors")
def _b_descriptors(c: CallContext) -> str | None:
    found = k_slices(c, "B")
    return found if isinstance(found, str) else None
