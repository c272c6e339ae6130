"""Why cells of the table are refused: what the hardware lacks, by the condition that fails."""

from __future__ import annotations

_NO_THREAD = (
    "tensor memory is reached by `tcgen05.ld` and `tcgen05.st`, which all 32 lanes of a warp execute together: one thread has "
    "no instruction for it"
)
#: Condition -> why no variant can do without it.
REASONS: dict[str, str] = {
    "the operation exists for the dtypes": (
        "PTX has no arithmetic or function on these types: there are no logarithms, exponentials or sigmoids of integers, "
        "nothing computes with `ue8m0`, `e2m1` or truth values (they are moved, chosen from and converted), and `ue8m0` has no "
        "zero"
    ),
    "the reduction exists for the dtypes": (
        "nothing adds or compares `ue8m0`, `e2m1` or truth values, and unsigned integers have no negative"
    ),
    "operands in memory or registers": _NO_THREAD, "source in memory": _NO_THREAD, "destination in memory": _NO_THREAD,
    "one operand in registers, one in memory": _NO_THREAD, "both operands in registers": _NO_THREAD,
    "registers of several threads on both sides": _NO_THREAD,
    "there is a multiplication of the dtypes": (
        "nothing multiplies `ue8m0` or truth values, and `e2m1` only on the tensor core (`gemm_async`)"
    ),
    "an mma.sync takes the dtypes": (
        "nothing multiplies `ue8m0` or truth values, and `e2m1` only on the tensor core (`gemm_async`)"
    ),
    "all matrices in registers": (
        "factors and sums in tensor memory are those of `gemm_async`; no other instruction multiplies them"
    ),
    "matrices in memory or registers": (
        "factors and sums in tensor memory are those of `gemm_async`; no other instruction multiplies them"
    ),
}
