"""Roles of warps and warpgroups: ``with role:`` runs its block in the warps that have the role."""

from __future__ import annotations

from typing import Any

from ...ir import EQ, GE, LT, And, Expr, const
from ..builder import Frame, IfFrame, then_frame
from .emission import emit_call


class _Role:
    """A block under a condition, with a register budget."""

    regs: int | None
    increase: bool

    def condition(self) -> Expr:
        """Which threads have the role."""
        raise NotImplementedError

    def __enter__(self) -> Any:
        self._frames: list[Frame] = [IfFrame(self.condition())]
        self._frames[0].__enter__()
        self._frames.append(then_frame())
        self._frames[1].__enter__()
        if self.regs is not None:
            emit_call("ptx.setmaxnreg", self.increase, self.regs)
        return self

    def __exit__(self, *error: Any) -> None:
        for frame in reversed(self._frames):
            frame.__exit__(*error)


class WarpRole(_Role):
    """The warp with id ``warp_id_val``; ``regs`` registers per thread, more or fewer than before by ``increase``."""

    def __init__(self, warp_id_var: Any, warp_id_val: int, regs: int | None = None, increase: bool = False) -> None:
        self.warp_id_var, self.warp_id_val = warp_id_var, warp_id_val
        self.regs, self.increase = regs, increase

    def condition(self) -> Expr:
        return EQ(self.warp_id_var, const(self.warp_id_val, self.warp_id_var.dtype))


class WarpgroupRole(_Role):
    """The warpgroup with id ``wg_id_val``, or those of a range ``(start, stop)``."""

    def __init__(self, wg_id_var: Any, wg_id_val: Any, regs: int | None = None, increase: bool = False) -> None:
        self.wg_id_var, self.wg_id_val = wg_id_var, wg_id_val
        self.regs, self.increase = regs, increase

    def condition(self) -> Expr:
        var = self.wg_id_var
        if isinstance(self.wg_id_val, tuple):
            start, stop = (const(v, var.dtype) for v in self.wg_id_val)
            return And(GE(var, start), LT(var, stop))
        return EQ(var, const(self.wg_id_val, var.dtype))


__all__ = ["WarpRole", "WarpgroupRole"]
