"""Running a command in this process."""

from __future__ import annotations

import sys

import pytest

from tirx_eq.cli import main


def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command."""
    monkeypatch.setattr(sys, "argv", ["tirx-eq", *arguments])
    try:
        main()
        code = 0
    except SystemExit as stop:
        code = int(stop.code or 0)
    out = capsys.readouterr()
    return code, out.out, out.err
