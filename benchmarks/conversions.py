"""Register conversions beside Triton's: instructions and shared-memory wavefronts of both, measured the same way.

Run ``python benchmarks/conversions.py [-o OUT.json] [--markdown]``.  Where Triton is installed each pair is written as a
Gluon kernel (load in one ``DistributedLinearLayout``, ``convert_layout``, store in the other), compiled by Triton for
sm_100, and the PTX is read and executed in our simulator; its result must be right too.  No GPU is needed.  Pairs that no
linear layout describes have no Triton column.  Wavefronts are counted from the addresses that the simulator sees.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.solve.conversion_pairs import Pair, pairs
from tirx_eq.layout.conflicts import bank_conflicts
from tirx_eq.redistribution.linear import LinearForm, linear_form
from tirx_eq.sim import Launch, loads, simulate
from tirx_eq.solve.redistribution.convert import Conversion, baseline_wavefronts, convert

UNSIGNED = {8: np.uint8, 16: np.uint16, 32: np.uint32}
COUNTED = {
    "shuffles": r"\bshfl\.", "selects": r"\bselp\.", "permutes": r"\bprmt\.", "stores": r"\bst(?:matrix)?\.[^;]*\bshared",
    "loads": r"\bld(?:matrix)?\.[^;]*\bshared", "barriers": r"\bbar(?:rier)?\.(?!cluster)",
}  # fmt: skip


class SharedTraffic:
    """Counts the wavefronts of every access to shared memory while it is entered."""

    def __init__(self) -> None:
        self.wavefronts = 0

    def __enter__(self) -> SharedTraffic:
        self._place = loads.place
        loads.place = self._counted  # type: ignore[assignment]
        return self

    def __exit__(self, *_: Any) -> None:
        loads.place = self._place

    def _counted(self, w: Any, space: str, address: Any, rows: Any, size: int, align: int, mask: Any = None) -> Any:
        if space in ("shared", "cluster"):
            warps = np.asarray(w.thread)[rows] // 32
            lanes = np.asarray(w.thread)[rows] % 32
            for warp in np.unique(warps):
                mine = warps == warp
                phases = {16: 8, 8: 16}.get(size, 32)
                for first in range(0, 32, phases):
                    here = mine & (lanes >= first) & (lanes < first + phases)
                    if here.any():
                        self.wavefronts += bank_conflicts([int(a) for a in address[here]], size).wavefronts
        return self._place(w, space, address, rows, size, align, mask)


def ours(c: Conversion) -> dict[str, Any]:
    """Our counts; the wavefronts measured, and compared with those that the plan says."""
    rng = np.random.default_rng(0)
    values = rng.integers(0, 2**c.src.bits, c.src.size).astype(UNSIGNED[c.src.bits])
    with SharedTraffic() as traffic:
        result = c.kernel.simulate(c.registers(values), np.zeros((c.dst.threads, c.dst.words), np.uint32))
    wanted = np.where(c.dst.held >= 0, values[np.maximum(c.dst.held, 0)], 0)
    right = not result.faults and (c.elements(result.arrays["dst"]) == wanted).all()
    assert right and traffic.wavefronts == c.cost.wavefronts, (right, traffic.wavefronts, c.cost.wavefronts)
    k = c.cost
    return {
        "way": c.plan.kind, "shuffles": k.shuffles, "selects": k.selects, "permutes": k.permutes, "stores": k.stores,
        "loads": k.loads, "barriers": k.barriers, "wavefronts": k.wavefronts, "cycles": k.cycles,
    }  # fmt: skip


def triton_text(pair: Pair, a: LinearForm, b: LinearForm) -> tuple[str, int]:
    """(PTX, bytes of shared memory) that Triton makes of a pair."""
    from triton import compile as triton_compile
    from triton.backends.compiler import GPUTarget
    from triton.experimental import gluon
    from triton.experimental.gluon import language as gl
    from triton.experimental.gluon._runtime import GluonASTSource

    shape = pair.shape if len(pair.shape) == 2 else (1, *pair.shape)

    def coordinates(vectors: tuple[int, ...]) -> list[list[int]]:
        return [list(divmod(v, shape[1])) for v in vectors]

    def layout(form: LinearForm) -> Any:
        return gl.DistributedLinearLayout(
            reg_bases=coordinates(form.slots), lane_bases=coordinates(form.threads[:5]),
            warp_bases=coordinates(form.threads[5:]), block_bases=[], shape=list(shape),
        )  # fmt: skip

    kind = {8: "*i8", 16: "*i16", 32: "*i32"}[{"float32": 32, "float16": 16}.get(pair.dtype, 8)]
    from triton_kernel import round_trip  # written by main() beside the results: Triton reads the source of its kernels

    del gluon
    source = GluonASTSource(
        round_trip,
        {"src": kind, "dst": kind, "M": "constexpr", "N": "constexpr", "A": "constexpr", "B": "constexpr"},
        {(2,): shape[0], (3,): shape[1], (4,): layout(a), (5,): layout(b)},
    )
    made = triton_compile(source, target=GPUTarget("cuda", 100, 32), options={"num_warps": 1 << (len(a.threads) - 5)})
    return made.asm["ptx"], int(made.metadata.shared)


TRITON_KERNEL = '''
from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.jit
def round_trip(src, dst, M: gl.constexpr, N: gl.constexpr, A: gl.constexpr, B: gl.constexpr):
    m = gl.arange(0, M, layout=gl.SliceLayout(1, A))
    n = gl.arange(0, N, layout=gl.SliceLayout(0, A))
    x = gl.load(src + m[:, None] * N + n[None, :])
    y = gl.convert_layout(x, B)
    p = gl.arange(0, M, layout=gl.SliceLayout(1, B))
    q = gl.arange(0, N, layout=gl.SliceLayout(0, B))
    gl.store(dst + p[:, None] * N + q[None, :], y)
'''


def theirs(pair: Pair, c: Conversion) -> dict[str, Any] | None:
    """Triton's counts; None where it isn't installed or the pair isn't linear."""
    a, b = linear_form(c.src), linear_form(c.dst)
    if a is None or b is None or len(a.threads) != len(b.threads):
        return None
    ptx, shared = triton_text(pair, a, b)
    body = "\n".join(line.split("//")[0] for line in ptx.splitlines())
    counts: dict[str, Any] = {name: len(re.findall(pattern, body)) for name, pattern in COUNTED.items()}
    values = np.random.default_rng(0).integers(0, 2**c.src.bits, c.src.size).astype(UNSIGNED[c.src.bits])
    entry = re.search(r"\.entry (\w+)", ptx)
    assert entry is not None
    names = re.findall(r"\.param \.u64[^,\n)]*?(\w+_param_\d+)", ptx)
    arrays: dict[str, Any] = {name: np.zeros(16, np.uint8) for name in names}
    arrays[names[0]], arrays[names[1]] = values, np.zeros_like(values)
    with SharedTraffic() as traffic:
        result = simulate(ptx, entry[1], Launch((1, 1, 1), (c.src.threads, 1, 1), (1, 1, 1), shared), arrays)
    # Copies of an element are stored by all their threads: the same bytes, which the simulator reports.
    assert all("two threads write the same bytes" in f.message for f in result.faults), result.faults[0]
    assert (result.arrays[names[1]] == values).all(), "Triton's program is wrong in the simulator"
    return {**counts, "wavefronts": traffic.wavefronts, "faults": len(result.faults)}


def row(pair: Pair, compare: bool) -> dict[str, Any]:
    """One pair's line."""
    c = convert(pair.src, pair.dst, pair.dtype, shape=pair.shape)
    found = {"name": pair.name, "dtype": pair.dtype, "ours": ours(c), "padded": baseline_wavefronts(c), "triton": None}
    if compare:
        found["triton"] = theirs(pair, c)
    return found


def text(counts: dict[str, Any] | None) -> str:
    """Counts as words."""
    if counts is None:
        return "–"
    names = {"shuffles": "shfl", "selects": "selp", "permutes": "prmt", "stores": "st", "loads": "ld", "barriers": "bar"}
    parts = [f"{counts[k]} {short}" for k, short in names.items() if counts[k]]
    return ", ".join(parts) + (f"; {counts['wavefronts']} wavefronts" if counts["wavefronts"] else "") or "nothing"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    try:
        import triton  # noqa: F401

        compare = True
    except ImportError:
        compare = False
        print("Triton is not installed: our columns only", file=sys.stderr)
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "triton_kernel.py").write_text(TRITON_KERNEL)
        sys.path.insert(0, folder)
        rows = [row(pair, compare) for pair in pairs()]
    if options.output:
        options.output.write_text(json.dumps(rows, indent=1) + "\n")
    line = "| {} | {} | {} | {} | {} |" if options.markdown else "{:42} {:16} {:58} {:66} {}"
    print(line.format("conversion", "dtype", "ours", "Triton", "padded tile"))
    if options.markdown:
        print("|---|---|---|---|---|")
    for r in rows:
        print(line.format(r["name"], r["dtype"], text(r["ours"]), text(r["triton"]), f"{r['padded']} wavefronts"))
    both = [r for r in rows if r["triton"] is not None]
    for what in ("shuffles", "wavefronts", "barriers"):
        mine, other = (sum(r[side][what] for r in both) for side in ("ours", "triton"))
        print(f"{what} in all: {mine}, Triton {other}", file=sys.stderr)


if __name__ == "__main__":
    main()
