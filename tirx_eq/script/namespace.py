"""What ``Tx.`` offers, as one table from name to value."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from .. import ir
from .. import layout as layouts
from ..errors import IRError
from ..ir import Buffer, BufferRegion
from ..ir import dtype as dt
from ..ir.linear import difference
from . import buffers, control, macros, math, meta, pools, scopes, tile, values
from .builder import current, else_frame, then_frame
from .intrinsics import make_namespaces

#: binary nodes, which as ``Tx.Add(a, b)`` are made without folding
_FOLDABLE = (
    "Add", "Sub", "Mul", "Div", "Mod", "FloorDiv", "FloorMod", "Min", "Max", "EQ", "NE", "LT", "LE", "GT", "GE",
)  # fmt: skip
#: node classes that are in the namespace as they are
_NODES = (
    "IntImm", "FloatImm", "StringImm", "Var", "IterVar", "Opaque", "Op", "PrimType", "PointerType", "ExecScope",
)  # fmt: skip


def _either(tile_name: str, scalar: Callable[..., Any]) -> Callable[..., Any]:
    """A name that is both a tile primitive (on buffers and regions) and a scalar function."""

    def apply(*args: Any, **kwargs: Any) -> Any:
        first = args[0] if args else kwargs.get("dst", kwargs.get("src"))
        regions = isinstance(first, (Buffer, BufferRegion))
        if regions and tile_name in ("max", "min"):
            regions = isinstance(args[1] if len(args) > 1 else kwargs.get("src"), (Buffer, BufferRegion))
        if regions:
            return tile.FUNCTIONS[tile_name](*args, **kwargs)
        kwargs.pop("scope", None)
        return scalar(*args, **kwargs)

    apply.__name__ = tile_name
    apply.__doc__ = f"The tile primitive '{tile_name}' on regions; on values the scalar function."
    return apply


def _static_assert(condition: Any, message: str = "") -> None:
    if not condition:
        raise IRError(f"static assertion failed: {message}" if message else "static assertion failed")


class _RangeMaker:
    """``Tx.Range(begin, end)`` and ``Tx.Range.from_min_extent(begin, extent)``."""

    def __call__(self, begin: Any, end: Any) -> ir.Range:
        start = _integer(begin)
        return ir.Range(start, difference(_integer(end), start))

    @staticmethod
    def from_min_extent(begin: Any, extent: Any) -> ir.Range:
        """The range of ``extent`` values from ``begin`` on."""
        return ir.Range(_integer(begin), _integer(extent))


def _integer(value: Any) -> ir.Expr:
    expr = values.as_expr(value)
    if not dt.is_integer(expr.dtype):
        raise IRError(f"a Range is of integers, got {expr.dtype}")
    return expr


def _comm_reducer(combiner: Callable[..., Any], identity: Any) -> ir.CommReducer:
    """A commutative reduction: a function of two values (or of two groups of them), and the neutral elements."""
    neutral = tuple(values.as_expr(i) for i in identity)
    names = list(inspect.signature(combiner).parameters)
    if len(names) != 2 * len(neutral):
        raise IRError(f"the combiner takes {len(names)} values for {len(neutral)} neutral elements")
    variables = tuple(ir.Var(n, ir.PrimType(e.dtype)) for n, e in zip(names, neutral + neutral))
    result = combiner(*variables)
    results = tuple(values.as_expr(r) for r in (result if isinstance(result, tuple) else (result,)))
    half = len(neutral)
    return ir.CommReducer(variables[:half], variables[half:], results, neutral)


def _reduce(combiner: Any, source: Any, axis: Any, condition: Any, value_index: int, init: Any = ()) -> ir.Reduce:
    """A reduction of ``source[value_index]`` over ``axis`` where ``condition`` holds."""
    sources, inits = (tuple(values.as_expr(e) for e in part) for part in (source, init))
    return ir.Reduce(combiner, sources, inits, tuple(axis), values.as_expr(condition), int(value_index))


def _iter_var(var: Any, dom: Any, iter_type: str, thread_tag: str = "") -> ir.IterVar:
    """A variable over a range, with a kind of iteration."""
    variable = ir.Var(var) if isinstance(var, str) else var
    if not isinstance(variable, ir.Var):
        raise IRError(f"iter_var needs a variable, got {type(variable).__name__}")
    if dom is not None and not isinstance(dom, ir.Range):
        raise IRError(f"iter_var needs a Range or None, got {type(dom).__name__}")
    return ir.IterVar(dom, variable, iter_type, thread_tag)


def _buffer_load(buffer: Buffer, indices: Any, predicate: Any = None) -> ir.BufferLoad:
    """The element at ``indices``, read where ``predicate`` holds."""
    keys = tuple(values.as_expr(i) for i in (indices if isinstance(indices, (list, tuple)) else [indices]))
    return ir.BufferLoad(buffer, keys, None if predicate is None else values.as_expr(predicate))


def _buffer_region(buffer: Buffer, region: Any) -> BufferRegion:
    """The region with these ranges."""
    return BufferRegion(buffer, tuple(region))


def make_table() -> dict[str, Any]:
    """All names of the namespace."""
    table: dict[str, Any] = dict(values.DTYPES)
    table.update(math.FUNCTIONS)
    table.update(scopes.ID_FUNCTIONS)
    table.update(tile.SCOPES)
    table.update(make_namespaces())
    for name, function in tile.FUNCTIONS.items():
        scalar = math.FUNCTIONS.get(name)
        table[name] = _either(name, scalar) if scalar else function
    table["select"] = tile.FUNCTIONS["select"]
    for node in _FOLDABLE:
        table[node] = math.node_builder(getattr(ir, node))
    for node in _NODES:
        table[node] = getattr(ir, node)
    for layout_name in ("TileLayout", "SwizzleLayout", "ComposeLayout", "Layout", "Iter", "S", "R", "Axis"):
        table[layout_name] = getattr(layouts, layout_name)
    table.update({
        "prim_func": macros.prim_func, "inline": macros.inline, "macro": macros.macro, "jit": macros.jit,
        "constexpr": values.constexpr, "Optional": values.optional, "meta_class": meta.meta_class,
        "Buffer": buffers.BufferAnnotation(), "buffer": buffers.buffer, "match_buffer": buffers.match_buffer,
        "handle": values.handle, "ptr": values.handle, "Ptr": values.handle, "buffer_var": values.handle,
        "buffer_decl": buffers.buffer, "TensorMap": values.tensor_map, "boolean": values.boolean,
        "void": values.void, "let": values.let, "meta_var": values.meta_var,
        "max_value": values.max_value, "min_value": values.min_value, "infinity": values.infinity,
        "device_entry": scopes.device_entry, "scope_id": scopes.scope_id, "cta_id_in_pair": scopes.cta_id_in_pair,
        "alloc_buffer": buffers.alloc_buffer, "alloc_shared": buffers.alloc_shared, "alloc_local": buffers.alloc_local,
        "decl_buffer": buffers.decl_buffer, "smem": buffers.alloc_shared, "tmem": buffers.alloc_tmem,
        "alloc_scalar": buffers.alloc_scalar, "decl_scalar": buffers.decl_scalar,
        "shared_scalar": buffers.shared_scalar, "local_scalar": buffers.local_scalar,
        "buffer_store": buffers.buffer_store, "add_to_parent": _add_to_parent,
        "wg_reg_tile": _wg_reg_tile, "alloc_tcgen05_ldst_frag": _ldst_fragment, "alloc_cast_frag": _cast_fragment,
        "serial": control.serial, "parallel": control.parallel, "vectorized": control.vectorized,
        "unroll": control.unroll, "thread_binding": control.thread_binding, "grid": control.grid,
        "attr": control.attr, "hint": control.hint, "launch_thread": control.launch_thread,
        "env_thread": control.env_thread,
        "While": control.while_loop, "If": control.if_frame, "Then": then_frame, "Else": else_frame,
        "evaluate": control.evaluate, "bind": control.bind, "Bind": control.bind, "Let": control.let_expr,
        "Assert": control.assert_stmt, "Return": control.return_stmt, "Break": control.break_stmt,
        "Continue": control.continue_stmt, "func_attr": control.func_attr, "func_ret": control.func_ret,
        "static_assert": _static_assert, "Range": _RangeMaker(), "comm_reducer": _comm_reducer, "Reduce": _reduce,
        "auto": layouts.auto, "iter_var": _iter_var, "BufferLoad": _buffer_load, "BufferRegion": _buffer_region,
        "SMEMPool": pools.SMEMPool, "TMEMPool": pools.TMEMPool, "compose_op": tile.compose_op, "tile": tile,
    })  # fmt: skip
    return table


def _add_to_parent(stmt: ir.Stmt) -> None:
    current().emit(stmt)


def _wg_reg_tile(elem_per_thread: int, dtype: Any = "float32") -> Buffer:
    """Registers of a warpgroup as a tile of 128 rows: row r is thread r's."""
    return buffers.alloc_buffer(
        (128, elem_per_thread), dtype, layout=layouts.wg_local_layout(elem_per_thread), scope="local"
    )


def _ldst_fragment(instr_shape: str, tensor_shape: Any, dtype: Any) -> Buffer:
    """Registers of a warpgroup laid out as ``tcgen05.ld``/``st`` of ``instr_shape`` moves them."""
    from .views import view

    rows, cols = tensor_shape
    name = values.dtype_name(dtype)
    flat = buffers.alloc_local((rows * cols // 128,), name)
    return view(flat, rows, cols, layout=layouts.tcgen05_atom_layout(instr_shape, tensor_shape, name))


def _cast_fragment(src: Buffer, dtype: Any) -> Buffer:
    """Registers laid out as ``src``, with another element type."""
    from .views import view

    rows, cols = (int(e) for e in src.shape)  # type: ignore[call-overload]
    flat = buffers.alloc_local((rows * cols // 128,), dtype)
    return view(flat, rows, cols, layout=src.layout)
