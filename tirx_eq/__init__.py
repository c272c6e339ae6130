"""tirx_eq: equality saturation, proofs and PTX for TIRx tile kernels on NVIDIA Blackwell.

The names here are loaded when first used, so that ``import tirx_eq`` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

#: public name -> (module, attribute; empty for the module itself)
_PUBLIC = {
    "simplify": ("tirx_eq.egraph.simplify", "simplify"),
    "simplify_all": ("tirx_eq.egraph.simplify", "simplify_all"),
    "compile": ("tirx_eq.solve.compile", "compile_open"),
    "solve": ("tirx_eq.solve.solve", "solve"),
    "erase_layouts": ("tirx_eq.solve.erasing", "erase_layouts"),
    "NoLayoutError": ("tirx_eq.solve.conflict", "NoLayoutError"),
    "Kernel": ("tirx_eq.lower.kernel", "Kernel"),
    "TirxError": ("tirx_eq.errors", "TirxError"),
    "Verdict": ("tirx_eq.prove.verdict", "Verdict"),
    "equal": ("tirx_eq.prove.layouts", "equal"),
    "injective": ("tirx_eq.prove.layouts", "injective"),
    "covers": ("tirx_eq.prove.layouts", "covers"),
    "conflict_free": ("tirx_eq.prove.layouts", "conflict_free"),
    "same_up_to": ("tirx_eq.prove.layouts", "same_up_to"),
    "check": ("tirx_eq.prove.check", "check"),
    "best_layout": ("tirx_eq.solve.memory.best_layout", "best_layout"),
    "convert": ("tirx_eq.solve.redistribution.convert", "convert"),
    "from_tvm": ("tirx_eq.interop.tvm", "from_tvm"),
    "to_tvm": ("tirx_eq.interop.tvm", "to_tvm"),
    "tvm_pass": ("tirx_eq.interop.tvm", "tvm_pass"),
    "strategies": ("tirx_eq.strategies", ""),
}

if TYPE_CHECKING:
    from . import strategies
    from .egraph.simplify import simplify, simplify_all
    from .errors import TirxError
    from .interop.tvm import from_tvm, to_tvm, tvm_pass
    from .lower.kernel import Kernel
    from .prove.check import check
    from .prove.layouts import conflict_free, covers, equal, injective, same_up_to
    from .prove.verdict import Verdict
    from .solve.compile import compile_open as compile
    from .solve.conflict import NoLayoutError
    from .solve.erasing import erase_layouts
    from .solve.memory.best_layout import best_layout
    from .solve.redistribution.convert import convert
    from .solve.solve import solve

__all__ = [
    "Kernel", "NoLayoutError", "TirxError", "Verdict", "__version__", "best_layout", "check", "compile",
    "conflict_free", "convert", "covers", "equal", "erase_layouts", "from_tvm", "injective", "same_up_to", "simplify",
    "simplify_all", "solve", "strategies", "to_tvm", "tvm_pass",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'tirx_eq' has no attribute '{name}'")
    module, attribute = _PUBLIC[name]
    loaded = importlib.import_module(module)
    value = getattr(loaded, attribute) if attribute else loaded
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
