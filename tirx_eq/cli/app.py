"""The application: commands, and how errors are shown."""

from __future__ import annotations

import sys
import warnings

import typer

from ..errors import ProofError, SimulationError, TirxError
from . import audit as audit_command
from . import best_layout as best_layout_command
from . import compile as compile_command
from . import convert as convert_command
from . import layouts as layouts_command
from . import rules as rules_command
from . import run as run_command
from . import simplify as simplify_command
from . import solve as solve_command
from .output import stderr

app = typer.Typer(
    name="tirx-eq",
    help="Rewrite, prove and compile TIRx tile kernels for NVIDIA Blackwell.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
compile_command.add(app)
rules_command.add(app)
simplify_command.add(app)
layouts_command.add(app)
run_command.add(app)
audit_command.add(app)
solve_command.add(app)
best_layout_command.add(app)
convert_command.add(app)


def main() -> None:
    """Run the command line; a user's mistake is printed without a traceback."""
    warnings.simplefilter("ignore")  # commands print the warnings of their results themselves
    try:
        # Outside of standalone mode an exit code given to typer.Exit is returned, not raised.
        sys.exit(app(standalone_mode=False) or 0)
    except TirxError as error:
        stderr().print(f"[bold red]error:[/] {_escape(str(error))}", highlight=False, soft_wrap=True)
        sys.exit(1 if isinstance(error, (ProofError, SimulationError)) else 2)
    except typer.Exit as stop:
        sys.exit(stop.exit_code)
    except typer.Abort:
        sys.exit(130)
    except Exception as error:
        # A wrong option or argument: click explains it itself; anything else is our fault and keeps its traceback.
        show = getattr(error, "show", None)
        if show is None:
            raise
        show()
        sys.exit(2)


def _escape(text: str) -> str:
    from rich.markup import escape

    return escape(text)
