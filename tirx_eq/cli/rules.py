"""``tirx-eq rules`` and ``tirx-eq prove``: the rule table, and checking of the obligations."""

from __future__ import annotations

from typing import Annotated

import typer

from ..errors import RuleError
from .output import print_json, stdout, table


def rules_command(
    family: Annotated[str | None, typer.Option(help="only rules of this family")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """List the rewrite rules with the record of each one's proof."""
    from ..prove.records import rule_table

    rows = [r for r in rule_table() if family is None or r["family"] == family]
    if not rows:
        raise RuleError(f"there is no rule family '{family}'")
    if as_json:
        print_json(rows)
        return
    shown = [(r["name"], f"{r['file']}:{r['line']}", r["text"], r["procedure"], r["status"]) for r in rows]
    stdout().print(table(f"{len(rows)} rules", ("rule", "place", "text", "proved by", "status"), shown))


def add(app: typer.Typer) -> None:
    app.command("rules")(rules_command)


