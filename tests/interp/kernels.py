"""What the tests of the interpreter share."""

import numpy as np

from tirx_eq.interp import interpret


def run(func, *arrays):
    """The buffers after interpreting ``func``; checks that the inputs were left alone."""
    before = [np.array(a, copy=True) for a in arrays]
    found = interpret(func, *arrays)
    for was, now in zip(before, arrays):
        if isinstance(now, np.ndarray):
            assert was.tobytes() == now.tobytes()
    return found


def zeros(shape, dtype="float32"):
    """An output to start with, recognisably not a result."""
    return np.full(shape, -1, np.float32).astype(dtype)
