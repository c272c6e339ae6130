"""Bad input: the class of the error, its message, and the place it points at."""

import textwrap

import pytest

from tirx_eq.errors import IRError, LayoutError, ParseError, TirxError
from tirx_eq.script import load_file, parse_source

HEAD = """\
from tirx_eq.script import tirx as Tx
from tirx_eq.layout import TileLayout, S, R, TLane, TCol

@Tx.prim_func
def f(A: Tx.Buffer((128,), "float32"), H: Tx.Buffer((64, 64), "float16"), n: Tx.int32):
    Tx.device_entry()
    tx = Tx.thread_id([128])
"""
LINE = HEAD.count("\n") + 1

#: (statement, error, part of the message, what the place covers)
CASES = [
    # syntax
    ("A[0] = = 1", ParseError, "syntax error", "="),
    ("A[tx] = A[tx", ParseError, "never closed", "["),
    # unknown names, with near ones
    ("Tx.alloc_bufer((1,))", ParseError, "did you mean alloc_buffer", "Tx.alloc_bufer"),
    ("Tx.cta.cpoy(A, A)", ParseError, "did you mean copy", "Tx.cta.cpoy"),
    ("Tx.ptx.tcgen05.aloc(1)", ParseError, "did you mean alloc", "Tx.ptx.tcgen05.aloc"),
    ("A[tx] = txx + 1", ParseError, "did you mean tx", "txx"),
    ("H[0, :].foo", ParseError, "has no 'foo'", "H[0, :].foo"),
    ('x = Tx.alloc_local((1,), "flot32")', IRError, "'flot32' is not a data type", 'Tx.alloc_local((1,), "flot32")'),
    # operands of unequal extents
    ("Tx.cta.copy(A[0:64], A[0:32])", IRError, "'dst' covers 64 of 'A', but 'src' covers 32", None),
    ("Tx.cast(A[0:4], H[0, 0:5])", IRError, "'dst' covers 4 of 'A', but 'src' covers 5 of 'H'", None),
    ("Tx.copy(A[tx:tx+4], A[n:n+8])", IRError, "covers 4 of 'A', but 'src' covers 8", None),
    ("Tx.cta.add(A[0:8], A[0:8], A[0:3])", IRError, "add: 'dst' covers 8 of 'A', but 'src2' covers 3", None),
    ("Tx.gemm_async(H, H[0:32, :], H[:, 0:32])", IRError, "A has K = 64 but B has K = 32", None),
    ('Tx.copy_async(A, H, dispatch="tma_auto")', IRError, "'dst' takes 4096 bits but 'src' has 65536", None),
    # bounds
    ("Tx.cta.copy(A[0:256], H[0:4, :])", IRError, "[0:256] is out of bounds (extent 128)", "A[0:256]"),
    ("Tx.cta.fill(A[64:64], 0.0)", IRError, "it has 0 elements", "A[64:64]"),
    ("Tx.cta.fill(A[tx:tx+200], 0.0)", IRError, "200 elements are more than the extent 128", "A[tx:tx+200]"),
    ("Tx.cta.fill(A[-4:4], 0.0)", IRError, "the start -4 is negative", "A[-4:4]"),
    ("A[128] = 1.0", IRError, "index 128 is out of bounds of dimension 0 of 'A' (extent 128)", "A[128]"),
    ("x = H[0, 64]", IRError, "index 64 is out of bounds of dimension 1", "H[0, 64]"),
    ("x = A[0, 0]", IRError, "has 1 dimensions but 2 indices", "A[0, 0]"),
    ("Tx.cta.fill(A[0:2.5], 0.0)", IRError, "a bound must be an integer, got float32", "A[0:2.5]"),
    ("A[0:n:1.5] = 0.0", IRError, "a slice is of integers, got float32", "A[0:n:1.5]"),
    ("A[1.5] = 0.0", IRError, "must be an integer", "A[1.5]"),
    # layouts
    ("B = Tx.alloc_local((4,), layout=TileLayout(S[(8,)]))", LayoutError, "8 elements, but the buffer's shape 4", None),
    ('B = Tx.alloc_local((4,), layout="row")', LayoutError, "'row' is not a layout", None),
    ("B = A.view(100)", IRError, "128 elements can't be seen as 100", "A.view(100)"),
    ("B = H.permute(0, 0)", IRError, "not an order of its 2 dimensions", "H.permute(0, 0)"),
    ("B = H.sub[70]", IRError, "index 70 is out of bounds", "H.sub[70]"),
    ('B = H.rearrange("(a b) c -> a", a=2)', IRError, "differ", None),
    # calls
    ("Tx.cta.copy(A)", IRError, "needs the operand 'src'", "Tx.cta.copy(A)"),
    ("Tx.copy(A[tx], A[0:1])", IRError, "'dst' must be a buffer or a region, got one element", None),
    ("Tx.ptx.mbarrier.init(A.ptr_to([0]))", IRError, "needs 'thread_count'", None),
    ("Tx.ptx.tcgen05.alloc(A.ptr_to([0]), 32, cta_group=3)", IRError, "cta_group=3 is not admissible", None),
    ("Tx.ptx.mbarrier.arrive(A.ptr_to([0]), foo=1)", IRError, "doesn't take the parameter 'foo'", None),
    ("Tx.ptx(1)", IRError, "'ptx' is a group of functions", "Tx.ptx(1)"),
    ("Tx.match_buffer(n, (4,))", IRError, "parameter 'n' is int32, not a handle", None),
    ("t = Tx.thread_id([0])", IRError, "an extent must be at least 1", "Tx.thread_id([0])"),
    ('B = Tx.decl_buffer((4,), scope="tmem")', IRError, "needs allocated_addr", None),
    # values
    ("z = tx / 2", IRError, "ambiguous", "tx / 2"),
    ("z = tx // 0", IRError, "by zero", "tx // 0"),
    ("z = tx ** 2", IRError, "'**' is not an operation", "tx ** 2"),
    ("z = not tx", IRError, "'not' needs a condition", "not tx"),
    ("z = tx > 1 and tx", IRError, "'and' needs conditions", "tx > 1 and tx"),
    ("A[tx] = A", IRError, "the buffer 'A' is used where a value is wanted", "A[tx]"),
    ("A[tx] = 'text'", IRError, "can't be stored in 'A'", "A[tx]"),
    ("x = A + 1", IRError, "can't be used in arithmetic", "A + 1"),
    # statements a kernel can't have
    ("import os", ParseError, "can't contain this statement (Import)", "import os"),
    ("for i in [1, 2]: pass", ParseError, "can't loop over a list", "[1, 2]"),
    ("if A: pass", ParseError, "a Buffer is not a condition", "A"),
    ("with A: pass", ParseError, "can't be used in 'with'", "A"),
    ("a = b = 1", ParseError, "not available", "a = b = 1"),
    ("def g(x): pass", ParseError, "must be inline", None),
    ("yield 3", ParseError, "can't contain this (Yield)", "yield 3"),
    ("assert 1 == 2, 'never'", ParseError, "assertion failed: never", None),
    ("Tx.static_assert(1 == 2, 'no')", IRError, "static assertion failed: no", None),
    ("p: Tx.handle = 3", ParseError, "a pointer can't be a scalar", "Tx.handle"),
    ("x, y = 1, 2, 3", ParseError, "3 values can't be unpacked into 2 names", "x, y"),
    # what isn't reachable from text
    ("x = __import__('os')", ParseError, "'__import__' is not defined", "__import__"),
    ("x = A.__class__", ParseError, "'__class__' can't be used", "A.__class__"),
    ("x = Tx.difflib", ParseError, "can't use the module 'difflib'", "Tx.difflib"),
    ("x = '{0.data}'.format(A)", ParseError, "write an f-string", None),
    ("x = [i for i in range(10 ** 9)]", ParseError, "more than 1000000 steps", "range(10 ** 9)"),
]


@pytest.mark.parametrize(("statement", "error", "message", "covers"), CASES, ids=[c[0] for c in CASES])
def test_statement(statement, error, message, covers):
    text = HEAD + textwrap.indent(statement, "    ") + "\n"
    with pytest.raises(TirxError) as caught:
        parse_source(text, "kernel.py")
    e = caught.value
    assert type(e) is error and message in f"{e.message}\n{e.hint}"
    assert e.span is not None and (e.span.file, e.span.line) == ("kernel.py", LINE)
    line = text.splitlines()[LINE - 1]
    assert e.span.text == line
    if covers is not None:
        assert line[e.span.column - 1 :].startswith(covers)
        if e.span.end_column is not None:
            assert line[e.span.column - 1 : e.span.end_column - 1] == covers


def test_signature_errors():
    for text, message in [
        ("def f(A): pass", "parameter 'A' needs an annotation"),
        ("def f(*A): pass", "variable number of parameters"),
        ("def f(A: Tx.Bufer((3,))): pass", "did you mean Buffer"),
        ("def f(A: 3): pass", "not a variable or buffer"),
        ("def f(n: Tx.int64, A: Tx.Buffer(('n +', 2))): pass", "not an expression"),
        ("def f(A: Tx.Buffer(('n', 2)), n: Tx.handle): pass", "can't be another type"),
    ]:
        with pytest.raises(TirxError) as caught:
            parse_source(f"from tirx_eq.script import tirx as Tx\n@Tx.prim_func\n{text}\n")
        assert message in caught.value.message
        assert caught.value.span is not None and caught.value.span.line == 3


def test_columns_count_characters():
    text = "from tirx_eq.script import tirx as Tx\n@Tx.prim_func\ndef f():\n    'äöü'; x = undefined\n"
    with pytest.raises(ParseError) as caught:
        parse_source(text)
    assert caught.value.span.column == text.splitlines()[3].index("undefined") + 1


def test_place_in_an_inline_function_is_the_function_s():
    text = (
        "from tirx_eq.script import tirx as Tx\n@Tx.inline\ndef g(b):\n    b[200] = 1.0\n@Tx.prim_func\n"
        "def f(A: Tx.Buffer((128,), 'float32')):\n    g(A)\n"
    )
    with pytest.raises(IRError, match="index 200") as caught:
        parse_source(text)
    assert caught.value.span.line == 4


def test_endless_inline_recursion():
    text = (
        "from tirx_eq.script import tirx as Tx\n@Tx.inline\ndef g(i):\n    g(i)\n@Tx.prim_func\ndef f():\n    g(1)\n"
    )
    with pytest.raises(ParseError, match="call each other more than"):
        parse_source(text)


def test_text_outside_kernels():
    for text, message in [
        ("import os", "can't import 'os'"),
        ("from tirx_eq.script import load_file", "can't import 'load_file'"),
        ("from tirx_eq import ptx", "can't import 'tirx_eq'"),
        ("print(1)", "isn't evaluated"),
        ("def f(): pass", "needs exactly one decorator"),
        ("while True: pass", "isn't understood outside a kernel"),
        ("x = 1 +", "syntax error"),
    ]:
        with pytest.raises(ParseError) as caught:
            parse_source(text)
        assert message in caught.value.message and caught.value.span.line == 1


def test_files(tmp_path):
    def write(text):
        path = tmp_path / "user.py"
        path.write_text(text)
        return path

    with pytest.raises(ParseError, match="there is no file"):
        load_file(tmp_path / "absent.py")
    with pytest.raises(ParseError, match="syntax error") as caught:
        load_file(write("x = 1\ny = = 2\n"))
    assert caught.value.span.line == 2
    with pytest.raises(ParseError, match="ZeroDivisionError") as caught:
        load_file(write("def g():\n    return 1 // 0\ng()\n"))
    assert (caught.value.span.line, caught.value.span.text) == (2, "    return 1 // 0")
    with pytest.raises(ParseError, match="ModuleNotFoundError"):
        load_file(write("import no_such_module_here\n"))
    start = "from tirx_eq.script import tirx as Tx\n@Tx.prim_func\n"
    with pytest.raises(ParseError, match="did you mean Buffer") as caught:
        load_file(write(f"{start}def f(A: Tx.Bufer((1,))): pass\n"))
    assert caught.value.span.line == 3
    with pytest.raises(IRError, match="out of bounds") as caught:
        load_file(write(f"{start}def f(A: Tx.Buffer((4,))):\n    A[4] = 0\n"))
    assert caught.value.span.line == 4 and caught.value.span.file.endswith("user.py")
    with pytest.raises(ParseError, match="ends the program"):
        load_file(write("raise SystemExit(3)\n"))
