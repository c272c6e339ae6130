"""Reference interpreter: a kernel's meaning straight from its IR, on numpy arrays, without any lowering.

It is what compiled kernels are compared with, so it shares nothing with the lowering: scope ids, layouts' places, tile
primitives and barriers are worked out here on their own.
"""

from .faults import Deadlock, InterpreterError, OutOfBounds, UndefinedRead, WriteConflict
from .inputs import generate_inputs
from .run import interpret

__all__ = [
    "Deadlock", "InterpreterError", "OutOfBounds", "UndefinedRead", "WriteConflict", "generate_inputs", "interpret",
]  # fmt: skip
