"""Tile primitives of the script: ``Tx.copy``, ``Tx.cta.copy``, ``Tx.tile.gemm_async`` …

This module is what ``from tirx_eq.script.tirx import tile`` gives.  A name called bare runs in thread scope; under
``cluster``, ``cta``, ``wg``/``warpgroup``, ``warp``, ``thread`` in that scope.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from ..errors import IRError
from ..ir import (
    Buffer,
    BufferRegion,
    ExecScope,
    Expr,
    IntImm,
    LambdaExpr,
    Op,
    PrimType,
    TilePrimitiveCall,
    Var,
    const,
)
from ..ir.linear import simplified
from ..ir.op import TILE_PREFIX
from .builder import Frame, current
from .regions import as_region
from .values import as_expr, attribute_value

#: Parameters of each primitive before the common ``workspace, dispatch, scope, **config``.  ``dst!`` must be a region;
#: ``src?`` defaults to dst; ``x`` alone may be a region or a scalar; ``op:`` names another tile primitive.
SIGNATURES: dict[str, str] = {
    **dict.fromkeys(("copy", "copy_async", "permute_layout", "silu", "cast"), "dst! src!"),
    **dict.fromkeys(("zero", "reciprocal"), "dst! src?"),
    **dict.fromkeys(("sqrt", "exp", "exp2", "log2"), "dst! src? bias=None scale=None"),
    **dict.fromkeys(("fill", "memset"), "dst! value"),
    **dict.fromkeys(("add", "sub", "mul", "maximum", "minimum"), "dst! src1 src2"),
    "fdiv": "dst! src1! src2",
    "fma": "dst! src! scale bias",
    **dict.fromkeys(("sum", "max", "min"), "dst! src! axes=-1 accum=False"),
    "gemm": "D! A! B! C! transpose_A=False transpose_B=False alpha=1.0 beta=0.0",
    "gemm_async": "C! A! B! SFA=None SFB=None transA=False transB=False accum=False",
    "select": "dst! true_value false_value pred",
    "reduce_negate": "output! input! reduce_op: reduce_axes=-1 accum=False",
    "binary_reduce": "binary_output! reduce_output! binary_input1 binary_input2 binary_op: reduce_op: reduce_axes=-1",
    "unary_reduce": (
        "unary_output! reduce_output! unary_input! unary_op: reduce_op: bias=None scale=None reduce_axes=-1"
    ),
    "binary_chain": "output! data! operand0 operand1 op0: op1: reverse1=False",
}
#: Order of the operands where it differs from that of the parameters.
_ORDER = {"reduce_negate": ("output", "input", "reduce_axes", "accum", "reduce_op")}
_AXES = ("axes", "reduce_axes")
_DEFAULTS = {"None": None, "False": False, "-1": -1, "1.0": 1.0, "0.0": 0.0}
_COMMON = ("workspace", "dispatch", "scope")
#: primitives whose operands must cover the same region (unit extents aside)
_SAME_EXTENTS = ("copy", "copy_async", "cast", "silu", "sqrt", "exp", "exp2", "log2", "reciprocal", "zero", "fma")
_ELEMENTWISE = ("add", "sub", "mul", "fdiv", "maximum", "minimum", "select")


def _parameters(name: str) -> list[tuple[str, str, Any]]:
    """(name, kind, default) of each parameter; kind is one of ``!``, ``?``, ``:``, ``=`` and empty."""
    made: list[tuple[str, str, Any]] = []
    for text in SIGNATURES[name].split():
        if "=" in text:
            key, _, default = text.partition("=")
            made.append((key, "=", _DEFAULTS[default]))
        elif text[-1] in "!?:":
            made.append((text[:-1], text[-1], inspect.Parameter.empty))
        else:
            made.append((text, "", inspect.Parameter.empty))
    return made


def _bind(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    parameters = _parameters(name)
    if "axes" in kwargs and any(p[0] == "reduce_axes" for p in parameters):  # as the other reductions call it
        if "reduce_axes" in kwargs:
            raise IRError(f"{name}: 'reduce_axes' is given twice, also as 'axes'")
        kwargs["reduce_axes"] = kwargs.pop("axes")
    if len(args) > len(parameters):
        raise IRError(f"{name} takes {len(parameters)} operands ({SIGNATURES[name]}), got {len(args)}")
    bound: dict[str, Any] = {}
    for place, (key, kind, default) in enumerate(parameters):
        if place < len(args):
            if key in kwargs:
                raise IRError(f"{name}: '{key}' is given twice")
            bound[key] = args[place]
        elif key in kwargs:
            bound[key] = kwargs.pop(key)
        elif kind == "?":
            bound[key] = None
        elif default is not inspect.Parameter.empty:
            bound[key] = default
        else:
            wanted = ", ".join(p[0] for p in parameters)
            raise IRError(f"{name} needs the operand '{key}'", hint=f"{name}({wanted})")
    return bound


def invoke(name: str, scope: str | ExecScope | None, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Emit a call of the tile primitive ``name``; keyword arguments that it doesn't know are its config."""
    workspace = kwargs.pop("workspace", None) or {}
    if not isinstance(workspace, dict) or not all(isinstance(b, Buffer) for b in workspace.values()):
        raise IRError(f"{name}: workspace must give buffers by name")
    dispatch = kwargs.pop("dispatch", None)
    if dispatch is not None and not isinstance(dispatch, str):
        raise IRError(f"{name}: dispatch must be the name of a variant, got {type(dispatch).__name__}")
    asked = kwargs.pop("scope", None)
    exec_scope = asked if asked is not None else scope
    if not isinstance(exec_scope, ExecScope):
        exec_scope = ExecScope(exec_scope or "thread")
    if name == "gemm_async" and len(args) > 3 and not isinstance(args[3], (Buffer, BufferRegion, type(None))):
        args = [*args[:3], None, None, *args[3:]]  # flags right after B, as TIRx's printer writes them
    bound = _bind(name, args, kwargs)
    parameters = _parameters(name)
    first = parameters[0][0]
    for key, kind, _ in parameters:
        if kind == "?" and bound[key] is None:
            bound[key] = bound[first]
        bound[key] = _operand(name, key, kind, bound[key])
    order = _ORDER.get(name) or tuple(p[0] for p in parameters)
    if name == "gemm_async":
        order = _gemm_async_order(bound)
    config = {k: attribute_value(v, f"{name}: '{k}'") for k, v in kwargs.items()}
    operands = tuple(bound[k] for k in order)
    _check_extents(name, bound, parameters, dispatch, config)
    builder = current()
    call = TilePrimitiveCall(
        Op.get(TILE_PREFIX + name), operands, dict(workspace), config, dispatch, exec_scope, span=builder.span
    )
    builder.emit(call)


def _gemm_async_order(bound: dict[str, Any]) -> tuple[str, ...]:
    if (bound["SFA"] is None) != (bound["SFB"] is None):
        raise IRError("gemm_async: give both scale factors SFA and SFB, or none")
    if bound["SFA"] is None:
        return ("C", "A", "B", "transA", "transB", "accum")
    bound["SFA"], bound["SFB"] = (as_region(bound[k], f"gemm_async: '{k}'") for k in ("SFA", "SFB"))
    return ("C", "A", "B", "SFA", "SFB", "transA", "transB", "accum")


def _operand(name: str, key: str, kind: str, value: Any) -> Any:
    if kind in ("!", "?"):
        return as_region(value, f"{name}: '{key}'")
    if kind == ":":
        return Op.get(TILE_PREFIX + value) if isinstance(value, str) else value
    if key in _AXES:
        return tuple(value) if isinstance(value, (list, tuple)) else (value,)
    if key == "pred":
        return value if isinstance(value, LambdaExpr) else _lambda(value)
    if isinstance(value, (Buffer, BufferRegion)):
        return as_region(value, f"{name}: '{key}'")
    if value is None and kind != "=":
        raise IRError(f"{name}: '{key}' must be a region or a value, got None")
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, str):
        raise IRError(f"{name}: '{key}' must be a region or a value, got the string '{value}'")
    if isinstance(value, float):
        return const(value)
    return as_expr(value)


def _lambda(function: Callable[..., Any]) -> LambdaExpr:
    names = list(inspect.signature(function).parameters)
    variables = tuple(Var(n, PrimType("int32")) for n in names)
    return LambdaExpr(variables, as_expr(function(*variables)))


# -- operands of unequal extents --------------------------------------------------------------------------------------


def _check_extents(
    name: str, bound: dict[str, Any], parameters: Sequence[tuple[str, str, Any]], dispatch: Any, config: dict[str, Any]
) -> None:
    regions = {key: bound[key] for key, _, _ in parameters if isinstance(bound[key], BufferRegion)}
    if name in ("copy", "copy_async") and dispatch in ("tma_auto", "tma_explicit"):
        _check_payload(name, regions["dst"], regions["src"], config)
        return
    if name in _SAME_EXTENTS:
        for key, region in list(regions.items())[1:]:
            if name in ("copy", "copy_async", "cast") or key == "src":
                _check_equal(name, "dst", regions["dst"], key, region)
    elif name in _ELEMENTWISE:
        for key, region in list(regions.items())[1:]:
            _check_broadcast(name, regions["dst"], key, region)
    elif name == "gemm_async" or name == "gemm":
        _check_gemm(name, bound)


def squeezed(region: BufferRegion) -> list[Expr]:
    """The extents of a region without those that are 1."""
    return [r.extent for r in region.region if not (isinstance(r.extent, IntImm) and int(r.extent) == 1)]


def _known_different(a: Expr, b: Expr) -> bool:
    """Whether two extents differ for sure."""
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        return int(a) != int(b)
    rest = simplified(a - b)
    return isinstance(rest, IntImm) and int(rest) != 0


def _check_equal(name: str, key_a: str, a: BufferRegion, key_b: str, b: BufferRegion) -> None:
    left, right = squeezed(a), squeezed(b)
    if len(left) != len(right) or any(_known_different(x, y) for x, y in zip(left, right)):
        raise IRError(
            f"{name}: '{key_a}' covers {_shape_text(left)} of '{a.buffer.name}', but '{key_b}' covers "
            f"{_shape_text(right)} of '{b.buffer.name}'",
            hint="the operands must cover equal extents (those of 1 aside); reshape one with view, permute or sub",
        )


def _check_broadcast(name: str, dst: BufferRegion, key: str, src: BufferRegion) -> None:
    """An elementwise operand has the extents of dst, or 1 where it is spread (compared from the last dimension)."""
    wanted = [r.extent for r in dst.region]
    given = [r.extent for r in src.region]
    pairs = list(zip(reversed(wanted), reversed(given)))
    fits = all(
        not _known_different(w, g) or (isinstance(g, IntImm) and int(g) == 1) for w, g in pairs
    )
    if not fits and [repr(e) for e in squeezed(dst)] != [repr(e) for e in squeezed(src)]:
        raise IRError(
            f"{name}: 'dst' covers {_shape_text(wanted)} of '{dst.buffer.name}', but '{key}' covers "
            f"{_shape_text(given)} of '{src.buffer.name}'"
        )


def _check_payload(name: str, dst: BufferRegion, src: BufferRegion, config: dict[str, Any]) -> None:
    """A bulk tensor copy moves as many bits as it fills; the extents may be arranged differently."""
    from ..ir import dtype as dt

    def bits(region: BufferRegion) -> int | None:
        extents = region.const_extents()
        if extents is None:
            return None
        total = dt.storage_bits(region.dtype)
        for e in extents:
            total *= e
        return total

    have, need = bits(src), bits(dst)
    rows = config.get("gather4")
    if rows is not None and have is not None:
        if len(rows) != 4:
            raise IRError(f"{name}: gather4 needs four row coordinates, got {len(rows)}")
        have *= 4
    if have is not None and need is not None and have != need:
        raise IRError(f"{name}: 'dst' takes {need} bits but 'src' has {have}")


def _check_gemm(name: str, bound: dict[str, Any]) -> None:
    """C[M, N] += A[M, K] · B[N, K] (gemm_async; transX swaps the two); sizes must agree where they are known."""
    transposed_a = bound["transA"] if name == "gemm_async" else bound["transpose_A"]
    transposed_b = bound["transB"] if name == "gemm_async" else not bound["transpose_B"]
    if not isinstance(transposed_a, bool) or not isinstance(transposed_b, bool):
        return
    sizes = {}
    for key in ("C", "A", "B"):
        extents = squeezed(bound["D" if name == "gemm" and key == "C" else key])
        if len(extents) != 2:
            return
        sizes[key] = extents
    m, k = reversed(sizes["A"]) if transposed_a else sizes["A"]
    n, k2 = reversed(sizes["B"]) if transposed_b else sizes["B"]
    out = sizes["C"]
    if _known_different(k, k2):
        raise IRError(
            f"{name}: A has K = {_extent_text(k)} but B has K = {_extent_text(k2)}",
            hint="gemm_async multiplies A[M, K] by B[N, K] unless transA or transB says otherwise",
        )
    if name == "gemm_async" and (_known_multiple(out[0], m) is False or _known_multiple(out[1], n) is False):
        raise IRError(
            f"{name}: C is {_shape_text(out)}, but A and B give {_extent_text(m)}×{_extent_text(n)}"
        )


def _known_multiple(a: Expr, b: Expr) -> bool | None:
    """Whether one extent divides the other (a pair of CTAs shares the rows or columns of one result)."""
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        return int(a) % int(b) == 0 or int(b) % int(a) == 0
    return None


def _extent_text(e: Expr) -> str:
    return str(int(e)) if isinstance(e, IntImm) else "(symbolic)"


def _shape_text(extents: Sequence[Expr]) -> str:
    return "×".join(_extent_text(e) for e in extents) or "one element"


# -- the namespace ----------------------------------------------------------------------------------------------------


class TileFunction:
    """A tile primitive in thread scope; ``in_scope`` gives it in another."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.__name__ = name

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        invoke(self.name, None, args, dict(kwargs))

    def in_scope(self, scope: str) -> Callable[..., None]:
        def call(*args: Any, **kwargs: Any) -> None:
            invoke(self.name, scope, args, dict(kwargs))

        call.__name__ = self.name
        return call

    def __repr__(self) -> str:
        return f"Tx.tile.{self.name}"


class ScopeNamespace:
    """The tile primitives in one execution scope: ``Tx.cta.copy``."""

    def __init__(self, scope: str, label: str) -> None:
        self._scope = scope
        self._label = label

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in FUNCTIONS:
            near = difflib.get_close_matches(name, FUNCTIONS, 3, 0.6)
            more = f"; did you mean {', '.join(near)}?" if near else ""
            raise AttributeError(f"there is no tile primitive '{self._label}.{name}'{more}")
        return FUNCTIONS[name].in_scope(self._scope)

    def __dir__(self) -> list[str]:
        return sorted(FUNCTIONS)

    def __repr__(self) -> str:
        return f"Tx.{self._label}"


class ComposeFrame(Frame):
    """The tile primitives in its body become the operands of one ``compose_op``."""

    def __init__(self, workspace: dict[str, Buffer], dispatch: str | None, config: dict[str, Any]) -> None:
        super().__init__(self._finish)
        self.settings = (dict(workspace), config, dispatch)

    def _finish(self, body: Any) -> Any:
        for stmt in self.stmts:
            if not isinstance(stmt, TilePrimitiveCall):
                raise IRError(f"compose_op takes tile primitives only, got {type(stmt).__name__}")
        workspace, config, dispatch = self.settings
        op = Op.get(TILE_PREFIX + "compose_op")
        operands = tuple(self.stmts)
        return TilePrimitiveCall(op, operands, workspace, config, dispatch, ExecScope("thread"), span=self.span)


def compose_op(workspace: Any = None, dispatch: str | None = None, **config: Any) -> ComposeFrame:
    """``with Tx.compose_op(): …`` makes one operation of the tile primitives in the block."""
    return ComposeFrame(workspace or {}, dispatch, config)


FUNCTIONS: dict[str, TileFunction] = {name: TileFunction(name) for name in SIGNATURES}
SCOPES: dict[str, ScopeNamespace] = {
    "cluster": ScopeNamespace("cluster", "cluster"), "cta": ScopeNamespace("cta", "cta"),
    "wg": ScopeNamespace("warpgroup", "wg"), "warpgroup": ScopeNamespace("warpgroup", "warpgroup"),
    "warp": ScopeNamespace("warp", "warp"), "thread": ScopeNamespace("thread", "thread"),
}  # fmt: skip

cluster = SCOPES["cluster"]
cta = SCOPES["cta"]
wg = SCOPES["wg"]
warpgroup = SCOPES["warpgroup"]
warp = SCOPES["warp"]
thread = SCOPES["thread"]


def __getattr__(name: str) -> Any:
    if name in FUNCTIONS:
        return FUNCTIONS[name]
    near = difflib.get_close_matches(name, [*FUNCTIONS, *SCOPES], 3, 0.6)
    more = f"; did you mean {', '.join(near)}?" if near else ""
    raise AttributeError(f"there is no tile primitive '{name}'{more}")


def __dir__() -> list[str]:
    return sorted([*FUNCTIONS, *SCOPES, "compose_op"])


__all__ = ["cluster", "compose_op", "cta", "thread", "warp", "warpgroup", "wg"]
