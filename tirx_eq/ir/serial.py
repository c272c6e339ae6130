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
    """``root`` (a node, or tuples and dicts of nodes) as JSON text; ``load_json`` gives an equal object with equal sharing."""
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
    if not isinstance(data, dict) or data.get("format") != _FORMAT or data.get("version") != _VERSION:
        raise ParseError("not a tirx_eq JSON document of version 1")
    _import_node_modules()
    made: list[Any] = []

    def decode(value: Any) -> Any:
        if isinstance(value, list):
            return tuple(decode(v) for v in value)
        if not isinstance(value, dict):
            return value
        if "$" in value:
            place = value["$"]
            if not isinstance(place, int) or not 0 <= place < len(made):
                raise ParseError(f"a reference to node {place}, which doesn't come before it")
            return made[place]
        if "$op" in value:
            return Op.get(value["$op"])
        if "$float" in value:
            return float(value["$float"])
        if "$map" in value:
            return {decode(k): decode(v) for k, v in value["$map"]}
        return {k: decode(v) for k, v in value.items()}

    for place, entry in enumerate(data["nodes"]):
        cls = NODE_TYPES.get(entry.get("type"))
        if cls is None:
            raise ParseError(f"node {place} has the unknown type '{entry.get('type')}'")
        arguments = {name: decode(v) for name, v in entry["fields"].items()}
        if set(arguments) != set(cls.field_names):  # type: ignore[attr-defined]
            raise ParseError(f"node {place} ({entry['type']}) has fields {sorted(arguments)}")
        if "span" in entry:
            arguments["span"] = Span(*entry["span"])
        made.append(cls(**arguments))
    return decode(data["root"])


def _import_node_modules() -> None:
    """Nodes are known once their modules are imported; layouts live above the IR and may not be yet."""
    import importlib
    import importlib.util

    name = __name__.split(".")[0] + ".layout"
    if importlib.util.find_spec(name) is not None:
        importlib.import_module(name)
