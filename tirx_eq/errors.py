"""Every error a user can cause, as one hierarchy.

A message names the operation, the operand, the condition that does not hold and, where there is one, the first
coordinate at which it fails.  ``hint`` says what would make it right; ``span`` is where in the user's source it is.
The command line prints these without a traceback and exits with code 2.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """A place in the user's source: ``line`` and ``column`` count from 1; ``text`` is that source line."""

    file: str
    line: int
    column: int
    end_column: int | None = None
    text: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"

    def excerpt(self) -> str:
        """The source line with a marker under the columns meant, or an empty string if the line is unknown."""
        if not self.text:
            return ""
        width = max(1, (self.end_column or self.column + 1) - self.column)
        return f"    {self.text}\n    {' ' * (self.column - 1)}{'^' * width}"


class TirxError(Exception):
    """Base of all errors raised for a user's mistake; see the subclasses."""

    def __init__(self, message: str, *, hint: str | None = None, span: Span | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.span = span

    def at(self, span: Span | None) -> TirxError:
        """This error placed at ``span``, unless it already knows its place."""
        if self.span is None:
            self.span = span
        return self

    def __str__(self) -> str:
        lines = [f"{self.span}: {self.message}" if self.span else self.message]
        if self.span and self.span.excerpt():
            lines.append(self.span.excerpt())
        if self.hint:
            lines.append(f"hint: {self.hint}")
        return "\n".join(lines)


class ParseError(TirxError):
    """Source text (a script, an expression, a layout, PTX, a rule file) that is not in the language."""


class IRError(TirxError):
    """An IR node whose fields break an invariant."""


class LayoutError(TirxError):
    """A layout operation whose precondition fails; says which extent or stride is at fault."""


class RuleError(TirxError):
    """A rewrite rule that is malformed, or has no discharged obligation."""


class ProofError(TirxError):
    """A claim that was refuted, or a check that could not be carried out."""


class LoweringError(TirxError):
    """A tile primitive or statement that cannot be lowered; names the failing condition of each variant."""


class PtxError(TirxError):
    """An instruction or descriptor that the target does not have, or operands of the wrong kind."""


class SimulationError(TirxError):
    """A fault found while executing PTX."""


class LaunchError(TirxError):
    """A kernel can't be launched on a GPU: no driver, another device, or an argument that doesn't fit."""


class InteropError(TirxError):
    """An object of another system that cannot be imported or exported."""
