"""``tirx-eq run``: compile a kernel, simulate its PTX, compare with the reference interpreter."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import ParseError
from .compile import load_function
from .output import print_json, stderr, stdout, table, write_text

if TYPE_CHECKING:
    from ..interp.compare import Comparison
    from ..ir import PrimFunc
    from ..sim import Fault, Result

POLICIES = ("late", "early", "random")


def run_command(
    file: Annotated[str, typer.Argument(help="Python file with the kernel, FILE or FILE:FUNC")],
    seed: Annotated[int, typer.Option(help="seed of the inputs, and of the policy 'random'")] = 0,
    random: Annotated[bool, typer.Option("--random", help="normal random inputs instead of whole numbers")] = False,
    policy: Annotated[
        str,
        typer.Option("--policy", "--schedule", help="asynchronous operations take effect: late, early or random"),
    ] = "late",
    size: Annotated[list[str] | None, typer.Option(help="a symbolic extent or scalar, as NAME=VALUE")] = None,
    target: Annotated[str, typer.Option(help="architecture to compile for")] = "sm_100a",
    ptx: Annotated[Path | None, typer.Option(help="simulate this PTX instead of the compiled one")] = None,
    trace: Annotated[Path | None, typer.Option(help="write a Chrome/Perfetto trace of asynchronous operations")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Run a TIRx kernel: simulate its PTX on generated inputs and compare with the reference interpreter.

    Whole-number inputs must agree bit for bit unless the kernel uses functions that the hardware approximates.
    """
    if policy not in POLICIES:
        raise ParseError(f"--policy must be one of {', '.join(POLICIES)}, not '{policy}'")
    func = load_function(file)
    outcome = execute(
        func, seed=seed, kind="random" if random else "integers", policy=policy, extents=_sizes(size or []),
        target=target, ptx=_read(ptx), trace=trace is not None, progress=_progress(as_json),
    )  # fmt: skip
    if trace is not None:
        write_text(trace, outcome.result.trace.json())
    for note in outcome.warnings:
        stderr().print("[yellow]warning:[/]", end=" ")
        stderr().print(note, markup=False, soft_wrap=True)
    if as_json:
        print_json(outcome.to_json())
    else:
        _show(outcome)
    if not outcome.good:
        raise typer.Exit(1)


@dataclass(frozen=True)
class Outcome:
    """What a run gave: a comparison per buffer, the simulator's result, and seconds per part.

    ``exact``: whether bits had to agree; ``kind`` and ``policy`` as they were asked for.
    """

    name: str
    kind: str
    policy: str
    exact: bool
    comparisons: tuple[Comparison, ...]
    result: Result
    seconds: dict[str, float]
    warnings: tuple[str, ...] = ()

    @property
    def faults(self) -> list[Fault]:
        return list(self.result.faults)

    @property
    def good(self) -> bool:
        """Whether all buffers agree and no fault was found."""
        return not self.faults and all(c.agrees for c in self.comparisons)

    def to_json(self) -> dict[str, Any]:
        return {
            "kernel": self.name, "inputs": self.kind, "policy": self.policy, "exact": self.exact, "agrees": self.good,
            "buffers": [
                {"name": c.name, "dtype": c.dtype, "shape": list(c.shape), "written": c.changed, "bound": c.bound,
                 "max_error": c.error, "different": c.different, "first_difference": c.describe() or None}
                for c in self.comparisons
            ],
            "faults": [
                {"kind": f.kind, "line": f.line, "cta": f.cta, "thread": f.thread, "message": f.message, "rule": f.rule}
                for f in self.faults
            ],
            "warnings": list(self.warnings),
            "instructions": self.result.stats["steps"],
            "seconds": {k: round(v, 4) for k, v in self.seconds.items()},
        }  # fmt: skip


def execute(
    func: PrimFunc, *, seed: int = 0, kind: str = "integers", policy: str = "late",
    extents: dict[str, int] | None = None, target: str = "sm_100a", ptx: str | None = None, trace: bool = False,
    progress: Any = None, approximations: str = "nearest",
) -> Outcome:  # fmt: skip
    """Compile ``func``, interpret it and simulate its PTX (or ``ptx``) on the same generated inputs, and compare.

    Where bits need not agree, the error allowed is what the interpreter's own result changes by when each of its operations
    is off as far as the target's may be (see :mod:`tirx_eq.interp.noise`).  ``approximations`` as for
    :func:`tirx_eq.sim.simulate`.
    """
    from ..interp.compare import compare, is_exact
    from ..interp.inputs import generate_inputs
    from ..interp.run import disturbed_results, from_memory, interpret_recorded, to_memory
    from ..lower.kernel import compile_function
    from ..solve.compile import filled

    seconds: dict[str, float] = {}
    clock = time.perf_counter()

    def lap(name: str) -> None:
        nonlocal clock
        now = time.perf_counter()
        seconds[name] = now - clock
        clock = now

    func, _ = filled(func, target)
    kernel = compile_function(func, target)
    if ptx is not None:
        kernel = replace(kernel, ptx=ptx)
    lap("compile")
    arguments = generate_inputs(func, seed, kind, extents)
    expected, record = interpret_recorded(func, *arguments)
    lap("interpret")
    result = kernel.simulate(*to_memory(func, arguments), policy=policy, seed=seed, trace=trace,
                             progress=progress, approximations=approximations)  # fmt: skip
    lap("simulate")
    exact = is_exact(kind, record)
    found = from_memory(func, arguments, result.arrays)
    before = {func.buffer_map[p].name: a for p, a in zip(func.params, arguments) if p in func.buffer_map}
    others = [] if exact else disturbed_results(func, arguments, seed)
    comparisons = [
        compare(name, want, found[name], before[name], exact, [o[name] for o in others], signed_zeros=not record.terms)
        for name, want in expected.items()
    ]
    lap("compare")
    return Outcome(func.name, kind, policy, exact, tuple(comparisons), result, seconds, kernel.warnings)


def _sizes(given: Sequence[str]) -> dict[str, int]:
    out = {}
    for text in given:
        name, eq, value = text.partition("=")
        if not eq or not value.lstrip("-").isdigit():
            raise ParseError(f"--size takes NAME=VALUE, got '{text}'")
        out[name] = int(value)
    return out


def _read(path: Path | None) -> str | None:
    if path is None:
        return None
    try:
        return path.read_text()
    except OSError as error:
        raise ParseError(f"can't read {path}: {error.strerror}") from None


def _progress(quiet: bool) -> Any:
    """A bar on the terminal for launches of several waves."""
    if quiet or not stderr().is_terminal:
        return None
    from rich.progress import Progress

    bar: Progress | None = None
    task: Any = None

    def step(done: int, total: int) -> None:
        nonlocal bar, task
        if done >= total:
            if bar is not None:
                bar.stop()
            return
        if bar is None:
            bar = Progress(console=stderr(), transient=True)
            task = bar.add_task("simulating CTAs", total=total)
            bar.start()
        bar.update(task, completed=done)

    return step


def _show(outcome: Outcome) -> None:
    rows = []
    for c in outcome.comparisons:
        verdict = "[green]agrees[/]" if c.agrees else f"[red]{c.different} elements differ[/]"
        allowed = "bits" if outcome.exact or not c.bound else f"{c.bound:.3g}"
        shape = "×".join(map(str, c.shape)) or "scalar"
        rows.append((c.name, c.dtype, shape, "yes" if c.changed else "no", f"{c.error:.3g}", allowed, verdict))
    columns = ("buffer", "dtype", "shape", "written", "max error", "allowed", "PTX against interpreter")
    stdout().print(table(f"{outcome.name} on {outcome.kind}, policy {outcome.policy}", columns, rows, right=(4, 5)))
    for c in outcome.comparisons:
        if not c.agrees:
            stdout().print(f"[red]difference:[/] {c.describe()}", soft_wrap=True)
    for f in outcome.faults:
        stdout().print("[red]fault:[/]", end=" ")
        stdout().print(f"{f}\n       {f.rule}", markup=False, soft_wrap=True)
    s = outcome.seconds
    done = "agree" if outcome.good else "[red]do not agree[/]" if not outcome.faults else "[red]faults were found[/]"
    stdout().print(
        f"{outcome.name}: {done}; {outcome.result.stats['steps']} warp instructions; compile {s['compile']:.2f} s, "
        f"interpret {s['interpret']:.2f} s, simulate {s['simulate']:.2f} s",
        soft_wrap=True,
    )


def add(app: typer.Typer) -> None:
    app.command("run")(run_command)
