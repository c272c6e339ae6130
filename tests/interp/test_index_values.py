"""Integer expressions: the interpreter's arithmetic against the exact evaluation of neutral index terms."""

import numpy as np
from hypothesis import given, reject, settings
from hypothesis import strategies as st

import tirx_eq as te
from tirx_eq import ir
from tirx_eq.interp import InterpreterError, interpret
from tirx_eq.ir.index import evaluate
from tirx_eq.ir.index_ir import IndexScope
from tirx_eq.layout import default_layout


def kernel_of(term, ranges):
    """C[t] = term(x[t], y[t], z[t]) for 32 threads, in int64."""
    scope = IndexScope()
    variables = {n: ir.Var(n, ir.PrimType("int64")) for n in ranges}
    named = {scope.name(v, ranges[n]): n for n, v in variables.items()}
    assert all(a == b for a, b in named.items())
    t = ir.Var("t", ir.PrimType("int32"))
    buffers = {n: ir.make_buffer(n.upper(), (32,), "int64", layout=default_layout((32,))) for n in ranges}
    out = ir.make_buffer("OUT", (32,), "int64", layout=default_layout((32,)))
    body = ir.seq(
        [
            ir.ScopeIdDefStmt(ir.ScopeIdDef((t,), (ir.const(32),), "cta", "thread")),
            *(ir.Bind(v, ir.BufferLoad(buffers[n], (t,))) for n, v in variables.items()),
            ir.BufferStore(out, ir.cast("int64", scope.expr(term, "int64")), (t,)),
        ]
    )
    params = {ir.Var(f"{b.name}_handle", b.data.ty): b for b in (*buffers.values(), out)}
    return ir.PrimFunc(tuple(params), params, body)


@settings(max_examples=120, deadline=None)
@given(te.strategies.index_exprs(), st.integers(0, 2**32 - 1))
def test_terms_have_their_exact_values(drawn, seed):
    term, ranges = drawn
    rng = np.random.default_rng(seed)
    points = {n: rng.integers(low, high + 1, 32) for n, (low, high) in ranges.items()}
    want = [int(evaluate(term, {n: int(p[k]) for n, p in points.items()})) for k in range(32)]
    if max(map(abs, want)) >= 1 << 40:
        reject()  # what leads there may be beyond 64 bits
    try:
        found = interpret(kernel_of(term, ranges), *points.values(), np.zeros(32, np.int64))
    except InterpreterError as error:
        assert "beyond 64 bits" in error.message
        reject()
    assert found["OUT"].tolist() == want
