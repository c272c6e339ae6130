"""When two results agree: bits for whole numbers, a bound for the rest."""

import numpy as np
import pytest

from tirx_eq.interp.compare import compare, is_exact
from tirx_eq.interp.record import Record

OLD = np.zeros(4, np.float32)


def one(expected, found, exact=True, disturbed=()):
    a, b = (np.asarray(v, np.float32) for v in (expected, found))
    return compare("C", a, b, OLD, exact, [np.asarray(v, np.float32) for v in disturbed])


def test_bits_must_agree_for_whole_numbers():
    assert one([1, 2, 3, np.nan], [1, 2, 3, np.nan]).agrees
    bad = one([1, 2, 3, 4], [1, 2, np.nextafter(np.float32(3), np.float32(4)), 4])
    assert (bad.different, bad.first, bad.bound) == (1, (2,), 0.0)
    assert bad.describe().startswith("C[2] is 3.0000002") and bad.describe().endswith("expected 3.0")
    assert not one([1, 2, 3, 0.0], [1, 2, 3, -0.0]).agrees


def test_the_bound_follows_the_disturbed_executions():
    """Half a percent of the row's size and the element's is allowed twice, beyond the steps of float32."""
    off = [[1, 2, 3.015, 4]]
    assert one([1, 2, 3, 4], [1, 2, 3.02, 4], False, off).agrees
    assert one([1, 2, 3, 4], [1.01, 2, 3, 4], False, off).agrees
    assert not one([1, 2, 3, 4], [1, 2, 3.05, 4], False, off).agrees
    assert not one([1, 2, 3, 4], [1, 2, 3.001, 4], False, [[1, 2, 3, 4]]).agrees
    assert not one([1, 2, 3, 4], [1, 2, np.nan, 4], False, off).agrees
    assert not one([1, 2, 3, 4], [1, 2, np.inf, 4], False, off).agrees
    assert one([1, 2, np.inf, np.nan], [1, 2, np.inf, np.nan], False, [[1, 2, np.inf, np.nan]]).agrees


def test_a_step_to_the_next_number_is_allowed_and_no_more():
    three = np.float32(3)
    up = np.nextafter(three, np.float32(4))
    assert one([1, 2, three, 4], [1, 2, up, 4], False).agrees
    assert not one([1, 2, three, 4], [1, 2, np.nextafter(up, np.float32(4)), 4], False).agrees


def test_what_was_not_written_must_stay_as_it_is():
    assert not one(OLD, OLD + np.float32(1e-7), exact=False).agrees


def test_when_bits_must_agree():
    record = Record()
    assert is_exact("integers", record) and is_exact("random", record)
    record.summed(8, np.ones(1))
    assert is_exact("integers", record) and not is_exact("random", record)
    record.used("exp")
    assert not is_exact("integers", record)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "int32", "bool"])
def test_dtypes(dtype):
    import ml_dtypes

    target = np.dtype(getattr(ml_dtypes, dtype, dtype))
    a = np.array([0, 1, 2, 1]).astype(target)
    b = np.array([0, 1, 2, 0]).astype(target)
    assert compare("C", a, a.copy(), b, False).agrees
    found = compare("C", a, b, np.array([1, 0, 0, 0]).astype(target), False)
    assert (found.different, found.first, found.error) == (1, (3,), 1.0)


def test_shapes_must_agree():
    with pytest.raises(ValueError, match="can't be compared"):
        compare("C", OLD, OLD.reshape(2, 2), OLD, True)
