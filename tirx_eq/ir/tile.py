"""Tile primitive calls: one operation on whole buffer regions, executed together by the threads of a scope."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any

from ..errors import IRError, Span
from .buffer import Buffer, BufferRegion
from .exec_scope import ExecScope
from .expr import Expr, Var
from .node import node
from .op import GEMM_ASYNC_SCALED, Op, TilePrimitive
from .stmt import Stmt


@node("tirx.LambdaExpr")
class LambdaExpr:
    """An expression over bound variables, such as the predicate of ``select`` over destination coordinates."""

    vars: tuple[Var, ...]
    body: Expr


@node("tirx.TilePrimitiveCall")
class TilePrimitiveCall(Stmt):
    """``op`` applied to ``args``: regions first, then compile-time flags (see the op's :class:`TilePrimitive`).

    ``config`` holds what the caller says to the variants (``cta_group``, ``vec_len``, ``mbar`` …); ``dispatch``
    restricts the choice to one variant; ``workspace`` gives named scratch buffers; ``scope`` says which threads take
    part.
    """

    op: Op
    args: tuple[Any, ...]
    workspace: dict[str, Buffer] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    dispatch: str | None = None
    scope: ExecScope = ExecScope("thread")
    span: Span | None = field(default=None, compare=False, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        if not self.op.is_tile_primitive:
            raise IRError(f"'{self.op.name}' is not a tile primitive, so it can't be called on regions")
        wanted = len(self.signature.operands)
        if self.op.short_name != "compose_op" and len(self.args) != wanted:
            raise IRError(
                f"tile primitive '{self.op.short_name}' takes {wanted} operands "
                f"({', '.join(self.signature.operands)}), got {len(self.args)}"
            )
        for name, arg in zip(self.signature.outputs, self.args):
            if not isinstance(arg, BufferRegion):
                raise IRError(f"tile primitive '{self.op.short_name}': '{name}' must be a buffer region, got {arg!r}")

    @property
    def signature(self) -> TilePrimitive:
        if self.op.short_name == "gemm_async" and len(self.args) == 8:
            return GEMM_ASYNC_SCALED
        assert self.op.tile is not None
        return self.op.tile

    def operand(self, name: str) -> Any:
        """The operand with the signature's ``name``; raises IRError if there is none."""
        try:
            return self.args[self.signature.operands.index(name)]
        except ValueError:
            raise IRError(f"tile primitive '{self.op.short_name}' has no operand '{name}'") from None

    @property
    def dsts(self) -> tuple[BufferRegion, ...]:
        """The regions written."""
        return self.args[: len(self.signature.outputs)]

    @property
    def srcs(self) -> tuple[Any, ...]:
        """The operands read: regions, or scalars."""
        start = len(self.signature.outputs)
        return self.args[start : start + len(self.signature.inputs)]

    @property
    def flags(self) -> dict[str, Any]:
        """The compile-time operands by name."""
        return {name: self.operand(name) for name in self.signature.flags}

    def regions(self) -> Sequence[BufferRegion]:
        """All operands that are regions, outputs first."""
        return [a for a in self.args if isinstance(a, BufferRegion)]
