"""Kernels of random tile primitives: what is lowered is right; what isn't, is refused by name."""

from __future__ import annotations

import os

import pytest

from .campaign import outcome
from .tile_kernels import Skip, draw

EXPLORE = os.environ.get("TIRX_EQ_EXPLORE")
SEEDS = range(int.from_bytes(os.urandom(2), "big") * 100, 1 << 24) if EXPLORE else range(5000, 6000)


def sources(count):
    found = []
    for seed in SEEDS:
        if len(found) == count:
            break
        try:
            found.append((seed, draw(seed)))
        except Skip:
            continue
    return found


@pytest.mark.parametrize(("seed", "source"), sources(24), ids=lambda v: str(v) if isinstance(v, int) else "")
def test_right_or_refused_by_name(seed, source):
    what, detail = outcome(source, seed)
    assert what in ("right", "refused"), f"{what}: {detail}\n{source}"
    if what == "refused":
        assert "k.py:" in detail, "the message has no place in the source"
