"""Running a kernel: launch geometry, arguments, waves of clusters, and what comes back.

``simulate`` is the public entry.  It reads PTX text only.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tirx_eq.errors import SimulationError
from tirx_eq.sim.clocks import HB
from tirx_eq.sim.faults import Fault, FaultLog, Halt
from tirx_eq.sim.isa import decode
from tirx_eq.sim.mbarrier import settled
from tirx_eq.sim.memory import GLOBAL, SHARED_BASE, SHARED_LIMIT, Buffers, Shadow
from tirx_eq.sim.program import Program
from tirx_eq.sim.scheduler import Scheduler
from tirx_eq.sim.text.declarations import TYPE_BYTES
from tirx_eq.sim.text.inline import inline
from tirx_eq.sim.text.parser import parse
from tirx_eq.sim.text.syntax import Function, Module, Variable
from tirx_eq.sim.trace import Trace
from tirx_eq.sim.transfers.maps import SIZE as MAP_BYTES
from tirx_eq.sim.transfers.maps import Maps, encode
from tirx_eq.sim.transfers.tensormap import TensorMap
from tirx_eq.sim.wave import Wave

Array = np.ndarray
#: Vector clocks grow with the square of this.
MAX_CLUSTER_THREADS = 8192
POLICIES = ("late", "early", "random")


@dataclass(frozen=True)
class Launch:
    """Launch geometry.  ``dynamic_shared`` in bytes."""

    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (1, 1, 1)
    cluster: tuple[int, int, int] = (1, 1, 1)
    dynamic_shared: int = 0

    def __post_init__(self) -> None:
        for name in ("grid", "block", "cluster"):
            value = getattr(self, name)
            value = (value,) if isinstance(value, int) else tuple(int(v) for v in value)
            value = value + (1,) * (3 - len(value))
            object.__setattr__(self, name, value)
            if len(value) != 3 or min(value) < 1:
                raise SimulationError(f"launch: {name} {value} needs three positive extents")
        if self.threads > 1024:
            raise SimulationError(f"launch: {self.threads} threads in a CTA exceed 1024")
        if self.cluster_ctas > 16:
            raise SimulationError(f"launch: a cluster of {self.cluster_ctas} CTAs exceeds 16")
        for g, c in zip(self.grid, self.cluster):
            if g % c:
                raise SimulationError(f"launch: grid {self.grid} is not a multiple of the cluster {self.cluster}")
        if self.ctas > 1 << 24:
            raise SimulationError(f"launch: {self.ctas} CTAs are beyond a simulation")

    @property
    def threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def cluster_ctas(self) -> int:
        return self.cluster[0] * self.cluster[1] * self.cluster[2]

    @property
    def ctas(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]

    def cta_coordinates(self, cluster: int, rank: int) -> tuple[int, int, int]:
        """%ctaid of the CTA with ``rank`` in a cluster."""
        many = [g // c for g, c in zip(self.grid, self.cluster)]
        cx, cy, cz = cluster % many[0], cluster // many[0] % many[1], cluster // (many[0] * many[1])
        a, b, _ = self.cluster
        return (cx * self.cluster[0] + rank % a, cy * self.cluster[1] + rank // a % b,
                cz * self.cluster[2] + rank // (a * b))

    def cta_number(self, cluster: int, rank: int) -> int:
        x, y, z = self.cta_coordinates(cluster, rank)
        return x + self.grid[0] * (y + self.grid[1] * z)

    def special_registers(self, wave: Wave) -> Callable[[str], Array]:
        """A function from special register names to values per row (int64)."""
        cache: dict[str, Array] = {}

        def special(name: str) -> Array:
            if name not in cache or name in CHANGING:
                cache[name] = SPECIAL[name](self, wave)
            return cache[name]
        return special


def _per_cta(select: Callable[[Launch, int, int], int]) -> Callable[[Launch, Wave], Array]:
    def values(launch: Launch, wave: Wave) -> Array:
        each = [select(launch, wave.first_cluster + c // wave.cluster_size, c % wave.cluster_size)
                for c in range(wave.ctas)]
        return np.array(each, np.int64)[wave.cta]
    return values


def _constant(value: Callable[[Launch], int]) -> Callable[[Launch, Wave], Array]:
    return lambda launch, wave: np.full(wave.T, value(launch), np.int64)


def _clock(launch: Launch, wave: Wave) -> Array:
    return np.full(wave.T, wave.context.steps * 4, np.int64)


def _lanes(function: Callable[[Array], Array]) -> Callable[[Launch, Wave], Array]:
    return lambda launch, wave: function(wave.lane.astype(np.int64))


CHANGING = {"%clock", "%clock64", "%clock_hi", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi"}
SPECIAL: dict[str, Callable[[Launch, Wave], Array]] = {
    "%tid.x": lambda la, w: w.thread % la.block[0], "%tid.y": lambda la, w: w.thread // la.block[0] % la.block[1],
    "%tid.z": lambda la, w: w.thread // (la.block[0] * la.block[1]),
    "%laneid": lambda la, w: w.lane, "%warpid": lambda la, w: w.thread // 32,
    "%nwarpid": _constant(lambda la: -(-la.threads // 32)), "WARP_SZ": _constant(lambda la: 32),
    "%smid": lambda la, w: w.cta % 148, "%nsmid": _constant(lambda la: 148), "%gridid": _constant(lambda la: 1),
    "%cluster_ctarank": lambda la, w: w.rank, "%cluster_nctarank": _constant(lambda la: la.cluster_ctas),
    "%is_explicit_cluster": _constant(lambda la: int(la.cluster_ctas > 1)),
    "%lanemask_eq": _lanes(lambda v: 1 << v), "%lanemask_lt": _lanes(lambda v: (1 << v) - 1),
    "%lanemask_le": _lanes(lambda v: (2 << v) - 1), "%lanemask_gt": _lanes(lambda v: 0xFFFFFFFF & ~((2 << v) - 1)),
    "%lanemask_ge": _lanes(lambda v: 0xFFFFFFFF & ~((1 << v) - 1)),
    "%clock": _clock, "%clock64": _clock, "%clock_hi": _constant(lambda la: 0), "%globaltimer": _clock,
    "%globaltimer_lo": _clock, "%globaltimer_hi": _constant(lambda la: 0),
    "%dynamic_smem_size": _constant(lambda la: la.dynamic_shared),
    "%total_smem_size": lambda la, w: np.full(w.T, w.smem_limit), "%aggr_smem_size": lambda la, w: np.full(w.T, w.smem_limit),
    "%reserved_smem_offset_begin": _constant(lambda la: 0), "%reserved_smem_offset_end": _constant(lambda la: SHARED_BASE),
}
for _axis, _letter in enumerate("xyz"):
    def _make(axis: int) -> dict[str, Callable[[Launch, Wave], Array]]:
        return {
            "%ntid.": _constant(lambda la: la.block[axis]), "%nctaid.": _constant(lambda la: la.grid[axis]),
            "%ctaid.": _per_cta(lambda la, c, r: la.cta_coordinates(c, r)[axis]),
            "%clusterid.": _per_cta(lambda la, c, r: la.cta_coordinates(c, r)[axis] // la.cluster[axis]),
            "%nclusterid.": _constant(lambda la: la.grid[axis] // la.cluster[axis]),
            "%cluster_ctaid.": _per_cta(lambda la, c, r: la.cta_coordinates(c, r)[axis] % la.cluster[axis]),
            "%cluster_nctaid.": _constant(lambda la: la.cluster[axis]),
        }
    for _name, _value in _make(_axis).items():
        SPECIAL[_name + _letter] = _value


@dataclass
class Result:
    """What a simulation gives: ``arrays`` after the run by argument name, every fault found, and counts.

    ``warnings`` are uses that the ISA's text does not allow but that shipped kernels rely on; ``covered`` are the PTX
    lines that were executed.
    """

    arrays: dict[str, Array]
    faults: list[Fault]
    stats: dict[str, int]
    trace: Trace
    warnings: list[Fault] = field(default_factory=list)
    covered: frozenset[int] = frozenset()

    def raise_for_faults(self) -> Result:
        """Raise ``SimulationError`` listing the faults, if there are any."""
        if self.faults:
            first = "\n".join(str(f) for f in self.faults[:8])
            raise SimulationError(f"{len(self.faults)} fault(s) in the kernel:\n{first}", hint=self.faults[0].rule)
        return self


@dataclass
class Context:
    """What all waves of one launch share."""

    launch: Launch
    policy: str
    random: np.random.Generator
    log: FaultLog
    buffers: Buffers
    params: Array
    maps: Maps
    races: bool
    max_steps: int
    trace: Trace
    approximations: str
    shadow: Shadow = field(init=False)
    steps: int = 0
    serial: Any = field(default_factory=itertools.count)
    crossed: set[tuple[int, int]] = field(default_factory=set)
    locations: dict[Any, dict[int, Array]] = field(default_factory=dict)
    next_cluster: int = 0
    end_cluster: int = 0

    def take_cluster(self) -> int | None:
        """The last cluster not launched yet, which now never will be; None if all run."""
        if self.next_cluster >= self.end_cluster:
            return None
        self.end_cluster -= 1
        return self.end_cluster


def simulate(ptx_text: str, entry: str | None = None, launch: Launch | None = None,
             arguments: Mapping[str, Any] | Sequence[Any] = (),
             tensor_maps: Mapping[str, TensorMap | Sequence[TensorMap]] | None = None,
             policy: str = "late", seed: int = 0, max_steps: int = 2_000_000, races: bool = True, trace: bool = False,
             progress: Callable[[int, int], None] | None = None, approximations: str = "nearest") -> Result:
    """Run one kernel of a PTX module on the CPU.

    ``arguments``: by parameter name, or in order without the tensor maps.  A numpy array is a pointer to a copy of it
    (its bytes come back in ``Result.arrays``), a Python or numpy number a scalar, ``bytes`` a struct.  Further named
    arrays may be given for tensor maps to refer to.  ``tensor_maps``: by parameter name; several for a pointer to maps in
    global memory.  ``policy``: when asynchronous
    operations take effect (``late``, ``early`` or ``random`` with ``seed``).  ``max_steps`` bounds the number of executed
    group instructions.  ``progress(done, total)`` is called after each wave of CTAs.  ``approximations``: ``approx``
    instructions give the ``nearest`` value, or the ``worst`` that their stated error allows.

    Faults of the kernel are returned, not raised.  Raises ``ParseError`` for text that is not PTX or has an unknown
    instruction, ``SimulationError`` for a launch that does not fit the kernel, ``PtxError`` for a bad tensor map.
    """
    if policy not in POLICIES:
        raise SimulationError(f"policy {policy!r} is not one of {', '.join(POLICIES)}")
    if approximations not in ("nearest", "worst"):
        raise SimulationError(f"approximations are 'nearest' or 'worst', not {approximations!r}")
    launch = launch or Launch()
    module = parse(ptx_text)
    function = inline(module, find_entry(module, entry))
    check_launch(function, launch)
    log = FaultLog()
    buffers = Buffers()
    named = name_arguments(function, arguments, tensor_maps or {})
    arrays = {name: np.ascontiguousarray(value) for name, value in named.items() if isinstance(value, np.ndarray)}
    starts = {name: buffers.add(name, max(1, value.nbytes)) for name, value in arrays.items()}
    program = lay_out(module, function, launch, buffers)
    decode(program)
    for name, given in (tensor_maps or {}).items():
        if not isinstance(given, TensorMap):
            starts[name] = buffers.add(name, max(1, MAP_BYTES * len(given)))
    buffers.freeze()
    for name, value in arrays.items():
        buffers.data[starts[name] : starts[name] + value.nbytes] = value.reshape(-1).view(np.uint8)
    initialise_globals(module, function, program, buffers)
    params, maps = fill_parameters(function, named, starts, tensor_maps or {}, program, buffers)
    context = Context(launch, policy, np.random.default_rng(seed), log, buffers, params, Maps(maps), races, max_steps,
                      Trace(trace), approximations)
    context.shadow = Shadow(len(buffers.data), program.global_shift, True)
    with np.errstate(all="ignore"):
        run_waves(context, program, progress)
    found = {}
    for name, value in arrays.items():
        raw = buffers.data[starts[name] : starts[name] + value.nbytes]
        found[name] = raw.view(value.dtype).reshape(value.shape).copy() if value.nbytes else value.copy()
    return Result(found, log.faults, {"steps": context.steps, "ctas": launch.ctas}, context.trace, log.warnings,
                  frozenset(i.line for i, seen in zip(function.body, program.visited) if seen))


def find_entry(module: Module, entry: str | None) -> Function:
    kernels = [f for f in module.functions.values() if f.kernel and f.defined]
    if entry is None:
        if len(kernels) != 1:
            raise SimulationError(f"the module has {len(kernels)} kernels; name one of them")
        return kernels[0]
    for function in kernels:
        if function.name == entry:
            return function
    raise SimulationError(f"no kernel {entry!r}; the module has {', '.join(f.name for f in kernels) or 'none'}")


def check_launch(function: Function, launch: Launch) -> None:
    required = function.directives.get("reqntid")
    if required and tuple(required) + (1,) * (3 - len(required)) != launch.block:
        raise SimulationError(f"{function.name} requires a block of {required}, launched with {launch.block}")
    limit = function.directives.get("maxntid")
    if limit:
        total = 1
        for v in limit:
            total *= v
        if launch.threads > total:
            raise SimulationError(f"{function.name} allows {total} threads per CTA, launched with {launch.threads}")
    cluster = function.directives.get("reqnctapercluster")
    if cluster and tuple(cluster) + (1,) * (3 - len(cluster)) != launch.cluster:
        raise SimulationError(f"{function.name} requires a cluster of {cluster}, launched with {launch.cluster}")


def name_arguments(function: Function, arguments: Mapping[str, Any] | Sequence[Any],
                   tensor_maps: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by parameter name; extra names are kept for tensor maps."""
    if isinstance(arguments, Mapping):
        return dict(arguments)
    names = [p.name for p in function.params if p.name not in tensor_maps]
    if len(arguments) != len(names):
        raise SimulationError(f"{function.name} has {len(names)} parameters, {len(arguments)} arguments were given")
    return dict(zip(names, arguments))


def lay_out(module: Module, function: Function, launch: Launch, buffers: Buffers) -> Program:
    """Addresses of all variables; dynamic shared memory comes after the static."""
    symbols: dict[str, tuple[str, int]] = {}
    names: list[tuple[int, int, str]] = []
    local = 0
    shared = 0
    dynamic: list[Variable] = []
    for variable in [*module.variables.values(), *function.variables]:
        if variable.space == "shared":
            if variable.extern:
                dynamic.append(variable)
                continue
            shared = -(-shared // variable.align) * variable.align
            symbols[variable.name] = ("shared", shared)
            names.append((shared, shared + variable.size, variable.name))
            shared += variable.size
        elif variable.space in ("global", "const"):
            symbols[variable.name] = (variable.space, buffers.add(variable.name, max(1, variable.size)))
        elif variable.space in ("local", "param"):
            local = -(-local // variable.align) * variable.align
            symbols[variable.name] = ("local", local)
            local += variable.size
    align = max([v.align for v in dynamic] + [16])
    start = -(-shared // align) * align
    for variable in dynamic:
        symbols[variable.name] = ("shared", start)
    if dynamic:
        names.append((start, start + launch.dynamic_shared, dynamic[0].name))
    total = start + launch.dynamic_shared if launch.dynamic_shared else shared
    if total > SHARED_LIMIT:
        raise SimulationError(f"{function.name} needs {total} bytes of shared memory; a CTA has {SHARED_LIMIT}")
    offset = 0
    for parameter in function.params:
        offset = -(-offset // parameter.align) * parameter.align
        symbols[parameter.name] = ("param", offset)
        offset += parameter.size
    program = Program(module, function, symbols, total, local, names)
    program.param_size = offset
    return program


def initialise_globals(module: Module, function: Function, program: Program, buffers: Buffers) -> None:
    for variable in [*module.variables.values(), *function.variables]:
        if variable.init is None or variable.space not in ("global", "const"):
            continue
        size = TYPE_BYTES[variable.type]
        start = program.symbols[variable.name][1]
        raw = bytearray()
        for value in variable.init:
            if isinstance(value, tuple):
                space, offset = program.symbols[value[0]]
                value = offset + value[1] + (GLOBAL if space in ("global", "const") else 0)
            raw += (int(value) & ((1 << (8 * size)) - 1)).to_bytes(size, "little")
        buffers.data[start : start + len(raw)] = np.frombuffer(bytes(raw), np.uint8)


def fill_parameters(function: Function, named: dict[str, Any], starts: dict[str, int],
                    tensor_maps: Mapping[str, TensorMap | Sequence[TensorMap]], program: Program, buffers: Buffers) \
        -> tuple[Array, dict[int, tuple[TensorMap, int]]]:
    """The parameter space as bytes, and the tensor maps by their offset in it."""
    params = np.zeros(max(16, -(-program.param_size // 16) * 16), np.uint8)
    maps: dict[int, tuple[TensorMap, int]] = {}

    def bytes_of(tensor: TensorMap) -> Array:
        if tensor.array not in starts:
            raise SimulationError(f"tensor map {parameter.name} refers to array {tensor.array!r}, which is not given")
        return encode(tensor, starts[tensor.array] + tensor.offset_bytes)
    for parameter in function.params:
        offset = program.symbols[parameter.name][1]
        tensor = tensor_maps.get(parameter.name)
        if isinstance(tensor, TensorMap):
            if parameter.size != MAP_BYTES or parameter.align % 64:
                raise SimulationError(f"parameter {parameter.name} is not a 128-byte tensor map aligned to 64")
            params[offset : offset + MAP_BYTES] = bytes_of(tensor)
            maps[offset] = (tensor, starts[tensor.array] + tensor.offset_bytes)
            continue
        if tensor is not None:
            start = starts[parameter.name]
            for i, each in enumerate(tensor):
                buffers.data[start + MAP_BYTES * i : start + MAP_BYTES * (i + 1)] = bytes_of(each)
            named = {**named, parameter.name: GLOBAL + start}
        if parameter.name not in named:
            raise SimulationError(f"parameter {parameter.name} of {function.name} has no argument")
        raw = encode_argument(parameter, named[parameter.name], starts)
        params[offset : offset + len(raw)] = np.frombuffer(raw, np.uint8)
    unknown = set(tensor_maps) - {p.name for p in function.params}
    if unknown:
        raise SimulationError(f"{function.name} has no parameter {sorted(unknown)[0]}")
    return params, maps


def encode_argument(parameter: Variable, value: Any, starts: dict[str, int]) -> bytes:
    size = parameter.size
    if isinstance(value, np.ndarray):
        if size != 8:
            raise SimulationError(f"parameter {parameter.name} of {size} bytes cannot hold a pointer")
        return struct.pack("<Q", GLOBAL + starts[parameter.name])
    if isinstance(value, bytes):
        if len(value) != size:
            raise SimulationError(f"parameter {parameter.name} has {size} bytes, {len(value)} were given")
        return value
    if isinstance(value, np.generic):
        raw = value.tobytes()
        if len(raw) == size:
            return raw
        value = value.item()
    if isinstance(value, float) and parameter.type in ("f32", "f64"):
        return struct.pack("<f" if size == 4 else "<d", value)
    if isinstance(value, (bool, int)):
        if parameter.type in ("f32", "f64"):
            return struct.pack("<f" if size == 4 else "<d", float(value))
        if -(1 << (8 * size - 1)) <= value < 1 << (8 * size):
            return (value & ((1 << (8 * size)) - 1)).to_bytes(size, "little")
        raise SimulationError(f"parameter {parameter.name}: {value} does not fit {size} bytes")
    raise SimulationError(f"parameter {parameter.name} (.{parameter.type}) cannot be {type(value).__name__} {value!r}")


def run_waves(context: Context, program: Program, progress: Callable[[int, int], None] | None) -> None:
    launch = context.launch
    clusters = launch.ctas // launch.cluster_ctas
    per_cluster = launch.threads * launch.cluster_ctas
    if per_cluster > MAX_CLUSTER_THREADS:
        raise SimulationError(f"launch: {per_cluster} threads in a cluster exceed the {MAX_CLUSTER_THREADS} this simulator "
                              "keeps vector clocks for")
    size = max(1, min(148 // launch.cluster_ctas, 4096 // per_cluster, clusters))
    size = max(1, min(size, (1 << 22) // (per_cluster * per_cluster)))
    if program.cancels:
        size = max(1, min(size, clusters // 3))
    context.end_cluster = clusters
    while context.next_cluster < context.end_cluster:
        first = context.next_cluster
        count = min(size, context.end_cluster - first)
        context.next_cluster += count
        wave = Wave(context, program, first, count)
        try:
            Scheduler(wave).run()
            finish(wave)
        except Halt:
            return
        except MemoryError as error:
            raise SimulationError(f"the simulation ran out of memory: {error}") from error
        if progress:
            progress((first + count) * launch.cluster_ctas, launch.ctas)


def finish(wave: Wave) -> None:
    """Faults of work left over when the CTAs end."""
    wave.current_row = None
    groups = wave.scratch.get("bulk")
    if groups is not None:
        for row, issued in groups.issued.items():
            if groups.read_waited.get(row, 0) < issued:
                wave.current = None
                wave.report("exit", "the CTA ends while a bulk store may still read its shared memory "
                                    "(cp.async.bulk.wait_group is missing)", row=row)
    for queue, pending in list(wave.queues.items()):
        op = pending[0]
        wave.current = op.instr
        if queue[0] == "tma":
            wave.report("exit", f"the CTA ends while {op.label} may still write its shared memory", row=op.row)
        elif queue[0] == "tc" and op.label != "commit":
            wave.report("exit", f"the CTA ends while {op.label} may still be running", row=op.row)
    while wave.queues:
        wave.perform(next(iter(wave.queues)))
    for (cta, row), (epoch, instr) in wave.remote.items():
        owners = slice(cta * wave.per_cta, (cta + 1) * wave.per_cta)
        if wave.clocks.know[HB, owners, wave.clocks.local[row]].max() < epoch and wave.checker.enabled:
            wave.current = instr
            wave.report("exit", f"CTA {wave.cta_number(cta)} may end while this access to its shared memory is under way",
                        row=row)
    wave.current = None
    for barrier in wave.mbarriers.values():
        settled(wave, barrier)
    if wave._tmem is not None:
        for cta, sizes in enumerate(wave._tmem.sizes):
            if sizes:
                wave.report("tmem-alloc", f"CTA {wave.cta_number(cta)} ends with tensor memory still allocated: "
                                          + ", ".join(f"{n} columns at {s}" for s, n in sizes.items()))
