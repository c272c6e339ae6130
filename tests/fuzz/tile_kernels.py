"""Kernels of one to three tile primitives drawn at random: operands in any place, layout and part of their buffer.

A *unit* is what executes a call at its scope: a thread, a warp, a warpgroup, or the CTA.  Buffers in memory have a leading
dimension with an entry for each unit (or one unit alone makes the call), so no two units meet.  Whatever isn't in global
memory is brought there from parameters, and goes back to them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from random import Random

from tirx_eq.ir import dtype as dt

from .layouts import memory_layout, register_layout

FLOATS = ("float32", "float16", "bfloat16")
INTEGERS = ("int32", "uint32", "int16", "uint16", "int8", "uint8", "int64")
COMPUTED = FLOATS * 3 + INTEGERS + ("float64", "float8_e4m3fn", "float8_e5m2")
ANY = (*COMPUTED, "bool", "float8_e8m0fnu", "float4_e2m1fn")
PREFIX = {"thread": "Tx", "warp": "Tx.warp", "wg": "Tx.wg", "cta": "Tx.cta"}
HEADER = """from tirx_eq.layout import R, S, ComposeLayout, SwizzleLayout, TileLayout, TCol, TLane, mma_shared_layout
from tirx_eq.layout import laneid, tid_in_wg, tx
from tirx_eq.script import tirx as Tx


@Tx.prim_func
def kernel({params}):
    Tx.device_entry()
"""
BINARY = ("add", "sub", "mul", "maximum", "minimum", "fdiv")
UNARY = ("sqrt", "exp", "exp2", "log2", "reciprocal", "silu")
REDUCTIONS = ("sum", "max", "min")


@dataclass
class Kernel:
    """What is drawn so far: parameters, statements before the calls, the calls, statements after them."""

    rng: Random
    threads: int
    scope: str
    one: int | None  # the unit that makes the call alone
    params: list[str] = field(default_factory=list)
    before: list[str] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    columns: int = 0
    runtime: bool = False
    loop: int = 0
    unrolled: bool = False

    @property
    def unit(self) -> str:
        return {"thread": "t", "warp": "w", "wg": "g", "cta": "0"}[self.scope]

    @property
    def per_unit(self) -> int:
        return {"thread": 1, "warp": 32, "wg": 128, "cta": self.threads}[self.scope]

    @property
    def units(self) -> int:
        return self.threads // self.per_unit

    def at(self) -> str:
        return "0" if self.one is not None else self.unit

    def guarded(self, line: str) -> list[str]:
        if self.one is None:
            return [line]
        return [f"if {self.unit} == {self.one}:", *("    " + part for part in line.splitlines())]

    def text(self) -> str:
        body = [f"t = Tx.thread_id([{self.threads}])"]
        if self.threads % 32 == 0:
            body.append(f"w = Tx.warp_id([{self.threads // 32}])")
        if self.threads % 128 == 0:
            body.append(f"g = Tx.warpgroup_id([{self.threads // 128}])")
        before, after = list(self.before), list(self.after)
        if self.columns:
            count = 1 << max(5, (self.columns - 1).bit_length())
            body += ['addr = Tx.alloc_shared([1], "uint32")', "if w == 0:",
                     f"    Tx.ptx.tcgen05.alloc(Tx.address_of(addr[0]), n_cols={count}, cta_group=1)",
                     "Tx.ptx.tcgen05.fence.before_thread_sync()", "Tx.cuda.cta_sync()",
                     "Tx.ptx.tcgen05.fence.after_thread_sync()"]  # fmt: skip
            after += ["Tx.ptx.tcgen05.fence.before_thread_sync()", "Tx.cuda.cta_sync()",
                      "Tx.ptx.tcgen05.fence.after_thread_sync()", "if w == 0:",
                      "    Tx.ptx.tcgen05.relinquish_alloc_permit(cta_group=1)",
                      f"    Tx.ptx.tcgen05.dealloc(addr[0], n_cols={count}, cta_group=1)"]  # fmt: skip
        params = list(self.params)
        if self.runtime:
            params.append('N: Tx.Buffer((1,), "int32")')
            before.insert(0, "n = Tx.min(Tx.max(N[0], 0), 2)")
        calls = list(self.calls)
        if self.loop:
            kind = "unroll" if self.unrolled else "serial"
            calls = [f"for i in Tx.{kind}({self.loop}):", *("    " + c for c in (*calls, "Tx.cuda.cta_sync()"))]
        lines = [*body, *before, "Tx.cuda.cta_sync()", *calls, "Tx.cuda.cta_sync()", *after]
        return HEADER.format(params=", ".join(params)) + "".join(f"    {line}\n" for line in lines)


@dataclass
class Operand:
    """A declared operand: how its region is written, and the extents of it."""

    name: str
    dtype: str
    place: str
    region: str
    extents: tuple[int, ...]


def _start(k: Kernel, slack: int, place: str) -> str:
    """The text of a region's start within ``slack`` more elements than it covers."""
    options = ["0", str(slack)]
    if slack:
        options.append(str(k.rng.randint(0, slack)))
    if slack >= 2 and place != "registers":  # no instruction finds a register by a number
        options.append("n")
    if k.loop and slack >= k.loop - 1 and (place != "registers" or k.unrolled):
        options.append("i" if slack < 2 * (k.loop - 1) else k.rng.choice(("i", "i * 2")))
    return k.rng.choice(options)


def _range(k: Kernel, slack: int, extent: int, place: str) -> str:
    start = _start(k, slack, place)
    if "n" in start:
        k.runtime = True
    if slack == 0 and k.rng.random() < 0.6:
        return ":"
    if extent == 1 and k.rng.random() < 0.4:
        return f"{start} : {start} + 1"
    return f"{start} : {start} + {extent}"


def operand(k: Kernel, name: str, dtype: str, extents: tuple[int, ...], place: str, is_output: bool) -> Operand:
    """Declare an operand that covers ``extents`` (of a buffer that may be larger), and move it to its place and back."""
    rng = k.rng
    whole = dt.storage_bits(dtype) < 8  # elements that fill no byte: rows of whole ones
    if place == "tmem":
        return _tensor(k, name, dtype, extents, is_output)
    slack = [0 if whole else rng.choice((0, 0, 0, 1, 2, 3, 4, 8)) for _ in extents]
    if place == "registers" and k.scope != "thread":
        slack = [0] * len(extents) if rng.random() < 0.85 else slack
    inner = tuple(e + s for e, s in zip(extents, slack))
    ranges = ", ".join(_range(k, s, e, place) for s, e in zip(slack, extents))
    count = 1 if k.one is not None else k.units
    shape = (count, *inner)
    k.params.append(f'{name}: Tx.Buffer({shape}, "{dtype}")')
    every = ", ".join(":" for _ in extents)
    if place == "global":
        return Operand(name, dtype, place, f"{name}[{k.at()}, {ranges}]", extents)
    if place == "shared":
        flat = rng.random() < 0.5 and count == 1 and len(inner) > 1
        real = inner if flat else shape
        layout = memory_layout(rng, real, dtype)
        more = f", layout={layout.text}" if layout.text else ""
        k.before.append(f's{name} = Tx.alloc_shared({real}, "{dtype}"{more})')
        there = f"s{name}[{every}]" if flat else f"s{name}[:, {every}]"
        k.before.append(f"Tx.cta.copy({there}, {name}[{'0' if flat else ':'}, {every}])")
        if is_output:
            k.after.append(f"Tx.cta.copy({name}[{'0' if flat else ':'}, {every}], {there})")
        return Operand(name, dtype, place, f"s{name}[{ranges}]" if flat else f"s{name}[{k.at()}, {ranges}]", extents)
    if k.scope == "thread":
        k.before.append(f'r{name} = Tx.alloc_local({inner}, "{dtype}")')
        own = f"r{name}"
    else:
        layout = register_layout(rng, k.scope, k.per_unit, inner, dtype)
        if layout.count * dt.storage_bits(dtype) > 64 * 32:
            raise Skip("too many registers")
        k.before.append(f'r{name} = Tx.alloc_local(({layout.count},), "{dtype}")')
        k.before.append(f"v{name} = r{name}.view({', '.join(map(str, inner))}, layout={layout.text})")
        own = f"v{name}"
    k.before += k.guarded(f"{PREFIX[k.scope]}.copy({own}[{every}], {name}[{k.at()}, {every}])")
    if is_output:
        k.after += k.guarded(f"{PREFIX[k.scope]}.copy({name}[{k.at()}, {every}], {own}[{every}])")
    return Operand(name, dtype, place, f"{own}[{ranges}]", extents)


def _tensor(k: Kernel, name: str, dtype: str, extents: tuple[int, ...], is_output: bool) -> Operand:
    """An operand in tensor memory: a row for each lane of the scope."""
    rng = k.rng
    rows, columns = extents
    bits = dt.storage_bits(dtype)
    slack = rng.choice((0, 0, 1, 2, 4, 8))
    width = columns + slack
    words = max(1, -(-width * bits // 32))
    width = words * 32 // bits if bits < 32 else width
    first = k.columns + rng.choice((0, 0, 1, 2, 3, 5))
    k.columns = first + words
    if k.columns > 512:
        raise Skip("too many columns")
    count = 1 if k.one is not None else k.units
    k.params.append(f'{name}: Tx.Buffer(({count}, {rows}, {width}), "{dtype}")')
    axis = {"warp": "laneid", "wg": "tid_in_wg", "cta": "tx"}[k.scope]
    k.before += [
        f't{name} = Tx.decl_buffer((128, {width}), "{dtype}", scope="tmem", allocated_addr=addr[0] + {first}, '
        f"layout=TileLayout(S[(128, {width}) : (1 @ TLane, 1 @ TCol)]))",
        f'h{name} = Tx.alloc_local(({width},), "{dtype}")',
        f"k{name} = h{name}.view({rows}, {width}, layout=TileLayout(S[({rows}, {width}) : (1 @ {axis}, 1)]))",
    ]
    lanes = ":" if k.scope != "warp" else "w * 32 : w * 32 + 32" if k.one is None else f"{k.one * 32} : {k.one * 32 + 32}"
    put = (f"{PREFIX[k.scope]}.copy(k{name}[:, :], {name}[{k.at()}, :, :])\n"
           f"{PREFIX[k.scope]}.copy_async(t{name}[{lanes}, :], k{name}[:, :])\nTx.ptx.tcgen05.wait.st()")  # fmt: skip
    got = (f"{PREFIX[k.scope]}.copy_async(k{name}[:, :], t{name}[{lanes}, :])\nTx.ptx.tcgen05.wait.ld()\n"
           f"{PREFIX[k.scope]}.copy({name}[{k.at()}, :, :], k{name}[:, :])")  # fmt: skip
    k.before += [x for line in put.splitlines() for x in k.guarded(line)]
    if is_output:
        k.after += [x for line in got.splitlines() for x in k.guarded(line)]
    start = rng.randint(0, width - columns)
    return Operand(name, dtype, "tmem", f"t{name}[{lanes}, {start} : {start + columns}]", extents)


class Skip(Exception):
    """What was drawn so far can't become a kernel."""


def _extents(k: Kernel, rank: int | None = None, small: bool = False) -> tuple[int, ...]:
    rng = k.rng
    rank = rank or rng.choice((1, 1, 2, 2, 2, 3, 3, 4))
    sizes = (1, 1, 2, 3, 4, 5, 7, 8, 8, 12, 16, 16, 17, 24, 31, 32, 33, 48, 64, 100, 128)
    limit = {"thread": 40, "warp": 512, "wg": 2048, "cta": 3000}[k.scope]
    while True:
        found = tuple(rng.choice(sizes[: 9 if small or k.scope == "thread" else None]) for _ in range(rank))
        if prod(found) <= limit:
            return found


def _friendly(k: Kernel) -> tuple[int, ...]:
    """Extents that divide among the threads of the scope."""
    rng, left, out = k.rng, k.per_unit * k.rng.choice((1, 2, 3, 4, 6, 8)), []
    for _ in range(rng.choice((0, 1, 1, 2))):
        d = rng.choice([d for d in (2, 3, 4, 8, 16, 32, 64) if left % d == 0] or [1])
        out.append(d)
        left //= d
    out.append(left)
    rng.shuffle(out)
    return tuple(out)


def _place(k: Kernel, extents: tuple[int, ...]) -> str:
    options = ["registers", "shared", "global"] * 3
    rows = {"warp": 32, "wg": 128, "cta": 128 if k.threads == 128 else 0}.get(k.scope, 0)
    if len(extents) == 2 and extents[0] == rows and extents[1] <= 32 and k.threads == 128:
        options += ["tmem"] * 4
    return k.rng.choice(options)


def _broadcast(k: Kernel, extents: tuple[int, ...]) -> tuple[int, ...]:
    """Extents that are spread over these."""
    rng = k.rng
    if rng.random() < 0.55:
        return extents
    if rng.random() < 0.3 and len(extents) > 1:
        return extents[rng.randint(1, len(extents) - 1) :]
    return tuple(e if rng.random() < 0.5 else 1 for e in extents)


def _number(k: Kernel, dtype: str) -> str:
    rng = k.rng
    if dtype == "bool":
        return rng.choice(("True", "Tx.bool(False)"))
    if dtype == "float8_e8m0fnu":
        return rng.choice(("1.0", "2.0", "0.5"))
    value = rng.choice((1, 2, 3)) if not dt.is_float(dtype) else rng.choice((0.5, 1.0, 2.0, -1.0, 3.0))
    if dtype == "float4_e2m1fn":
        return str(value)
    options = [str(value), f"Tx.{dtype}({value})"]
    if k.scope == "thread" and dtype in ("int32", "float32"):
        options.append(f'Tx.cast(t % 4, "{dtype}")')
    return rng.choice(options)


def draw(seed: int) -> str:
    """The source of a kernel; Skip when the draws don't go together."""
    rng = Random(seed)
    threads = rng.choice((32, 64, 128, 128, 128, 256, 96, 160))
    scopes = ["thread", "warp", "warp", "cta", "cta"] + (["wg", "wg"] if threads % 128 == 0 else [])
    scope = rng.choice(scopes)
    k = Kernel(rng, threads, scope, None)
    if scope != "cta" and rng.random() < 0.35:
        k.one = rng.randrange(k.units)
    if rng.random() < 0.25:
        k.loop, k.unrolled = rng.choice((2, 3)), rng.random() < 0.5
    one_call(k)
    for _ in range(rng.choice((0, 0, 0, 1, 2))):
        k.calls.append(rng.choice(("Tx.cuda.cta_sync()", "Tx.cuda.cta_sync()")))
        one_call(k)
    return k.text()


def _shape(k: Kernel) -> tuple[int, ...]:
    rows = {"warp": 32, "wg": 128, "cta": 128 if k.threads == 128 else 0}.get(k.scope, 0)
    r = k.rng.random()
    if rows and k.threads == 128 and r < 0.2:
        return rows, k.rng.choice((1, 2, 3, 4, 7, 8, 16, 32))
    return _friendly(k) if r < 0.5 and k.scope != "thread" else _extents(k)


def one_call(k: Kernel) -> None:
    """Add a call and its operands."""
    rng = k.rng
    kind = rng.choice(("copy", "copy", "fill", "cast", "cast", "unary", "binary", "binary", "fma", "select", "chain", "reduce",
                       "reduce", "reduce", "binary_reduce", "unary_reduce", "gemm", "compose", "permute"))  # fmt: skip
    n = len(k.params)
    extents = _shape(k)

    def make(letter: str, dtype: str, shape: tuple[int, ...], is_output: bool = False, place: str | None = None) -> str:
        made = operand(k, f"{letter}{n}", dtype, shape, place or _place(k, shape), is_output)
        return made.region

    call = globals()[f"_{kind}"](k, extents, make)
    for line in call:
        for part in k.guarded(f"{PREFIX[k.scope]}.{line}" if not line.startswith("with") else line):
            k.calls += part.splitlines()


def _copy(k, extents, make):
    dtype = k.rng.choice(ANY)
    return [f"copy({make('D', dtype, extents, True)}, {make('A', dtype, extents)})"]


def _permute(k, extents, make):
    dtype = k.rng.choice(ANY)
    return [f"permute_layout({make('D', dtype, extents, True)}, {make('A', dtype, extents)})"]


def _fill(k, extents, make):
    op = k.rng.choice(("fill", "memset", "zero"))
    dtype = k.rng.choice(ANY)
    if op == "zero":
        return [f"zero({make('D', dtype, extents, True)})"]
    return [f"{op}({make('D', dtype, extents, True)}, {_number(k, dtype)})"]


def _cast(k, extents, make):
    a, d = k.rng.choice(ANY), k.rng.choice(ANY)
    return [f"cast({make('D', d, extents, True)}, {make('A', a, extents)})"]


def _unary(k, extents, make):
    op = k.rng.choice(UNARY)
    dtype = k.rng.choice((*FLOATS, "float64"))
    d = make("D", dtype, extents, True)
    a = make("A", dtype, extents) if k.rng.random() < 0.8 else d
    more = ""
    if op in ("sqrt", "exp", "exp2", "log2") and k.rng.random() < 0.4:
        bias = make("B", dtype, _broadcast(k, extents)) if k.rng.random() < 0.6 else _number(k, dtype)
        scale = k.rng.choice(("None", "0.5", "Tx.float32(2.0)"))
        more = f", {bias}, {scale}"
    return [f"{op}({d}, {a}{more})"]


def _mixed(k, dtype):
    """A dtype of another operand."""
    if k.rng.random() < 0.8:
        return dtype
    return k.rng.choice(FLOATS if dtype in FLOATS else (dtype,))


def _value(k, make, letter, dtype, extents):
    r = k.rng.random()
    if r < 0.2:
        return _number(k, dtype)
    return make(letter, _mixed(k, dtype), _broadcast(k, extents))


def _binary(k, extents, make):
    op = k.rng.choice(BINARY)
    dtype = k.rng.choice(COMPUTED if op != "fdiv" else FLOATS)
    d = make("D", dtype, extents, True)
    a = d if k.rng.random() < 0.2 else make("A", _mixed(k, dtype), extents)
    b = _value(k, make, "B", dtype, extents)
    if k.rng.random() < 0.2 and op != "fdiv":
        a, b = b, a
    return [f"{op}({d}, {a}, {b})"]


def _fma(k, extents, make):
    dtype = k.rng.choice(COMPUTED)
    d = make("D", dtype, extents, True)
    a = d if k.rng.random() < 0.2 else make("A", dtype, extents)
    return [f"fma({d}, {a}, {_value(k, make, 'B', dtype, extents)}, {_value(k, make, 'C', dtype, extents)})"]


def _select(k, extents, make):
    dtype = k.rng.choice(ANY)
    d = make("D", dtype, extents, True)
    names = [f"x{i}" for i in range(d.count(",") + 1)]
    i, j = k.rng.choice(names), k.rng.choice(names)
    condition = k.rng.choice((f"{i} < 3", f"({i} + {j}) % 3 == 0", f"{i} <= {j}", f"{i} * 2 > {j} + 1", f"{i} % 2 == 1"))
    a, b = _value(k, make, "A", dtype, extents), _value(k, make, "B", dtype, extents)
    return [f"select({d}, {a}, {b}, lambda {', '.join(names)}: {condition})"]


def _chain(k, extents, make):
    dtype = k.rng.choice(COMPUTED)
    ops = [k.rng.choice(BINARY[:5]) for _ in range(2)]
    d = make("D", dtype, extents, True)
    a = make("A", dtype, extents)
    reverse = ", reverse1=True" if k.rng.random() < 0.3 else ""
    return [f"binary_chain({d}, {a}, {_value(k, make, 'B', dtype, extents)}, {_value(k, make, 'C', dtype, extents)}, "
            f"'{ops[0]}', '{ops[1]}'{reverse})"]  # fmt: skip


def _axes(k, extents):
    rank = len(extents)
    axes = sorted(k.rng.sample(range(rank), k.rng.randint(1, min(rank, 2))))
    kept = tuple(1 if i in axes else e for i, e in enumerate(extents))
    if k.rng.random() < 0.6 and any(i not in axes for i in range(rank)):
        kept = tuple(e for i, e in enumerate(extents) if i not in axes)
    shown = [a - rank for a in axes]  # buffers in memory have a dimension more
    k.rng.shuffle(shown)
    return kept, str(shown[0]) if len(shown) == 1 and k.rng.random() < 0.7 else str(tuple(shown))


def _reduce(k, extents, make):
    op = k.rng.choice((*REDUCTIONS, "reduce_negate"))
    unsigned = ("uint32", "uint8") if op != "reduce_negate" else ()
    dtype = k.rng.choice((*FLOATS, *FLOATS, "int32", "int16", "int8", "float64", "int64", *unsigned))
    kept, axes = _axes(k, extents)
    d, a = make("D", dtype, kept, True), make("A", dtype, extents)
    accum = ", accum=True" if k.rng.random() < 0.35 else ""
    if op == "reduce_negate":
        return [f"reduce_negate({d}, {a}, '{k.rng.choice(REDUCTIONS)}', reduce_axes={axes}{accum})"]
    return [f"{op}({d}, {a}, axes={axes}{accum})"]


def _binary_reduce(k, extents, make):
    dtype = k.rng.choice(FLOATS + ("int32", "int16"))
    kept, axes = _axes(k, extents)
    d, e = make("D", dtype, extents, True), make("E", dtype, kept, True)
    a = make("A", dtype, extents)
    b = _value(k, make, "B", dtype, extents)
    ops = f"'{k.rng.choice(BINARY[:5])}', '{k.rng.choice(REDUCTIONS)}'"
    return [f"binary_reduce({d}, {e}, {a}, {b}, {ops}, reduce_axes={axes})"]


def _unary_reduce(k, extents, make):
    dtype = k.rng.choice(FLOATS)
    kept, axes = _axes(k, extents)
    d, e = make("D", dtype, extents, True), make("E", dtype, kept, True)
    a = make("A", dtype, extents)
    op = k.rng.choice(("sqrt", "exp", "exp2", "reciprocal", "silu"))
    return [f"unary_reduce({d}, {e}, {a}, '{op}', '{k.rng.choice(REDUCTIONS)}', reduce_axes={axes})"]


def _gemm(k, extents, make):
    rng = k.rng
    dtype = rng.choice(FLOATS * 2 + ("int8", "int32", "float64", "float8_e4m3fn"))
    wide = {"int8": "int32", "int32": "int32", "float64": "float64"}.get(dtype, "float32")
    if k.scope == "thread":
        m, n, depth = rng.choice((1, 2)), rng.choice((1, 2, 3)), rng.choice((1, 2, 4))
    elif rng.random() < 0.4:
        m, n, depth = 16 * rng.choice((1, 2)), 8 * rng.choice((1, 2)), 16 * rng.choice((1, 2))
    else:
        m, n, depth = rng.choice((1, 3, 8, 16, 17)), rng.choice((1, 4, 8, 10)), rng.choice((1, 3, 8, 16))
    ta, tb = rng.random() < 0.4, rng.random() < 0.4
    d = make("D", wide, (m, n), True)
    a, b = make("A", dtype, (depth, m) if ta else (m, depth)), make("B", dtype, (n, depth) if tb else (depth, n))
    c = d if rng.random() < 0.5 else make("C", wide, (m, n))
    more = rng.choice(("", ", beta=1.0", ", beta=0.0", ", 2.0, 1.0"))
    return [f"gemm({d}, {a}, {b}, {c}, {ta}, {tb}{more})"]


def _compose(k, extents, make):
    dtype = k.rng.choice(FLOATS)
    d, a, b = make("D", dtype, extents, True), make("A", dtype, extents), make("B", dtype, extents)
    scope = PREFIX[k.scope]
    ops = k.rng.choice(BINARY[:5]), k.rng.choice(BINARY[:5])
    return [f"with Tx.compose_op():\n    {scope}.{ops[0]}({d}, {a}, {b})\n    {scope}.{ops[1]}({d}, {d}, {b})"]
