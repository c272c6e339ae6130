"""What is known of variables and register scalars: ranges and what divides them; and what must not be believed."""

from __future__ import annotations

import pytest

pytest.importorskip("egglog", reason="the simplifier needs egglog")

from tirx_eq import ir
from tirx_eq.interop.index_rewrite import Collect, rewrite_indices
from tirx_eq.interop.known import divisor
from tirx_eq.interop.scalars import only_reads, scalars
from tirx_eq.ir.index import parse, show
from tirx_eq.script import parse_source

HEADER = "from tirx_eq.script import tirx as T\n@T.prim_func\n"
START = 'def f(A: T.Buffer((4096,), "int32"), n: T.int32):\n    T.device_entry()\n    tx = T.thread_id([128])\n'


def function(body):
    lines = "".join(f"    {line}\n" for line in body.strip("\n").splitlines())
    return next(iter(parse_source(HEADER + START + lines).values()))


def learned(body):
    """Range and facts of the scalars that ``body`` reads, by the name of their buffer."""
    collect = Collect()
    func = function(body)
    collect.visit(func)
    ranges, facts = {}, {}
    for name, source in collect.scope.sources.items():
        if isinstance(source, ir.BufferLoad):
            ranges[source.buffer.name] = collect.scope.ranges[name]
            facts[source.buffer.name] = [show(f) for f in collect.facts(name)]
    return ranges, facts


def last_store(body):
    found = []
    func, report = rewrite_indices(function(body))
    ir.post_order_visit(func.body, lambda x: found.append(x) if isinstance(x, ir.BufferStore) else None)
    return found[-1], report


def test_what_is_stored_bounds_and_divides_a_scalar():
    body = """
v = T.alloc_local((1,), "int32")
v[0] = tx % 8 * 4
A[(v[0] ^ 1) - v[0]] = 2
"""
    ranges, facts = learned(body)
    assert ranges["v"] == (0, 28) and facts["v"] == ["(eq (mod value 4) 0)"]
    store, report = last_store(body)
    assert isinstance(store.indices[0], ir.IntImm) and store.indices[0].value == 1
    assert [r.validated_by for r in report.rewrites] == ["parity"]


def test_a_counter_goes_round():
    body = """
stage = T.alloc_local((1,), "int32")
phase = T.alloc_local((1,), "int32")
offset = T.alloc_local((1,), "int32")
stage[0] = 0
phase[0] = 0
offset[0] = 64
while stage[0] < n:
    stage[0] = (stage[0] + 1) % 4
    phase[0] = phase[0] ^ 1
    offset[0] = offset[0] + 32
    A[stage[0] + phase[0] + offset[0]] = 1
"""
    ranges, facts = learned(body)
    assert ranges["stage"] == (0, 3) and ranges["phase"] == (0, 1)
    assert ranges["offset"] == (64, 2**31 - 1)  # counting up doesn't overflow, as TVM assumes
    assert facts["offset"] == ["(eq (mod value_2 32) 0)"]


def test_a_bound_that_moves_is_taken_back_where_it_is_cut_off():
    ranges, _ = learned("""
v = T.alloc_local((1,), "int32")
v[0] = 0
while v[0] < n:
    v[0] = T.min(v[0] + 1, 9)
    A[v[0]] = 1
""")
    assert ranges["v"] == (0, 9)


FULL = (-(2**31), 2**31 - 1)
UNKNOWN = {
    "read before it is stored": """
v = T.alloc_local((1,), "int32")
for i in range(4):
    A[v[0]] = 1
    v[0] = 5
""",
    "stored in one branch": """
v = T.alloc_local((1,), "int32")
if tx < n:
    v[0] = 5
A[v[0]] = 1
""",
    "stored in the other branch": """
v = T.alloc_local((1,), "int32")
if tx < n:
    v[0] = 5
else:
    A[v[0]] = 1
""",
    "given to an instruction, which may write it": """
v = T.alloc_local((1,), "int32")
v[0] = 5
T.evaluate(T.call_extern("int32", "fill", v[0]))
A[v[0]] = 1
""",
    "its address taken": """
v = T.alloc_local((1,), "int32")
v[0] = 5
T.evaluate(T.call_extern("int32", "fill", T.address_of(v[0])))
A[v[0]] = 1
""",
    "stored at a place that isn't constant": """
v = T.alloc_local((4,), "int32")
v[0] = 5
v[tx % 4] = 7
A[v[0]] = 1
""",
    "memory that other threads write": """
v = T.alloc_shared((1,), "int32")
v[0] = 5
A[v[0]] = 1
""",
}


@pytest.mark.parametrize("body", UNKNOWN.values(), ids=UNKNOWN)
def test_nothing_is_known_of_a_scalar(body):
    ranges, facts = learned(body)
    assert ranges["v"] == FULL and facts["v"] == []


def test_a_scalar_stored_twice_has_the_range_of_both():
    ranges, facts = learned("""
v = T.alloc_local((1,), "int32")
v[0] = 4
A[0] = v[0]
if tx < n:
    v[0] = tx
A[v[0]] = 1
""")
    assert ranges["v"] == (0, 127) and facts["v"] == []


def test_a_condition_on_a_scalar_stored_once_is_a_fact():
    store, _ = last_store("""
v = T.alloc_local((1,), "int32")
v[0] = tx + n
if v[0] < 8:
    if v[0] >= 0:
        A[v[0] % 8] = 1
""")
    assert isinstance(store.indices[0], ir.BufferLoad)
    store, _ = last_store("""
v = T.alloc_local((1,), "int32")
v[0] = n
if v[0] < 8:
    if v[0] >= 0:
        v[0] = v[0] + 8
        A[v[0] % 8] = 1
""")
    assert not isinstance(store.indices[0], ir.BufferLoad)


def test_unsigned_arithmetic_that_may_wrap_decides_nothing():
    body = """
u = T.alloc_local((1,), "uint32")
u[0] = T.Cast("uint32", tx) - T.uint32(5)
if u[0] < T.uint32(3):
    A[T.Cast("int32", u[0] // T.uint32(256))] = 1
"""
    ranges, facts = learned(body)
    assert ranges["u"] == (0, 2**32 - 1) and facts["u"] == []
    store, _ = last_store("""
if (T.Cast("uint32", tx) * T.uint32(67108864)) // T.uint32(67108864) < T.uint32(70):
    A[T.Cast("int32", T.Cast("uint32", tx) * T.uint32(67108864) // T.uint32(67108864))] = 1
""")
    assert not isinstance(store.indices[0], ir.Var)


@pytest.mark.parametrize(
    ("term", "of", "number"),
    [
        ("(add (mul x 12) 8)", {}, 4),
        ("(sub x (mul y 6))", {"x": 9, "y": 1}, 3),
        ("(xor x 8)", {"x": 12}, 4),
        ("(and x -64)", {}, 64),
        ("(mod x 12)", {"x": 8}, 4),
        ("(div x 4)", {"x": 24}, 6),
        ("(div x 5)", {"x": 24}, 1),
        ("(shl x 5)", {"x": 3}, 96),
        ("(select (lt x 3) 6 0)", {}, 6),
        ("(min x 10)", {"x": 4}, 2),
        ("(mul x 0)", {"x": 3}, 0),
        ("(shr x 1)", {"x": 4}, 1),
    ],
)
def test_divisors(term, of, number):
    assert divisor(parse(term), of) == number


def test_instructions_that_write_no_register():
    assert only_reads("tirx.ptx.st") and only_reads("tirx.ptx.st_vec") and only_reads("tirx.ptx.tcgen05_mma_ss")
    assert not only_reads("tirx.ptx.ld") and not only_reads("tirx.ptx.stx") and not only_reads("tirx.address_of")


def test_elements_of_an_array_are_scalars_of_their_own():
    found = scalars(function("""
v = T.alloc_local((2,), "int32")
v[0] = tx
v[1] = v[0] + 1
v[1] = v[1] * 2
A[v[1]] = v[0]
"""))
    assert sorted((e[1], len(values)) for e, values in found.stored.items()) == [((0,), 1), ((1,), 2)]
    assert [e[1] for e in found.once] == [(0,)]
