"""Traversal: one way to visit and one way to rebuild, with an entry for every node.

``visit(node)`` calls ``visit_<name>`` (``visit_add``, ``visit_for``, ``visit_tile_primitive_call`` …).  The default
entry goes to the children; override the ones that matter.  Mutators keep an unchanged node as it is, so sharing
survives.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from . import expr as _expr
from . import stmt as _stmt
from .buffer import Buffer, BufferRegion
from .exec_scope import ScopeIdDef
from .expr import CommReducer, Expr, Range, Var
from .function import PrimFunc
from .node import is_node, replace
from .stmt import Stmt
from .tile import LambdaExpr, TilePrimitiveCall


def snake_case(name: str) -> str:
    """``TilePrimitiveCall`` -> ``tile_primitive_call``, ``EQ`` -> ``eq``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _node_classes(module: Any, base: type) -> tuple[type, ...]:
    classes = (c for c in vars(module).values() if isinstance(c, type) and issubclass(c, base))
    return tuple(c for c in classes if "type_key" in c.__dict__)


EXPR_NODES: tuple[type, ...] = _node_classes(_expr, Expr)
STMT_NODES: tuple[type, ...] = (*_node_classes(_stmt, Stmt), TilePrimitiveCall)
#: Nodes that are neither but have children worth an entry.
OTHER_NODES: tuple[type, ...] = (Range, Buffer, BufferRegion, CommReducer, ScopeIdDef, LambdaExpr, PrimFunc)

# A Buffer is reached from its uses; its own fields (shape, offset, address) are visited where it is declared only,
# else every access would visit them again.
_DECLARATIONS = (_stmt.AllocBuffer, _stmt.DeclBuffer)


#: types of fields that are no nodes and have none in them
_ATOMS = frozenset((str, int, float, bool, type(None)))


class _Functor:
    """Dispatch by class name."""

    def visit(self, value: Any) -> Any:
        """Dispatch on the class of ``value``; members of tuples and dicts are visited, other values are leaves."""
        handler = _HANDLERS.get(type(value))
        if handler is not None:
            return getattr(self, handler)(value)
        if isinstance(value, tuple):
            return self._visit_tuple(value)
        return self._visit_dict(value) if isinstance(value, dict) else self._leaf(value)

    __call__ = visit

    def _visit_tuple(self, value: tuple[Any, ...]) -> Any:
        raise NotImplementedError

    def _visit_dict(self, value: dict[Any, Any]) -> Any:
        raise NotImplementedError

    def _leaf(self, value: Any) -> Any:
        raise NotImplementedError


class ExprVisitor(_Functor):
    """Visits expressions and what hangs on them; results are not collected."""

    def _visit_tuple(self, value: tuple[Any, ...]) -> None:
        for v in value:
            self.visit(v)

    def _visit_dict(self, value: dict[Any, Any]) -> None:
        for v in value.values():
            self.visit(v)

    def _leaf(self, value: Any) -> None:
        return None

    def visit_children(self, value: Any) -> None:
        """Visit every field of a node."""
        for name in type(value).field_names:
            child = getattr(value, name)
            if type(child) not in _ATOMS:
                self.visit(child)

    def visit_buffer(self, value: Buffer) -> None:
        """A use of a buffer; its fields are visited at its declaration (``visit_buffer_fields``)."""

    def visit_buffer_fields(self, value: Buffer) -> None:
        """Shape, strides, offset and address of a buffer."""
        for child in (value.shape, value.strides, value.elem_offset, value.allocated_addr):
            self.visit(child)


class StmtVisitor(ExprVisitor):
    """Visits statements and the expressions in them."""

    def visit_children(self, value: Any) -> None:
        super().visit_children(value)
        if isinstance(value, _DECLARATIONS):
            self.visit_buffer_fields(value.buffer)

    def visit_prim_func(self, value: PrimFunc) -> None:
        """A function: parameters, what their buffers are made of, body."""
        self.visit(value.params)
        for buffer in value.buffer_map.values():
            self.visit(buffer)
            self.visit_buffer_fields(buffer)
        self.visit(value.body)


class ExprMutator(_Functor):
    """Rebuilds expressions: an entry returns the new node; a node whose fields didn't change is returned as it is."""

    def _visit_tuple(self, value: tuple[Any, ...]) -> tuple[Any, ...]:
        new = tuple(self.visit(v) for v in value)
        return value if all(a is b for a, b in zip(value, new)) else new

    def _visit_dict(self, value: dict[Any, Any]) -> dict[Any, Any]:
        new = {k: self.visit(v) for k, v in value.items()}
        return value if all(value[k] is new[k] for k in value) else new

    def _leaf(self, value: Any) -> Any:
        return value

    def visit_children(self, value: Any) -> Any:
        """The node with each field replaced by what visiting it gives."""
        if isinstance(value, Var):
            return value
        changes = self._changes(value)
        return replace(value, **changes) if changes else value

    def _changes(self, value: Any) -> dict[str, Any]:
        """What visiting gives for those fields of a node that it changes."""
        changes = {}
        for name in type(value).field_names:
            child = getattr(value, name)
            if type(child) not in _ATOMS:
                new = self.visit(child)
                if new is not child:
                    changes[name] = new
        return changes

    def visit_buffer(self, value: Buffer) -> Buffer:
        """A use of a buffer; override to rename buffers consistently."""
        return value


class StmtMutator(ExprMutator):
    """Rebuilds statements.

    A sequence is flattened when a member becomes a sequence; a statement that becomes None goes.
    """

    def visit_children(self, value: Any) -> Any:
        """The node with each field replaced; a body that goes leaves an empty sequence (an else branch leaves none)."""
        if isinstance(value, Var):
            return value
        changes = self._changes(value)
        for name, new in changes.items():
            if new is None and name != "else_case" and isinstance(getattr(value, name), Stmt):
                changes[name] = _stmt.SeqStmt()
        return replace(value, **changes) if changes else value

    def visit_seq_stmt(self, value: _stmt.SeqStmt) -> Stmt:
        new = tuple(self.visit(s) for s in value.seq)
        if all(a is b for a, b in zip(value.seq, new)):
            return value
        return _stmt.seq(s for s in new if s is not None)

    def visit_prim_func(self, value: PrimFunc) -> PrimFunc:
        """A function: its body is rebuilt; parameters and their buffers stay."""
        return value.with_body(self.visit(value.body))


_HANDLERS: dict[type, str] = {}
for _cls in (*EXPR_NODES, *STMT_NODES, *OTHER_NODES):
    _HANDLERS[_cls] = _name = f"visit_{snake_case(_cls.__name__)}"
    for _base in (ExprVisitor, StmtVisitor, ExprMutator, StmtMutator):
        if not hasattr(_base, _name):
            setattr(_base, _name, lambda self, value: self.visit_children(value))


#: class of a node -> the fields to go through; a buffer's are those of its declaration, a function's are gone through apart
_CHILDREN: dict[type, tuple[str, ...]] = {
    cls: () if cls in (Buffer, PrimFunc) else cls.field_names for cls in _HANDLERS  # type: ignore[attr-defined]
}


def post_order_visit(root: Any, action: Callable[[Any], None]) -> None:
    """Call ``action`` on every node below ``root``, children first; a shared node once.

    Goes where a :class:`StmtVisitor` goes that overrides nothing, without its dispatch: most passes over a kernel are this.
    A statement keeps what it was found to be made of, so the next pass needs no search.
    """
    if not isinstance(root, Stmt):
        _walk(root, action)
        return
    below = root.__dict__.get("_below")
    if below is None:
        below = []
        _walk(root, below.append)
        below.pop()  # the root itself: no cycle
        object.__setattr__(root, "_below", below)
    for value in below:
        action(value)
    action(root)


def _walk(root: Any, action: Callable[[Any], None]) -> None:
    seen: set[int] = set()
    children, special = _CHILDREN, (*_DECLARATIONS, PrimFunc)

    def walk(value: Any) -> None:
        names = children.get(type(value))
        if names is None:
            if isinstance(value, (tuple, dict)):
                for v in value.values() if isinstance(value, dict) else value:
                    if type(v) not in _ATOMS:
                        walk(v)
                return
            if not is_node(value):
                return
            names = ()
        if id(value) in seen:
            return
        seen.add(id(value))
        for name in names:
            child = getattr(value, name)
            if type(child) not in _ATOMS:
                walk(child)
        if type(value) in special:
            if isinstance(value, PrimFunc):
                walk(value.params)
                for buffer in value.buffer_map.values():
                    walk(buffer)
                    declared(buffer)
                walk(value.body)
            else:
                declared(value.buffer)
        action(value)

    def declared(buffer: Buffer) -> None:
        for child in (buffer.shape, buffer.strides, buffer.elem_offset, buffer.allocated_addr):
            walk(child)

    walk(root)


class _Substitute(StmtMutator):
    def __init__(self, mapping: Mapping[Var, Expr], buffers: Mapping[Buffer, Buffer]) -> None:
        self.mapping = mapping
        self.buffers = buffers
        self.done: dict[int, tuple[Any, Any]] = {}

    def visit(self, value: Any) -> Any:
        """Each shared expression is rebuilt once, so what was shared stays shared."""
        if not isinstance(value, Expr):
            return super().visit(value)
        known = self.done.get(id(value))
        if known is None:
            known = self.done[id(value)] = value, super().visit(value)
        return known[1]

    __call__ = visit

    def visit_var(self, value: Var) -> Expr:
        return self.mapping.get(value, value)

    def visit_buffer(self, value: Buffer) -> Buffer:
        return self.buffers.get(value, value)


def substitute(root: Any, mapping: Mapping[Var, Expr], buffers: Mapping[Buffer, Buffer] | None = None) -> Any:
    """``root`` with variables (and buffers, where given) replaced."""
    return _Substitute(mapping, buffers or {}).visit(root) if mapping or buffers else root
