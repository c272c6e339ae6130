"""The hardware's rules as data: one small class per rule, with a sentence a kernel engineer understands and its source.

Whether a rule holds for given layouts is decided by the compiler's own conditions (:mod:`tirx_eq.lower.conditions`) or by a
test beside the constraint (:mod:`tirx_eq.solve.problem`); here is what it says.  ``remedy`` tells what would have to change.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from ..errors import Span


@dataclass(frozen=True)
class Constraint:
    """A rule about the layouts of ``buffers`` (names); ``span`` is the place in the source that asks for it."""

    buffers: tuple[str, ...]
    span: Span | None = field(default=None, compare=False)
    source: ClassVar[str] = ""
    remedy: ClassVar[str] = ""

    def says(self) -> str:
        """The rule in words, without its place."""
        raise NotImplementedError

    @property
    def kind(self) -> str:
        return type(self).__name__

    @property
    def line(self) -> int | None:
        return self.span.line if self.span else None

    def __str__(self) -> str:
        at = f"line {self.span.line}: " if self.span else ""
        return f"{at}{self.says()} [{self.source}]"


def _names(buffers: tuple[str, ...]) -> str:
    quoted = [f"'{b}'" for b in buffers]
    return quoted[0] if len(quoted) == 1 else ", ".join(quoted[:-1]) + " and " + quoted[-1]


# -- calls -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CallConstraint(Constraint):
    """A rule that a tile call brings; ``index`` is its number in the kernel, ``conditions`` the compiler's names."""

    op: str = ""
    scope: str = "thread"
    index: int = 0
    conditions: tuple[str, ...] = ()

    def says(self) -> str:
        what = "; ".join(self.conditions)
        return f"'{self.op}' by a {self.scope} has an instruction for {_names(self.buffers)}" + (f": {what}" if what else "")

    source: ClassVar[str] = "lowering rules"
    remedy: ClassVar[str] = "another scope, other operands, or another dispatch= of the call"


@dataclass(frozen=True)
class Hopeless(CallConstraint):
    remedy: ClassVar[str] = "the call itself: its dtypes, shapes, scope or threads"

    def says(self) -> str:
        return f"no layout helps '{self.op}' by a {self.scope}: {'; '.join(self.conditions)}"


@dataclass(frozen=True)
class MatrixDescriptor(CallConstraint):
    source: ClassVar[str] = "PTX ISA 9.7.16.4, matrix descriptors and canonical layouts"
    remedy: ClassVar[str] = (
        "K a multiple of 16 bytes and of the swizzle's span, rows a multiple of 8, the tile at a multiple of the swizzle's "
        "pattern, or transA=/transB= as the operand is stored"
    )

    def says(self) -> str:
        return (
            f"'{self.op}' reads {_names(self.buffers)} through matrix descriptors: atoms of 8 rows by 128, 64, 32 or 16 bytes "
            "with the XOR of that mode, at strides that are multiples of 16 bytes"
        )


@dataclass(frozen=True)
class AccumulatorDatapath(CallConstraint):
    source: ClassVar[str] = "PTX ISA 9.7.16.2, data path layouts A to G"
    remedy: ClassVar[str] = "as many rows as the data path has (128, or 64), and no other layout for the accumulator"

    def says(self) -> str:
        return f"'{self.op}' writes {_names(self.buffers)} where its data path puts rows: one per lane, columns in a row"


@dataclass(frozen=True)
class MatrixInTensorMemory(CallConstraint):
    source: ClassVar[str] = "PTX ISA 9.7.16, A in tensor memory"
    remedy: ClassVar[str] = "A in shared memory, or stored to tensor memory row by lane"

    def says(self) -> str:
        return f"'{self.op}' reads {_names(self.buffers)} with row r in lane r and K along the columns, packed"


@dataclass(frozen=True)
class ScaleFactorLayout(CallConstraint):
    source: ClassVar[str] = "PTX ISA 9.7.16.10, block scaling"
    remedy: ClassVar[str] = "rows a multiple of 32, and factors brought by tcgen05.cp 32x128b.warpx4"

    def says(self) -> str:
        return (
            f"'{self.op}' reads the factors {_names(self.buffers)} in all four quarters of the lanes, row r in lane r % 32, "
            "the factors of one instruction side by side in a column"
        )


@dataclass(frozen=True)
class TensorCopyBox(CallConstraint):
    source: ClassVar[str] = "PTX ISA 9.7.9.27, cp.async.bulk.tensor; CUDA driver API, cuTensorMapEncodeTiled"
    remedy: ClassVar[str] = (
        "a box of at most 256 elements per dimension whose rows fit the swizzle's span, at a multiple of the swizzle's "
        "pattern, or a copy by the threads themselves"
    )

    def says(self) -> str:
        return (
            f"'{self.op}' moves {_names(self.buffers)} by tensor copies: boxes in row-major order, each row within the span "
            "of the map's swizzle (128, 64, 32 bytes, or none)"
        )


@dataclass(frozen=True)
class TensorMemoryTransfer(CallConstraint):
    source: ClassVar[str] = "PTX ISA 9.7.16.8, tcgen05.ld and tcgen05.st"
    remedy: ClassVar[str] = "registers in one of the shapes 32x32b, 16x64b, 16x128b, 16x256b, or a conversion between them"

    def says(self) -> str:
        return (
            f"'{self.op}' moves {_names(self.buffers)} by tcgen05.ld/st: each warp its own 32 lanes, registers as the shape "
            "32x32b, 16x64b, 16x128b or 16x256b has them"
        )


@dataclass(frozen=True)
class TensorMemoryCopy(CallConstraint):
    source: ClassVar[str] = "PTX ISA 9.7.16.9, tcgen05.cp"
    remedy: ClassVar[str] = "shared memory in core matrices of 8 rows by 16 bytes (or a swizzle's atoms) in the shape's order"

    def says(self) -> str:
        return (
            f"'{self.op}' copies {_names(self.buffers)} by tcgen05.cp: whole rows of the shapes 128x256b, 128x128b, 64x128b or "
            "32x128b, read through a matrix descriptor"
        )


@dataclass(frozen=True)
class VectorAccess(CallConstraint):
    source: ClassVar[str] = "PTX ISA 9.7.8, ld and st: vectors are contiguous and aligned to their size"
    remedy: ClassVar[str] = "elements in the order in which threads access them, or registers that each thread has alone"

    def says(self) -> str:
        return f"'{self.op}' by a {self.scope} moves {_names(self.buffers)} in accesses of 1 to 32 bytes"


@dataclass(frozen=True)
class ElementwiseOwnership(CallConstraint):
    source: ClassVar[str] = "registers are private to a thread"
    remedy: ClassVar[str] = "operands distributed alike, or a copy through shared memory (te.convert)"

    def says(self) -> str:
        return f"'{self.op}' by a {self.scope} computes {_names(self.buffers)} where each thread holds all that it needs"


@dataclass(frozen=True)
class PrivateRegisters(CallConstraint):
    source: ClassVar[str] = "registers are private to a thread"
    remedy: ClassVar[str] = "the call at the scope of the threads that share the registers"

    def says(self) -> str:
        return f"'{self.op}' by a single thread moves {_names(self.buffers)}, so the thread has all of it"


@dataclass(frozen=True)
class ReductionOwnership(CallConstraint):
    source: ClassVar[str] = "PTX ISA 9.7.9.8, shfl: only lanes of a warp exchange registers"
    remedy: ClassVar[str] = "rows within one warp, or a second step through shared memory"

    def says(self) -> str:
        return f"'{self.op}' by a {self.scope} reduces rows of {_names(self.buffers)} within one warp, which holds the result"


@dataclass(frozen=True)
class MatrixFragment(CallConstraint):
    source: ClassVar[str] = "PTX ISA 9.7.15, mma.sync, ldmatrix and stmatrix fragments"
    remedy: ClassVar[str] = "registers in the fragments of mma.m16n8k*, shared rows of 16 bytes"

    def says(self) -> str:
        return f"'{self.op}' by a {self.scope} takes {_names(self.buffers)} in fragments of mma.m16n8k* (8 rows by 16 bytes)"


# -- storage ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StorageRoom(Constraint):
    """A pool gave a buffer its bytes and put the next one right behind."""

    elements: int = 0
    source: ClassVar[str] = "storage of the pool"
    remedy: ClassVar[str] = "more room in the pool, or a layout without padding"

    def says(self) -> str:
        return f"{_names(self.buffers)} has room for {self.elements} elements"


@dataclass(frozen=True)
class SharedCapacity(Constraint):
    most: int = 0
    source: ClassVar[str] = "CUDA C++ Programming Guide, compute capability 10.x: 227 KB of shared memory per CTA"
    remedy: ClassVar[str] = "fewer stages, smaller tiles, or buffers that share storage"

    def says(self) -> str:
        return f"all shared memory of a CTA fits in {self.most} bytes"


@dataclass(frozen=True)
class TensorMemoryCapacity(Constraint):
    columns: int = 512
    source: ClassVar[str] = "PTX ISA 9.7.16.1, tensor memory: 512 columns of 128 lanes"
    remedy: ClassVar[str] = "a larger n_cols= of tcgen05.alloc, or columns that other buffers don't need at the time"

    def says(self) -> str:
        return f"{_names(self.buffers)} has {self.columns} columns of tensor memory and 128 lanes"


@dataclass(frozen=True)
class RegisterCapacity(Constraint):
    """``elements``: what a thread's storage behind the view has (0: no view); ``most`` registers in all."""

    elements: int = 0
    most: int = 255
    source: ClassVar[str] = "CUDA C++ Programming Guide: 255 registers per thread"
    remedy: ClassVar[str] = "a larger local buffer behind the view, smaller tiles, or more threads"

    def says(self) -> str:
        if self.elements:
            return f"a thread has {self.elements} elements of storage for {_names(self.buffers)}"
        return f"{_names(self.buffers)} takes at most {self.most} registers of a thread"


@dataclass(frozen=True)
class SharedStorage(Constraint):
    """A view of the same bytes has a layout that was given."""

    source: ClassVar[str] = "views of the same storage"
    remedy: ClassVar[str] = "leave the view's layout open too, or give it storage of its own"

    def says(self) -> str:
        return f"{_names(self.buffers)} are the same storage, so they have one layout"


@dataclass(frozen=True)
class RowPieces(Constraint):
    """The program uses a thread's registers by position."""

    why: str = ""
    source: ClassVar[str] = "meaning of an open view of registers: row-major pieces per thread"
    remedy: ClassVar[str] = "give the view its layout, or work on the view instead of each thread's registers"

    def says(self) -> str:
        return f"thread t holds the t-th row-major piece of {_names(self.buffers)}, since {self.why}"


@dataclass(frozen=True)
class OneDistribution(Constraint):
    source: ClassVar[str] = "meaning of open views of registers"
    remedy: ClassVar[str] = "element-wise calls on the views instead of each thread's registers"

    def says(self) -> str:
        return f"{_names(self.buffers)} are connected register by register, so threads hold the same elements of both"


@dataclass(frozen=True)
class PlainMemory(Constraint):
    """An instruction gets the buffer's address and sees plain memory."""

    source: ClassVar[str] = "addresses given to instructions (mbarrier, tcgen05.alloc, …)"
    remedy: ClassVar[str] = "no layout but row-major for what an instruction addresses by itself"

    def says(self) -> str:
        return f"the address of {_names(self.buffers)} is given to an instruction, so its elements lie in order"


@dataclass(frozen=True)
class AddressedElement(Constraint):
    """A statement reads or writes one element."""

    source: ClassVar[str] = "loads and stores have memory addresses, or a register of the thread"
    remedy: ClassVar[str] = "tile primitives on what is spread over threads or in tensor memory"

    def says(self) -> str:
        return f"a statement accesses elements of {_names(self.buffers)}, so each thread can address them"


@dataclass(frozen=True)
class PartialLayout(Constraint):
    """What ``Tx.auto(…)`` says."""

    said: str = ""
    source: ClassVar[str] = "the partial layout"
    remedy: ClassVar[str] = "leave it out"

    def says(self) -> str:
        return f"{_names(self.buffers)} was declared with auto({self.said})"
