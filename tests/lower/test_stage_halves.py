"""Elements of 4 bits where instructions want pairs and there are none: odd numbers of them, odd places, other threads."""

from __future__ import annotations

import numpy as np
import pytest

from tirx_eq.interp.run import interpret
from tirx_eq.ir import dtype as dt
from tirx_eq.lower.candidates import NoCandidate
from tirx_eq.lower.kernel import compile_function

from .kernels import kernel

AXES = "from tirx_eq.layout import laneid, warpid, tx\n"
E2M1 = "float4_e2m1fn"
VALUES = (0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.5, -1, -1.5, -2, -3, -4, -6, -0.0)


def check(body: str, params: str, policies=("late",)):
    """The kernel computes what the interpreter does; what was chosen for its calls."""
    func = kernel(body, params, AXES)
    made = compile_function(func)
    made.assemble()
    given = []
    for k, p in enumerate(func.params):
        b = func.buffer_map[p]
        given.append(np.random.default_rng(k).choice(VALUES, b.const_shape()).astype(dt.numpy_dtype(b.dtype)))
    wanted = interpret(func, *given)
    for policy in policies:
        result = made.simulate(*given, policy=policy, seed=1)
        assert not result.faults, [str(f) for f in result.faults[:3]]
        for name, value in wanted.items():
            got = np.asarray(result.arrays[name]).astype(np.float64)
            np.testing.assert_array_equal(got, np.asarray(value).astype(np.float64))
            np.testing.assert_array_equal(np.signbit(got), np.signbit(np.asarray(value).astype(np.float64)))
    assert all(call.equation.status == "equal" for call in made.calls)
    return [k.choice.chosen.node for k in made.calls]


CAST_PARAMS = f'A: Tx.Buffer((64, 16), "{E2M1}"), B: Tx.Buffer((64, 16), "float32")'


def cast_kernel(statement: str, views: str = "") -> str:
    return f"""
t = Tx.thread_id([64])
a = Tx.alloc_local((16,), "{E2M1}")
b = Tx.alloc_local((16,), "float32")
Tx.copy(a[:], A[t, :])
Tx.copy(b[:], B[t, :])
{views}
{statement}
Tx.copy(B[t, :], b[:])
Tx.copy(A[t, :], a[:])
"""


VIEW = "v{0} = {0}.view(64, 16, layout=TileLayout(S[(64, 16):(1 @ tx, 1)]))\n"
ROWS = VIEW.format("a") + VIEW.format("b")
COLUMNS = ROWS.replace("64, 16", "16, 64").replace("(1 @ tx, 1)", "(1, 1 @ tx)")


@pytest.mark.parametrize(
    ("statement", "views"),
    [
        ("Tx.cast(b[0:5], a[0:5])", ""), ("Tx.cast(b[0:4], a[1:5])", ""), ("Tx.cast(b[2:3], a[3:4])", ""),
        ("Tx.cast(a[1:6], b[0:5])", ""), ("Tx.cast(a[3:11], b[0:8])", ""), ("Tx.cast(b[0:6], A[t, 1:7])", ""),
        ("Tx.select(a[1:6], a[2:7], a[0:5], lambda i: i % 2 == 0)", ""),
        ("Tx.cta.cast(vb[:, 1:8], va[:, 2:9])", ROWS), ("Tx.cta.cast(va[:, 3:4], vb[:, 0:1])", ROWS),
        ("Tx.cta.cast(vb[:, :], va[:, :])", COLUMNS),  # neighbours in other threads
        ("Tx.cta.select(va[:, :], va[:, :], va[:, :], lambda i, j: i < j)", COLUMNS),
    ],
)
def test_what_comes_in_no_pairs(statement, views):
    assert "Map" in {n[:3] for n in check(cast_kernel(statement, views), CAST_PARAMS)}


def test_a_store_of_half_a_byte_is_refused():
    with pytest.raises(NoCandidate, match="worked on in pairs"):
        check(cast_kernel("Tx.cast(A[t, 1:6], b[0:5])"), CAST_PARAMS)


COPY = "Tx.cta.copy(vb[:, :], va[:, :])"


def exchange_kernel(source: str, target: str, shape: str, call: str) -> str:
    return f"""
t = Tx.thread_id([128])
a = Tx.alloc_local((8,), "{E2M1}")
b = Tx.alloc_local((8,), "{E2M1}")
Tx.copy(a[:], A[t, :])
Tx.copy(b[:], B[t, :])
va = a.view({shape}, layout=TileLayout({source}))
vb = b.view({shape}, layout=TileLayout({target}))
{call}
Tx.copy(B[t, :], b[:])
"""


EXCHANGE_PARAMS = f'A: Tx.Buffer((128, 8), "{E2M1}"), B: Tx.Buffer((128, 8), "{E2M1}")'
LANES = "S[(32, 8):(1 @ laneid, 1)]"
OWN, TURNED = "S[(128, 8):(1 @ tx, 1)]", "S[(8, 16, 8):(1, 8 @ tx, 1 @ tx)]"


@pytest.mark.parametrize(
    ("source", "target", "shape", "call", "conversions"),
    [
        (OWN, TURNED, "128, 8", COPY, 2), (TURNED, OWN, "128, 8", COPY, 2),
        (OWN, "S[(2, 64, 8):(1 @ tx, 2 @ tx, 1)]", "128, 8", COPY, 0),  # whole bytes
        (LANES, "S[(8, 4, 8):(1, 8 @ laneid, 1 @ laneid)]", "32, 8", COPY.replace("cta", "warp"), 2),
        (OWN, TURNED, "128, 8", "Tx.cta.select(vb[:, :], va[:, :], vb[:, :], lambda i, j: i < j + 40)", 6),
    ],
)
def test_halves_of_bytes_change_threads(source, target, shape, call, conversions):
    nodes = check(exchange_kernel(source, target, shape, call), EXCHANGE_PARAMS, ("late", "random"))
    assert len([n for n in nodes if n.startswith("Map")]) == conversions
    assert {"Exchange", "ExchangeOnce", "Shuffle"} & set(nodes)


def test_all_values_of_e2m1_are_values_of_e4m3():
    narrow = np.array(VALUES, dtype=np.float32).astype(dt.numpy_dtype(E2M1))
    wide = narrow.astype(np.float32).astype(dt.numpy_dtype("float8_e4m3fn"))
    back = wide.astype(np.float32).astype(dt.numpy_dtype(E2M1))
    np.testing.assert_array_equal(back.view(np.uint8), narrow.view(np.uint8))
