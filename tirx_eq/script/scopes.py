"""Where the device code starts, and the ids of its clusters, CTAs, warps and threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import IRError
from ..ir import Expr, IntImm, PrimType, ScopeIdDef, ScopeIdDefStmt, Var
from .builder import attr_frame, current, emit
from .values import as_expr, new_var

#: name in the namespace -> (parent, child) of its ScopeIdDef
SCOPE_IDS: dict[str, tuple[str, str]] = {
    "cluster_id": ("kernel", "cluster"),
    "cta_id": ("kernel", "cta"),
    "cta_id_in_cluster": ("cluster", "cta"),
    "warpgroup_id": ("cta", "warpgroup"),
    "warp_id": ("cta", "warp"),
    "warp_id_in_wg": ("warpgroup", "warp"),
    "lane_id": ("warp", "thread"),
    "thread_id": ("cta", "thread"),
    "thread_id_in_wg": ("warpgroup", "thread"),
}


def device_entry() -> None:
    """All that follows runs on the device."""
    current().open(attr_frame(0, "tirx.device_entry", IntImm("bool", 1)))


def _extents(value: Any, what: str) -> tuple[Expr, ...] | None:
    if value is None:
        return None
    if isinstance(value, (int, Expr)):
        value = [value]
    made = tuple(as_expr(e) for e in value)
    if not made:
        raise IRError(f"{what}: at least one extent is needed (or none is named, to be inferred)")
    for e in made:
        if isinstance(e, IntImm) and int(e) < 1:
            raise IRError(f"{what}: an extent must be at least 1, got {int(e)}")
    return made


def scope_id(extents: Any, parent: str, child: str, preferred: Any = None) -> Var | list[Var]:
    """Ids of the ``child`` units in their ``parent``: one variable per extent (one if it is left to be inferred)."""
    name = f"ids of {child} in {parent}"
    sizes = _extents(extents, name)
    wanted = _extents(preferred, name)
    if wanted is not None and (parent, child) != ("cluster", "cta"):
        raise IRError(f"{name}: preferred= is only for the CTAs of a cluster")
    ids = tuple(new_var(PrimType("int32")) for _ in range(1 if sizes is None else len(sizes)))
    emit(ScopeIdDefStmt, ScopeIdDef(ids, sizes, parent, child, wanted))
    return ids[0] if len(ids) == 1 else list(ids)


def cta_id_in_pair() -> Var:
    """The id of a CTA in its pair (0 or 1)."""
    return scope_id([2], "cluster", "cta_pair")  # type: ignore[return-value]


def _id_function(name: str, parent: str, child: str) -> Callable[..., Any]:
    takes_preferred = child == "cta"

    def declare(extents: Any = None, preferred: Any = None) -> Any:
        if preferred is not None and not takes_preferred:
            raise IRError(f"{name} takes no preferred=")
        return scope_id(extents, parent, child, preferred)

    declare.__name__ = name
    declare.__doc__ = f"Ids of {child} units in their {parent}; ``extents`` one per dimension, None to be inferred."
    return declare


ID_FUNCTIONS: dict[str, Callable[..., Any]] = {n: _id_function(n, *binding) for n, binding in SCOPE_IDS.items()}
