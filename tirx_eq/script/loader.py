"""Reading kernels from text and from files.

:func:`parse_source` walks the text: imports of this package, assignments and decorated functions are understood,
nothing is executed.  :func:`load_file` imports a Python file of the user's as Python does.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import linecache
import re
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from ..errors import ParseError, Span, TirxError
from ..ir import PrimFunc
from .evaluator import reachable_from_text
from .macros import InlineFunction, JitKernel, Maker, jit, prim_func
from .names import Scope
from .parser import FunctionParser
from .source import Source, read_source, syntax_error

_PACKAGE = __name__.split(".")[0]
#: modules that text may import beside this package's; those of TVM are read as ours
_MODULES = {"tvm.script": f"{_PACKAGE}.script", "tvm.tirx.layout": f"{_PACKAGE}.layout", "math": "math"}
_HEADER = re.compile(r"#\s*(from\s+[\w.]+\s+import\s+.+|import\s+.+)")


def parse_source(text: str, filename: str = "<script>") -> dict[str, PrimFunc]:
    """The kernels of Python source text, by name.

    Import lines may stand in leading comments, as the printer writes them.  Raises ParseError at the line and column.
    """
    source = read_source(text, filename)
    module = _Module(source)
    module.run(_header_imports(source))
    module.run(source.tree.body)
    return {name: value for name, value in module.scope.frames[0].items() if isinstance(value, PrimFunc)}


def parse_function(text: str, filename: str = "<script>") -> PrimFunc:
    """The only kernel of a text."""
    found = parse_source(text, filename)
    if len(found) != 1:
        raise ParseError(f"the text has {len(found)} kernels, not one", span=Span(filename, 1, 1))
    return next(iter(found.values()))


def _header_imports(source: Source) -> list[ast.stmt]:
    """Import statements in the comment lines with which the text begins."""
    made: list[ast.stmt] = []
    for number, line in enumerate(source.lines):
        if line.strip() and not line.lstrip().startswith("#"):
            break
        match = _HEADER.fullmatch(line.strip())
        if match:
            try:
                tree = ast.parse(match[1])
            except SyntaxError:
                continue
            made += [ast.increment_lineno(s, number) for s in tree.body]
    return made


class _Module(FunctionParser):
    """The statements of a module, of which only declarations are understood."""

    def __init__(self, source: Source) -> None:
        super().__init__(source, {}, restricted=True)

    def run(self, nodes: list[ast.stmt]) -> None:
        for node in nodes:
            method: Callable[[Any], None] | None = getattr(self, f"top_{type(node).__name__}", None)
            if method is None:
                raise self.fail(
                    node, f"this statement ({type(node).__name__}) isn't understood outside a kernel",
                    "text may contain imports, constants and decorated functions; a file is imported as Python does",
                )  # fmt: skip
            with self.place(node):
                method(node)

    def top_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = self._import(node, node.module or "")
        for alias in node.names:
            if alias.name == "*":
                for name in getattr(module, "__all__", ()):
                    self.scope.define(name, getattr(module, name))
                continue
            try:
                value = getattr(module, alias.name)
            except AttributeError as e:
                raise self.fail(node, str(e)) from None
            from_script = module.__name__ == f"{_PACKAGE}.script"
            if (from_script and not isinstance(value, ModuleType)) or not self._may_use(value):
                raise self.fail(node, f"text can't import '{alias.name}' from '{module.__name__}'")
            self.scope.define(alias.asname or alias.name, value)

    @staticmethod
    def _may_use(value: Any) -> bool:
        return not isinstance(value, ModuleType) or reachable_from_text(value.__name__)

    def top_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            module = self._import(node, alias.name)
            root = alias.name.partition(".")[0]
            self.scope.define(alias.asname or root, module if alias.asname else self._import(node, root))

    def _import(self, node: ast.stmt, name: str) -> Any:
        for theirs, ours in _MODULES.items():
            if name == theirs or name.startswith(theirs + "."):
                name = ours + name[len(theirs) :]
        if name in ("__future__", "tvm"):
            return importlib.import_module("__future__")
        if not reachable_from_text(name):
            raise self.fail(
                node, f"text can't import '{name}'",
                f"only {_PACKAGE}.script, {_PACKAGE}.layout and math; or give a file",
            )  # fmt: skip
        try:
            return importlib.import_module(name)
        except ImportError as e:
            raise self.fail(node, str(e)) from None

    def top_Assign(self, node: ast.Assign) -> None:
        value = self.eval(node.value)
        for target in node.targets:
            self.unpack(target, value, self.scope.define)

    def top_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            raise self.fail(node, "an expression outside a kernel isn't evaluated")

    def top_FunctionDef(self, node: ast.FunctionDef) -> None:
        if len(node.decorator_list) != 1:
            raise self.fail(node, "a function of a text needs exactly one decorator", "for example @Tx.prim_func")
        decorator = node.decorator_list[0]
        call = decorator if isinstance(decorator, ast.Call) else None
        maker = self.eval(call.func if call else decorator)
        options = {str(k.arg): self.eval(k.value) for k in call.keywords} if call else {}
        if maker is prim_func:
            made = FunctionParser(self.source, self.scope.frames[0], restricted=True)
            if options.get("s_tir"):
                raise self.fail(decorator, "s_tir kernels (schedulable blocks) are not part of TIRx here")
            func = made.parse(node, private=bool(options.get("private")))
            if options.get("persistent"):
                func = func.with_attr("tirx.persistent_kernel", True)
            self.scope.define(node.name, func)
        elif isinstance(maker, Maker):
            self.scope.define(node.name, InlineFunction(self.source, node, Scope(self.scope.frames[0]), None))
        elif maker is jit:
            self.scope.define(node.name, JitKernel(self.source, node, self.scope.frames[0], restricted=True))
        else:
            raise self.fail(decorator, "the decorator is not one of this package", "Tx.prim_func, Tx.inline or Tx.jit")


# -- files ------------------------------------------------------------------------------------------------------------


def load_file(path: str | Path) -> dict[str, PrimFunc]:
    """The kernels that a Python file defines, by name; the file is imported.

    Raises ParseError at the place where the import fails, or the error of the kernel concerned.
    """
    file = Path(path)
    if not file.is_file():
        raise ParseError(f"there is no file '{path}'")
    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as e:
        raise ParseError(f"'{path}' can't be read: {e}") from None
    read_source(text, str(file.resolve()))  # so that a syntax error is reported at its place
    module = _import_file(file.resolve())
    return {name: value for name, value in vars(module).items() if isinstance(value, PrimFunc)}


def _import_file(file: Path) -> Any:
    name = f"_{_PACKAGE}_user_{file.stem}_{abs(hash(str(file))):x}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ParseError(f"'{file}' is not a Python file", hint="its name should end in .py")
    module = importlib.util.module_from_spec(spec)
    folder = str(file.parent)
    sys.path.insert(0, folder)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except TirxError:
        raise
    except SyntaxError as e:
        raise syntax_error(e, str(file), tuple(file.read_text().splitlines())) from None
    except Exception as e:
        raise ParseError(f"{type(e).__name__}: {e}", span=_place(e, str(file))) from e
    except SystemExit as e:
        raise ParseError(f"the file ends the program when it is imported (exit code {e.code})") from None
    finally:
        sys.modules.pop(name, None)
        if folder in sys.path:
            sys.path.remove(folder)
    return module


def _place(e: BaseException, file: str) -> Span | None:
    """Where in ``file`` an exception came from."""
    found: Span | None = None
    for frame in traceback.extract_tb(e.__traceback__):
        if frame.filename == file and frame.lineno is not None:
            text = linecache.getline(file, frame.lineno).rstrip("\n")
            column = (frame.colno or 0) + 1
            end = frame.end_colno + 1 if frame.end_colno is not None and frame.end_lineno == frame.lineno else None
            found = Span(file, frame.lineno, column, end, text)
    return found
