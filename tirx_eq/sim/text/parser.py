"""A parser for complete PTX modules, as written by hand, by this project and by nvcc 13.

Grammar: PTX ISA 9.0 chapters 4 and 5 (statements, directives, state spaces, constants).  Any departure raises
``ParseError`` with the line; no text is ever evaluated.  Instructions are not checked here: ``program.decode`` does
that against the instruction table, before anything runs.
"""

from __future__ import annotations

from dataclasses import dataclass

from tirx_eq.errors import ParseError
from tirx_eq.sim.text.declarations import MAX_REGISTERS, SPACES, TYPE_BYTES, Declarations
from tirx_eq.sim.text.lexer import Token, number
from tirx_eq.sim.text.syntax import (
    Function,
    Group,
    Imm,
    Instr,
    Label,
    Mem,
    Module,
    Not,
    Operand,
    Pair,
    Reg,
    Register,
    Sink,
    Special,
    Sym,
    Variable,
    Vec,
)

LINKAGE = {"visible", "extern", "weak", "common"}
SKIPPED = {"loc", "file", "pragma", "branchtargets", "calltargets", "callprototype", "alias"}
#: Directives between a function's parameter list and its body.
PERFORMANCE = {
    "maxntid", "reqntid", "minnctapersm", "maxnctapersm", "maxnreg", "noreturn", "explicitcluster",
    "reqnctapercluster", "maxclusterrank", "blocksareclusters", "abi_preserve", "abi_preserve_control",
}

@dataclass(frozen=True)
class _Name:
    """A word whose meaning is looked up when the whole function has been read."""

    text: str
    scope: int
    line: int


#: opcode token, opcode parts, operands, guard, (start, end) in the text
_Raw = tuple[Token, tuple[str, ...], list[object], "tuple[_Name, bool] | None", tuple[int, int]]


class _Scope:
    def __init__(self, parent: int | None) -> None:
        self.parent = parent
        self.registers: dict[str, int] = {}
        self.labels: dict[str, int] = {}
        self.variables: dict[str, str] = {}


class _Parser(Declarations):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.functions: dict[str, Function] = {}
        self.variables: dict[str, Variable] = {}
        self.scopes: list[_Scope] = []
        self.function: Function | None = None

    # -- module ---------------------------------------------------------------------------------
    def module(self) -> Module:
        version, target = (0, 0), ""
        while self.token.kind != "end":
            token = self.token
            if token.kind != "directive":
                raise self.fail(f"expected a directive but found {token.text!r}")
            name = token.text[1:]
            if name == "version":
                self.take()
                major, _, minor = self.take().text.partition(".")
                if not (major.isdigit() and minor.isdigit()):
                    raise self.fail("expected a version number such as 8.7", token)
                version = (int(major), int(minor))
            elif name == "target":
                self.take()
                target = self.word("a target")
                while self.accept(","):
                    self.word("a target option")
            elif name == "address_size":
                self.take()
                if self.integer("address size") != 64:
                    raise self.fail("only .address_size 64 is supported", token)
            elif name == "section":
                self.skip_section()
            elif name in SKIPPED:
                self.skip_line()
            else:
                self.declaration()
        if not version[0]:
            raise ParseError("PTX: no .version directive: this is not a PTX module")
        return Module(version, target, self.functions, self.variables, self.lines)

    def skip_line(self) -> None:
        """Skip a directive: to its semicolon, or to the end of its line for .loc and .file."""
        first = self.take()
        if first.text in (".loc", ".file"):
            while self.token.line == first.line and self.token.kind != "end":
                self.take()
            return
        while not self.accept(";"):
            if self.token.kind == "end":
                raise self.fail(f"{first.text} is never closed by ';'")
            self.take()

    def skip_section(self) -> None:
        self.take()
        while self.token.text != "{":
            if self.token.kind == "end":
                raise self.fail(".section without a body")
            self.take()
        depth = 0
        while True:
            token = self.take()
            depth += {"{": 1, "}": -1}.get(token.text, 0)
            if token.kind == "end":
                raise self.fail(".section is never closed", token)
            if depth == 0:
                return

    def declaration(self) -> None:
        linkage: set[str] = set()
        while self.token.kind == "directive" and self.token.text[1:] in LINKAGE:
            linkage.add(self.take().text[1:])
        if self.token.text in (".entry", ".func"):
            self.function_declaration()
            return
        for variable in self.variable_declaration("extern" in linkage):
            self.variables[variable.name] = variable

    # -- functions ------------------------------------------------------------------------------
    def parameters(self) -> list[Variable]:
        found: list[Variable] = []
        self.expect("(")
        while not self.accept(")"):
            if self.token.text == ".reg":
                raise self.fail("register parameters are not supported; use .param")
            found += self.variable_declaration(terminator=")")
            if not self.accept(",") and self.token.text != ")":
                raise self.fail("expected ',' or ')' in a parameter list")
        return found

    def function_declaration(self) -> None:
        kernel = self.take().text == ".entry"
        results = self.parameters() if self.token.text == "(" else []
        name = self.word("a function name")
        params = self.parameters() if self.token.text == "(" else []
        function = Function(name, kernel, params, results)
        while self.token.kind == "directive":
            directive = self.take()
            if directive.text[1:] not in PERFORMANCE:
                if directive.text == ".pragma":
                    self.at -= 1
                    self.skip_line()
                    continue
                raise self.fail(f"unknown function directive {directive.text}", directive)
            values = []
            while self.token.kind == "number":
                values.append(self.integer(directive.text))
                if not self.accept(","):
                    break
            function.directives[directive.text[1:]] = tuple(values)
        if self.accept(";"):
            function.defined = False
            self.functions.setdefault(name, function)
            return
        self.function = function
        self.scopes = [_Scope(None)]
        for variable in params + results:
            self.scopes[0].variables[variable.name] = variable.name
        raw: list[_Raw] = []
        self.expect("{")
        self.block(0, raw)
        for token, parts, operands, guard, place in raw:
            resolved = tuple(self.resolve(o, token) for o in operands)
            register = None
            if guard:
                found = self.resolve(guard[0], token)
                if not isinstance(found, Reg) or function.registers[found.index].type != "pred":
                    raise self.fail(f"{guard[0].text} is not a predicate register", token)
                register = (found, guard[1])
            function.body.append(Instr(parts, resolved, register, token.line, *place))
        self.functions[name] = function
        self.function = None

    def block(self, scope: int, raw: list[_Raw]) -> None:
        function = self.function
        assert function is not None
        while True:
            token = self.token
            if token.kind == "end":
                raise self.fail(f"the body of {function.name} is never closed: the file is truncated")
            if self.accept("}"):
                return
            if self.accept("{"):
                if len(self.scopes) > 100_000:
                    raise self.fail("too many nested blocks")
                self.scopes.append(_Scope(scope))
                self.nested(len(self.scopes) - 1, raw)
                continue
            if token.kind == "directive":
                self.local_directive(scope)
                continue
            if token.kind == "word" and self.all[self.at + 1].text == ":":
                self.take()
                self.take()
                if token.text in self.scopes[scope].labels:
                    raise self.fail(f"label {token.text} is defined twice", token)
                self.scopes[scope].labels[token.text] = len(raw)
                continue
            raw.append(self.instruction(scope))

    def nested(self, scope: int, raw: list[_Raw]) -> None:
        depth = 0
        at: int | None = scope
        while at is not None:
            at = self.scopes[at].parent
            depth += 1
        if depth > 64:
            raise self.fail("blocks are nested deeper than 64")
        self.block(scope, raw)

    def local_directive(self, scope: int) -> None:
        function = self.function
        assert function is not None
        name = self.token.text[1:]
        if name == "reg":
            self.take()
            type_token = self.take()
            kind = type_token.text[1:]
            count = 1
            if kind in ("v2", "v4"):
                raise self.fail("vector registers are not supported", type_token)
            if type_token.kind != "directive" or kind not in TYPE_BYTES:
                raise self.fail(f"unknown register type {type_token.text!r}", type_token)
            while True:
                base = self.word("a register name")
                names = [base]
                if self.accept("<"):
                    count = self.integer("a register count")
                    self.expect(">")
                    if not 0 <= count <= MAX_REGISTERS or len(function.registers) + count > MAX_REGISTERS:
                        raise self.fail(f"{count} registers are beyond any kernel")
                    names = [f"{base}{i}" for i in range(count)]
                for each in names:
                    self.scopes[scope].registers[each] = len(function.registers)
                    function.registers.append(Register(each, kind))
                if not self.accept(","):
                    break
            self.expect(";")
        elif name in SKIPPED:
            self.skip_line()
        elif name in LINKAGE or name.split("::")[0] in SPACES:
            extern = False
            while self.token.text[1:] in LINKAGE:
                extern |= self.take().text == ".extern"
            for variable in self.variable_declaration(extern):
                unique = variable.name
                if scope:
                    unique = f"{variable.name}${scope}"
                self.scopes[scope].variables[variable.name] = unique
                function.variables.append(Variable(unique, variable.space, variable.align, variable.type,
                                                   variable.size, variable.init, variable.extern))
        else:
            raise self.fail(f"unknown directive {self.token.text!r} in a function")

    # -- instructions ---------------------------------------------------------------------------
    def instruction(self, scope: int) -> _Raw:
        first = self.token
        guard = None
        if self.accept("@"):
            negated = self.accept("!")
            guard = (_Name(self.word("a predicate"), scope, first.line), negated)
        token = self.token
        opcode = self.word("an instruction")
        operands: list[object] = []
        if not self.accept(";"):
            while True:
                operands.append(self.operand(scope))
                if len(operands) > 64:
                    raise self.fail("too many operands", token)
                if self.accept(";"):
                    break
                self.expect(",")
        place = (first.position, self.all[self.at - 1].position + 1)
        return token, tuple(opcode.split(".")), operands, guard, place

    def operand(self, scope: int, depth: int = 0) -> object:
        if depth > 8:
            raise self.fail("operands are nested too deeply")
        token = self.token
        if self.accept("{"):
            return Vec(self.operand_list(scope, "}", depth))  # type: ignore[arg-type]
        if self.accept("("):
            return Group(self.operand_list(scope, ")", depth))  # type: ignore[arg-type]
        if self.accept("["):
            base = self.operand(scope, depth + 1)
            offset = 0
            while self.token.text in ("+", "-"):
                sign = -1 if self.take().text == "-" else 1
                offset += sign * self.integer("an address offset")
            coords: list[object] = []
            while self.accept(","):
                coords.append(self.operand(scope, depth + 1))
            self.expect("]")
            if isinstance(base, Sym):
                base, offset = Sym(base.name, 0), offset + base.offset
            return Mem(base, offset, tuple(coords))  # type: ignore[arg-type]
        if self.accept("!"):
            return Not(self.operand(scope, depth + 1))  # type: ignore[arg-type]
        if token.text in ("-", "~", "+") or token.kind == "number":
            prefix = self.take().text if token.kind != "number" else ""
            literal = number(self.token.text) if self.token.kind == "number" else None
            if literal is None:
                raise self.fail(f"expected a number but found {self.token.text!r}")
            self.take()
            if prefix == "~":
                return Imm(~literal.value)
            if prefix == "-":
                if literal.kind != "int":
                    return Imm(literal.value ^ (1 << (31 if literal.kind == "f32" else 63)), literal.kind)
                return Imm(-literal.value)
            return literal
        if token.kind != "word":
            raise self.fail(f"expected an operand but found {token.text!r}")
        self.take()
        value: object = Sink() if token.text == "_" else _Name(token.text, scope, token.line)
        if self.accept("|"):
            return Pair(value, self.operand(scope, depth + 1))  # type: ignore[arg-type]
        if depth == 0 and self.token.text in ("+", "-"):
            sign = -1 if self.take().text == "-" else 1
            return ("offset", value, sign * self.integer("an offset"))
        return value

    def operand_list(self, scope: int, close: str, depth: int) -> tuple[object, ...]:
        items: list[object] = []
        while not self.accept(close):
            items.append(self.operand(scope, depth + 1))
            if len(items) > 512:
                raise self.fail("vector operand too long")
            if not self.accept(",") and self.token.text != close:
                raise self.fail(f"expected ',' or {close!r} but found {self.token.text!r}")
        return tuple(items)

    # -- names ----------------------------------------------------------------------------------
    def resolve(self, item: object, token: Token) -> Operand:
        if isinstance(item, _Name):
            return self.lookup(item, token)
        if isinstance(item, tuple):
            base = self.resolve(item[1], token)
            if not isinstance(base, Sym):
                raise self.fail("only a variable can be offset outside of brackets", token)
            return Sym(base.name, base.offset + item[2])
        if isinstance(item, Vec):
            return Vec(tuple(self.resolve(i, token) for i in item.items))
        if isinstance(item, Group):
            return Group(tuple(self.resolve(i, token) for i in item.items))
        if isinstance(item, Mem):
            return Mem(self.resolve(item.base, token), item.offset,
                       tuple(self.resolve(c, token) for c in item.coords))
        if isinstance(item, Pair):
            return Pair(self.resolve(item.first, token), self.resolve(item.second, token))
        if isinstance(item, Not):
            return Not(self.resolve(item.operand, token))
        return item  # type: ignore[return-value]

    def lookup(self, name: _Name, token: Token) -> Operand:
        at: int | None = name.scope
        while at is not None:
            scope = self.scopes[at]
            if name.text in scope.registers:
                return Reg(scope.registers[name.text], name.text)
            if name.text in scope.labels:
                return Label(name.text, scope.labels[name.text])
            if name.text in scope.variables:
                return Sym(scope.variables[name.text])
            at = scope.parent
        if name.text in self.variables or name.text in self.functions:
            return Sym(name.text)
        if name.text.startswith("%") or name.text == "WARP_SZ":
            return Special(name.text)
        raise self.fail(f"{name.text} is not declared", token)


def parse(text: str) -> Module:
    """Parse a PTX module.

    Raises ``ParseError`` naming line and column for anything that is not PTX.
    """
    return _Parser(text).module()
