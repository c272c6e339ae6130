"""Why cells of the table are refused: what the hardware lacks, by the condition that fails."""

from __future__ import annotations

#: Condition -> why no variant can do without it.
REASONS: dict[str, str] = {
    "the operation exists for the dtypes": (
        "PTX has no arithmetic, function or conversion on these types: there are no logarithms, exponentials or sigmoids of "
        "64-bit floats and of integers, nothing computes with `ue8m0`, `e2m1` or truth values, `ue8m0` has no "
        "zero, and an `e2m1` is half of a byte, which no load or store addresses"
    ),
    "the reduction exists for the dtypes": (
        "nothing adds or compares `ue8m0`, `e2m1` or truth values, and unsigned integers have no negative"
    ),
    "the scope is within a CTA": (
        "threads of different CTAs have neither registers nor ordinary shared memory in common, and no instruction of a "
        "cluster computes: each CTA makes the call for its part"
    ),
    "operands in memory or registers": (
        "tensor memory is reached by the four warps of a warpgroup together, each its own 32 lanes (`tcgen05.ld`, "
        "`tcgen05.st`): neither a thread nor a single warp reaches all lanes"
    ),
    "source in memory": (
        "tensor memory is reached by the four warps of a warpgroup together, each its own 32 lanes"
    ),
    "destination in memory": (
        "tensor memory is reached by the four warps of a warpgroup together, each its own 32 lanes"
    ),
    "elements of 8, 16 or 32 bits": (
        "`tcgen05.ld` and `tcgen05.st` move columns of 32 bits, into which elements of 8, 16 or 32 bits fit whole"
    ),
    "the registers hold what the shape moves": (
        "a row of the operand is less than a 32-bit column of tensor memory, which is read and written whole"
    ),
    "threads have their elements in the same registers": "an `e2m1` is half of a byte: two threads would share one",
    "each thread holds what it computes": "no instruction reads another thread's registers",
    "there is a multiplication of the dtypes": (
        "nothing multiplies `ue8m0` or truth values, and `e2m1` only on the tensor core, with scale factors (`gemm_async`)"
    ),
    "an mma.sync takes the dtypes": (
        "nothing multiplies `ue8m0` or truth values, and `e2m1` only on the tensor core, with scale factors (`gemm_async`)"
    ),
    "all matrices in registers": (
        "factors and sums in tensor memory are those of `gemm_async`; no other instruction multiplies them"
    ),
    "matrices in memory or registers": (
        "factors and sums in tensor memory are those of `gemm_async`; no other instruction multiplies them"
    ),
    "both operands in registers": (
        "tensor memory is reached by the four warps of a warpgroup together, each its own 32 lanes"
    ),
    "one operand in registers, one in memory": (
        "tensor memory is reached by the four warps of a warpgroup together, each its own 32 lanes"
    ),
    "registers of several threads and memory": (
        "tensor memory is reached by the four warps of a warpgroup together, each its own 32 lanes"
    ),
    "source in global memory": (
        "the threads of a cluster have only global memory in common: each CTA copies for its own shared memory and registers"
    ),
    "destination in global memory": (
        "the threads of a cluster have only global memory in common: each CTA copies for its own shared memory and registers"
    ),
    "each thread holds what it gets": "an `e2m1` is half of a byte, which no instruction exchanges by itself",
    "registers of several threads on both sides": (
        "an `e2m1` is half of a byte, which no instruction moves by itself; and of tensor memory a warp reaches its own "
        "32 lanes only, a warpgroup all"
    ),
}
