"""Where the rule texts and proof records are: beside the package in a checkout, inside it in a wheel."""

from __future__ import annotations

from pathlib import Path

from .errors import TirxError

_PACKAGE = Path(__file__).resolve().parent


def _folder(name: str) -> Path:
    for place in (_PACKAGE / name, _PACKAGE.parent / name):
        if place.is_dir():
            return place
    raise TirxError(f"the folder '{name}' is missing from this installation of tirx_eq", hint="reinstall the package")


def rules_dir() -> Path:
    """Folder of the rewrite rules (``*.egg``)."""
    return _folder("rules")


def proofs_dir() -> Path:
    """Folder of the proof records (one per rule)."""
    return _folder("proofs")
