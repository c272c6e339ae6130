"""Faults that were reported against other compilers: units of descriptor fields, rules of tensor maps."""

from __future__ import annotations

import pytest

from tirx_eq.errors import PtxError
from tirx_eq.ptx.descriptor import MatrixDescriptor
from tirx_eq.ptx.tensormap import TensorMap


def test_descriptor_fields_count_sixteen_bytes():
    """tile-ai/tilelang#813, deepseek-ai/FlashMLA#67: byte distances were written into the fields as they are."""
    descriptor = MatrixDescriptor(0, 16, 1024, "128B")
    assert descriptor.encode() == 0x4000404000010000
    assert descriptor.advance_elements(36864, 16).encode() & 0x3FFF == 4608
    for wrong in (8, 1020, 1 << 19):
        with pytest.raises(PtxError, match="stride"):
            MatrixDescriptor(0, 16, wrong, "128B").encode()
    with pytest.raises(PtxError, match="16"):
        descriptor.advance_elements(4, 16).encode()


BOXES = [
    ((48, 16), "32B", False), ((16, 16), "32B", True), ((48, 16), "128B", True),
    ((64, 16), "128B", True), ((72, 16), "128B", False),
]  # fmt: skip


@pytest.mark.parametrize(("box", "swizzle", "legal"), BOXES)
def test_a_box_fits_the_span_of_its_swizzle(box, swizzle, legal):
    """tile-ai/tilelang#2630: one that is too wide was rejected only by the driver, at launch."""

    def make() -> TensorMap:
        return TensorMap("A", "f16", (128, 64), (256,), box, swizzle=swizzle)

    if legal:
        assert make().box == box
    else:
        with pytest.raises(PtxError, match=f"{box[0] * 2} bytes"):
            make()
