"""Printing functions as script (see tirx_eq/script for the way back)."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def script(func: Any, *, syntax_sugar: bool = True, extra_config: Mapping[str, Any] | None = None) -> str:
    raise NotImplementedError
