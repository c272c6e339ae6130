"""Tile calls: a variant that isn't the cheapest, none that fits, descriptors that can't be made, configuration nobody reads.

A call is judged by the lowering's own conditions and machine model, without emitting anything.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .. import ir
from ..errors import LoweringError, TirxError
from ..ir.node import replace as with_fields
from .findings import Audit, Finding

#: Variants that TVM takes when a call names none, by falling priority and then by name (0.26, 0.27; only those that exist
#: here too).
TVM_ORDER: dict[str, tuple[str, ...]] = {
    "sum": ("packed_add_sum", "local", "shared"), "max": ("3input_maxmin", "local", "shared"),
    "min": ("3input_maxmin", "local", "shared"), "copy": ("ldstmatrix", "vec_auto", "fallback"),
}  # fmt: skip
#: Ops whose shared-memory operands the hardware addresses through descriptors.
DESCRIPTORS = ("gemm_async", "copy_async")


def check(func: ir.PrimFunc, result: Audit) -> list[Finding]:
    """Findings of every tile call.

    Where the function around them can't be analysed (opaque statements), no call is priced and ``result.not_priced`` says why.
    """
    if not _has_calls(func):
        return []
    from ..lower.sharing.threads import find_launch
    from ..lower.statements import Lowerer
    from ..lower.storage import plan

    try:
        launch = find_launch(func)
        lowerer = Lowerer(func, launch, plan(func), "sm_100a")
        lowerer.run()
    except TirxError as e:
        result.not_priced = e.message
        return []
    return [f for c in lowerer.contexts for f in _call(c)]


def _has_calls(func: ir.PrimFunc) -> bool:
    found: list[Any] = []
    ir.post_order_visit(func.body, lambda n: found.append(n) if isinstance(n, ir.TilePrimitiveCall) else None)
    return bool(found)


def _named(context: Any, dispatch: str | None) -> Any:
    """The call with another variant asked for, or none."""
    return replace(context, call=with_fields(context.call, dispatch=dispatch), memo={})


def _call(context: Any) -> list[Finding]:
    from ..lower.candidates import choose

    try:
        (free,) = choose([_named(context, None)])
    except LoweringError as e:
        return [_refused(context, e)]
    found = _unread(free)
    wanted = context.call.dispatch
    for name in (wanted,) if wanted is not None else TVM_ORDER.get(context.op, ()):
        try:
            (taken,) = choose([_named(context, name)])
        except LoweringError as e:
            if wanted is not None:
                return [*found, _refused(context, e)]
            continue
        if free.chosen.cycles < taken.chosen.cycles:
            found.append(_dearer(context, name, wanted is None, taken.chosen, free.chosen))
        break
    return found


def _dearer(context: Any, name: str, automatic: bool, taken: Any, best: Any) -> Finding:
    who = f"TVM takes '{name}' by its priority: " if automatic else ""
    return Finding(
        "tile variant", "hint", context.op,
        f"{who}{taken.describe()} takes {taken.cycles:.4g} modelled cycles, {best.describe()} takes {best.cycles:.4g}",
        "the machine model of the lowering", f"dispatch='{best.variant}'" if automatic else "leave out dispatch=", context.span,
    )  # fmt: skip


def _refused(context: Any, error: LoweringError) -> Finding:
    """No variant, or not the one asked for: the first condition that fails for each."""
    shared = any(o.buffer.scope.startswith("shared") for o in context.operands.values() if hasattr(o, "buffer"))
    kind = "descriptor" if context.op in DESCRIPTORS and shared else "tile call"
    evidence = error.hint or "the conditions of the variants"
    return Finding(kind, "warning", context.op, error.message, evidence, span=context.span)


def _unread(choice: Any) -> list[Finding]:
    from ..lower.kernel import unread_config

    keys = unread_config(choice)
    return [Finding(
        "configuration", "warning", choice.context.op, f"nothing reads '{key}'; TVM ignores it without a word",
        f"{choice.chosen.describe()} and the compiler know other keys", "leave it out", choice.context.span,
    ) for key in keys]  # fmt: skip
