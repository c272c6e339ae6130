"""Kernels of real TVM in, and back out.

Nothing here imports TVM: what is given is read by its reflected fields, so 0.26 and 0.27 (module ``tvm``) need no code
of their own where they agree, and none of them has to be installed.
"""

from __future__ import annotations

import sys
from typing import Any

from ..errors import InteropError
from .tvm_export import export_object
from .tvm_import import import_object
from .tvm_objects import load_document
from .tvm_pass import PassReport, register_pipeline, tvm_pass
from .tvm_reader import ImportSummary

__all__ = [
    "ImportSummary", "PassReport", "from_tvm", "from_tvm_json", "register_pipeline", "to_tvm", "tvm_pass",
]  # fmt: skip


def from_tvm(value: Any, *, summary: ImportSummary | None = None) -> Any:
    """Our counterpart of an object of ``apache-tvm`` 0.26 or 0.27, or of ``apache-tvm-tirx`` (module ``tvm_tirx``).

    ``value`` is a ``PrimFunc`` (gives a :class:`tirx_eq.ir.PrimFunc`), an ``IRModule`` (gives an
    :class:`~tirx_eq.ir.IRModule`; functions that aren't PrimFuncs are kept as they are), or any statement, expression,
    buffer or layout.  What has no counterpart becomes :class:`~tirx_eq.ir.Opaque`; pass an :class:`ImportSummary` as
    ``summary`` to have it filled with what was met.  Nothing is executed.

    Raises InteropError if ``value`` isn't an object of TIRx.
    """
    if type(value).__module__.split(".")[0] == "tvm_tirx":
        save = getattr(sys.modules.get("tvm_tirx.ir"), "save_json", None)
        if save is None:
            raise InteropError("this tvm_tirx has no ir.save_json, through which its objects are read")
        return from_tvm_json(str(save(value)), summary=summary)
    return import_object(value, summary)


def to_tvm(value: Any) -> Any:
    """The live object of the ``tvm`` that is installed (0.26 or 0.27) for a function, module, statement, expression,
    buffer or layout of ours.

    What an import left opaque goes back as it came.  ``to_tvm(from_tvm(f))`` is structurally equal to ``f`` as TVM
    judges it.  Raises InteropError if TVM isn't installed, or has nothing for a node.
    """
    return export_object(value)


def from_tvm_json(text: str, *, summary: ImportSummary | None = None) -> Any:
    """Our counterpart of what ``tvm_tirx.ir.save_json`` of ``apache-tvm-tirx`` wrote; that package isn't needed.

    Its tile instructions (``tirx.cuda.tile.apply``) have no counterpart and become opaque.  Raises InteropError if
    ``text`` is no such document.
    """
    return import_object(load_document(text), summary)
