"""The integer programming solver (``highspy``), set up to give the same answer on every run."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..errors import TirxError

#: One thread and a fixed seed; an optimum is one only without a gap.
OPTIONS: dict[str, Any] = {
    "log_to_console": False, "output_flag": False, "threads": 1, "random_seed": 0, "mip_rel_gap": 0.0, "mip_abs_gap": 0.0,
}  # fmt: skip


class SolverMissing(TirxError):
    """An exact choice without ``highspy``."""


def integer_solver(what: str, **options: Any) -> Any:
    """An empty ``highspy.Highs``; ``options`` replace those above.  SolverMissing says that ``what`` needs it."""
    try:
        import highspy
    except ImportError:
        raise SolverMissing(f"{what} needs highspy", hint="pip install 'tirx-eq[exact]'") from None
    with _no_banner():
        solver = highspy.Highs()
    for option, value in {**OPTIONS, **options}.items():
        solver.setOptionValue(option, value)
    return solver


@contextmanager
def _no_banner() -> Iterator[None]:
    """Keeps the banner that the solver's constructor writes to file descriptor 1 out of the program's output."""
    sys.stdout.flush()
    saved, null = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, 1)
        yield
    finally:
        os.dup2(saved, 1)
        os.close(saved)
        os.close(null)
