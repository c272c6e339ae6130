"""``te.compile``: layouts that are left open are solved first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from ..ir import PrimFunc
from ..lower.kernel import Kernel, compile_function
from .erase import has_open_layouts

if TYPE_CHECKING:
    from .solution import Solution


Progress = Callable[[str], None]


def compile_open(func: PrimFunc, target: str = "sm_100a", *, progress: Progress | None = None) -> Kernel:
    """Lower a kernel to PTX for ``target``; layouts left open (``Tx.auto``) are chosen first, ``Kernel.solution`` has them.

    Raises LoweringError for what can't be lowered (with the conditions that fail), NoLayoutError if open layouts can't be
    chosen, PtxError for a target that lacks an instruction, ProofError if a layout equation or an address doesn't hold.
    """
    if not isinstance(func, PrimFunc):
        return compile_function(func, target)
    func, solution = filled(func, target, progress)
    kernel = compile_function(func, target)
    return kernel if solution is None else replace(kernel, solution=solution)


def filled(func: PrimFunc, target: str = "sm_100a", progress: Progress | None = None) -> tuple[PrimFunc, Solution | None]:
    """The function with its open layouts chosen, and the solution; the function itself if none is open."""
    if not has_open_layouts(func):
        return func, None
    from .solve import solve  # only here: it takes a while to load

    solution = solve(func, target, alternatives=False, progress=progress)
    return solution.func, solution
