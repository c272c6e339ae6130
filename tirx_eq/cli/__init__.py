"""The command line: ``tirx-eq``.  Exit codes: 0 done, 1 a claim was refuted or a check failed, 2 the input was wrong."""

from __future__ import annotations

from .app import main

__all__ = ["main"]
