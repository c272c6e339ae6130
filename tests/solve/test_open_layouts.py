"""Open layouts in scripts: written, printed, compared, refused; partial ones; views; te.compile."""

from __future__ import annotations

import numpy as np
import pytest

import tirx_eq as te
from tirx_eq.errors import IRError, LayoutError, LoweringError
from tirx_eq.ir import load_json, save_json, structural_equal
from tirx_eq.layout import ComposeLayout, OpenLayout, TileLayout, auto, from_json, is_open
from tirx_eq.lower.kernel import compile_function
from tirx_eq.script import tirx as Tx
from tirx_eq.script.loader import parse_function
from tirx_eq.solve.erase import declared, has_open_layouts
from tirx_eq.solve.erasing import erase_layouts
from tirx_eq.solve.problem import OpenShape

from . import kernels
from .kernels import kernel

PARTIAL = [
    OpenLayout(), OpenLayout("128B"), OpenLayout(None, 8), OpenLayout(None, None, "laneid"), OpenLayout("none", 2, "tx"),
]  # fmt: skip


@pytest.mark.parametrize("layout", PARTIAL, ids=str)
def test_open_layouts_are_printed_and_read(layout):
    func = kernel("A: (64, 64) float16", f"""
tx = Tx.thread_id([64])
S1 = Tx.alloc_shared((64, 64), "float16", layout={layout.script()})
V = S1.view(32, 128)
W = S1.view("float32")
L = Tx.alloc_local((8, 4), "float32", layout={layout.script()})
Tx.cta.copy(S1[:, :], A[:, :])
""")
    assert [d.buffer.layout for d in declared(func) if d.buffer.name in ("S1", "L")] == [layout, layout]
    views = {d.buffer.name: d.buffer.layout for d in declared(func)}
    assert views["V"] == layout and is_open(views["W"])
    for sugar in (True, False):
        assert structural_equal(parse_function(func.script(syntax_sugar=sugar)), func)
    assert structural_equal(load_json(save_json(func)), func)
    assert from_json(layout.to_json()) == layout
    other = erase_layouts(func) if layout != auto else parse_function(func.script().replace("auto", 'auto(swizzle="32B")'))
    assert not structural_equal(other, func)


def test_what_a_view_is_numbered_through_has_its_size():
    with pytest.raises(LayoutError, match="32 elements"):
        kernel("A: (64,) float32", 'S1 = Tx.alloc_shared((64,), layout=Tx.auto(through=Tx.TileLayout(Tx.S[(4, 8) : (1, 4)])))')


def test_open_layout_has_no_places():
    for ask in (auto.size, auto.axes, auto.span, auto.storage, auto.canonicalize, auto.is_swizzle, lambda: auto.apply(0)):
        with pytest.raises(LayoutError, match="left open"):
            ask()
    assert auto.admits((3, 5)) and not auto.is_trivial() and not auto.is_constant()


@pytest.mark.parametrize(("arguments", "what"), [
    ({"swizzle": "96B"}, "swizzle mode"), ({"contiguous": 0}, "at least 1"), ({"contiguous": "4"}, "counts elements"),
    ({"thread_axis": "m"}, "thread axis"), ({"through": 3}, "numbers the elements"),
])  # fmt: skip
def test_wrong_partial_layouts(arguments, what):
    with pytest.raises(LayoutError, match=what):
        Tx.auto(**arguments)


@pytest.mark.parametrize("line", [
    "P = S1.sub[0]", "P = S1.local(layout=Tx.auto)", "P = S1.local()",
])  # fmt: skip
def test_views_that_need_the_layout_say_so(line):
    with pytest.raises(IRError, match="left open"):
        kernel("A: (64, 64) float16", f'S1 = Tx.alloc_shared((64, 64), "float16", layout=Tx.auto)\n{line}')


def test_pools_align_open_buffers_for_every_swizzle():
    func = kernel("A: (64, 64) float16", """
pool = Tx.SMEMPool()
first = pool.alloc((3,), "float32")
S1 = pool.alloc((8, 8), "float32", layout=Tx.auto)
S2 = pool.alloc((8, 8), "float32", layout=Tx.auto, align=16)
pool.commit()
""")
    offsets = {d.buffer.name: int(d.buffer.elem_offset) * 4 for d in declared(func)}
    assert (offsets["S1"], offsets["S2"]) == (1024, 1024 + 256)


def test_tensor_memory_pools_take_open_layouts():
    func = kernel("A: (64, 64) float16", """
tx = Tx.thread_id([128])
pool = Tx.SMEMPool()
tmem = Tx.TMEMPool(pool, total_cols=256)
D = tmem.alloc((128, 64), "float32", layout=Tx.auto)
E = tmem.alloc((128, 32), "float32", layout=Tx.auto, cols=32)
tmem.commit()
pool.commit()
""")
    found = {d.buffer.name: d.buffer for d in declared(func)}
    assert is_open(found["D"].layout) and int(found["E"].allocated_addr[0]) == 64


def test_symbolic_extents_are_refused():
    func = parse_function(kernels.HEADER + """
@Tx.prim_func
def k(n: Tx.int32, A: Tx.Buffer(("n",), "float32")):
    Tx.device_entry()
    tx = Tx.thread_id([32])
    S1 = Tx.alloc_shared((n,), "float32", layout=Tx.auto)
    S1[tx] = A[tx]
""")
    with pytest.raises(OpenShape, match="extents must be constant"):
        te.solve(func)


def test_global_memory_is_never_open():
    for text in ('A: Tx.Buffer((8,), "float32", layout=Tx.auto)', 'A: Tx.Buffer((8,), "float32")'):
        body = "    G = Tx.alloc_buffer((8,), layout=Tx.auto)" if "auto" not in text else "    tx = Tx.thread_id([8])"
        source = f"{kernels.HEADER}@Tx.prim_func\ndef k({text}):\n    Tx.device_entry()\n{body}\n"
        with pytest.raises(LayoutError, match="global memory can't be left open"):
            parse_function(source)


def test_compile_solves_first():
    func = kernels.transpose(16, "float32")
    assert has_open_layouts(func)
    with pytest.raises(LoweringError, match="left open"):
        compile_function(func)
    made = te.compile(func)
    assert isinstance(made.solution.layout("S1"), ComposeLayout)
    assert "layout of 'S1', left open: ComposeLayout(" in made.explain()
    assert made.report()["solution"]["layouts"][0]["buffer"] == "S1"
    a = np.arange(256, dtype=np.float32).reshape(16, 16)
    result = made.simulate(a, np.zeros_like(a))
    assert np.array_equal(result.arrays["B"], a.T) and not result.faults
    assert te.compile(made.solution.func).solution is None


def test_nothing_open_is_solved_at_once():
    func = kernels.transpose(8, "float32", "Tx.TileLayout(Tx.S[(8, 8) : (9, 1)])")
    solution = te.solve(func)
    assert solution.func is func and solution.chosen == () and solution.optimal


@pytest.mark.parametrize(("said", "test"), [
    ('swizzle="none"', lambda w: isinstance(w, TileLayout)),
    ('swizzle="32B"', lambda w: isinstance(w, ComposeLayout) and w.swizzle_len == 1 and w.atom_len == 3),
    ("contiguous=2", lambda w: all(int(w.at(i, shape=(256,))["m"]) + 1 == int(w.at(i + 1, shape=(256,))["m"])
                                   for i in range(0, 256, 2))),
])  # fmt: skip
def test_partial_layouts_are_kept(said, test):
    solution = te.solve(kernels.transpose(16, "float32", f"Tx.auto({said})"))
    assert test(solution.layout("S1"))
    free = te.solve(kernels.transpose(16, "float32"))
    assert free.objective <= solution.objective


def test_thread_axis_is_kept():
    func = kernel("A: (4, 32) float32; B: (4, 32) float32", """
tx = Tx.thread_id([32])
x_reg = Tx.alloc_local((4,), "float32")
x = x_reg.view(4, 32, layout=Tx.auto(thread_axis="tx"))
Tx.cta.cast(x[:, :], A[:, :])
Tx.cta.cast(B[:, :], x[:, :])
""")
    assert te.solve(func).layout("x").axes() == ("m", "tx")


def test_views_of_the_same_bytes_have_one_layout():
    func = kernel("A: (64, 64) float16; B: (32, 128) float16", """
tx = Tx.thread_id([64])
S1 = Tx.alloc_shared((64, 64), "float16", layout=Tx.auto)
V = S1.view(32, 128)
W = S1.view("float32")
Tx.cta.copy(S1[:, :], A[:, :])
Tx.cuda.cta_sync()
Tx.cta.copy(B[:, :], V[:, :])
""")
    solution = te.solve(func)
    assert solution.layout("S1") == solution.layout("V")
    assert solution.layout("W").canonicalize() == solution.layout("S1").pack(2).canonicalize()
    a = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float16)
    result = solution.compile().simulate(a, np.zeros((32, 128), np.float16))
    assert np.array_equal(result.arrays["B"].ravel(), a.ravel()) and not result.faults


@pytest.mark.parametrize(("view", "wanted"), [
    ("S1.permute(1, 0)", lambda a: a.T),
    ('S1.rearrange("(a b) c -> b a c", a=4)', lambda a: a.reshape(4, 8, 32).transpose(1, 0, 2)),
    ("S1.permute(1, 0).view(64, 16)", lambda a: a.T.reshape(64, 16)), ("S1.permute(1, 0).permute(1, 0)", lambda a: a),
])  # fmt: skip
def test_reordered_views_follow(view, wanted):
    a = np.arange(1024, dtype=np.float32).reshape(32, 32)
    shape = wanted(a).shape
    slices = ", ".join(":" for _ in shape)
    func = kernel(f"A: (32, 32) float32; B: {shape} float32", f"""
tx = Tx.thread_id([64])
S1 = Tx.alloc_shared((32, 32), "float32", layout=Tx.auto)
T1 = {view}
Tx.cta.copy(S1[:, :], A[:, :])
Tx.cuda.cta_sync()
Tx.cta.copy(B[{slices}], T1[{slices}])
""")
    for sugar in (True, False):
        assert structural_equal(parse_function(func.script(syntax_sugar=sugar)), func)
    solution = te.solve(func)
    result = solution.compile().simulate(a, np.zeros(shape, np.float32))
    assert np.array_equal(result.arrays["B"], wanted(a)) and not result.faults
    again = te.solve(erase_layouts(solution.func))
    assert again.objective == pytest.approx(solution.objective)
    result = again.compile().simulate(a, np.zeros(shape, np.float32))
    assert np.array_equal(result.arrays["B"], wanted(a))


def test_a_given_view_decides():
    given = "Tx.ComposeLayout(2, 3, 3, Tx.TileLayout(Tx.S[(32, 32) : (32, 1)]))"
    func = kernel("A: (32, 32) float32", f"""
tx = Tx.thread_id([32])
S1 = Tx.alloc_shared((32, 32), "float32", layout=Tx.auto)
V = S1.view(32, 32, layout={given})
Tx.cta.copy(S1[:, :], A[:, :])
""")
    solution = te.solve(func)
    view = next(d.buffer.layout for d in declared(func) if d.buffer.name == "V")
    assert solution.layout("S1").canonicalize() == view.canonicalize()
