"""The script: kernels written in Python, read from their source.

``from tirx_eq.script import tirx as Tx`` gives the namespace; a function under ``@Tx.prim_func`` is parsed (never
executed) to a :class:`tirx_eq.ir.PrimFunc`.  :func:`parse_source` and :func:`load_file` read text and files.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    import importlib

    if name in ("tirx", "tile"):
        return importlib.import_module(f".{name}", __name__)
    if name in ("parse_source", "load_file", "parse_function"):
        return getattr(importlib.import_module(".loader", __name__), name)
    raise AttributeError(f"module 'tirx_eq.script' has no attribute '{name}'")


__all__ = ["load_file", "parse_source", "tirx"]
