"""Source text for TVM: import lines change, nothing else does.  (That TVM reads the result is tested with the importer.)"""

from __future__ import annotations

from pathlib import Path

import pytest

from tirx_eq.errors import InteropError
from tirx_eq.interop.tvm_source import source_for_tvm

EXAMPLES = Path(__file__).parents[2] / "examples"
LADDER = sorted(p.stem for p in EXAMPLES.glob("gemm_*.py") if "import tile as Tx" in p.read_text())


@pytest.mark.parametrize("name", LADDER)
def test_only_import_lines_change(name):
    text = (EXAMPLES / f"{name}.py").read_text()
    ours, theirs = text.splitlines(), source_for_tvm(text).splitlines()
    assert len(ours) == len(theirs)
    changed = [a for a, b in zip(ours, theirs) if a != b]
    assert changed and all(line.startswith("from tirx_eq.") for line in changed)
    kernel = text.split("def main()")[0]
    assert "tirx_eq" not in source_for_tvm(kernel)


def test_names_that_live_elsewhere_there():
    text = "from tirx_eq.layout import (\n    S,\n    mma_shared_layout as m,\n    TLane,\n)\nx = S\n"
    first, *rest = source_for_tvm(text).splitlines()
    assert first == (
        "from tvm.tirx.layout import S, TLane; from tvm.backend.cuda.tile_primitive.tma_utils import mma_shared_layout as m"
    )
    assert rest == ["", "", "", "", "x = S"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("import tirx_eq as te\n", "line 1"),
        ("\nfrom tirx_eq.sim import simulate\n", "tirx_eq.sim"),
        ("def f(:\n", "line 1"),
    ],
)
def test_what_tvm_has_nothing_for(text, says):
    with pytest.raises(InteropError, match=says):
        source_for_tvm(text)
