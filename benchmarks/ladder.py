"""The ladder of examples at larger sizes: compiled, assembled, simulated, and compared with the interpreter.

Run ``python benchmarks/ladder.py [NAME …] [--policy late|early|random] [-o OUT.json]``.  By hand: the whole takes minutes.
Seconds of compilation are CPU time, those of simulation wall time; what a GPU would take is not known here.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from tirx_eq.cli.run import execute
from tirx_eq.ir import PrimFunc
from tirx_eq.lower.kernel import compile_function
from tirx_eq.ptx.ptxas import count_instructions, find_tool, sass_count
from tirx_eq.script import parse_source

EXAMPLES = Path(__file__).parents[1] / "examples"

#: Step of the ladder, example, inputs ("integers" must agree bit for bit), changes of its text.
LADDER: tuple[tuple[int, str, str, tuple[tuple[str, str], ...]], ...] = (
    (1, "gemm_single_tile", "integers", ()),
    (2, "gemm_k_loop", "integers", (("M, N, K = 128, 128, 256", "M, N, K = 128, 128, 4096"),)),
    (3, "gemm_many_tiles", "integers", (("M, N, K = 256, 384, 128", "M, N, K = 1024, 512, 512"),)),
    (4, "gemm_tma", "integers", (("M, N, K = 256, 256, 128", "M, N, K = 1024, 512, 1024"),)),
    (5, "gemm_software_pipeline", "integers", (("M, N, K = 256, 256, 256", "M, N, K = 1024, 512, 1024"),)),
    (6, "gemm_persistent", "integers", (("M, N, K = 384, 256, 192", "M, N, K = 1024, 1024, 768"),)),
    (7, "gemm_warp_roles", "integers", (("M, N, K = 384, 256, 256", "M, N, K = 1024, 1024, 1024"),)),
    (8, "gemm_cluster", "integers", (("M, N, K = 768, 256, 256", "M, N, K = 768, 512, 512"),)),
    (9, "gemm_two_consumers", "integers", (("M, N, K = 512, 256, 256", "M, N, K = 1024, 1024, 1024"),)),
    (10, "gemm_nvfp4", "random", (("M, N, K = 128, 256, 768", "M, N, K = 256, 256, 2048"),)),
    (11, "gemm_fp8_blockwise", "random", (("M, N, K = 128, 256, 640", "M, N, K = 256, 256, 1024"),)),
    (12, "rmsnorm", "random", (("(16, 1024)", "(256, 1024)"), ("Tx.serial(4)", "Tx.serial(64)"))),
    (13, "softmax", "random", (("(64, 256)", "(1024, 256)"), ("Tx.cta_id([4])", "Tx.cta_id([64])"))),
    (14, "attention", "random", (("KEYS, DEPTH = 2, 256, 384, 64", "KEYS, DEPTH = 4, 512, 1024, 64"),)),
)  # fmt: skip


def larger(name: str, changes: tuple[tuple[str, str], ...]) -> PrimFunc:
    """The kernel of an example with its sizes changed."""
    text = (EXAMPLES / f"{name}.py").read_text().split("\n\ndef main()")[0]
    for old, new in changes:
        if old not in text:
            raise SystemExit(f"{name}: '{old}' is not in the example any more")
        text = text.replace(old, new)
    return next(iter(parse_source(text, f"{name}.py").values()))


def measure(step: int, name: str, kind: str, changes: tuple[tuple[str, str], ...], policy: str) -> dict[str, Any]:
    """One row: sizes, code, seconds, and whether the results agree."""
    func = larger(name, changes)
    shapes = {b.name: list(map(int, b.const_shape() or ())) for b in func.buffer_map.values()}
    start = time.process_time()
    kernel = compile_function(func)
    compiled = time.process_time() - start
    row: dict[str, Any] = {"step": step, "example": name, "shapes": shapes, "compile": compiled, "policy": policy,
                           "ptx": count_instructions(kernel.ptx)}  # fmt: skip
    if find_tool("ptxas") is not None:
        made = kernel.assemble()
        row |= {"registers": made.registers, "spills": made.spill_stores + made.spill_loads}
        row["sass"] = sass_count(made.cubin) if find_tool("nvdisasm") is not None else None
    start = time.process_time()
    outcome = execute(func, kind=kind, policy=policy)
    row |= {
        "run": time.process_time() - start, "simulate": outcome.seconds["simulate"],
        "warp_instructions": outcome.result.stats["steps"],
        "agrees": outcome.good, "faults": [str(f) for f in outcome.faults],
        "error": max((c.error for c in outcome.comparisons if c.changed), default=0.0),
        "allowed": max((c.bound for c in outcome.comparisons if c.changed), default=0.0), "exact": outcome.exact,
    }  # fmt: skip
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="examples to run (all)")
    parser.add_argument("--policy", default="late", choices=("late", "early", "random"))
    parser.add_argument("-o", "--output", type=Path, help="write the rows as JSON")
    options = parser.parse_args()
    rows = []
    print(f"   {'example':24} {'PTX':>5} {'SASS':>5} {'regs':>4} {'compile':>8} {'simulate':>9} {'warp instr.':>11}  result")
    for step, name, kind, changes in LADDER:
        if options.names and name not in options.names:
            continue
        row = measure(step, name, kind, changes, options.policy)
        rows.append(row)
        how = "bits" if row["exact"] else f"{row['error']:.2g} of {row['allowed']:.2g}"
        verdict = f"agrees ({how})" if row["agrees"] else f"WRONG: {row['faults'][:1] or how}"
        print(
            f"{step:2} {name:24} {row['ptx']:5} {row.get('sass') or '-':>5} {row.get('registers', '-'):>4} "
            f"{row['compile']:7.2f}s {row['simulate']:8.2f}s {row['warp_instructions']:11}  {verdict}",
            flush=True,
        )
    if options.output is not None:
        options.output.write_text(json.dumps(rows, indent=1) + "\n")
    if not all(row["agrees"] and not row.get("spills") for row in rows):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
