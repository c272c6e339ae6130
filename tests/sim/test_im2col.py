"""TMA in im2col mode: every tap of a convolution is the matrix (output pixels x channels) that the definition gives."""

import itertools

import numpy as np
import pytest

from tests.sim.test_tma import kernel, run
from tirx_eq.errors import ParseError, PtxError
from tirx_eq.ptx import ptxas
from tirx_eq.sim import Im2col, TensorMap

rng = np.random.default_rng(12)
PIXELS, CHANNELS = 24, 8
#: image (N, [D, [H]], W), filter, padding, stride, dilation: those of the pixels' dimensions, W last
CASES = [((3, 11), (3,), (1,), (1,), (1,)), ((2, 16), (2,), (2,), (3,), (2,)), ((2, 5, 6), (3, 3), (1, 1), (1, 1), (1, 1)),
         ((2, 7, 6), (3, 2), (2, 0), (2, 1), (1, 3)), ((2, 4, 4, 5), (2, 3, 3), (0, 1, 1), (1, 2, 1), (2, 1, 1))]


def outputs(case):
    """Extents of the output's pixels."""
    shape, taps, pad, stride, dilation = case
    return [(n + 2 * p - d * (t - 1) - 1) // s + 1 for n, t, p, s, d in zip(shape[1:], taps, pad, stride, dilation)]


def tap_matrix(x, case, tap, first):
    """Rows first.. of the matrix whose product with the filter's tap adds to the output (zeros outside of the image)."""
    shape, _, pad, stride, dilation = case
    out = np.zeros((PIXELS, CHANNELS), x.dtype)
    places = list(np.ndindex(shape[0], *outputs(case)))[first : first + PIXELS]
    for row, (n, *at) in enumerate(places):
        pixel = [a * s - p + t * d for a, s, p, t, d in zip(at, stride, pad, tap, dilation)]
        if all(0 <= i < extent for i, extent in zip(pixel, shape[1:])):
            out[row] = x[n, *pixel, 4 : 4 + CHANNELS]
    return out, len(places)


def tensor_of(x, case, array="A", **more):
    _, taps, pad, stride, dilation = case
    lower = tuple(-p for p in reversed(pad))
    upper = tuple(p - d * (t - 1) for p, d, t in zip(reversed(pad), reversed(dilation), reversed(taps)))
    return TensorMap(array, "s32", x.shape[::-1], tuple(reversed(x.strides[:-1])), (CHANNELS, PIXELS),
                     (1, *reversed(stride), 1), im2col=Im2col(lower, upper), **more)


def load(case, first, offsets):
    rank = len(case[0]) + 1
    n, *at = list(np.ndindex(case[0][0], *outputs(case)))[first]
    start = [a * s - p for a, s, p in zip(at, case[3], case[2])]
    point = ", ".join(map(str, [4, *reversed(start), n]))
    return (f"cp.async.bulk.tensor.{rank}d.shared::cta.global.im2col.mbarrier::complete_tx::bytes "
            f"[%r0], [%d0, {{{point}}}], [%r1], {{{', '.join(map(str, reversed(offsets)))}}};")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_taps_of_a_convolution(case):
    x = rng.integers(1, 1000, (*case[0], 16)).astype(np.int32)
    tensor = tensor_of(x, case)
    for tap, first in itertools.product(np.ndindex(*case[1]), (0, 7)):
        text = load(case, first, [t * d for t, d in zip(tap, case[4])])
        found = run(tensor, tensor, x, x.copy(), text, "", 4 * PIXELS * CHANNELS)["out"].view(np.int32)
        want, count = tap_matrix(x, case, tap, first)
        np.testing.assert_array_equal(found.reshape(PIXELS, CHANNELS)[:count], want[:count], str((tap, first)))


def test_a_filter_of_one_pixel_is_stored_back():
    case = ((2, 4, 5), (1, 1), (0, 0), (1, 1), (1, 1))
    x = rng.integers(1, 1000, (*case[0], 16)).astype(np.int32)
    store = "cp.async.bulk.tensor.4d.global.shared::cta.im2col_no_offs.bulk_group [%d1, {8, 3, 2, 0}], [%r0];"
    found = run(tensor_of(x, case), tensor_of(x, case, "B"), x, np.zeros_like(x), load(case, 0, (0, 0)), store,
                4 * PIXELS * CHANNELS)["B"]
    want = np.zeros((40, 16), np.int32)
    want[13 : 13 + PIXELS, 8:] = x.reshape(40, 16)[:PIXELS, 4:12]
    np.testing.assert_array_equal(found.reshape(40, 16), want)


def test_mistakes():
    case = CASES[2]
    x = np.zeros((*case[0], 16), np.int32)
    tensor = tensor_of(x, case)
    tiled = TensorMap("A", "s32", x.shape[::-1], tuple(reversed(x.strides[:-1])), (8, 3, 4, 2))
    text, size = load(case, 0, (0, 0)), 4 * PIXELS * CHANNELS
    with pytest.raises(Exception, match="a tiled tensor map is used with an instruction for an im2col"):
        run(tiled, tiled, x, x, text, "", size)
    with pytest.raises(Exception, match="an im2col tensor map is used with an instruction for a tiled"):
        run(tensor, tensor, x, x, text.replace("im2col", "tile").replace(", {0, 0};", ";"), "", size)
    with pytest.raises(ParseError, match="offsets"):
        run(tensor, tensor, x, x, text.replace(", {0, 0};", ", {0};"), "", size)
    for change in ({"element_strides": (2, 1, 1, 1)}, {"im2col": Im2col((0,), (0,))}, {"im2col": Im2col((-129, 0), (0, 0))},
                   {"box_shape": (8, 2000)}):
        fields = {"box_shape": (8, 24), "im2col": Im2col((0, 0), (0, 0)), **change}
        with pytest.raises(PtxError):
            TensorMap("A", "s32", x.shape[::-1], tuple(reversed(x.strides[:-1])), **fields)


@pytest.mark.skipif(ptxas.find_tool("ptxas") is None, reason="PTXAS IS NOT INSTALLED: nothing assembled")
def test_ptxas_takes_these_kernels():
    store = "cp.async.bulk.tensor.4d.global.shared::cta.im2col_no_offs.bulk_group [%d1, {8, 3, 2, 0}], [%r0];"
    text = kernel(load(CASES[2], 0, (1, 2)), 4 * PIXELS * CHANNELS, "", store)
    ptxas.assemble(text.replace("shared::cta.global.im2col", "shared::cluster.global.im2col"), "sm_100a")
