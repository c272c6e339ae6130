"""The lower half of the PTX parser: a cursor over tokens, and variable declarations with their initializers (ISA 5.1-5.4)."""

from __future__ import annotations

from tirx_eq.errors import ParseError, Span
from tirx_eq.sim.text.lexer import Token, number, tokens
from tirx_eq.sim.text.syntax import Variable

TYPE_BYTES = {
    "b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2, "b32": 4, "u32": 4, "s32": 4,
    "f32": 4, "f16x2": 4, "bf16x2": 4, "b64": 8, "u64": 8, "s64": 8, "f64": 8, "b128": 16, "pred": 1,
    "e4m3": 1, "e5m2": 1, "tf32": 4, "texref": 8, "samplerref": 8, "surfref": 8,
}
SPACES = {"reg", "sreg", "const", "global", "local", "param", "shared"}
#: More of anything than this is a mistake (or an attack), not a kernel.
MAX_REGISTERS = 200_000
MAX_BYTES = 1 << 32


class Cursor:
    """A position in the tokens of a text, and errors that name it."""

    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")
        self.all = list(tokens(text, self.lines))
        self.at = 0

    @property
    def token(self) -> Token:
        return self.all[self.at]

    def take(self) -> Token:
        token = self.all[self.at]
        if token.kind != "end":
            self.at += 1
        return token

    def fail(self, message: str, token: Token | None = None) -> ParseError:
        token = token or self.token
        line = self.lines[token.line - 1] if token.line <= len(self.lines) else ""
        return ParseError(f"PTX: {message}", span=Span("<ptx>", token.line, token.column, text=line))

    def accept(self, text: str) -> bool:
        if self.token.text == text and self.token.kind != "string":
            self.take()
            return True
        return False

    def expect(self, text: str) -> Token:
        if self.token.text != text:
            raise self.fail(f"expected {text!r} but found {self.token.text!r}")
        return self.take()

    def word(self, what: str) -> str:
        if self.token.kind != "word":
            raise self.fail(f"expected {what} but found {self.token.text!r}")
        return self.take().text

    def integer(self, what: str) -> int:
        negative = self.accept("-")
        token = self.take()
        value = number(token.text) if token.kind == "number" else None
        if value is None or value.kind != "int":
            raise self.fail(f"expected an integer for {what} but found {token.text!r}", token)
        return -value.value if negative else value.value


class Declarations(Cursor):
    """Variables in any state space but registers."""

    def variable_declaration(self, extern: bool = False, terminator: str = ";") -> list[Variable]:
        space_token = self.take()
        space = space_token.text[1:].split("::")[0]
        if space_token.kind != "directive" or space not in SPACES or space in ("reg", "sreg"):
            raise self.fail(f"unknown directive {space_token.text!r}", space_token)
        align, type_name, vector, pointer = 0, "", 1, False
        while self.token.kind == "directive":
            word = self.take().text[1:]
            if word == "align":
                declared = self.integer("alignment")
                align = align if pointer else declared
                if declared <= 0 or declared & (declared - 1) or declared > 1 << 20:
                    raise self.fail(f"alignment {declared} is not a power of two")
            elif word in ("v2", "v4"):
                vector = int(word[1])
            elif word == "ptr":
                pointer = True
                while self.token.kind == "directive" and self.token.text[1:].split("::")[0] in SPACES:
                    self.take()
            elif word == "attribute":
                self.expect("(")
                while not self.accept(")"):
                    if self.take().kind == "end":
                        raise self.fail(".attribute is never closed")
            elif word in TYPE_BYTES:
                type_name = word
            elif word in SPACES or word.split("::")[0] in SPACES:
                continue
            else:
                raise self.fail(f"unknown type or attribute .{word} in a declaration")
        if not type_name:
            raise self.fail("a variable needs a type")
        element = TYPE_BYTES[type_name]
        found = []
        while True:
            name = self.word("a variable name")
            names = [name]
            if self.accept("<"):
                count = self.integer("a count")
                self.expect(">")
                if not 0 <= count <= 4096:
                    raise self.fail(f"{count} variables at once")
                names = [f"{name}{i}" for i in range(count)]
            size = element * vector
            if type_name == "pred":
                raise self.fail("predicates live in registers only")
            open_ended = False
            while self.accept("["):
                if self.accept("]"):
                    open_ended = True
                    continue
                extent = self.integer("an array extent")
                self.expect("]")
                size *= extent
                if not 0 <= size <= MAX_BYTES:
                    raise self.fail(f"variable {name} of {size} bytes is beyond any memory")
            if open_ended and extern:
                size = 0
            init = self.initializer(element) if self.accept("=") else None
            if open_ended and init is not None:
                size = len(init) * element
            natural = element * vector
            found += [Variable(n, space, align or natural, type_name, size, init, extern) for n in names]
            if not self.accept(","):
                break
            if terminator == ")":
                self.at -= 1
                break
        if terminator == ";":
            self.expect(";")
        return found

    def initializer(self, element: int) -> tuple[int | float | tuple[str, int], ...]:
        values: list[int | float | tuple[str, int]] = []

        def item() -> None:
            if self.accept("{"):
                while not self.accept("}"):
                    item()
                    if not self.accept(",") and self.token.text != "}":
                        raise self.fail("expected ',' or '}' in an initializer")
            elif self.token.kind == "number" or self.token.text == "-":
                negative = self.accept("-")
                token = self.take()
                literal = number(token.text)
                if literal is None:
                    raise self.fail(f"{token.text!r} is not a number", token)
                values.append(-literal.value if negative else literal.value)
            elif self.token.kind == "word":
                name = self.take().text
                if name == "generic" and self.accept("("):
                    name = self.word("a variable name")
                    self.expect(")")
                values.append((name, self.integer("an offset") if self.accept("+") else 0))
            else:
                raise self.fail(f"{self.token.text!r} in an initializer")
        item()
        if len(values) > 1 << 22:
            raise self.fail("initializer too long")
        return tuple(values)
