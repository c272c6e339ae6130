"""What can go wrong while a kernel is interpreted.  Each is a mistake in the kernel, at the span of its statement."""

from __future__ import annotations

from ..errors import TirxError


class InterpreterError(TirxError):
    """A kernel that has no meaning, or uses something that the reference interpreter has no meaning for."""


class UndefinedRead(InterpreterError):
    """A read of storage that nothing was written to; names buffer, coordinate and thread."""


class OutOfBounds(InterpreterError):
    """An access beyond a buffer's shape or its storage; names buffer, dimension, coordinate and thread."""


class WriteConflict(InterpreterError):
    """Threads that write different values to one place at once."""


class Deadlock(InterpreterError):
    """All threads wait; tells which for what."""
