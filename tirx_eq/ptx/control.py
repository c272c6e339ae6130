"""Structured control flow on top of labels and branches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tirx_eq.errors import PtxError
from tirx_eq.ptx.emit import Emitter
from tirx_eq.ptx.operands import Address, Label, Not, Reg, Symbol


@dataclass
class Arms:
    """The two arms of :meth:`ControlFlow.if_else`; enter ``then()`` first, then ``otherwise()``, each once."""

    flow: ControlFlow
    condition: Reg | Not
    other: Label
    end: Label
    stage: int = 0

    @contextmanager
    def then(self) -> Iterator[None]:
        """The instructions executed where the condition holds."""
        if self.stage != 0:
            raise PtxError("if/else: then() must come first and once")
        self.flow.emit("bra", self.other, pred=~self.condition)
        yield
        self.stage = 1

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        """The instructions executed where it does not."""
        if self.stage != 1:
            raise PtxError("if/else: otherwise() must follow then()")
        self.flow.emit("bra", self.end)
        self.flow.place(self.other)
        yield
        self.stage = 2


@dataclass(frozen=True)
class Loop:
    """A loop being built: branch targets and exits.

    ``index`` is the counter of a counted loop; ``also`` are 32-bit registers that grow with it, each with by how much.
    """

    flow: ControlFlow
    head: Label
    again: Label
    exit: Label
    index: Reg | None = None
    also: list[tuple[Reg, int]] = field(default_factory=list)

    def break_if(self, condition: Reg | Not) -> None:
        """Leave the loop where ``condition`` holds."""
        self.flow.emit("bra", self.exit, pred=condition)

    def continue_if(self, condition: Reg | Not) -> None:
        """Start the next iteration where ``condition`` holds."""
        self.flow.emit("bra", self.again, pred=condition)

    def break_(self) -> None:
        """Leave the loop."""
        self.flow.emit("bra", self.exit)

    def continue_(self) -> None:
        """Start the next iteration."""
        self.flow.emit("bra", self.again)


class ControlFlow(Emitter):
    """An emitter with if, if/else, loops and waits.

    Threads of a warp that leave a divergent ``if`` are not converged by it: emit ``bar.warp.sync`` before an
    instruction marked ``.sync.aligned``.
    """

    @contextmanager
    def if_(self, condition: Reg | Not, hint: str = "endif") -> Iterator[None]:
        """Instructions executed only where ``condition`` holds, by branching around them."""
        end = self.new_label(hint)
        self.emit("bra", end, pred=~condition)
        yield
        self.place(end)

    @contextmanager
    def if_else(self, condition: Reg | Not) -> Iterator[Arms]:
        """``with k.if_else(p) as arms:`` then ``with arms.then():`` … ``with arms.otherwise():`` …"""
        arms = Arms(self, condition, self.new_label("else"), self.new_label("endif"))
        yield arms
        if arms.stage == 0:
            raise PtxError("if/else without a then() arm")
        if arms.stage == 1:
            self.place(arms.other)
        self.place(arms.end)

    @contextmanager
    def loop(self, hint: str = "loop") -> Iterator[Loop]:
        """An endless loop; leave it with ``break_if``."""
        loop = Loop(self, self.new_label(hint), self.new_label(hint + "_next"), self.new_label(hint + "_end"))
        self.place(loop.head)
        yield loop
        self.place(loop.again)
        self.emit("bra", loop.head)
        self.place(loop.exit)

    @contextmanager
    def for_range(
        self, start: int | Reg, stop: int | Reg, step: int = 1, hint: str = "for", type: str = "s32"
    ) -> Iterator[Loop]:
        """A counted loop ``for index in range(start, stop, step)`` with ``step > 0``; the test is at the bottom.

        When ``start < stop`` is known at build time there is no test at the top.
        """
        if step <= 0:
            raise PtxError(f"for_range: step {step} is not positive")
        width = "b" + type[1:]
        index = self.reg(width)
        loop = Loop(self, self.new_label(hint), self.new_label(hint + "_next"), self.new_label(hint + "_end"), index)
        self.emit(f"mov.{width}", index, start)
        if not (isinstance(start, int) and isinstance(stop, int) and start < stop):
            self.emit("bra", loop.exit, pred=self.op(f"setp.ge.{type}", index, stop))
        self.place(loop.head)
        yield loop
        self.place(loop.again)
        self.emit(f"add.{type}", index, index, step)
        for register, growth in loop.also:
            self.emit("add.s32", register, register, growth)
        self.emit("bra", loop.head, pred=self.op(f"setp.lt.{type}", index, stop))
        self.place(loop.exit)

    def wait_parity(self, mbar: Reg | Symbol, parity: int | Reg, offset: int = 0, order: str = "") -> None:
        """Spin until the phase with ``parity`` of the mbarrier at ``mbar + offset`` has completed.

        ``mbar`` is a shared address or a shared variable, ``offset`` in bytes.

        ``order`` is "" or e.g. "acquire.cluster".
        """
        head = self.new_label("wait")
        self.place(head)
        opcode = "mbarrier.try_wait.parity." + (order + "." if order else "") + "shared::cta.b64"
        done = self.op(opcode, Address(mbar, offset), parity)
        self.emit("bra", head, pred=~done)
