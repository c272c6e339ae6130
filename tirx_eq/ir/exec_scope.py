"""Execution scopes: which threads take part, and how their ids are declared."""

from __future__ import annotations

from ..errors import IRError
from .expr import Expr, Var
from .node import node

#: Scopes from widest to narrowest.
SCOPES = ("world", "kernel", "cluster", "cta", "warpgroup", "warp", "thread")
_CALLABLE = ("cluster", "cta", "warpgroup", "warp", "thread")
_ALIASES = {"wg": "warpgroup"}

#: (parent, child): what a scope id numbers.  ``("cta", "warp")`` numbers the warps of a CTA.
SCOPE_BINDINGS = (
    ("kernel", "cluster"), ("kernel", "cta"), ("cluster", "cta"), ("cta", "warpgroup"), ("cta", "warp"),
    ("warpgroup", "warp"), ("warp", "thread"), ("cta", "thread"), ("warpgroup", "thread"), ("cluster", "cta_pair"),
)  # fmt: skip


@node("tirx.ExecScope")
class ExecScope:
    """The threads that execute a tile primitive together: cluster, cta, warpgroup, warp or thread."""

    kind: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", _ALIASES.get(self.kind, self.kind))
        if self.kind not in _CALLABLE:
            raise IRError(f"'{self.kind}' is not an execution scope", hint=f"one of {', '.join(_CALLABLE)}")

    def __str__(self) -> str:
        return self.kind


@node("tirx.ScopeIdDef")
class ScopeIdDef:
    """Ids of the ``child`` units in their ``parent`` unit, one variable per dimension.

    ``extents`` None leaves the extent to be inferred from sibling definitions; then there is exactly one variable.
    """

    def_ids: tuple[Var, ...]
    extents: tuple[Expr, ...] | None
    parent: str
    child: str
    preferred_extents: tuple[Expr, ...] | None = None

    def __post_init__(self) -> None:
        if (self.parent, self.child) not in SCOPE_BINDINGS:
            raise IRError(f"there are no ids of {self.child} in {self.parent}")
        if self.extents is None and len(self.def_ids) != 1:
            raise IRError("a scope id without extents needs exactly one variable")
        if self.extents is not None and len(self.extents) != len(self.def_ids):
            raise IRError(f"{len(self.def_ids)} scope ids but {len(self.extents)} extents")

    @property
    def scope(self) -> str:
        """The binding as text, for example ``cta->thread``."""
        return f"{self.parent}->{self.child}"
