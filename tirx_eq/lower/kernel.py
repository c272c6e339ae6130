"""The driver: a function in, a :class:`Kernel` (PTX, launch, report) out."""

from __future__ import annotations

import difflib
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..errors import LoweringError, ProofError, TirxError
from ..ir import AllocBuffer, DeclBuffer, PrimFunc, TensorMapType, Var, post_order_visit
from ..ir import dtype as dt
from ..layout import is_open
from ..prove.verdict import Verdict
from ..ptx.builder import Module, Param
from ..ptx.launch import Grid
from ..ptx.launch import Launch as LaunchData
from ..ptx.target import find_target
from .candidates import Choice, choose
from .checks.barriers import check_all_arrive, check_barriers
from .checks.hazards import check_hazards
from .checks.jumps import check_jumps
from .checks.overlaps import check_overlaps
from .checks.regions import check_regions
from .checks.tmem import check_tensor_memory
from .code.casts import ptx_type
from .code.emit import Emitter
from .equations.sizes import how_sizes
from .indices import Indices
from .intrinsics.language import constant
from .names import check_names, fresh, parameter_names
from .program import Block, replace_calls
from .sharing.scratch import fits, place_scratch
from .sharing.threads import Launch, find_launch
from .staging.distribute import distribute
from .staging.stack import indexed_at_run_time
from .staging.tmem import stage_tensor_memory
from .staging.waits import expand_waits
from .statements import Lowerer
from .storage import SHARED_ALIGN, Storage, plan
from .tensor_maps import used_maps
from .variants import OWN_SCRATCH, VARIANTS

#: Config keys that mean something to the compiler whatever the variant.
COMMON_CONFIG = frozenset(("dispatch",))
#: Config keys that change what a call does: left unread they would make a wrong program.
FLAGS = frozenset(("is_AB_tf32", "weight_stationary"))
MEANINGFUL_CONFIG = FLAGS | {"cta_group", "cta_mask", "gather4", "mbar", "oob", "remote_cta_id", "use_tma_reduce"}
#: Config keys of TVM 0.26 that say how to do it, not what: they may be left unread.
HINTS = frozenset((
    "cache_hint", "descI", "max_inst_size", "mma_m", "mma_n", "prefetch_size", "prefetch_tensormap", "smem_desc",
    "tensormap_l2_promotion", "thread_reduce", "vec_len",
))  # fmt: skip



@dataclass(frozen=True)
class Lowered:
    """One tile call: what was chosen for it and the verdict on its layout equation."""

    choice: Choice
    equation: Verdict


@dataclass(frozen=True)
class Kernel:
    """A compiled kernel.

    ``ptx`` is the module text, ``launch`` what the host needs; called with arrays, ``kernel.launch(*arrays)``, it launches on
    a GPU (see :func:`tirx_eq.ptx.driver.launch`).  ``calls`` and ``indices`` are what the report shows;
    ``solution`` tells which layouts were chosen where the function left some open (see :mod:`tirx_eq.solve`).
    """

    name: str
    target: str
    ptx: str
    launch: LaunchData
    calls: tuple[Lowered, ...] = field(repr=False)
    indices: Indices = field(repr=False)
    seconds: dict[str, float] = field(repr=False)
    warnings: tuple[str, ...] = ()
    solution: Any = field(default=None, repr=False)

    def explain(self) -> str:
        """For each tile call every candidate with its cost, and the condition that ruled out each other variant."""
        from .report import explain

        return explain(self)

    def report(self) -> dict[str, Any]:
        """The report as JSON-able data."""
        from .report import report

        return report(self)

    def assemble(self) -> Any:
        """What ``ptxas`` makes of the PTX (registers, spills, bytes); raises PtxError if it refuses."""
        from ..ptx.ptxas import assemble

        return assemble(self.ptx, self.target)

    def simulate(self, *arrays: Any, **options: Any) -> Any:
        """Run the PTX on numpy arrays, one per parameter in order; see :func:`tirx_eq.sim.kernel.simulate_kernel`."""
        from ..sim.kernel import simulate_kernel

        return simulate_kernel(self, arrays, **options)


def compile_function(func: PrimFunc, target: str = "sm_100a") -> Kernel:
    """Lower a kernel to PTX for ``target``.

    Raises LoweringError for what can't be lowered (with the conditions that fail), PtxError for a target that lacks an
    instruction, ProofError if a lowering's layout equation or an address doesn't hold.
    """
    if not isinstance(func, PrimFunc):
        raise LoweringError(f"compile needs a PrimFunc, got {type(func).__name__}")
    find_target(target)
    _refuse_open(func)
    check_jumps(func)
    clock = _Clock()
    launch = find_launch(func)
    check_names(func, [v.name for v in launch.host.extents])
    func = stage_tensor_memory(distribute(expand_waits(func), launch), launch)
    storage, lowerer, program = _lowered(func, launch, target)
    clock.lap("analysis")
    choices = choose(lowerer.contexts)
    clock.lap("choice")
    bodies = {k.context.index: _emit(k) for k in choices}
    if not fits(bodies, storage):  # calls share the scratch then, and wait for each other
        choices = choose(lowerer.contexts, without=OWN_SCRATCH)
        bodies = {k.context.index: _emit(k) for k in choices}
    bodies = place_scratch(bodies, storage)
    check_overlaps(lowerer.contexts)
    check_regions(lowerer.contexts)
    check_tensor_memory(func, lowerer.contexts)
    check_barriers(func, storage)
    check_all_arrive(lowerer.syncs)
    check_hazards(program, lowerer.contexts, {k.context.index: k.chosen.node for k in choices}, bodies, launch)
    clock.lap("hazards")
    program = replace_calls(program, bodies)
    indices = Indices(program, launch, storage, lowerer.ranges)
    clock.lap("indices")
    calls = tuple(_prove(k, bodies[k.context.index], indices) for k in choices)
    clock.lap("equations")
    notes = [*lowerer.notes, *(note for k in choices for note in _unread_config(k))]
    module, host = Module(target), launch.host
    taken = {func.name, *parameter_names(func), *(v.name for v in host.extents)}
    maps = used_maps(program, storage, lowerer.tensor_maps, taken)
    params = [*_params(func), *map(_scalar, host.extents), *(Param.tensor_map(name) for name in maps.values())]
    cluster = launch.cluster if launch.cluster != (1, 1, 1) else None
    kernel = module.kernel(func.name, params, launch.block, cluster)
    shared = None
    if storage.shared_bytes:
        shared = kernel.dynamic_shared(fresh("smem", {*taken, *maps.values()}), storage.shared_bytes, SHARED_ALIGN)
    emitter = Emitter(kernel, indices, shared, (*func.params, *host.extents), maps, lowerer.tensor_maps)
    emitter.run(program)
    if count := len(emitter.terms.widths.typed):
        notes.append(f"{count} expressions of 64-bit integers may need more bits; they are computed with 64, as typed")
    for note in notes:
        warnings.warn(note, stacklevel=3)
    text = module.text()
    clock.lap("ptx")
    data = kernel.launch(_grid(launch), {name: m for m, name in maps.items()})
    arrays = {b.name: (b.dtype, host.shape(b)) for b in func.buffer_map.values()}
    unchanged = {b.name for b in func.buffer_map.values() if b.data in lowerer.scalars.unchanged}
    data = data.with_arrays(arrays, {v.name: place for v, place in host.extents.items()}, text, unchanged)
    return Kernel(func.name, target, text, data, calls, indices, clock.laps, tuple(notes))


def _lowered(func: PrimFunc, launch: Launch, target: str) -> tuple[Storage, Lowerer, Block]:
    """The program before its tile calls are chosen; register arrays that are indexed at run time are moved to memory."""
    lowerer = Lowerer(func, launch, plan(func), target)
    program = lowerer.run()
    moved = indexed_at_run_time(program, lowerer.contexts, launch, lowerer.storage, lowerer.ranges)
    if moved:
        lowerer = Lowerer(func, launch, plan(func, stack=[root.name for root in moved]), target)
        program = lowerer.run()
        lowerer.notes += [
            f"'{r.name}' ({r.size} bytes of each thread) is indexed at run time, so it is in local memory, not in registers"
            for r in moved
        ]
    return lowerer.storage, lowerer, program


def _grid(launch: Launch) -> Grid:
    x, y, z = (launch.host.term(e, f"the grid's {axis} extent") for axis, e in zip("xyz", launch.grid))
    return x, y, z


def _refuse_open(func: PrimFunc) -> None:
    def look(node: Any) -> None:
        if isinstance(node, (AllocBuffer, DeclBuffer)) and is_open(node.buffer.layout):
            raise LoweringError(
                f"the layout of '{node.buffer.name}' is left open", hint="te.compile chooses it, or te.solve", span=node.span
            )

    post_order_visit(func.body, look)


def _emit(choice: Choice) -> Block:
    c = choice.context
    try:
        return VARIANTS[choice.chosen.node].emit(c, choice.chosen.values)
    except TirxError as error:
        raise error.at(c.span) from None


def _prove(choice: Choice, block: Block, indices: Indices) -> Lowered:
    verdict = VARIANTS[choice.chosen.node].equation(choice.context, block, indices)
    if verdict.status != "equal":
        raise ProofError(
            f"the lowering {choice.chosen.describe()} of '{choice.context.op}' breaks its layout equation: {verdict.detail}",
            span=choice.context.span,
        )
    if how := how_sizes(choice.context):
        verdict = replace(verdict, detail=f"{verdict.detail}, {how}")
    return Lowered(choice, verdict)


def unread_config(choice: Choice) -> list[str]:
    """Config keys of a call that neither the chosen variant nor the compiler reads."""
    read = COMMON_CONFIG | {key for v in VARIANTS.values() for key in v.config if v.node == choice.chosen.node}
    return sorted(set(choice.context.call.config) - read)


def _unread_config(choice: Choice) -> list[str]:
    unread = unread_config(choice)
    for key in unread:
        value = choice.context.call.config[key]
        off = value is None or (key in FLAGS and constant(value) == 0) or (key == "cta_group" and constant(value) == 1)
        if key in MEANINGFUL_CONFIG and not off:
            raise LoweringError(
                f"'{choice.context.op}' was given '{key}', which changes its meaning; {choice.chosen.describe()} can't do that",
                span=choice.context.span,
            )
        if key not in HINTS | MEANINGFUL_CONFIG and value is not None:
            known = sorted(HINTS | MEANINGFUL_CONFIG | set(choice.context.call.signature.operands))
            near = difflib.get_close_matches(key, known, 2, 0.5)
            raise LoweringError(
                f"'{choice.context.op}' was given '{key}', which is no argument or config key of a tile primitive",
                hint=f"did you mean {' or '.join(near)}?" if near else None, span=choice.context.span,
            )
    place = f"{choice.context.span}: " if choice.context.span else ""
    return [f"{place}'{choice.context.op}' was given the config key '{key}', which nothing reads" for key in unread]


def _params(func: PrimFunc) -> Sequence[Param]:
    made = []
    for var in func.params:
        if var in func.buffer_map:
            buffer = func.buffer_map[var]
            made.append(Param.pointer(buffer.name, "global", buffer.data_alignment))
        elif isinstance(var.ty, TensorMapType):
            made.append(Param.tensor_map(var.name))
        else:
            made.append(_scalar(var))
    return made


def _scalar(var: Var) -> Param:
    if dt.kind(var.dtype) == "handle":
        return Param.pointer(var.name)
    return Param.scalar(var.name, ptx_type(var.dtype))


class _Clock:
    """Seconds per phase."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.laps[name] = now - self._last
        self._last = now
