"""JSON in and out, keeping sharing: every node is one entry of a table and is referred to by its index.

``{"format": "tirx_eq", "version": 1, "root": i, "nodes": [{"type": key, "fields": {...}}, ...]}``; a reference is
``{"$": index}``; tuples are lists; a dict with node keys (``buffer_map``) is ``{"$map": [[key, value], ...]}``.
"""

from __future__ import annotations

import json
from typing import Any

from ..errors import ParseError, Span
from .node import NODE_TYPES, fields, is_node
from .op import Op

_FORMAT = "tirx_eq"
_VERSION = 1


def save_json(root: Any, *, indent: int | None = None) -> str:
    """``root`` (a node, or tuples and dicts of nodes) as JSON text.

    ``load_json`` gives an equal object with equal sharing.
    """
    nodes: list[dict[str, Any]] = []
    index: dict[int, int] = {}
    keep: list[Any] = []  # ids stay valid while the objects live

    def encode(value: Any) -> Any:
        if value is None or isinstance(value, (bool, int, str)):
            return value
        if isinstance(value, float):
            return value if value == value and abs(value) != float("inf") else {"$float": repr(value)}
        if isinstance(value, (list, tuple)):
            return [encode(v) for v in value]
        if isinstance(value, dict):
            if all(isinstance(k, str) and not k.startswith("$") for k in value):
                return {k: encode(v) for k, v in value.items()}
            return {"$map": [[encode(k), encode(v)] for k, v in value.items()]}
        if isinstance(value, Op):
            return {"$op": value.name}
        if not is_node(value):
            raise ParseError(f"a {type(value).__name__} can't be saved as JSON")
        if id(value) not in index:
            entry: dict[str, Any] = {"type": type(value).type_key}
            encoded = {name: encode(v) for name, v in fields(value)}
            span = getattr(value, "span", None)
            if isinstance(span, Span):
                entry["span"] = [span.file, span.line, span.column, span.end_column, span.text]
            index[id(value)] = len(nodes)
            keep.append(value)
            nodes.append({**entry, "fields": encoded})
        return {"$": index[id(value)]}

    reference = encode(root)
    return json.dumps({"format": _FORMAT, "version": _VERSION, "root": reference, "nodes": nodes}, indent=indent)


def load_json(text: str) -> Any:
    """The object that :func:`save_json` wrote.  Raises ParseError on text that isn't such JSON."""
    try:
        data = json.loads(text)
    except json.JSONDecodeError as e:
        raise ParseError(f"not JSON: {e}") from None
    except RecursionError:
        raise ParseError("the JSON is nested too deeply") from None
    if not isinstance(data, dict) or data.get("format") != _FORMAT or data.get("version") != _VERSION:
        raise ParseError("not a tirx_eq JSON document of version 1")
    entries = data.get("nodes")
    if not isinstance(entries, list) or "root" not in data:
        raise ParseError("the document has no table of nodes, or no root")
    _import_node_modules()
    made: list[Any] = []
    for place, entry in enumerate(entries):
        made.append(_load_node(place, entry, made))
    return _decode(data["root"], made)


def _decode(value: Any, made: list[Any]) -> Any:
    """A field's value; ``made`` are the nodes before it."""
    if isinstance(value, list):
        return tuple(_decode(v, made) for v in value)
    if not isinstance(value, dict):
        return value
    if "$" in value:
        place = value["$"]
        if isinstance(place, bool) or not isinstance(place, int) or not 0 <= place < len(made):
            raise ParseError(f"a reference to node {place}, which doesn't come before it")
        return made[place]
    if "$op" in value:
        return Op.get(str(value["$op"]))
    if "$float" in value:
        if value["$float"] not in ("nan", "inf", "-inf"):
            raise ParseError(f"'{value['$float']}' is no special float")
        return float(value["$float"])
    if "$map" in value:
        pairs = value["$map"]
        if not isinstance(pairs, list) or not all(isinstance(p, list) and len(p) == 2 for p in pairs):
            raise ParseError("a map must be a list of pairs")
        return {_decode(k, made): _decode(v, made) for k, v in pairs}
    return {k: _decode(v, made) for k, v in value.items()}


def _load_node(place: int, entry: Any, made: list[Any]) -> Any:
    if not isinstance(entry, dict) or not isinstance(entry.get("fields"), dict):
        raise ParseError(f"node {place} has no fields")
    cls = NODE_TYPES.get(entry.get("type", ""))
    if cls is None:
        raise ParseError(f"node {place} has the unknown type '{entry.get('type')}'")
    if set(entry["fields"]) != set(cls.field_names):  # type: ignore[attr-defined]
        raise ParseError(f"node {place} ({entry['type']}) has fields {sorted(entry['fields'])}")
    try:
        arguments = {name: _decode(v, made) for name, v in entry["fields"].items()}
        if "span" in entry:
            arguments["span"] = Span(*entry["span"])
        return cls(**arguments)
    except (TypeError, ValueError, AttributeError) as e:
        raise ParseError(f"node {place} ({entry['type']}) has a field of the wrong kind: {e}") from None


def _import_node_modules() -> None:
    """Nodes are known once their modules are imported; layouts live above the IR and may not be yet."""
    import importlib
    import importlib.util

    name = __name__.split(".")[0] + ".layout"
    if importlib.util.find_spec(name) is not None:
        importlib.import_module(name)
