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


#: Fields that hold a plain integer in place, by type key; any other integer in a document is the index of a node.
INTEGER_FIELDS: dict[str, tuple[str, ...]] = {
    "ir.For": ("kind",),
    "ir.SourceLoc": ("start_line", "start_column", "end_line", "end_column"),
    "ir.TupleGetItem": ("index",),
    "tirx.CallFFIKernelAttr": ("num_kernel_args",),
    "tirx.ComposeLayout": ("per_element", "swizzle_len", "atom_len", "inner_mask", "outer_mask"),
    "tirx.TensorType": ("data_alignment",),
    "tirx.cuda.TCGen05InstrDescriptorAttrs": ("M", "N", "K", "n_cta_groups"),
    "tirx.cuda.TCGen05InstrDescriptorBlockScaledAttrs": ("M", "N", "K", "n_cta_groups"),
    "tirx.cuda.TensorMapEncodeTiledAttr": (
        "rank", "interleave", "swizzle", "l2_promotion", "oob_fill", "force_cu_dtype"
    ),
}  # fmt: skip
#: Types that a document writes as their name alone and that are nothing but a name.
NAME_TYPES = ("ffi.String", "ffi.SmallStr", "str", "DataType", "dtype", "runtime.MemoryScope", "tirx.Axis",
              "tirx.ThreadScope")  # fmt: skip


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
        if isinstance(data, str) and name == "name":
            return data
        if not isinstance(data, dict) or name not in data:
            raise AttributeError(name)
        if name in INTEGER_FIELDS.get(self.type_of(index), ()):
            return data[name]
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
        if kind in NAME_TYPES:
            return str(data)
        if kind in ("ffi.Array", "ffi.List"):
            return [self.value(i) for i in data or ()]
        if kind in ("ffi.Map", "ffi.Dict"):
            flat = [self.value(i) for i in data or ()]
            return dict(zip(flat[::2], flat[1::2]))
        return JsonNode(self, index)


def axes_asked(call: Any, operator: str) -> set[str]:
    """The axes (x, y, z) that a document asks of an operator anywhere: the first argument of its calls, as text.

    ``call`` is any node of the document.
    """
    document = call._document
    found = set()
    for index, entry in enumerate(document.nodes):
        if entry["type"] == "ir.Call":
            node = document.view(index)
            if node.op.name == operator and len(node.args):
                found.add(str(node.args[0].value))
    return found


def outline(value: Any, depth: int = 4) -> str:
    """A node of a document as short text: its name or value, or its type with its fields."""
    if is_sequence(value):
        return "(" + ", ".join(outline(v, depth) for v in value) + ")"
    if not isinstance(value, JsonNode):
        return repr(value)
    for name in ("name", "value"):
        found = getattr(value, name, None)
        if isinstance(found, (str, int, float)):
            return repr(found) if name == "value" else str(found)
    if depth == 0:
        return "…"
    names = [n for n in field_names(value) if n not in ("ty", "ty_args")]
    inner = ", ".join(outline(getattr(value, n), depth - 1) for n in names)
    return f"{(type_key(value) or '').rpartition('.')[2]}({inner})"


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
