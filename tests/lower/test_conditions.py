"""Every condition of every lowering rule is needed: for each there is a kernel that only it keeps from the rule.

So deleting a rule, or weakening one of its conditions, changes an answer that is asserted here.
"""

from __future__ import annotations

import pytest

from tirx_eq.ir import StmtMutator, TilePrimitiveCall
from tirx_eq.lower.candidates import NoCandidate, lowering_rules
from tirx_eq.lower.kernel import compile_function

from .kernels import example, kernel
from .witnesses_cluster import CLUSTER_WITNESSES
from .witnesses_elementwise import ELEMENTWISE, REDUCING
from .witnesses_halves import HALF_WITNESSES, UNEQUAL_HALVES, UNEQUAL_PERMUTED
from .witnesses_registers import REGISTER_WITNESSES, UNEQUAL, UNEQUAL_PRODUCTS
from .witnesses_scaled import SCALED_WITNESSES
from .witnesses_scratch import SCRATCH_WITNESSES, UNEQUAL_EXCHANGES
from .witnesses_tmem_copy import TMEM_COPY_WITNESSES
from .witnesses_tmem_factor import TMEM_FACTOR_WITNESSES

HALVES = 'A: Tx.Buffer((64, 64), "float16"), B: Tx.Buffer((64, 64), "float16")'
FLOATS = 'A: Tx.Buffer((128, 64), "float32"), B: Tx.Buffer((128, 64), "float32")'
COLUMN_MAJOR = '{0} = Tx.decl_buffer((64, 64), "float16", data={1}.data, layout=TileLayout(S[(64, 64):(1, 64)]))'
REGISTERS = 'r = Tx.alloc_local((64,), "{0}")\ns = Tx.alloc_local((64,), "{1}")'


def copy(statement: str, before: str = "", params: str = HALVES):
    return kernel(f"tid = Tx.thread_id([128])\nw = Tx.warp_id([4])\n{before}\n{statement}", params)


def tmem(statement: str, *, layout: str = "S[(128, 64):(1 @ TLane, 1 @ TCol)]", dtype: str = "float32", regs: str = "",
         width: int = 64):  # fmt: skip
    spread = regs or f"S[(128, {width}):(1 @ tid_in_wg, 1)]"
    return kernel(
        f"""
tid = Tx.thread_id([128])
w = Tx.warp_id([4])
sh = Tx.alloc_shared([128, {width}], "{dtype}")
addr = Tx.alloc_shared([1], "uint32")
t = Tx.decl_buffer((128, {width}), "{dtype}", scope="tmem", allocated_addr=addr[0], layout=TileLayout({layout}))
regs = Tx.alloc_local((128,), "{dtype}")
v = regs.view(128, {width}, layout=TileLayout({spread}))
f = Tx.alloc_local((64,), "float16")
{statement}
"""
    )


def gemm(*changes: tuple[str, str]):
    """The single-tile GEMM with pieces of its source replaced."""
    from tirx_eq.script import parse_source

    from .kernels import EXAMPLES, one_namespace

    text = one_namespace((EXAMPLES / "gemm_single_tile.py").read_text().split("def main()")[0])
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return parse_source(text, "gemm.py")["gemm"]


def ts(*changes: tuple[str, str]):
    """The single-tile GEMM with A read from tensor memory."""
    return gemm(
        ("tmem[:, :], A_s[:, :], B_s[:, :], accum=False, dispatch=\"tcgen05\"",
         "tmem[:, :], A_t[:, :], B_s[:, :], accum=False, dispatch=\"tcgen05_ts\""),
        ("    tmem = Tx.decl",
         "    A_t = Tx.decl_buffer((128, 64), \"float16\", scope=\"tmem\", allocated_addr=tmem_addr[0], "
         "layout=TileLayout(S[(128, 64) : (1 @ TLane, 1 @ TCol)]))\n    tmem = Tx.decl"),
        *changes,
    )  # fmt: skip


def with_operands(func, op: str, **changes: str):
    """The function with operands of its ``op`` calls replaced by another operand of the same call (for what the parser
    wouldn't let through)."""

    class Replace(StmtMutator):
        def visit_tile_primitive_call(self, call: TilePrimitiveCall):
            if call.op.short_name != op:
                return call
            args = list(call.args)
            for name, source in changes.items():
                args[call.signature.operands.index(name)] = call.operand(source)
            import dataclasses

            return dataclasses.replace(call, args=tuple(args))

    return func.with_body(Replace().visit(func.body))


def half(func, op: str, operand: str):
    """The function with the first extent of an operand of its ``op`` calls halved."""
    import dataclasses

    from tirx_eq.ir import const

    class Halve(StmtMutator):
        def visit_tile_primitive_call(self, call: TilePrimitiveCall):
            if call.op.short_name != op:
                return call
            args = list(call.args)
            k = call.signature.operands.index(operand)
            first, *rest = args[k].region
            shorter = dataclasses.replace(first, extent=const(int(first.extent) // 2))
            args[k] = dataclasses.replace(args[k], region=(shorter, *rest))
            return dataclasses.replace(call, args=tuple(args))

    return func.with_body(Halve().visit(func.body))


def tma(statement: str, *, shared: str = "mma_shared_layout('float16', 3, (64, 64))", before: str = "", params: str = HALVES):
    """One asynchronous copy between A or B and a shared tile, with a barrier ``bar``."""
    layout = f", layout={shared}" if shared else ""
    return kernel(
        f"""
tid = Tx.thread_id([128])
w = Tx.warp_id([4])
pool = Tx.SMEMPool()
sh = pool.alloc((64, 64), "float16"{layout})
bar = pool.alloc((1,), "uint64", align=8)
pool.commit()
{before}
{statement}
""",
        params,
    )


ONE = "if w == 0:\n    if Tx.ptx.elect_sync():\n        "
BAR = ", mbar=bar.ptr_to([0])"

MMA = "tmem[:, :], A_s[:, :], B_s[:, :]"

WITNESSES = {
    # copy
    "part of a cta": lambda: copy("if w == 0:\n    Tx.cta.copy(B[:, :], A[:, :])"),
    "two dtypes": lambda: copy("Tx.cta.copy(B[:, :], A[:, :])", params=HALVES.replace('B: Tx.Buffer((64, 64), "float16")',
                                                                                       'B: Tx.Buffer((64, 64), "float32")')),
    "two extents": lambda: half(copy("Tx.cta.copy(B[:, :], A[:, :])"), "copy", "src"),
    "to shared": lambda: copy("Tx.cta.copy(sh[:, :], A[:, :])", 'sh = Tx.alloc_shared([64, 64], "float16")'),
    "from column-major": lambda: copy("Tx.cta.copy(B[:, :], V[:, :])", COLUMN_MAJOR.format("V", "A")),
    "to column-major": lambda: copy("Tx.cta.copy(V[:, :], A[:, :])", COLUMN_MAJOR.format("V", "B")),
    "odd source": lambda: copy("Tx.cta.copy(B[:, 0:32], A[:, 1:33])"),
    "odd destination": lambda: copy("Tx.cta.copy(B[:, 1:33], A[:, 0:32])"),
    "from registers": lambda: copy("Tx.copy(B[tid % 64, :], r[:])", REGISTERS.format("float16", "float16")),
    "to registers": lambda: copy("Tx.copy(r[:], A[tid % 64, :])", REGISTERS.format("float16", "float16")),
    "registers of two dtypes": lambda: copy("Tx.copy(B[tid % 64, :], r[:])", REGISTERS.format("float32", "float16")),
    "registers of two extents": lambda: half(
        copy("Tx.copy(r[:], A[tid % 64, :])", REGISTERS.format("float16", "float16")), "copy", "dst"),
    "shared to registers": lambda: copy(
        "Tx.copy(r[:], sh[tid % 64, :])", 'sh = Tx.alloc_shared([64, 64], "float16")\n' + REGISTERS.format("float16", "float16")),
    "odd memory to registers": lambda: copy("Tx.copy(r[0:32], A[tid % 64, 1:33])", REGISTERS.format("float16", "float16")),
    "registers to odd memory": lambda: copy("Tx.copy(B[tid % 64, 1:33], r[0:32])", REGISTERS.format("float16", "float16")),
    "column to registers": lambda: copy(
        "Tx.copy(r[:], V[tid % 64, :])", COLUMN_MAJOR.format("V", "A") + "\n" + REGISTERS.format("float16", "float16")),
    "registers to column": lambda: copy(
        "Tx.copy(V[tid % 64, :], r[:])", COLUMN_MAJOR.format("V", "B") + "\n" + REGISTERS.format("float16", "float16")),
    "move": lambda: copy("Tx.copy(r[:], s[:])", REGISTERS.format("float16", "float16")),
    "move of two dtypes": lambda: copy("Tx.copy(r[:], s[:])", REGISTERS.format("float16", "float32")),
    "move of two extents": lambda: half(
        copy("Tx.copy(r[:], s[:])", REGISTERS.format("float16", "float16")), "copy", "dst"),
    # cast
    "cast": lambda: copy("Tx.cast(r[:], s[:])", REGISTERS.format("float16", "float32")),
    "cast of two extents": lambda: half(copy("Tx.cast(r[:], s[:])", REGISTERS.format("float16", "float32")), "cast", "dst"),
    "cast of memory": lambda: copy("Tx.cast(r[:], A[tid % 64, :])", REGISTERS.format("float32", "float16")),
    "cast without a packed form": lambda: copy("Tx.cast(r[:], s[:])", REGISTERS.format("float32", "float16")),
    "cast without any form": lambda: copy("Tx.cast(r[:], s[:])", REGISTERS.format("float64", "uint8")),
    "cast to odd places": lambda: copy("Tx.cast(r[1:33], s[0:32])", REGISTERS.format("float16", "float32")),
    # tensor memory
    "tmem load": lambda: tmem("Tx.wg.copy_async(v[:, :], t[:, :])"),
    "tmem store": lambda: tmem("Tx.wg.copy_async(t[:, :], v[:, :])"),
    "tmem load by a warp's threads": lambda: tmem("if w == 0:\n    Tx.wg.copy_async(v[:, :], t[:, :])"),
    "tmem store by a warp's threads": lambda: tmem("if w == 0:\n    Tx.wg.copy_async(t[:, :], v[:, :])"),
    "tmem load of two dtypes": lambda: with_dtype("Tx.wg.copy_async(v[:, :], t[:, :])"),
    "tmem store of two dtypes": lambda: with_dtype("Tx.wg.copy_async(t[:, :], v[:, :])"),
    "tmem load of two extents": lambda: half(tmem("Tx.wg.copy_async(v[:, :], t[:, :])"), "copy_async", "src"),
    "tmem store of two extents": lambda: half(tmem("Tx.wg.copy_async(t[:, :], v[:, :])"), "copy_async", "src"),
    "tmem load to shared": lambda: tmem("Tx.wg.copy_async(sh[:, :], t[:, :])"),
    "tmem store from shared": lambda: tmem("Tx.wg.copy_async(t[:, :], sh[:, :])"),
    "tmem load, lanes reversed": lambda: tmem(
        "Tx.wg.copy_async(v[:, :], t[:, :])", regs="S[(2, 64, 64):(1 @ tid_in_wg, 2 @ tid_in_wg, 1)]"),
    "tmem store, lanes reversed": lambda: tmem(
        "Tx.wg.copy_async(t[:, :], v[:, :])", regs="S[(2, 64, 64):(1 @ tid_in_wg, 2 @ tid_in_wg, 1)]"),
    "tmem load of 24 columns": lambda: tmem(
        "Tx.wg.copy_async(v[:, :], t[:, :])", layout="S[(128, 24):(1 @ TLane, 1 @ TCol)]", width=24),
    "tmem store of 24 columns": lambda: tmem(
        "Tx.wg.copy_async(t[:, :], v[:, :])", layout="S[(128, 24):(1 @ TLane, 1 @ TCol)]", width=24),
    "tmem load of part of a column": lambda: tmem("Tx.wg.copy_async(v[:, 1:4], t[:, 0:3])", dtype="float16"),
    "tmem store of part of a column": lambda: tmem("Tx.wg.copy_async(t[:, 0:3], v[:, 1:4])", dtype="float16"),
    "tmem load by one thread": lambda: tmem("Tx.copy_async(v[:, :], t[:, :])"),
    "tmem store by one thread": lambda: tmem("Tx.copy_async(t[:, :], v[:, :])"),
    "cast by a warp": lambda: copy("Tx.warp.cast(r[:], s[:])", REGISTERS.format("float16", "float32")),
    # cp.async and tensor copies
    "cp.async": lambda: tma("Tx.cta.copy_async(sh[:, :], A[:, :])"),
    "cp.async by a warp": lambda: tma("if w == 0:\n    Tx.cta.copy_async(sh[:, :], A[:, :])"),
    "cp.async of two dtypes": lambda: tma(
        "Tx.cta.copy_async(sh[:, :], A[:, :])", params=HALVES.replace('A: Tx.Buffer((64, 64), "float16")',
                                                                      'A: Tx.Buffer((64, 64), "uint16")')),
    "cp.async of two extents": lambda: half(tma("Tx.cta.copy_async(sh[:, :], A[:, :])"), "copy_async", "src"),
    "cp.async with a barrier": lambda: tma("Tx.cta.copy_async(sh[:, :], A[:, :]" + BAR + ")"),
    "cp.async from column-major": lambda: tma("Tx.cta.copy_async(sh[:, :], V[:, :])", before=COLUMN_MAJOR.format("V", "A")),
    "cp.async to column-major": lambda: tma(
        "Tx.cta.copy_async(sh[:, :], A[:, :])", shared="TileLayout(S[(64, 64):(1, 64)])"),
    "cp.async from an odd place": lambda: tma("Tx.cta.copy_async(sh[:, 0:32], A[:, 1:33])"),
    "cp.async to an odd place": lambda: tma("Tx.cta.copy_async(sh[:, 1:33], A[:, 0:32])", shared=""),
    "tma load": lambda: tma(ONE + "Tx.copy_async(sh[:, :], A[:, :]" + BAR + ")"),
    "tma store": lambda: tma(ONE + "Tx.copy_async(B[:, :], sh[:, :])"),
    "tma load by all": lambda: tma("Tx.copy_async(sh[:, :], A[:, :]" + BAR + ")"),
    "tma store by all": lambda: tma("Tx.copy_async(B[:, :], sh[:, :])"),
    "tma load without a barrier": lambda: tma(ONE + "Tx.copy_async(sh[:, :], A[:, :], dispatch='tma')"),
    "tma load of two dtypes": lambda: tma(
        ONE + "Tx.copy_async(sh[:, :], A[:, :]" + BAR + ")", params=HALVES.replace('A: Tx.Buffer((64, 64), "float16")',
                                                                                   'A: Tx.Buffer((64, 64), "uint16")')),
    "tma store of two dtypes": lambda: tma(
        ONE + "Tx.copy_async(B[:, :], sh[:, :])", params=HALVES.replace('B: Tx.Buffer((64, 64), "float16")',
                                                                        'B: Tx.Buffer((64, 64), "uint16")')),
    "tma load of two extents": lambda: half(tma(ONE + "Tx.copy_async(sh[:, :], A[:, :]" + BAR + ")"), "copy_async", "src"),
    "tma store of two extents": lambda: half(tma(ONE + "Tx.copy_async(B[:, :], sh[:, :])"), "copy_async", "src"),
    "tma load from column-major": lambda: tma(
        ONE + "Tx.copy_async(sh[:, :], V[:, :]" + BAR + ")", before=COLUMN_MAJOR.format("V", "A")),
    "tma store to column-major": lambda: tma(ONE + "Tx.copy_async(V[:, :], sh[:, :])", before=COLUMN_MAJOR.format("V", "B")),
    "global to global": lambda: tma("Tx.cta.copy_async(B[:, :], A[:, :])"),
    "global to global by one thread": lambda: tma(ONE + "Tx.copy_async(B[:, :], A[:, :]" + BAR + ")"),
    "shared to shared": lambda: tma(ONE + "Tx.copy_async(sh[0:8, :], sh[8:16, :]" + BAR + ")"),
    # tcgen05.mma
    "mma": lambda: gemm(),
    "mma by a warp's threads": lambda: gemm(("        if Tx.ptx.elect_sync():\n", "        if lane_id < 2:\n")),
    "mma from tensor memory": lambda: gemm((MMA, "tmem[:, :], tmem[:, 0:64], B_s[:, :]")),
    "mma to registers": lambda: gemm((MMA, "D_wg[:, :], A_s[:, :], B_s[:, :]"),
                                     ("    D_reg = Tx.alloc_local((128,), \"float32\")\n", ""),
                                     ("    D_wg = D_reg.view(128, 128, layout=row_per_thread)\n", ""),
                                     ("    tmem = Tx.decl", "    D_reg = Tx.alloc_local((128,), \"float32\")\n"
                                      "    D_wg = D_reg.view(128, 128, layout=row_per_thread)\n    tmem = Tx.decl")),
    "mma of bytes": lambda: gemm(('A_s = pool.alloc((128, 64), "float16", layout=operand_layout)',
                                  'A_s = pool.alloc((128, 64), "uint16", layout=operand_layout)'),
                                 ('    A: Tx.Buffer((128, 64), "float16")', '    A: Tx.Buffer((128, 64), "uint16")')),
    "mma of a pair": lambda: gemm(('dispatch="tcgen05", cta_group=1', 'dispatch="tcgen05", cta_group=2')),
    "mma of 32 rows": lambda: gemm((MMA, "tmem[0:32, :], A_s[0:32, :], B_s[:, :]")),
    "mma of 24 columns": lambda: gemm((MMA, "tmem[:, 0:24], A_s[:, :], B_s[0:24, :]")),
    "mma of depth 8": lambda: gemm((MMA, "tmem[:, :], A_s[:, 0:8], B_s[:, 0:8]")),
    "mma of other shapes": lambda: gemm((MMA, "tmem[:, 0:64], A_s[:, :], B_s[:, :]")),
    "mma transposed": lambda: gemm((MMA + ", accum=False", "tmem[:, 0:64], A_s[:, :], B_s[0:64, :], transB=True, accum=False")),
    "mma to transposed lanes": lambda: gemm(
        ("S[(128, 128) : (1 @ TLane, 1 @ TCol)]", "S[(2, 64, 128) : (1 @ TLane, 2 @ TLane, 1 @ TCol)]")),
    "mma of a pair without one": lambda: gemm(
        (MMA + ', accum=False, dispatch="tcgen05", cta_group=1',
         'tmem[:, :], A_s[:, :], B_s[0:64, :], accum=False, dispatch="tcgen05", cta_group=2')),
    "mma of stationary weights": lambda: gemm(('dispatch="tcgen05", cta_group=1', 'dispatch="tcgen05", weight_stationary=True')),
    "mma of stationary weights, A in tensor memory": lambda: ts(
        ('dispatch="tcgen05_ts", cta_group=1', 'dispatch="tcgen05_ts", weight_stationary=True')),
    "mma, A in tensor memory": lambda: ts(),
    "mma, A in tensor memory, by a warp's threads": lambda: ts(("        if Tx.ptx.elect_sync():\n", "        if lane_id < 2:\n")),
    "mma, all in tensor memory": lambda: ts(("A_t[:, :], B_s[:, :]", "A_t[:, :], A_t[:, :]")),
    "mma, A in tensor memory, to registers": lambda: ts(
        ("tmem[:, :], A_t", "D_wg[:, :], A_t"),
        ("    D_reg = Tx.alloc_local((128,), \"float32\")\n", ""),
        ("    D_wg = D_reg.view(128, 128, layout=row_per_thread)\n", ""),
        ("    tmem = Tx.decl", "    D_reg = Tx.alloc_local((128,), \"float32\")\n"
         "    D_wg = D_reg.view(128, 128, layout=row_per_thread)\n    tmem = Tx.decl")),
    "mma, A in tensor memory, of words": lambda: ts(
        ('(128, 64), "float16", scope="tmem"', '(128, 64), "uint16", scope="tmem"')),
    "mma, A in tensor memory, of a pair": lambda: ts(
        ('A_t[:, :], B_s[:, :], accum=False, dispatch="tcgen05_ts", cta_group=1',
         'A_t[:, :], B_s[0:64, :], accum=False, dispatch="tcgen05_ts", cta_group=2')),
    "mma, A in tensor memory, 32 rows": lambda: ts(("tmem[:, :], A_t[:, :]", "tmem[0:32, :], A_t[0:32, :]")),
    "mma, A in tensor memory, other shapes": lambda: half(ts(), "gemm_async", "C"),
    "mma, A in tensor memory, to transposed lanes": lambda: ts(
        ("S[(128, 128) : (1 @ TLane, 1 @ TCol)]", "S[(2, 64, 128) : (1 @ TLane, 2 @ TLane, 1 @ TCol)]")),
    "mma, A in tensor memory transposed": lambda: ts(
        ("tmem[:, :], A_t[:, :], B_s[:, :], accum", "tmem[0:64, 0:64], A_t[0:64, :], B_s[0:64, :], transA=True, accum")),
    "mma, A in tensor memory in transposed lanes": lambda: ts(
        ("S[(128, 64) : (1 @ TLane, 1 @ TCol)]", "S[(2, 64, 64) : (1 @ TLane, 2 @ TLane, 1 @ TCol)]")),
    "mma, A in tensor memory, plain B": lambda: ts(
        ('B_s = pool.alloc((128, 64), "float16", layout=operand_layout)', 'B_s = pool.alloc((128, 64), "float16")')),
    "mma of plain A": lambda: gemm(
        ('A_s = pool.alloc((128, 64), "float16", layout=operand_layout)', 'A_s = pool.alloc((128, 64), "float16")')),
    "mma of B in tensor memory": lambda: gemm((MMA, "tmem[:, :], A_s[:, :], tmem[:, 0:64]")),
    "mma of plain B": lambda: gemm(
        ('B_s = pool.alloc((128, 64), "float16", layout=operand_layout)', 'B_s = pool.alloc((128, 64), "float16")')),
}  # fmt: skip

WITNESSES.update(ELEMENTWISE | REDUCING | SCALED_WITNESSES | TMEM_COPY_WITNESSES | CLUSTER_WITNESSES | TMEM_FACTOR_WITNESSES)
WITNESSES.update(SCRATCH_WITNESSES)
WITNESSES.update(REGISTER_WITNESSES | HALF_WITNESSES)
REDUCED = ", use_tma_reduce='add')"
WITNESSES |= {
    "tma reduce": lambda: tma(ONE + "Tx.copy_async(B[:, :], sh[:, :]" + REDUCED),
    "tma reduce to column-major": lambda: tma(
        ONE + "Tx.copy_async(V[:, :], sh[:, :]" + REDUCED, before=COLUMN_MAJOR.format("V", "B")),
    "tma reduce of padded rows": lambda: tma(
        ONE + "Tx.copy_async(B[:, :], sh[:, :]" + REDUCED, shared="TileLayout(S[(64, 64):(72, 1)])"),
}  # fmt: skip
WITNESSES["map by a cluster, other extents"] = lambda: half(CLUSTER_WITNESSES["map by a cluster"](), "add", "a")
WITNESSES["cluster, other extents"] = lambda: half(CLUSTER_WITNESSES["cluster"](), "copy", "src")
WITNESSES["st.async of a tile, other extents"] = lambda: half(CLUSTER_WITNESSES["st.async of a tile"](), "copy_async", "src")
UNEQUAL_COPIES = UNEQUAL | UNEQUAL_HALVES | UNEQUAL_EXCHANGES
WITNESSES.update({what: lambda make=make: half(make(), "copy", "src") for what, make in UNEQUAL_COPIES.items()})
WITNESSES.update({what: lambda make=make: half(make(), "permute_layout", "src") for what, make in UNEQUAL_PERMUTED.items()})
WITNESSES.update({what: lambda make=make: half(make(), "gemm", "A") for what, make in UNEQUAL_PRODUCTS.items()})
for what in ("ws, A in tensor memory", "scaled, A in tensor memory"):
    WITNESSES[f"{what}, other shapes"] = lambda what=what: half(TMEM_FACTOR_WITNESSES[what](), "gemm_async", "C")
WITNESSES["scaled, other shapes"] = lambda: half(SCALED_WITNESSES["scaled"](), "gemm_async", "C")


def with_dtype(statement: str):
    return kernel(
        f"""
tid = Tx.thread_id([128])
addr = Tx.alloc_shared([1], "uint32")
layout = Tx.meta_var(TileLayout(S[(128, 64):(1 @ TLane, 1 @ TCol)]))
t = Tx.decl_buffer((128, 64), "float32", scope="tmem", allocated_addr=addr[0], layout=layout)
regs = Tx.alloc_local((64,), "int32")
v = regs.view(128, 64, layout=TileLayout(S[(128, 64):(1 @ tid_in_wg, 1)]))
{statement}
"""
    )


_OUTCOMES: dict[tuple[int, str], tuple[list, set[str]]] = {}


def outcome(make, target: str = "sm_100a") -> tuple[list, set[str]]:
    """(per call the rejections of each rule, rules that gave candidates) of a kernel; each is compiled once."""
    key = (id(make), target)
    if key not in _OUTCOMES:
        try:
            choices = [c.choice for c in compile_function(make(), target).calls]
            _OUTCOMES[key] = [c.rejected for c in choices], {k.rule for c in choices for k in c.candidates}
        except NoCandidate as error:
            _OUTCOMES[key] = [error.rejected], set()
    return _OUTCOMES[key]


def rejections(make, target: str = "sm_100a") -> dict[str, set[str]]:
    """rule -> the conditions that kept it from a call of the kernel (of any of its parameter's values)."""
    out: dict[str, set[str]] = {}
    for rejected in outcome(make, target)[0]:
        for rule, reasons in rejected.items():
            out.setdefault(rule, set()).update(r.condition for r in reasons)
    return out


@pytest.fixture(scope="module")
def seen() -> set[tuple[str, str]]:
    found: set[tuple[str, str]] = set()
    for make in WITNESSES.values():
        found |= {(rule, condition) for rule, conditions in rejections(make).items() for condition in conditions}
    for make, target in ((WITNESSES["mma"], "sm_120a"), (WITNESSES["tmem store"], "sm_120a"),
                         (WITNESSES["mma, A in tensor memory"], "sm_120a"), (WITNESSES["scaled"], "sm_120a"),
                         *((WITNESSES[f"{what}, A in tensor memory"], "sm_120a") for what in ("ws", "scaled")), (WITNESSES["cp"], "sm_120a"), (WITNESSES["tma load"], "sm_80"),
                         (WITNESSES["tma store"], "sm_80"), (WITNESSES["stmatrix"], "sm_80"), (WITNESSES["multicast"], "sm_80"),
                         (WITNESSES["dsmem"], "sm_80"), (WITNESSES["st.async"], "sm_80"), (WITNESSES["st.async of a tile"], "sm_80"), (WITNESSES["pair"], "sm_120a"), (WITNESSES["cluster"], "sm_90")):
        found |= {(r, c) for r, cs in rejections(make, target).items() for c in cs}
    return found


@pytest.mark.parametrize("premises", lowering_rules(), ids=lambda p: p.rule.name)
def test_every_condition_keeps_some_kernel_out(premises, seen):
    missing = [n for n in (*premises.holds, *premises.holds_at) if (premises.rule.name, n) not in seen]
    assert not missing, f"no kernel shows that {premises.rule.name} needs: {missing}"
    if premises.scope is not None:
        assert (premises.rule.name, "the call's scope") in seen


@pytest.mark.parametrize("premises", lowering_rules(), ids=lambda p: p.rule.name)
def test_every_rule_gives_a_candidate_to_some_kernel(premises):
    if any(premises.rule.name in outcome(make)[1] for make in WITNESSES.values()):
        return
    raise AssertionError(f"no kernel uses {premises.rule.name}")


def test_the_example_is_the_reference_of_the_witnesses():
    assert len(compile_function(example("gemm_single_tile")).calls) == 6
