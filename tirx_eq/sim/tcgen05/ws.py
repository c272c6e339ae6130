"""What only the weight-stationary form of tcgen05.mma has: the zero-column mask of B (PTX ISA 9.7.16.4.3)."""

from __future__ import annotations

import numpy as np

from tirx_eq.sim.tcgen05.descriptors import BadDescriptor, InstructionDescriptor

Array = np.ndarray


def column_mask(descriptor: int, m: int, n: int) -> Array:
    """The generated mask, shape (n,): True where a column of B counts as zero.

    The ISA's table exchanges the meanings of *skip* and *use* span; its four examples agree with the names, and so does
    this: ``use span`` + 1 columns of B are used, ``skip span`` + 1 are zero.  Raises ``BadDescriptor``.
    """
    if descriptor >> 36 & 7 or descriptor >> 62:
        raise BadDescriptor("reserved bits 36-38 or 62-63 are not zero")
    parts = 128 // m
    if not descriptor >> 39 & 1:
        return np.zeros(n, bool)
    zero, used = (descriptor >> 40 & 255) + 1, (descriptor >> 48 & 255) + 1
    masks = []
    for i in range(parts):
        start, first = descriptor >> 8 * i & 255, descriptor >> 32 + i & 1
        if start >= (zero if first else used):
            raise BadDescriptor(f"start count {i} = {start} skips the whole first span, for which the ISA gives no meaning")
        at = (np.arange(n // parts) + start) % (zero + used)
        masks.append(at < zero if first else at >= used)
    return np.concatenate(masks)


def column_shift(descriptor: int, o: InstructionDescriptor) -> int:
    """How many columns of B are passed over; raises ``BadDescriptor`` beyond what M and the instruction descriptor allow."""
    shift = descriptor >> 56 & 63
    if shift > (16 if o.m == 32 else 32):
        raise BadDescriptor(f"column shift {shift} is beyond {16 if o.m == 32 else 32}, the most for M = {o.m}")
    if shift > o.max_shift:
        raise BadDescriptor(f"column shift {shift} is beyond the maximum shift of {o.max_shift} in the instruction descriptor")
    return shift
