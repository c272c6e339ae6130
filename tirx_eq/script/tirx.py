"""The script namespace: ``from tirx_eq.script import tirx as Tx``.

Every name a kernel may use is an attribute of this module; see :mod:`tirx_eq.script.namespace` for the table.
"""

from __future__ import annotations

import difflib
from typing import Any

from . import tile
from .namespace import make_table
from .values import dtype_constructor

_TABLE: dict[str, Any] = make_table()
__all__ = sorted(_TABLE)


def __getattr__(name: str) -> Any:
    if name in _TABLE:
        return _TABLE[name]
    dtype = dtype_constructor(name)
    if dtype is not None:
        return dtype
    near = difflib.get_close_matches(name, _TABLE, 3, 0.6)
    more = f"; did you mean {', '.join(near)}?" if near else ""
    raise AttributeError(f"the script namespace has no '{name}'{more}")


def __dir__() -> list[str]:
    return __all__


_TABLE["tile"] = tile
