"""Write a PTX module: kernels, parameters, shared memory, checked instructions.

Everything emitted is checked against the instruction table for the module's target; a wrong modifier, a register of the
wrong kind, a vector of the wrong length or an immediate out of range raises ``PtxError`` at the call that emits it.
The text is a function of the calls made, so it is deterministic.

A small kernel::

    module = Module("sm_100a")
    k = module.kernel("scale", [Param.pointer("x", "global"), Param.scalar("n", "u32")], block=(256, 1, 1))
    tid = k.op("mov.u32", special("tid.x"))
    inside = k.op("setp.lt.u32", tid, k.load_param("n"))
    with k.if_(inside):
        base = k.op("cvta.to.global.u64", k.load_param("x"))
        place = k.op("mad.wide.u32", tid, 4, base)
        value = k.op("ld.global.f32", addr(place))
        k.emit("st.global.f32", addr(place), k.op("mul.f32", value, 2.0))
    k.emit("ret")
    text = module.text()
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tirx_eq.errors import PtxError
from tirx_eq.ptx.control import ControlFlow
from tirx_eq.ptx.launch import Grid, Launch, LaunchParam
from tirx_eq.ptx.operands import Symbol
from tirx_eq.ptx.syntax import TYPE_BITS
from tirx_eq.ptx.target import Target, Version, find_target, parse_version
from tirx_eq.ptx.tensormap import TensorMap

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_$]*|[_$%][A-Za-z0-9_$]+")

#: Version written when the user asks for none: the lowest that has everything GEMM kernels use on these targets.
DEFAULT_VERSION: Version = (8, 8)

#: Largest shared memory a CTA may use, in bytes (sm_100 and relatives: 227 KB).
MAX_SHARED_BYTES = 232448


@dataclass(frozen=True)
class Param:
    """A kernel parameter.

    ``kind``: "scalar" (of PTX type ``type``), "pointer" (64-bit, into ``space``) or "tensor_map" (128 opaque bytes).
    """

    name: str
    kind: str
    type: str = "u64"
    space: str = ""
    align: int = 0

    @staticmethod
    def scalar(name: str, type: str) -> Param:
        """A scalar passed by value, ``type`` such as "u32" or "f32"."""
        if type not in TYPE_BITS or TYPE_BITS[type] not in (8, 16, 32, 64) or type in ("tf32", "bf16"):
            raise PtxError(f"parameter {name}: .{type} is not a scalar parameter type")
        return Param(name, "scalar", type)

    @staticmethod
    def pointer(name: str, space: str = "global", align: int = 16) -> Param:
        """A 64-bit generic pointer to ``space``, aligned to ``align`` bytes (told to the assembler)."""
        if align < 1 or align & (align - 1):
            raise PtxError(f"parameter {name}: alignment {align} is not a power of two")
        return Param(name, "pointer", "u64", space, align)

    @staticmethod
    def tensor_map(name: str) -> Param:
        """A tensor map passed by value: 128 bytes aligned to 64."""
        return Param(name, "tensor_map", "b8", "param", 64)

    @property
    def bytes(self) -> int:
        """Size in bytes."""
        return 128 if self.kind == "tensor_map" else TYPE_BITS[self.type] // 8

    def declaration(self) -> str:
        """Its ``.param`` declaration without separator."""
        if self.kind == "tensor_map":
            return f".param .align {self.align} .b8 {self.name}[128]"
        if self.kind == "pointer":
            return f".param .u64 .ptr .{self.space} .align {self.align} {self.name}"
        return f".param .{self.type} {self.name}"


class Kernel(ControlFlow):
    """One ``.entry``: declarations, then instructions in the order of the calls (see ``emit.Emitter``)."""

    def __init__(
        self,
        module: Module,
        name: str,
        params: Sequence[Param],
        block: tuple[int, int, int],
        cluster: tuple[int, int, int] | None,
        max_registers: int | None,
        min_ctas_per_sm: int | None,
    ) -> None:
        super().__init__(module.target, module.version)
        self.module = module
        self.name = name
        self.params = tuple(params)
        self.block = block
        self.cluster = cluster
        self.max_registers = max_registers
        self.min_ctas_per_sm = min_ctas_per_sm
        self._shared: list[Symbol] = []
        self._local: list[Symbol] = []
        self._dynamic: Symbol | None = None
        self._names: set[str] = set()
        for param in params:
            self._claim(param.name)
            self.symbols[param.name] = Symbol(param.name, "param", param.bytes, param.align or param.bytes)

    def _claim(self, name: str) -> None:
        if not _NAME.fullmatch(name):
            raise PtxError(f"'{name}' is not a PTX identifier")
        if name in self._names or name == self.name:
            raise PtxError(f"kernel {self.name}: the name '{name}' is declared twice")
        self._names.add(name)

    def shared(self, name: str, bytes: int, align: int = 16) -> Symbol:
        """A static shared array of ``bytes`` bytes, aligned to ``align`` bytes."""
        _check_array(name, bytes, align)
        self._claim(name)
        symbol = Symbol(name, "shared", bytes, align)
        self._shared.append(symbol)
        self.symbols[name] = symbol
        return symbol

    def local(self, name: str, bytes: int, align: int = 4) -> Symbol:
        """A per-thread local array of ``bytes`` bytes, for data that is indexed at run time."""
        _check_array(name, bytes, align)
        self._claim(name)
        symbol = Symbol(name, "local", bytes, align)
        self._local.append(symbol)
        self.symbols[name] = symbol
        return symbol

    def dynamic_shared(self, name: str, bytes: int, align: int = 1024) -> Symbol:
        """The dynamic shared array (one per kernel); ``bytes`` is what the launch must give it."""
        if self._dynamic is not None:
            raise PtxError(f"kernel {self.name}: dynamic shared memory is declared twice ('{name}')")
        _check_array(name, bytes, align)
        self._claim(name)
        self._dynamic = self.module.extern_shared(name, bytes, align)
        self.symbols[name] = self._dynamic
        return self._dynamic

    @property
    def static_shared_bytes(self) -> int:
        """Bytes of static shared memory, laid out in declaration order with alignment padding."""
        end = 0
        for symbol in self._shared:
            end = -(-end // symbol.align) * symbol.align + symbol.bytes
        return end

    @property
    def dynamic_shared_bytes(self) -> int:
        """Bytes of dynamic shared memory that the launch must give."""
        return self._dynamic.bytes if self._dynamic else 0

    def launch(
        self, grid: Grid | None = None, tensor_maps: dict[str, TensorMap] | None = None
    ) -> Launch:
        """Launch metadata of this kernel; ``tensor_maps`` gives a ``TensorMap`` for each parameter of that kind."""
        maps = tensor_maps or {}
        wanted = {p.name for p in self.params if p.kind == "tensor_map"}
        for name in maps:
            if name not in wanted:
                raise PtxError(f"kernel {self.name}: '{name}' is not a tensor map parameter")
        return Launch(
            entry=self.name,
            target=self.target.name,
            grid=grid,
            block=self.block,
            cluster=self.cluster,
            static_shared_bytes=self.static_shared_bytes,
            dynamic_shared_bytes=self.dynamic_shared_bytes,
            params=tuple(LaunchParam(p.name, p.kind, p.type, p.bytes, maps.get(p.name)) for p in self.params),
        )

    def text(self) -> str:
        """The kernel's PTX; raises ``PtxError`` if a branch target is missing or shared memory is too large."""
        self.finish()
        total = self.static_shared_bytes + self.dynamic_shared_bytes
        if total > MAX_SHARED_BYTES:
            raise PtxError(f"kernel {self.name}: {total} bytes of shared memory exceed {MAX_SHARED_BYTES}")
        lines = [f".visible .entry {self.name}("]
        lines += [f"    {p.declaration()}{',' if i + 1 < len(self.params) else ''}" for i, p in enumerate(self.params)]
        lines.append(")")
        lines.append(f".reqntid {self.block[0]}, {self.block[1]}, {self.block[2]}")
        if self.cluster is not None:
            lines.append(f".reqnctapercluster {self.cluster[0]}, {self.cluster[1]}, {self.cluster[2]}")
        if self.max_registers is not None:
            lines.append(f".maxnreg {self.max_registers}")
        if self.min_ctas_per_sm is not None:
            lines.append(f".minnctapersm {self.min_ctas_per_sm}")
        lines.append("{")
        lines += [f"    .shared .align {s.align} .b8 {s.name}[{s.bytes}];" for s in self._shared]
        lines += [f"    .local .align {s.align} .b8 {s.name}[{s.bytes}];" for s in self._local]
        lines += self.register_declarations()
        if len(lines) and not lines[-1].endswith("{"):
            lines.append("")
        return "\n".join([*lines, *self.body(), "}"]) + "\n"


def _check_array(name: str, bytes: int, align: int) -> None:
    if bytes <= 0:
        raise PtxError(f"array {name}: size {bytes} bytes is not positive")
    if align < 1 or align & (align - 1):
        raise PtxError(f"array {name}: alignment {align} is not a power of two")


def _check_dims(kernel: str, what: str, dims: Iterable[int], limits: tuple[int, int, int], product: int) -> None:
    values = tuple(dims)
    if len(values) != 3 or any(not 1 <= d <= limit for d, limit in zip(values, limits)):
        raise PtxError(f"kernel {kernel}: {what} {values} is outside 1..{limits}")
    if values[0] * values[1] * values[2] > product:
        raise PtxError(f"kernel {kernel}: {what} {values} has more than {product} members")


class Module:
    """A PTX module for one target.  ``version`` is the PTX ISA version, (8, 8) if not given."""

    def __init__(self, target: str | Target, version: str | Version | None = None) -> None:
        self.target = target if isinstance(target, Target) else find_target(target)
        self.version = max(DEFAULT_VERSION, self.target.ptx) if version is None else parse_version(version)
        if self.version < self.target.ptx:
            raise PtxError(
                f"target {self.target.name} needs PTX {self.target.ptx[0]}.{self.target.ptx[1]}, "
                f"the module is written for {self.version[0]}.{self.version[1]}"
            )
        self.kernels: list[Kernel] = []
        self._extern: dict[str, Symbol] = {}

    def kernel(
        self,
        name: str,
        params: Sequence[Param] = (),
        block: tuple[int, int, int] = (128, 1, 1),
        cluster: tuple[int, int, int] | None = None,
        max_registers: int | None = None,
        min_ctas_per_sm: int | None = None,
    ) -> Kernel:
        """Start a kernel launched with exactly ``block`` threads and, if given, ``cluster`` CTAs per cluster."""
        if not _NAME.fullmatch(name):
            raise PtxError(f"'{name}' is not a PTX identifier")
        if any(k.name == name for k in self.kernels):
            raise PtxError(f"the module has two kernels called '{name}'")
        _check_dims(name, "block", block, (1024, 1024, 64), 1024)
        if cluster is not None:
            from tirx_eq.ptx.target import require

            require(self.target, "sm_90", f"kernel {name} with clusters")
            _check_dims(name, "cluster", cluster, (16, 16, 16), 16)
        if max_registers is not None and not 16 <= max_registers <= 255:
            raise PtxError(f"kernel {name}: {max_registers} registers per thread is outside 16..255")
        kernel = Kernel(self, name, params, block, cluster, max_registers, min_ctas_per_sm)
        self.kernels.append(kernel)
        return kernel

    def extern_shared(self, name: str, bytes: int, align: int) -> Symbol:
        """Declare the module's extern shared array ``name``; kernels that share the name share the declaration."""
        known = self._extern.get(name)
        self._extern[name] = Symbol(name, "shared", 0, max(align, known.align if known else 1))
        return Symbol(name, "shared", bytes, align)

    def text(self) -> str:
        """The whole module as PTX text, ending in a newline."""
        head = [
            f".version {self.version[0]}.{self.version[1]}",
            f".target {self.target.name}",
            ".address_size 64",
            "",
        ]
        head += [f".extern .shared .align {s.align} .b8 {s.name}[];" for s in self._extern.values()]
        if self._extern:
            head.append("")
        return "\n".join(head) + "\n" + "\n".join(k.text() for k in self.kernels)
