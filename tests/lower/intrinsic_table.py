# ruff: noqa: E501
"""docs/intrinsics.md: each device intrinsic with its PTX and the test that runs it, or why it has none.

    python -m tests.lower.intrinsic_table
"""

from __future__ import annotations

from pathlib import Path

from tirx_eq.ir.intrinsics import INTRINSICS
from tirx_eq.lower.code.atomics import ATOMICS
from tirx_eq.lower.code.functions import ALIASES, COUNTS, FORMS, INSTRUCTIONS
from tirx_eq.lower.intrinsics.barriers import PARITY_WAITS
from tirx_eq.lower.intrinsics.table import FAMILIES, REFUSED

from .intrinsic_cases import CASES

PATH = Path(__file__).parents[2] / "docs" / "intrinsics.md"
#: Where intrinsics without a case of their own are run.
ELSEWHERE = {
    **dict.fromkeys(("tcgen05_alloc", "tcgen05_dealloc", "tcgen05_relinquish_alloc_permit", "tcgen05_commit", "tcgen05_wait_ld",
                     "tcgen05_wait_st", "tcgen05_fence_before_thread_sync", "tcgen05_fence_after_thread_sync"), "test_run_ladder"),
    **dict.fromkeys(("tcgen05_mma", "tcgen05_ld", "tcgen05_st", "tcgen05_encode_matrix_descriptor",
                     "tcgen05_encode_instr_descriptor"), "test_run_tensor_core"),
    **dict.fromkeys(("barrier_cluster_arrive", "barrier_cluster_wait", "cluster_sync", "cp_async_bulk_shared_to_cluster",
                     "cp_async_bulk_s2s_cluster", "mapa", "map_shared_rank"), "test_cluster"),
    **dict.fromkeys(("clc_try_cancel", "clc_query_cancel"), "test_reported_faults"),
    **dict.fromkeys(("elect_sync", "cta_sync", "warp_sync", "thread_rank"), "test_run_statements"),
    **dict.fromkeys(("exp2", "rcp", "reduce3_max_f32", "reduce3_min_f32", "fdividef"), "test_functions"),
    **dict.fromkeys((f"__shfl{n}_sync" for n in ("", "_up", "_down", "_xor")), "test_run_shuffles"),
    **dict.fromkeys(("atomic_add", "atomic_cas", "atom_scalar", "red_scalar"), "test_run_atomics"),
    **dict.fromkeys((f"iket_{n}" for n in ("mark", "range_start", "range_end", "range_push", "range_pop", "sentinel_token")),
                    "test_run_intrinsics"),
    "wait_until": "test_run_real_kernels", "tensormap_encode_tiled": "test_run_real_kernels",
    "instruction": "test_tvm_instructions", "addr": "test_tvm_instructions",
}  # fmt: skip
#: What a call becomes that has no template.
OTHER = {
    **dict.fromkeys(ATOMICS, "red, atom"), **dict.fromkeys(PARITY_WAITS, "mbarrier.try_wait.parity in a loop"),
    "tirx.ptx.elect_sync": "elect.sync", "tirx.ptx.clc_query_cancel": "clusterlaunchcontrol.query_cancel",
    "tirx.cuda.thread_rank": "arithmetic on %tid", "tirx.ptx.instruction": "the instruction itself",
    "tirx.cuda.wait_until": "ld.relaxed in a loop, ld.acquire", "tirx.tensormap_encode_tiled": "a tensor map among the parameters",
    "tirx.ptx.addr": "an offset in an address", "tirx.atomic_add": "red, atom",
}  # fmt: skip
#: Functions of scalars that the script offers beside them; what they become is in tirx_eq/lower/code/functions.py.
SCALAR = frozenset(f"tirx.{n}" for n in (
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "copysign", "cosh", "ctpop", "hypot", "ldexp", "nextafter",
    "sinh"))  # fmt: skip


def family_of(name: str) -> str:
    """The file of templates that an operator is in."""
    return next((f for f, module in FAMILIES.items() if name in module.TEMPLATES), "")


def ptx_of(name: str) -> str:
    """The opcodes of an operator's first template, or what else it becomes."""
    for module in FAMILIES.values():
        if name in module.TEMPLATES:
            first = module.TEMPLATES[name][0].text
            if not isinstance(first, str):
                return "by its arguments"
            if not first:
                return "nothing"
            opcodes = [part.split()[1 if part.split()[0].startswith("@") else 0] for part in first.split(";") if part.strip()]
            return ", ".join(dict.fromkeys(f"`{o}`" for o in opcodes))
    if name in OTHER:
        return OTHER[name]
    short = name.removeprefix("tirx.")
    if short in FORMS or short in INSTRUCTIONS or short in ALIASES or short in COUNTS:
        return "by its recipe"
    return ""


def tests_of(name: str) -> str:
    """Where an operator is run."""
    short = name.rpartition(".")[2]
    if any(short in operators.split() for operators, *_ in CASES):
        return "test_run_intrinsics"
    return ELSEWHERE.get(short, "")


def rows() -> list[tuple[str, str, str, str]]:
    """(operator, PTX, test, why not)."""
    return [(n, ptx_of(n), tests_of(n), REFUSED.get(n, "")) for n in sorted(INTRINSICS) if n not in SCALAR]


def text() -> str:
    """The page."""
    found = rows()
    done = [r for r in found if r[1]]
    lines = [
        "# Device intrinsics", "",
        f"Of the {len(found)} operators that the script knows by name, {len(done)} have PTX; the others are refused, with this "
        "reason. `{…}` are arguments. Operands and orderings are those of TVM 0.26. Written by "
        "`python -m tests.lower.intrinsic_table`.", "", "| operator | PTX | run by | refused, since |", "|---|---|---|---|",
    ]  # fmt: skip
    lines += [f"| `{name.removeprefix('tirx.')}` | {ptx.replace('|', '/')} | {test} | {why} |" for name, ptx, test, why in found]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PATH.write_text(text(), encoding="utf-8")
