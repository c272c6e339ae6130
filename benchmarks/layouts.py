"""Equality of layouts, one question per line, beside what others have for it; medians in milliseconds of CPU time.

Run ``python benchmarks/layouts.py [-o OUT.json]``.  Peers that aren't installed are shown as "-".
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

from tirx_eq.ir import Var
from tirx_eq.layout import ComposeLayout, Layout, S, TileLayout, mma_shared_layout
from tirx_eq.layout.normal import normal_form
from tirx_eq.prove.layouts import equal

#: name, two layouts of equal meaning, shape
CASES: list[tuple[str, Layout, Layout, tuple[int, int]]] = [
    ("128x64, split rows", TileLayout(S[(128, 64):(64, 1)]), TileLayout(S[(16, 8, 64):(512, 64, 1)]), (128, 64)),
    (
        "128x64, 128B swizzle",
        mma_shared_layout("float16", 3, (128, 64)),
        ComposeLayout(3, 3, 3, TileLayout(S[(16, 8, 8, 8):(512, 64, 8, 1)])),
        (128, 64),
    ),
    (
        "128x256, swizzled K slabs",
        mma_shared_layout("float16", 3, (128, 256)),
        ComposeLayout(3, 3, 3, TileLayout(S[(2, 64, 4, 8, 8):(4096, 64, 8192, 8, 1)])),
        (128, 256),
    ),
    (
        "65536x65536, split",
        TileLayout(S[(1 << 16, 1 << 16):(1 << 16, 1)]),
        TileLayout(S[(1 << 8, 1 << 8, 1 << 16):(1 << 24, 1 << 16, 1)]),
        (1 << 16, 1 << 16),
    ),
    ("48x40", TileLayout(S[(48, 40):(40, 1)]), TileLayout(S[(6, 8, 40):(320, 40, 1)]), (48, 40)),
    ("768x960", TileLayout(S[(768, 960):(960, 1)]), TileLayout(S[(96, 8, 12, 80):(7680, 960, 80, 1)]), (768, 960)),
    (
        "3 stages of 128x128, swizzled",
        mma_shared_layout("float16", 3, (3, 128, 128)),
        ComposeLayout(3, 3, 3, TileLayout(S[(3, 128, 2, 8, 8):(16384, 64, 8192, 8, 1)])),
        (384, 128),
    ),
]


def median(action: Callable[[], Any], runs: int) -> float:
    """Median CPU time of ``action`` in milliseconds, after one run that isn't counted."""
    action()
    took = []
    for _ in range(runs):
        start = time.process_time()
        action()
        took.append(1e3 * (time.process_time() - start))
    return statistics.median(took)


def tvm_question(a: Layout, b: Layout, shape: tuple[int, int]) -> Callable[[], bool] | None:
    """TVM's prover on the two address expressions over symbolic coordinates."""
    try:
        import tvm
        from tvm import tirx as T
        from tvm.tirx.layout import ComposeLayout as TvmCompose
        from tvm.tirx.layout import TileLayout as TvmTile
    except ImportError:
        return None
    arith = getattr(tvm, "arith", None) or tvm.sym

    def convert(layout: Layout) -> Any:
        tile = layout.tile if isinstance(layout, ComposeLayout) else layout
        assert isinstance(tile, TileLayout)
        from tvm.tirx.layout import Iter as TvmIter

        made = TvmTile.from_iters([TvmIter(i.extent, i.stride, i.axis.name) for i in tile.shard], [], {})
        if isinstance(layout, ComposeLayout):
            s = layout.swizzle
            return TvmCompose(s.per_element, s.swizzle_len, s.atom_len, made, s.swizzle_inner)
        return made

    left, right = convert(a), convert(b)
    i, j = T.Var("i", "int64"), T.Var("j", "int64")

    def ask() -> bool:
        analyzer = arith.Analyzer()
        analyzer.bind(i, tvm.ir.Range(0, shape[0]))
        analyzer.bind(j, tvm.ir.Range(0, shape[1]))
        x, y = (layout.apply(i, j, shape=list(shape))["m"] for layout in (left, right))
        return bool(analyzer.can_prove_equal(x, y))

    return ask


def triton_question(a: Layout, b: Layout, shape: tuple[int, int]) -> Callable[[], bool] | None:
    """Triton's ``LinearLayout ==``, which is a comparison of matrices."""
    try:
        from triton._C.libtriton.linear_layout import LinearLayout
    except ImportError:
        return None
    from tirx_eq.errors import TirxError
    from tirx_eq.interop.triton import to_triton

    try:
        made = [
            LinearLayout.from_bases(
                [("offset", to_triton(x, shape, memory="offset")["offset"])], ["dim0", "dim1"], list(shape), True
            )
            for x in (a, b)
        ]
    except TirxError:
        return None
    return lambda: made[0] == made[1]


def z3_question(a: Layout, b: Layout, shape: tuple[int, int]) -> Callable[[], bool]:
    """z3 alone, on 64-bit vectors, from the definition of both layouts."""
    import z3

    def address(layout: Layout, x: Any) -> Any:
        tile = layout.tile if isinstance(layout, ComposeLayout) else layout
        assert isinstance(tile, TileLayout)
        total = z3.BitVecVal(0, 64)
        for it in reversed(tile.shard):
            total = total + z3.URem(x, it.extent) * it.stride
            x = z3.UDiv(x, it.extent)
        if isinstance(layout, ComposeLayout):
            s = layout.swizzle
            total = total ^ z3.LShR(total & s.source_mask, s.atom_len)
        return total

    def ask() -> bool:
        x = z3.BitVec("x", 64)
        solver = z3.Solver()
        solver.set("timeout", 10_000)
        solver.add(z3.ULT(x, shape[0] * shape[1]), address(a, x) != address(b, x))
        return solver.check() == z3.unsat

    return ask


def symbolic_rows() -> list[dict[str, Any]]:
    """Two-level mixed radix with symbolic extents, where the package has a verdict for it."""
    try:
        from tirx_eq.prove.symbolic import equal as symbolic_equal
    except ImportError:
        return []
    m, n, k = Var("m"), Var("n"), Var("k")
    a, b = TileLayout(S[(m, n, k):(n * k, k, 1)]), TileLayout(S[m * n * k : 1])
    ranges = {m: (1, 64), n: (1, 64), k: (1, 64)}
    try:
        found = symbolic_equal(a, b, ranges)
        took = median(lambda: symbolic_equal(a, b, ranges), 5)
        return [{"case": "m x n x k, symbolic", "ours": took, "verdict": found.status}]
    except Exception as error:
        return [{"case": "m x n x k, symbolic", "verdict": f"not asked: {error}"}]


def main() -> None:
    """Print the table; write JSON with ``-o``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", help="write the rows as JSON")
    parser.add_argument("--runs", type=int, default=21)
    args = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name, a, b, shape in CASES:
        assert equal(a, b).status == "equal", name
        row: dict[str, Any] = {"case": name, "decided by": equal(a, b).decided_by}
        row["ours"] = median(lambda a=a, b=b: equal(a, b), args.runs)
        row["form"] = median(lambda b=b: normal_form(b), args.runs)
        for peer, question in (("tvm", tvm_question), ("triton", triton_question), ("z3", z3_question)):
            ask = question(a, b, shape)
            if ask is None:
                row[peer] = None
                continue
            row[f"{peer} says"] = ask()
            row[peer] = median(ask, 3 if peer == "z3" else args.runs)
        rows.append(row)
    rows += symbolic_rows()
    print(f"{'case':32} {'by':12} {'ours':>9} {'form':>9} {'tvm':>10} {'triton':>10} {'z3':>10}   (median ms)")
    for row in rows:

        def cell(key: str, row: dict[str, Any] = row) -> str:
            value = row.get(key)
            if value is None:
                return "-"
            return f"{value:.3f}" + ("" if row.get(f"{key} says", True) else "?")

        by = row.get("decided by", row.get("verdict", ""))
        print(f"{row['case']:32} {by:12} " + " ".join(f"{cell(k):>{w}}" for k, w in
              (("ours", 9), ("form", 9), ("tvm", 10), ("triton", 10), ("z3", 10))))  # fmt: skip
    print("? : not proved")
    if args.output:
        with open(args.output, "w") as out:
            json.dump(rows, out, indent=1)


if __name__ == "__main__":
    main()
