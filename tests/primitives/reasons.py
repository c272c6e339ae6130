"""Why cells of the table are refused: what the hardware lacks, by the condition that fails."""

from __future__ import annotations

_NO_THREAD = (
    "tensor memory is reached by `tcgen05.ld` and `tcgen05.st`, which all 32 lanes of a warp execute together: one thread has "
    "no instruction for it"
)
#: Condition -> why no variant can do without it.
REASONS: dict[str, str] = {
    "the operation exists for the dtypes": (
        "roots, exponentials, logarithms, sigmoids and quotients are functions of floats, whose results are no integers or "
        "truth values: cast first; truth values have no difference"
    ),
    "the reduction exists for the dtypes": "truth values have no negative: cast first",
    "operands in memory or registers": _NO_THREAD, "source in memory": _NO_THREAD, "destination in memory": _NO_THREAD,
    "one operand in registers, one in memory": _NO_THREAD, "both operands in registers": _NO_THREAD,
    "registers of several threads on both sides": _NO_THREAD, "matrices in memory or registers": _NO_THREAD,
}
