"""Looking at objects of TVM without importing TVM.

Every generation keeps its nodes in ``tvm_ffi`` objects that reflect their type key (``tirx.For``) and field names, so
an importer needs no class of any version.  The JSON of ``apache-tvm-tirx`` has the same keys and fields;
:class:`JsonNode` gives a document the same face.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ..errors import InteropError

#: Fields that say where in the source a node came from, not what it is.
PLACE_FIELDS = ("span", "loc")


class JsonNode:
    """One node of a saved document; fields are attributes, and a field that refers to a node gives that node."""

    def __init__(self, document: _Document, index: int) -> None:
        self._document = document
        self._index = index

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._document.field(self._index, name)


class _Document:
    """The node table of ``{"root_index": i, "nodes": [{"type": key, "data": ...}]}``."""

    def __init__(self, nodes: list[dict[str, Any]]) -> None:
        self.nodes = nodes
        self.views: dict[int, Any] = {}

    def type_of(self, index: int) -> str:
        return str(self.nodes[index]["type"])

    def field(self, index: int, name: str) -> Any:
        data = self.nodes[index].get("data")
        if not isinstance(data, dict) or name not in data:
            raise AttributeError(name)
        return self.value(data[name])

    def value(self, reference: Any) -> Any:
        """What a field holds: a node by its index, or a scalar written in place."""
        if isinstance(reference, bool) or not isinstance(reference, int):
            return reference
        if not 0 <= reference < len(self.nodes):
            raise InteropError(f"the document refers to node {reference} of {len(self.nodes)}")
        return self.view(reference)

    def view(self, index: int) -> Any:
        if index not in self.views:
            self.views[index] = self._make(index)
        return self.views[index]

    def _make(self, index: int) -> Any:
        kind, data = self.type_of(index), self.nodes[index].get("data")
        if kind in ("None", "ffi.None"):
            return None
        if kind in ("bool", "int", "float"):
            return {"bool": bool, "int": int, "float": float}[kind](data)
        if kind in ("ffi.String", "ffi.SmallStr", "str", "DataType", "dtype"):
            return str(data)
        if kind in ("ffi.Array", "ffi.List"):
            return [self.value(i) for i in data or ()]
        if kind in ("ffi.Map", "ffi.Dict"):
            flat = [self.value(i) for i in data or ()]
            return dict(zip(flat[::2], flat[1::2]))
        return JsonNode(self, index)


def load_document(text: str) -> Any:
    """The root of JSON that ``tvm_tirx.ir.save_json`` wrote; raises InteropError on other text."""
    try:
        data = json.loads(text)
    except json.JSONDecodeError as e:
        raise InteropError(f"not JSON: {e}") from None
    nodes = data.get("nodes") if isinstance(data, dict) else None
    root = data.get("root_index") if isinstance(data, dict) else None
    if not isinstance(nodes, list) or not isinstance(root, int) or not all(isinstance(n, dict) for n in nodes):
        raise InteropError("not a document of TVM nodes", hint='it should be {"root_index": …, "nodes": […]}')
    return _Document(nodes).value(root)


def type_key(value: Any) -> str | None:
    """The type key of a node (``tirx.For``), or None if the value is not one."""
    if isinstance(value, JsonNode):
        return value._document.type_of(value._index)
    info = getattr(type(value), "__tvm_ffi_type_info__", None)
    return None if info is None else str(info.type_key)


def field_names(value: Any) -> tuple[str, ...]:
    """The reflected fields of a node, those of its base types first, without source places."""
    if isinstance(value, JsonNode):
        data = value._document.nodes[value._index].get("data")
        names = tuple(data) if isinstance(data, dict) else ()
    else:
        chain = []
        info = type(value).__tvm_ffi_type_info__
        while info is not None:
            chain.append(info)
            info = info.parent_type_info
        names = tuple(f.name for i in reversed(chain) for f in (i.fields or ()))
    return tuple(n for n in names if n not in PLACE_FIELDS)


def handle(value: Any) -> Any:
    """What two views of one node share: its identity in the other system."""
    return ("json", value._index) if isinstance(value, JsonNode) else value.__chandle__()


def is_sequence(value: Any) -> bool:
    """A list, tuple or container of the other system."""
    return isinstance(value, (list, tuple)) or type_key(value) in ("ffi.Array", "ffi.List")


def is_mapping(value: Any) -> bool:
    """A dict or a map of the other system."""
    return isinstance(value, dict) or type_key(value) in ("ffi.Map", "ffi.Dict")


def items(value: Any) -> Iterator[tuple[Any, Any]]:
    """The entries of a mapping."""
    return iter(value.items())
