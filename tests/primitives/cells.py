"""Every tile primitive at every scope, for every placement of its operands and every dtype: the cells of the table.

A cell is a kernel of one call; operands that aren't in global memory are brought there from parameters, and results back.
A cluster has two CTAs, each with its rows of what isn't in global memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from tirx_eq.ir import PrimFunc
from tirx_eq.ir import dtype as dt

from ..lower.kernels import kernel, source

ROWS, COLUMNS = 128, 8  # rows: of a CTA
CTAS = 2  # of a cluster
SCOPES = ("thread", "warp", "warpgroup", "cta", "cluster")
PREFIX = {"thread": "Tx", "warp": "Tx.warp", "warpgroup": "Tx.wg", "cta": "Tx.cta", "cluster": "Tx.cluster"}
REGISTERS, SHARED, GLOBAL, TMEM = "registers", "shared", "global", "tensor memory"
PLACES = (REGISTERS, SHARED, GLOBAL, TMEM)
MIXED = "mixed"
DTYPES = (
    "float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "float4_e2m1fn", "int64",
    "int32", "uint32", "int16", "int8", "uint8", "bool",
)  # fmt: skip
AXES = "from tirx_eq.layout import laneid, warpid, tx, cbx\n"
#: Layout of registers that a scope shares out, one row per thread.
SPREAD = {
    "warp": "S[(32, {n}):(1 @ laneid, {s})]", "warpgroup": "S[(128, {n}):(1 @ tid_in_wg, {s})]",
    "cta": "S[(4, 32, {n}):(1 @ warpid, 1 @ laneid, {s})]", "cluster": "S[(2, 128, {n}):(1 @ cbx, 1 @ tx, {s})]",
}  # fmt: skip


#: Stands for the dtype in which products of the cell's dtype are summed.
ACCUMULATOR = "accumulator"
#: Depth and columns of the products; their second factor is the same for all rows.
DEPTH = 8


@dataclass(frozen=True)
class Primitive:
    """How a primitive is called: ``{D}`` and so on stand for operands.

    ``operands`` has columns per operand (0: as many as the tile), ``others`` the dtypes of operands that differ from the
    cell's; ``one_dimension`` is the call for a thread's registers, where that differs.
    """

    call: str
    operands: dict[str, int]
    outputs: tuple[str, ...] = ("D",)
    others: tuple[tuple[str, str], ...] = ()
    one_dimension: str = ""
    pairs: bool = False  # placements are pairs of destination and source

    @property
    def placements(self) -> tuple[str, ...]:
        if self.pairs:
            return tuple(f"{d} <- {s}" for d, s in product(PLACES, PLACES))
        return (*PLACES, MIXED) if len(self.operands) > 1 else PLACES

    def place(self, placement: str, operand: str) -> str:
        """Where an operand is; mixed: the result in registers, sources in shared and global memory in turn."""
        if " <- " in placement:
            return placement.split(" <- ")[0 if operand == "D" else 1]
        if placement != MIXED:
            return placement
        order = (REGISTERS, SHARED, GLOBAL, REGISTERS)
        return order[list(self.operands).index(operand)]


def _tile(*names: str) -> dict[str, int]:
    return dict.fromkeys(names, 0)


_REDUCED = {"D": 1, "A": 0}
PRIMITIVES: dict[str, Primitive] = {
    "copy": Primitive("copy({D}, {A})", _tile("D", "A"), pairs=True),
    "permute_layout": Primitive("permute_layout({D}, {A})", _tile("D", "A")),
    "fill": Primitive("fill({D}, 1)", _tile("D")),
    "memset": Primitive("memset({D}, 1)", _tile("D")),
    "zero": Primitive("zero({D})", _tile("D")),
    "cast": Primitive("cast({D}, {A})", _tile("D", "A"), others=(("A", "float32"),)),
    **{op: Primitive(f"{op}({{D}}, {{A}})", _tile("D", "A"))
       for op in ("sqrt", "exp", "exp2", "log2", "reciprocal", "silu")},
    **{op: Primitive(f"{op}({{D}}, {{A}}, {{B}})", _tile("D", "A", "B"))
       for op in ("add", "sub", "mul", "fdiv", "maximum", "minimum")},
    "fma": Primitive("fma({D}, {A}, {B}, {C})", _tile("D", "A", "B", "C")),
    "select": Primitive("select({D}, {A}, {B}, lambda i, j: (i + j) % 3 == 0)", _tile("D", "A", "B"),
                        one_dimension="select({D}, {A}, {B}, lambda i: i % 3 == 0)"),
    **{op: Primitive(f"{op}({{D}}, {{A}})", _REDUCED) for op in ("sum", "max", "min")},
    "reduce_negate": Primitive("reduce_negate({D}, {A}, 'sum')", _REDUCED),
    "binary_reduce": Primitive("binary_reduce({D}, {E}, {A}, {B}, 'mul', 'sum')", {"D": 0, "E": 1, "A": 0, "B": 0}, ("D", "E")),
    "unary_reduce": Primitive("unary_reduce({D}, {E}, {A}, 'reciprocal', 'max')", {"D": 0, "E": 1, "A": 0}, ("D", "E")),
    "binary_chain": Primitive("binary_chain({D}, {A}, {B}, {C}, 'mul', 'add')", _tile("D", "A", "B", "C")),
    "gemm": Primitive("gemm({D}, {A}, {B}, {C}, beta=1)", _tile("D", "A", "B", "C"),
                      others=(("D", ACCUMULATOR), ("C", ACCUMULATOR))),
    "compose_op": Primitive("add({D}, {A}, {B})\n    {scope}.mul({D}, {D}, {B})", _tile("D", "A", "B")),
}  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """One entry of the table."""

    primitive: str
    scope: str
    placement: str
    dtype: str

    @property
    def spec(self) -> Primitive:
        return PRIMITIVES[self.primitive]


def rows_of(scope: str) -> int:
    """Rows of the tile."""
    return ROWS * CTAS if scope == "cluster" else ROWS


def cells(primitive: str) -> list[Cell]:
    """All cells of a primitive."""
    spec = PRIMITIVES[primitive]
    return [Cell(primitive, s, p, d) for p, s, d in product(spec.placements, SCOPES, DTYPES)]


class _Writer:
    """The text of a kernel, operand by operand."""

    def __init__(self) -> None:
        self.params: list[str] = []
        self.before: list[str] = []
        self.calls: list[str] = []
        self.after: list[str] = []
        self.columns = 0  # of tensor memory
        self.shared = False
        self.ctas = 1
        self.row = "tid"  # of the tile, that a thread brings and fetches

    def operand(self, name: str, place: str, scope: str, dtype: str, row: tuple[int, ...], is_output: bool,
                product_of_rows: bool = False) -> str:  # fmt: skip
        """Declare an operand whose rows have extents ``row``; how it is written in the call."""
        self.params.append(f'{name}: Tx.Buffer(({rows_of(scope)}, {_list(row)}), "{dtype}")')
        self.ctas = CTAS if scope == "cluster" else 1
        alike = product_of_rows and name.startswith("B") and place == TMEM  # every CTA has all of it
        self.row = "b * 128 + tid" if scope == "cluster" and not alike else "tid"
        getattr(self, f"_{place.split()[0]}")(name, scope, dtype, row, is_output)
        rows = {"thread": "tid", "warp": "w * 32 : w * 32 + 32"}.get(scope, ":")
        if name.startswith("B") and product_of_rows:
            if place == REGISTERS:
                self.before += [f'm{name} = Tx.alloc_local(({DEPTH}, {DEPTH}), "{dtype}")',
                                f"Tx.copy(m{name}[:, :], {name}[0:{DEPTH}, :])"]  # fmt: skip
                return f"m{name}[:, :]"
            if place == SHARED and scope == "cluster":  # every CTA has all of it
                self.before.append(f"Tx.copy(s{name}[tid, :], {name}[tid, :])")
            if place == TMEM and scope == "cluster":
                layout = f"TileLayout(S[({ROWS}, {_list(row)}) : (1 @ TLane, 1 @ TCol)])"
                self.before.append(f"o{name} = t{name}.view({ROWS}, {_list(row)}, layout={layout})")
                return f"o{name}[0:{DEPTH}, :]"
            first = f"w * 32 : w * 32 + {DEPTH}" if place == TMEM and scope == "warp" else f"0:{DEPTH}"  # lanes that it reaches
            return f"{ {SHARED: 's', GLOBAL: '', TMEM: 't'}[place] }{name}[{first}, :]"
        if place == REGISTERS and product_of_rows and scope == "thread":
            view = f"m{name} = r{name}.view(1, {DEPTH})"
            self.before.append(view)
            return f"m{name}[:, :]"
        if product_of_rows and scope == "thread":
            rows = "tid : tid + 1"
        if place == REGISTERS:
            return f"r{name}[{_all(row)}]" if scope == "thread" else f"v{name}[:, {_all(row)}]"
        prefix = {SHARED: "c" if scope == "cluster" else "s", GLOBAL: "", TMEM: "t"}[place]
        return f"{prefix}{name}[{rows}, {_all(row)}]"

    def _global(self, name: str, scope: str, dtype: str, row: tuple[int, ...], is_output: bool) -> None:
        pass

    def _registers(self, name: str, scope: str, dtype: str, row: tuple[int, ...], is_output: bool) -> None:
        every = _all(row)
        self.before.append(f'r{name} = Tx.alloc_local(({_list(row)},), "{dtype}")')
        self.before.append(f"Tx.copy(r{name}[{every}], {name}[{self.row}, {every}])")
        if scope != "thread":
            rows = 32 if scope == "warp" else rows_of(scope)
            layout = SPREAD[scope].format(n=_list(row), s=_list(_strides(row)))
            self.before.append(f"v{name} = r{name}.view({rows}, {_list(row)}, layout=TileLayout({layout}))")
        if is_output:
            self.after.append(f"Tx.copy({name}[{self.row}, {every}], r{name}[{every}])")

    def _shared(self, name: str, scope: str, dtype: str, row: tuple[int, ...], is_output: bool) -> None:
        self.shared = True
        every = _all(row)
        self.before.append(f's{name} = Tx.alloc_shared([{ROWS}, {_list(row)}], "{dtype}")')
        self.before.append(f"Tx.copy(s{name}[tid, {every}], {name}[{self.row}, {every}])")
        if scope == "cluster":
            layout = f"TileLayout(S[({CTAS}, {ROWS}, {_list(row)}):(1 @ cbx, {prod(row)}, {_list(_strides(row))})])"
            self.before.append(
                f'c{name} = Tx.decl_buffer(({rows_of(scope)}, {_list(row)}), "{dtype}", data=s{name}.data, scope="shared", '
                f"layout={layout})"
            )
        if is_output:
            self.after.append(f"Tx.copy({name}[{self.row}, {every}], s{name}[tid, {every}])")

    def _tensor(self, name: str, scope: str, dtype: str, row: tuple[int, ...], is_output: bool) -> None:
        columns, every = prod(row), _all(row)
        words = max(1, columns * dt.storage_bits(dtype) // 32)
        first = self.columns
        self.columns += words
        spread = f"TileLayout(S[({ROWS}, {{}}) : (1 @ {{}}, 1{{}})])"
        tmem, regs = spread.format(words, "TLane", " @ TCol"), spread.format(words, "tid_in_wg", "")
        steps, at = ", ".join(f"{s} @ TCol" for s in _strides(row)), f"addr[0] + {first}"
        tile = f"TileLayout(S[({ROWS}, {_list(row)}) : (1 @ TLane, {steps})])"
        if scope == "cluster":
            tile = f"TileLayout(S[({CTAS}, {ROWS}, {_list(row)}) : (1 @ cbx, 1 @ TLane, {steps})])"
        part = columns * dt.storage_bits(dtype) < 32  # of a word
        self.before += [
            f't{name} = Tx.decl_buffer(({rows_of(scope)}, {_list(row)}), "{dtype}", scope="tmem", allocated_addr={at}, '
            f"layout={tile})",
            f'u{name} = Tx.decl_buffer(({ROWS}, {words}), "uint32", scope="tmem", allocated_addr={at}, layout={tmem})',
            f'h{name} = Tx.alloc_local(({words},), "uint32")',
            f'g{name} = Tx.decl_buffer(({_list(row)},), "{dtype}", data=h{name}.data, scope="local")' if part else
            f'g{name} = Tx.decl_buffer(({rows_of(scope)}, {words}), "uint32", data={name}.data)',
            f"k{name} = h{name}.view({ROWS}, {words}, layout={regs})",
            *([f"h{name}[0] = Tx.uint32(0)"] if part else []),
            f"Tx.copy(g{name}[{every}], {name}[{self.row}, {every}])" if part else
            f"Tx.copy(h{name}[:], g{name}[{self.row}, :])",
            f"Tx.wg.copy_async(u{name}[:, :], k{name}[:, :])",
            "Tx.ptx.tcgen05.wait.st()",
        ]
        if is_output:
            self.after += [
                f"Tx.wg.copy_async(k{name}[:, :], u{name}[:, :])", "Tx.ptx.tcgen05.wait.ld()",
                f"Tx.copy({name}[{self.row}, {every}], g{name}[{every}])" if part else
                f"Tx.copy(g{name}[{self.row}, :], h{name}[:])",
            ]  # fmt: skip

    def text(self) -> str:
        lines = ["tid = Tx.thread_id([128])", "w = Tx.warp_id([4])"]
        if self.ctas > 1:
            lines = [f"b = Tx.cta_id_in_cluster([{self.ctas}])", f"g = Tx.cta_id([{self.ctas}])", *lines]
        if self.columns:
            count = 1 << max(5, (self.columns - 1).bit_length())
            lines += ['addr = Tx.alloc_shared([1], "uint32")', "if w == 0:",
                      f"    Tx.ptx.tcgen05.alloc(Tx.address_of(addr[0]), n_cols={count}, cta_group=1)",
                      "Tx.ptx.tcgen05.fence.before_thread_sync()", "Tx.cuda.cta_sync()",
                      "Tx.ptx.tcgen05.fence.after_thread_sync()"]  # fmt: skip
        lines += self.before
        sync = ["Tx.cuda.cta_sync()"] if self.shared else []
        lines += [*sync, *self.calls, *sync, *self.after]
        if self.columns:
            lines += ["Tx.ptx.tcgen05.fence.before_thread_sync()", "Tx.cuda.cta_sync()",
                      "Tx.ptx.tcgen05.fence.after_thread_sync()", "if w == 0:",
                      "    Tx.ptx.tcgen05.relinquish_alloc_permit(cta_group=1)",
                      f"    Tx.ptx.tcgen05.dealloc(addr[0], n_cols={count}, cta_group=1)"]  # fmt: skip
        return "\n".join(lines)


def row_of(cell: Cell, operand: str) -> tuple[int, ...]:
    """Extents of an operand's rows, which fill whole 32-bit words; reductions of 4 bits have two results, a byte, for each."""
    if cell.primitive == "gemm":
        return (DEPTH,)
    given = cell.spec.operands[operand]
    columns = given or max(COLUMNS, 64 // dt.storage_bits(cell.dtype))
    if 1 not in cell.spec.operands.values() or dt.storage_bits(cell.dtype) >= 8:
        return (columns,)
    return (2,) if given == 1 else (2, columns)


def _list(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _all(row: Sequence[int]) -> str:
    return ", ".join(":" for _ in row)


def _strides(row: Sequence[int]) -> list[int]:
    return [prod(row[k + 1 :]) for k in range(len(row))]


def dtype_of(cell: Cell, operand: str) -> str:
    other = dict(cell.spec.others).get(operand, cell.dtype)
    if other == ACCUMULATOR:
        kind, bits, _ = dt.parse(cell.dtype)
        return f"{kind}{64 if bits == 64 else 32}" if kind in ("int", "uint", "float") else "int32"
    return "float16" if other == cell.dtype == "float32" and operand in dict(cell.spec.others) else other


def cell_kernel(*group: Cell) -> PrimFunc:
    """A kernel with the calls of some cells, one after the other, each on operands of its own."""
    writer = _write(group)
    return kernel(writer.text(), ", ".join(writer.params), AXES)


def call_lines(*group: Cell) -> list[range]:
    """Lines of the source that each cell's own call takes, in the kernel of these cells."""
    writer = _write(group)
    before, _, _ = source(writer.text(), ", ".join(writer.params), AXES).partition("    " + writer.calls[0].splitlines()[0])
    first = before.count("\n") + 1
    found = []
    for call in writer.calls:
        count = len(call.splitlines())
        found.append(range(first, first + count))
        first += count
    return found


def _write(group: Sequence[Cell]) -> _Writer:
    writer = _Writer()
    for i, cell in enumerate(group):
        spec = cell.spec
        written = {}
        for name in spec.operands:
            place = spec.place(cell.placement, name)
            written[name] = writer.operand(
                f"{name}{i}", place, cell.scope, dtype_of(cell, name), row_of(cell, name), name in spec.outputs,
                cell.primitive == "gemm",
            )
        flat = cell.scope == "thread" and spec.place(cell.placement, "D") == REGISTERS
        call = (spec.one_dimension if flat and spec.one_dimension else spec.call).format(scope=PREFIX[cell.scope], **written)
        if cell.primitive == "compose_op":
            writer.calls.append(f"with Tx.compose_op():\n    {PREFIX[cell.scope]}.{call}")
        else:
            writer.calls.append(f"{PREFIX[cell.scope]}.{call}")
    return writer
