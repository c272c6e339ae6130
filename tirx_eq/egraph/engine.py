"""The only file that touches egglog's bindings.

What it hides: the slow package import (only the extension module is loaded), the differences of egglog 13.2 and 14,
Rust panics (turned into ``EngineError``), feeding by tables instead of text, and reading the whole e-graph at once.
An engine whose run failed is spent: its e-graph may be half updated, so every later call refuses.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import shutil
import sys
import tempfile
import weakref
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from ..errors import TirxError

Row = tuple[Any, ...]


class EngineError(TirxError):
    """egglog refused a program or failed while running one."""


@dataclass
class Report:
    """What a run did: rounds, whether nothing is left to do, nodes at the end, matches per rule name."""

    rounds: int = 0
    saturated: bool = False
    nodes: int = 0
    fired: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)


class ENode(NamedTuple):
    """A node of the frozen e-graph: operator, operands in declaration order (classes as ints), which of them are
    classes (``inner``), and those classes alone."""

    op: str
    args: tuple[Any, ...]
    inner: tuple[bool, ...]
    children: tuple[int, ...]


@dataclass(frozen=True)
class Graph:
    """A frozen e-graph: e-nodes per class in a stable order, and the rows of the other tables."""

    classes: dict[int, list[ENode]]
    tables: dict[str, list[Row]]


@lru_cache(maxsize=1)
def bindings() -> ModuleType:
    """egglog's extension module, loaded without the package around it (which costs half a second)."""
    loaded = sys.modules.get("egglog.bindings")
    if loaded is not None:
        return loaded
    os.environ.setdefault("RUST_BACKTRACE", "0")
    package = importlib.util.find_spec("egglog")
    if package is None or not package.submodule_search_locations:
        raise EngineError("egglog is not installed", hint="pip install egglog")
    for folder in package.submodule_search_locations:
        for path in sorted(Path(folder).glob("bindings.*")):
            if path.suffix not in (".so", ".pyd"):
                continue
            loader = importlib.machinery.ExtensionFileLoader("egglog.bindings", str(path))
            spec = importlib.util.spec_from_file_location("egglog.bindings", path, loader=loader)
            assert spec is not None
            module = importlib.util.module_from_spec(spec)
            loader.exec_module(module)
            sys.modules["egglog.bindings"] = module
            return module
    raise EngineError("egglog is installed without its extension module", hint="reinstall egglog")


def _shared_memory() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _time_unit() -> float:
    """Factor for egglog's durations: 13.2 reports them a thousand times too small."""
    return 1.0 if hasattr(bindings().EGraph, "parse_and_run_program") else 1000.0


class Engine:
    """One e-graph.  Use it from the thread that made it."""

    def __init__(self, prelude: Iterable[str]) -> None:
        """``prelude``: forms of egglog text (sorts, functions, rules), one form per string."""
        self._b = bindings()
        self._folder = tempfile.mkdtemp(prefix="tirx_eq-", dir=_shared_memory())
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._spent = False
        self._graph = self._guard(
            "creating an e-graph", lambda: self._b.EGraph(fact_directory=self._folder)
        )
        self._compile(list(prelude))

    def _guard(self, what: str, action: Any) -> Any:
        if self._spent:
            raise EngineError(f"{what}: this e-graph failed before and cannot be used")
        try:
            return action()
        except (KeyboardInterrupt, SystemExit, MemoryError):
            self._spent = True
            raise
        except BaseException as error:  # a Rust panic is not an Exception
            self._spent = True
            raise EngineError(f"egglog failed while {what}: {str(error).strip()[:500]}") from None

    def _compile(self, forms: list[str]) -> None:
        """Run many forms at once, which is a third cheaper than one by one."""
        if hasattr(self._graph, "parse_and_run_program"):
            self.run("\n".join(forms))
            return

        def action() -> None:
            # One parse per form: 13.2 parses a text in time quadratic in its length, 14 in linear time.
            self._graph.run_program(*[command for form in forms for command in self._graph.parse_program(form)])

        self._guard("compiling the rules", action)

    def run(self, text: str) -> list[Any]:
        """Run egglog text (keep it short, see ``load`` for data).  Raises ``EngineError``."""

        def action() -> list[Any]:
            if hasattr(self._graph, "parse_and_run_program"):
                return list(self._graph.parse_and_run_program(text))
            return list(self._graph.run_program(*self._graph.parse_program(text)))

        return list(self._guard(f"running {text.strip()[:80]!r}", action))

    def load(self, tables: Mapping[str, Iterable[Sequence[Any]]]) -> None:
        """Add rows to relations.  Values are integers or strings without tabs and newlines."""
        commands = []
        for name, rows in tables.items():
            lines = ["\t".join(map(str, row)) + "\n" for row in rows]
            (Path(self._folder) / f"{name}.csv").write_text("".join(lines))
            commands.append(f'(input {name} "{name}.csv")')
        self.run("\n".join(commands))

    def nodes(self) -> int:
        """Rows in all tables: what the e-graph holds."""
        sizes = self.run("(print-size)")[0].sizes
        return sum(size for _, size in sizes)

    def saturate(self, schedule: str, *, rounds: int, nodes: int) -> Report:
        """Run ``schedule`` round by round until nothing changes or a budget is met; partial results stay.

        ``nodes`` bounds the rows of all tables together, looked at between rounds.
        """
        report = Report()
        unit = _time_unit()
        while report.rounds < rounds:
            done = self.run(f"(run-schedule {schedule})")[0].report
            report.rounds += 1
            for name, matches in done.num_matches_per_rule.items():
                report.fired[name] = report.fired.get(name, 0) + matches
            for name, took in done.search_and_apply_time_per_rule.items():
                report.seconds[name] = report.seconds.get(name, 0.0) + took.total_seconds() * unit
            if not done.updated:
                report.saturated = True
                break
            # A round can at most square the graph; looking after every second one is enough while it is small.
            if report.rounds > 2:
                report.nodes = self.nodes()
                if report.nodes > nodes:
                    break
        report.nodes = report.nodes or self.nodes()
        return report

    def rows(self, table: str) -> list[Row]:
        """Rows of one function or relation as Python values; classes are opaque ints, equal iff the classes are."""
        return self.freeze(operators=(), tables=(table,)).tables[table]

    def freeze(self, *, operators: Collection[str], tables: Collection[str] = ()) -> Graph:
        """The e-nodes of the constructors named by ``operators`` and the rows of ``tables``, oldest first.

        A function's row is its arguments followed by its value; a relation's row is its arguments.  Subsumed e-nodes are
        there too: subsuming hides a node from rules, not its truth, and a node that collapses with a subsumed one is
        hidden with it.
        """
        frozen = self._guard("reading the e-graph", self._graph.freeze)
        numbers: dict[Any, int] = {}
        readers = {"i64": self._graph.value_to_i64, "String": self._graph.value_to_string}

        def number(value: Any) -> int:
            n = numbers.get(value)
            if n is None:
                n = numbers[value] = len(numbers)
            return n

        classes: dict[int, list[ENode]] = {}
        found: dict[str, list[Row]] = {}
        functions = frozen.functions
        for name in sorted(functions):
            if name not in operators and name not in tables:
                continue
            function = functions[name]
            columns = [readers.get(s, number) for s in function.input_sorts]
            if name in tables:
                relation = function.output_sort.startswith("@") or function.output_sort == "Unit"
                value = readers.get(function.output_sort, number)
                rows = found.setdefault(name, [])
                for row in function.rows:
                    args = tuple([read(v) for read, v in zip(columns, row.inputs)])
                    rows.append(args if relation else (*args, value(row.output)))
                continue
            inner = tuple([s not in readers for s in function.input_sorts])
            places = [i for i, is_class in enumerate(inner) if is_class]
            every = all(inner)
            for row in function.rows:
                args = tuple([read(v) for read, v in zip(columns, row.inputs)])
                node = ENode(name, args, inner, args if every else tuple([args[i] for i in places]))
                c = number(row.output)
                members = classes.get(c)
                if members is None:
                    classes[c] = [node]
                else:
                    members.append(node)
        for table in tables:
            if table not in found:
                raise EngineError(f"there is no table '{table}'")
        return Graph(classes, found)
