"""Which threads of a CTA hold the same value of a scalar, as classes of threads.

``Classes`` are the class numbers of all threads in a row (16-bit integers as bytes, numbered by first occurrence); None
says that all are of one class.  Threads of one class hold the same value; threads of two may.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .active import Active

Classes = bytes | None


def classes_of(values: np.ndarray) -> Classes:
    """Threads with equal values in one class each."""
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    if len(first) == 1:
        return None
    rank = np.empty(len(first), dtype=np.int16)
    rank[np.argsort(first)] = np.arange(len(first), dtype=np.int16)
    return rank[inverse.reshape(-1)].tobytes()


def numbers(classes: Classes, threads: int) -> np.ndarray:
    """The class number of each thread."""
    if classes is None:
        return np.zeros(threads, dtype=np.int64)
    return np.frombuffer(classes, dtype=np.int16).astype(np.int64)


def meet(a: Classes, b: Classes) -> Classes:
    """Threads that are of one class in both: those of a value made of two, or that is the one or the other for all."""
    if a is None or a == b:
        return b
    if b is None:
        return a
    threads = len(a) // 2
    return classes_of(numbers(a, threads) * (threads + 1) + numbers(b, threads))


def chosen(mask: np.ndarray, a: Classes, b: Classes) -> Classes:
    """The classes of a value that is ``a``'s where the mask holds, else ``b``'s."""
    threads = len(mask)
    return classes_of(np.where(mask, numbers(a, threads), threads + numbers(b, threads)))


def scattered(mask: np.ndarray, a: Classes) -> Classes:
    """The classes after some of the threads of the mask, nobody knows which, got another value."""
    threads = len(mask)
    return classes_of(np.where(mask, threads + np.arange(threads), numbers(a, threads)))


def agree(classes: Classes, active: Active) -> bool:
    """Whether all threads that are active hold the same value."""
    if classes is None or active.single_thread():
        return True
    return len(np.unique(np.frombuffer(classes, dtype=np.int16)[active.mask])) <= 1


def come_by_class(active: Active, classes: Classes) -> Active:
    """``active`` where some of these classes of threads come and others don't, nobody knows which."""
    if classes is not None and len(set(numbers(classes, 0).tolist())) == len(active.mask) > 1:
        return replace(active, data_dependent=True)
    return replace(active, left=meet(active.left, classes))
