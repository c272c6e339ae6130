"""Kernels of real TVM in, and back out.

Nothing here imports TVM: what is given is read by its reflected fields, so 0.26 and 0.27 (module ``tvm``) need no code
of their own where they agree, and none of them has to be installed.
"""

from __future__ import annotations

from typing import Any

from .tvm_import import ImportSummary, import_object

__all__ = ["ImportSummary", "from_tvm"]


def from_tvm(value: Any, *, summary: ImportSummary | None = None) -> Any:
    """Our counterpart of an object of ``apache-tvm`` 0.26 or 0.27.

    ``value`` is a ``PrimFunc`` (gives a :class:`tirx_eq.ir.PrimFunc`), an ``IRModule`` (gives an
    :class:`~tirx_eq.ir.IRModule`; functions that aren't PrimFuncs are kept as they are), or any statement, expression,
    buffer or layout.  What has no counterpart becomes :class:`~tirx_eq.ir.Opaque`; pass an :class:`ImportSummary` as
    ``summary`` to have it filled with what was met.  Nothing is executed.

    Raises InteropError if ``value`` isn't an object of TIRx.
    """
    return import_object(value, summary)
