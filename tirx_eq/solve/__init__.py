"""Layouts as unknowns: the hardware's rules as constraints, candidates by requirements that flow, the optimum by search."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Solve(ModuleType):
    """This package under the name ``te.solve`` is called like the function :func:`tirx_eq.solve.solve.solve`: whichever of
    the two is loaded first, ``te.solve(func)`` solves."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        from .solve import solve

        return solve(*args, **options)


sys.modules[__name__].__class__ = _Solve
