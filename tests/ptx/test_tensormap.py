"""Tensor maps: the driver's rules at build time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tirx_eq.errors import PtxError
from tirx_eq.ptx.swizzle_modes import SWIZZLES
from tirx_eq.ptx.tensormap import MAP_SWIZZLES, TYPES, TensorMap

PADDED = {"dtype": "u4_align16", "shape": (256, 128), "strides": (128,), "box": (128, 8)}


def make(**changes):
    fields = {"tensor": "A", "dtype": "f16", "shape": (64, 128), "strides": (128,), "box": (64, 128), "swizzle": "128B"}
    return TensorMap(**{**fields, **changes})


def test_gemm_operand():
    tensor_map = make()
    assert tensor_map.box_bytes == 16384 and tensor_map.inner_bytes == 128 and tensor_map.shared_alignment == 1024
    assert tensor_map.codes() == {"tensorDataType": 6, "interleave": 0, "swizzle": 3, "l2Promotion": 2, "oobFill": 0}
    assert TensorMap.from_json(tensor_map.to_json()) == tensor_map


def test_box_wider_than_the_swizzle_span():
    with pytest.raises(PtxError, match=r"48 \* 2 = 96 bytes exceeds the 32-byte span of swizzle 32B"):
        make(box=(48, 16), swizzle="32B")
    assert make(box=(16, 16), swizzle="32B").inner_bytes == 32
    assert make(box=(48, 16), swizzle="128B").inner_bytes == 96


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dtype": "f8"}, "element type 'f8' has no tensor map type"),
        ({"swizzle": "256B"}, "unknown swizzle '256B'"),
        ({"shape": (), "strides": (), "box": ()}, "rank 0 is outside 1..5"),
        ({"shape": (64,) * 6, "strides": (128,) * 5, "box": (64,) * 6}, "rank 6 is outside"),
        ({"strides": (128, 128)}, "2 strides given for rank 2, 1 are needed"),
        ({"strides": (100,)}, "stride 100 bytes of dimension 1 is not a multiple of 16"),
        ({"strides": (1 << 40,)}, "is outside 0..2\\^40-1"),
        ({"shape": (0, 128)}, "extent 0 of dimension 0"),
        ({"shape": ((1 << 32) + 1, 128)}, "outside 1..2\\^32"),
        ({"box": (64, 257)}, "box extent 257 of dimension 1 is outside 1..256"),
        ({"box": (4, 128)}, r"4 \* 2 = 8 bytes is not a multiple of 16"),
        ({"element_strides": (1, 9)}, "element stride 9 of dimension 1"),
        ({"element_strides": (2, 1)}, "has to be 1"),
        ({"interleave": "32B"}, "needs rank 3 or more"),
        ({"offset": 8}, "offset 8 bytes is not a multiple of 16"),
        ({"dtype": "u8", "oob_fill": "nan", "box": (64, 128)}, "needs a floating-point type"),
        ({"dtype": "u4_align16", "shape": (192, 128), "box": (128, 8)}, "not a multiple of 128"),
        ({"dtype": "u4_align16", "shape": (256, 128), "strides": (128,), "box": (64, 8)}, "box extent 64"),
        ({"dtype": "u4_align16", "shape": (256, 128), "strides": (144,), "box": (128, 8)}, "not a multiple of 32"),
        ({**PADDED, "swizzle": "64B"}, "u4_align16 has swizzles none, 128B, 128B_ATOM_32B, not 64B"),
        ({**PADDED, "swizzle": "128B_ATOM_64B"}, "not 128B_ATOM_64B"),
        ({**PADDED, "offset": 16}, "not a multiple of 32"),
        ({**PADDED, "oob_fill": "nan"}, "floating-point type"),
        ({"dtype": "u4_align8", "shape": (63, 128), "box": (32, 8)}, "is odd"),
    ],
)
def test_refusals(changes, message):
    with pytest.raises(PtxError, match=message):
        make(**changes)


def test_what_pads_takes_more_room_than_it_moves():
    made = make(**PADDED)
    assert (made.inner_bytes, made.box_bytes, made.transaction_bytes, made.alignment) == (128, 1024, 512, 32)
    assert [int(made.type.place(np.array(i))) for i in (0, 1, 15, 16, 127)] == [0, 4, 60, 128, 956]
    assert TensorMap.from_json(made.to_json()) == made and made.codes()["tensorDataType"] == 14


def test_interleaved():
    cube = {"shape": (16, 8, 8), "strides": (32, 256), "box": (16, 8, 8), "interleave": "32B"}
    make(**cube, swizzle="32B")
    with pytest.raises(PtxError, match="interleave 32B needs swizzle 32B"):
        make(**cube, swizzle="none")


def test_codes_follow_the_driver():
    assert [t.code for t in TYPES.values()] == list(range(16))
    assert {n: c for n, (c, _) in MAP_SWIZZLES.items()} == {
        "none": 0, "32B": 1, "64B": 2, "128B": 3, "128B_ATOM_32B": 4, "128B_ATOM_32B_FLIP_8B": 5, "128B_ATOM_64B": 6,
    }  # fmt: skip


@settings(max_examples=50, deadline=None)
@given(st.sampled_from(["f16", "bf16", "f32", "u8", "e4m3"]), st.sampled_from(sorted(SWIZZLES)), st.integers(1, 256),
       st.integers(1, 256), st.integers(1, 4))  # fmt: skip
def test_accepted_maps_obey_the_span(dtype, swizzle, inner, outer, rank):
    size = {"f16": 2, "bf16": 2, "f32": 4, "u8": 1, "e4m3": 1}[dtype]
    span = {"none": None, "32B": 32, "64B": 64}.get(swizzle, 128)
    legal = inner * size % 16 == 0 and (span is None or inner * size <= span)
    fields = ("T", dtype, (1024,) * rank, (4096,) * (rank - 1), (inner, *(outer,) * (rank - 1)), swizzle)
    if legal:
        built = TensorMap(*fields)
        assert built.box_bytes == inner * size * outer ** (rank - 1)
        assert TensorMap.from_json(built.to_json()) == built
    else:
        with pytest.raises(PtxError):
            TensorMap(*fields)
