"""Conditions of branches and loops as facts for addresses: what they give, when they end, and that they are never misused."""

from __future__ import annotations

import random

import pytest

from tirx_eq.cli.run import execute
from tirx_eq.ir import LT, NE, IntImm, PrimType, Var
from tirx_eq.ir.arith import binary
from tirx_eq.lower.facts.guards import Guard, along, everywhere, known
from tirx_eq.lower.kernel import compile_function
from tirx_eq.lower.program import Comment, Define, If, Instruction, Jump, Loop, Repeat

from .kernels import kernel

PARAMS = 'A: Tx.Buffer((4096,), "float32"), B: Tx.Buffer((4096,), "float32"), n: Tx.int32, m: Tx.int32'
RANDOM = 'A: Tx.Buffer((16,), "int32"), B: Tx.Buffer((1024,), "int32"), n: Tx.int32, m: Tx.int32'
X, Y = Var("x", PrimType("int32")), Var("y", PrimType("int32"))
SMALL, OTHER = binary(LT, X, 4), binary(NE, Y, 0)
HERE = Comment("here")


def guards_at(block):
    """The conditions at the comment in a block."""
    (found,) = [guards for node, guards in everywhere(block) if node is HERE]
    return {g.condition for g in found}


def define(var):
    return Define(var, IntImm("int32", 1))


def test_a_branch_knows_its_condition():
    assert guards_at((If(SMALL, (HERE,)),)) == {SMALL}
    assert guards_at((If(SMALL, (), (HERE,)),)) == {g.condition for g in known(SMALL, False)}
    assert guards_at((If(SMALL, (If(OTHER, (HERE,)),)),)) == {SMALL, OTHER}
    assert guards_at((If(SMALL, (Comment(""),)), HERE)) == set()


@pytest.mark.parametrize("end", [Jump("exit"), Jump("break"), Jump("continue"), Instruction("trap")])
def test_what_left_before_doesnt_come_here(end):
    assert guards_at((If(OTHER, (), (end,)), HERE)) == {OTHER}
    assert guards_at((If(OTHER, (Comment(""),), (If(SMALL, (end,), (end,)),)), HERE)) == {OTHER}
    assert guards_at((If(OTHER, (), (If(SMALL, (end,)),)), HERE)) == set()


@pytest.mark.parametrize("var", [X, Y])
def test_a_condition_ends_where_its_variable_is_defined_anew(var):
    left = {SMALL, OTHER} - {SMALL if var is X else OTHER}
    assert guards_at((If(SMALL, (If(OTHER, (define(var), HERE)),)),)) == left
    assert guards_at((If(SMALL, (If(OTHER, (If(binary(LT, Y, 9), (define(var),)), HERE)),)),)) == left
    loop = Loop(Var("k", PrimType("int32")), *(IntImm("int32", v) for v in (0, 9, 1)), (HERE, define(var)))
    assert guards_at((If(SMALL, (If(OTHER, (loop,)),)),)) == left
    assert guards_at((If(SMALL, (If(OTHER, (Repeat((HERE,), None, (define(var),)),)),)),)) == left
    again = (If(SMALL, (), (Jump("exit"),)), If(OTHER, (), (Jump("exit"),)), define(var), HERE)
    assert guards_at(again) == left


def test_a_loop_knows_its_ends_and_condition():
    k = Var("k", PrimType("int32"))
    assert guards_at((Loop(k, IntImm("int32", 0), X, IntImm("int32", 1), (HERE,)),)) == {binary(LT, k, X)}
    assert guards_at((Loop(k, IntImm("int32", 0), X, IntImm("int32", 1), (HERE, define(X))),)) == set()
    assert guards_at((Repeat((HERE,), SMALL, (define(X),)),)) == {SMALL}
    assert guards_at((Repeat((HERE, define(X)), SMALL),)) == {SMALL}
    assert guards_at((Repeat((define(X), HERE), SMALL),)) == set()


def test_conditions_of_one_object_are_one():
    first, second = ([g for _, g in along((If(SMALL, (), (Jump("exit"),)), HERE), ())][-1] for _ in range(2))
    assert first == second == (Guard(SMALL),)


@pytest.mark.parametrize(
    ("condition", "wide"), [("n >= 0 and n < 4", False), ("n < 4", True), ("n >= 0 and n * m < 4", True), ("A[0] > 1.0", True)]
)
def test_a_condition_makes_an_address_narrow(condition, wide):
    func = kernel(f"t = Tx.thread_id([32])\nif {condition}:\n    B[t + n * 8] = A[t]", PARAMS)
    assert ("s64" in compile_function(func).ptx.replace("add.s64", "")) is wide
    outcome = execute(func, extents={"n": 3, "m": 1})
    assert outcome.good and not outcome.faults


@pytest.mark.parametrize(
    ("text", "width"),
    [
        ("if n % 4 == 0 and n >= 0 and n < 4000:\n    Tx.thread.copy(B[n : n + 4], A[n : n + 4])", "v4"),
        ("if n % 2 == 0 and n >= 0 and n < 4000:\n    Tx.thread.copy(B[n : n + 4], A[n : n + 4])", "v2"),
        ("if n % 4 == 0:\n    Tx.evaluate(0)\nTx.thread.copy(B[n : n + 4], A[n : n + 4])", ""),
        ("if n % 4 != 0:\n    return\nTx.thread.copy(B[n : n + 4], A[n : n + 4])", "v4"),
        ("x: Tx.int32 = n\nif x % 4 == 0:\n    Tx.thread.copy(B[x : x + 4], A[x : x + 4])", "v4"),
        ("x: Tx.int32 = n\nif x % 4 == 0:\n    x = x + m\n    Tx.thread.copy(B[x : x + 4], A[x : x + 4])", ""),
        ("x: Tx.int32 = n\nif x % 4 == 0:\n    x = x + 1\n    Tx.thread.copy(B[x : x + 4], A[x : x + 4])", ""),
        (
            "x: Tx.int32 = n\nif x % 4 == 0:\n    for k in Tx.serial(m):\n        Tx.thread.copy(B[x : x + 4], A[x : x + 4])\n"
            "        x = x + 1", "",
        ),
    ],
)  # fmt: skip
def test_a_condition_gives_the_alignment_of_vectors(text, width):
    func = kernel(f"t = Tx.thread_id([1])\n{text}", PARAMS)
    ptx = compile_function(func).ptx
    assert [w for w in ("v2", "v4", "v8") if f"ld.global.{w}." in ptx] == ([width] if width else [])
    for n in (8, 6, 5):
        outcome = execute(func, extents={"n": n, "m": 3})
        assert outcome.good and not outcome.faults


def test_the_report_says_which_conditions_were_used_and_what_proved_it():
    text = "t = Tx.thread_id([64])\nif t // 32 == 1 and n >= 0 and n < 64:\n    B[t // 32 * 8 + n * 4] = A[t]"
    kernel_ = compile_function(kernel(text, PARAMS))
    report = kernel_.report()
    under = [e for e in report["expressions"] if e.get("where")]
    assert under and all(e["cost_after"] < e["cost_before"] and e["validated_by"] for e in under)
    assert any("(eq (div tid_x 32) 1)" in e["where"] for e in under)
    assert {"name": "n", "range": [0, 63], "where": ["(le 0 n)", "(lt n 64)"], "proved_by": "isl"} in report["narrowed"]


def test_a_condition_beyond_its_width_says_nothing():
    """What a comparison computes modulo 2^64 needn't hold of the integers."""
    text = "t = Tx.thread_id([32])\nif n > 0 and m > 0 and n * m * n * m * n * m < 64:\n    B[n] = A[m]"
    found = compile_function(kernel(text, PARAMS)).indices
    assert all("mul" not in str(n.because) for n in found.narrowed())


def test_a_branch_that_is_decided_has_no_jump():
    text = "t = Tx.thread_id([64])\nif t < 32:\n    if t < 40:\n        B[t] = A[t]\n    else:\n        B[t] = A[t + 1]"
    func = kernel(text, PARAMS)
    assert compile_function(func).ptx.count("setp") == 1
    assert execute(func).good


def test_a_condition_ends_with_the_round_of_an_unrolled_loop():
    """What a return in one round says of a value that the next round reads anew."""
    text = (
        "t = Tx.thread_id([16])\nfor k in Tx.unroll(3):\n    v: Tx.let = A[(t + k * 5) % 16]\n"
        "    B[t * 64 + Tx.max(v, 0)] = k\n    if v < 0:\n        return"
    )
    outcome = execute(kernel(text, RANDOM), kind="integers")
    assert outcome.good and not outcome.faults


def program(rng: random.Random) -> str:
    """Statements with scalars that are assigned, conditions on them, loops and jumps; each thread has its own row of B."""
    lines = ["t = Tx.thread_id([16])", "x: Tx.int32 = n", "y: Tx.int32 = t * 3", "z: Tx.int32 = A[t] - 3"]
    count = 0

    def value(names: list[str]) -> str:
        return rng.choice(
            [*names, f"{rng.choice(names)} + {rng.randint(-3, 9)}", f"{rng.choice(names)} * {rng.choice((2, 3, 4, 8))}",
             f"{rng.choice(names)} + {rng.choice(names)}", f"{rng.choice(names)} // {rng.choice((2, 4, 32))}",
             f"{rng.choice(names)} % {rng.choice((4, 8, 6))}", f"Tx.min({rng.choice(names)}, {rng.choice((7, *names))})"]
        )  # fmt: skip

    def condition(names: list[str]) -> str:
        parts = [
            f"{value(names)} {rng.choice(('<', '<=', '>=', '>', '==', '!='))} {rng.choice((rng.randint(-2, 40), *names))}"
            if rng.random() < 0.8 else f"{rng.choice(names)} % {rng.choice((2, 4, 8))} == {rng.randint(0, 1)}"
            for _ in range(rng.randint(1, 2))
        ]  # fmt: skip
        made = f" {rng.choice(('and', 'and', 'or'))} ".join(parts)
        return f"not ({made})" if rng.random() < 0.15 else made

    def statements(depth: int, indent: str, names: list[str], looped: bool) -> None:
        nonlocal count
        for _ in range(rng.randint(1, 4 if depth else 2)):
            kind = rng.random()
            if kind < 0.3:
                lines.append(f"{indent}{rng.choice('xyz')} = {value(names)}")
            elif kind < 0.5 or depth == 0:
                at = value(names)
                place = rng.choice((f"({at})", f"({at}) % 64", f"Tx.min({at}, 63)"))
                lines.append(f"{indent}if {at} >= 0 and {at} < 64:")
                lines.append(f"{indent}    B[t * 64 + {place}] = {value(names)}")
            elif kind < 0.7:
                lines.append(f"{indent}if {condition(names)}:")
                statements(depth - 1, indent + "    ", names, looped)
                if looped and rng.random() < 0.2:
                    lines.append(f"{indent}    {rng.choice(('break', 'continue'))}")
                if rng.random() < 0.4:
                    lines.append(f"{indent}else:")
                    statements(depth - 1, indent + "    ", names, looped)
            elif kind < 0.82:
                count += 1
                lines.append(f"{indent}v{count}: Tx.let = A[({value(names)}) % 16]")
                names = [*names, f"v{count}"]
                if rng.random() < 0.5:
                    lines.append(f"{indent}if v{count} < {rng.randint(-4, 4)}:")
                    lines.append(f"{indent}    {rng.choice(('return', 'continue', 'break') if looped else ('return',))}")
            elif kind < 0.95:
                count += 1
                k, extent = f"k{count}", rng.choice(("3", "5", "z % 4", "Tx.max(m, 0) % 5"))
                form = "unroll" if extent in "35" and rng.random() < 0.4 else "serial"
                lines.append(f"{indent}for {k} in Tx.{form}({extent}):")
                statements(depth - 1, indent + "    ", [*names, k], True)
            else:
                count += 1
                lines.append(f"{indent}w{count}: Tx.int32 = 0")
                lines.append(f"{indent}while w{count} < 4 and ({condition(names)}):")
                lines.append(f"{indent}    w{count} = w{count} + 1")
                statements(depth - 1, indent + "    ", [*names, f"w{count}"], True)

    statements(3, "", ["x", "y", "z", "n", "m", "t"], False)
    lines.append("B[t * 64 + 63] = x % 1000 + y % 1000 + z % 1000")
    return "\n".join(lines)


def agrees(seed: int) -> int:
    """How many facts the compiler used in random program number ``seed``; what the program does is checked."""
    rng = random.Random(seed)
    text = program(rng)
    func = kernel(text, RANDOM)
    n, m = rng.randint(-9, 60), rng.randint(-9, 60)
    outcome = execute(func, seed=seed, extents={"n": n, "m": m})
    assert outcome.good and not outcome.faults, (text, n, m, outcome.comparisons, outcome.faults[:1])
    found = compile_function(func).indices
    return len(found.conditional()) + len(found.narrowed())


def test_random_programs_with_branches_and_assignments():
    assert sum(agrees(seed) for seed in range(14)) > 9


@pytest.mark.parametrize("kind", ["int32", "float32"])
def test_a_value_bound_in_every_round_of_an_unrolled_loop(kind):
    """What was computed of the value in one round isn't what it is in the next."""
    text = (
        "t = Tx.thread_id([16])\nfor k in Tx.unroll(3):\n"
        f"    v: Tx.let = Tx.cast(A[(t + k * 5) % 16], '{kind}') * 2\n    B[t * 64 + k] = Tx.cast(v + v * 3, 'int32')"
    )
    assert execute(kernel(text, RANDOM)).good
