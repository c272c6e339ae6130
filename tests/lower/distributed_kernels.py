# ruff: noqa: E501
"""Kernels of clusters whose CTAs have parts of the operands, and their execution."""

from __future__ import annotations

import numpy as np

from tirx_eq.interp.run import interpret
from tirx_eq.lower.kernel import compile_function

from .kernels import kernel

AXES = "from tirx_eq.layout import laneid, warpid, tx, cbx, cby, cbz\n"
#: Name -> shape of the cluster, and the digits of a row that name its CTA.
CLUSTERS = {
    "one": ((1,), "", ""), "two": ((2,), "2, ", "1 @ cbx, "), "four": ((4,), "4, ", "1 @ cbx, "),
    "four, swapped": ((4,), "2, 2, ", "1 @ cbx, 2 @ cbx, "), "two by two": ((2, 2), "2, 2, ", "1 @ cby, 1 @ cbx, "),
    "along y": ((1, 2), "2, ", "1 @ cby, "),
}  # fmt: skip
ROWS = 64  # of a CTA
HEAD = """
{ids} = Tx.cta_id_in_cluster([{extents}])
b = Tx.cta_id([{count}])
t = Tx.thread_id([{threads}])
w = Tx.warp_id([{threads} // 32])
"""
OPERANDS = """
d0 = Tx.alloc_local((8,), "float32")
e0 = Tx.alloc_local((1,), "float32")
a0 = Tx.alloc_local((8,), "float32")
h0 = Tx.alloc_local((8,), "float16")
d = d0.view({rows}, 8, layout=TileLayout(S[({digits}{own}, 8):({axes}1 @ tx, 1)]))
a = a0.view({rows}, 8, layout=TileLayout(S[({digits}{own}, 8):({axes}1 @ tx, 1)]))
h = h0.view({rows}, 8, layout=TileLayout(S[({digits}{own}, 8):({axes}1 @ tx, 1)]))
e = e0.view({rows}, 1, layout=TileLayout(S[({digits}{own}, 1):({axes}1 @ tx, 1)]))
s = Tx.alloc_shared(({rows}, 8), "float32", layout=TileLayout(S[({digits}{own}, 8):({axes}8, 1)]))
z = Tx.alloc_shared(({rows}, 8), "float32", layout=ComposeLayout(SwizzleLayout(2, 1, 3), TileLayout(S[({digits}{own}, 8):({axes}8, 1)])))
q = Tx.alloc_shared(({rows}, 8), "float32")
m = Tx.alloc_shared((8, 8), "float32")
"""
OUT, SYNC = "Tx.cluster.copy(D[:, :], d[:, :])", "Tx.cuda.cta_sync()"


def built(lines, cluster, threads=ROWS):
    """The kernel of some lines for a cluster, and its arguments."""
    shape, digits, axes = CLUSTERS[cluster]
    count = int(np.prod(shape))
    rows = ROWS * count if threads == ROWS else threads * count
    ids = ", ".join("ijk"[: len(shape)])
    head = HEAD.format(ids=ids, extents=", ".join(map(str, shape)), count=", ".join(map(str, shape)), threads=threads)
    head = head.replace("b = Tx.cta_id", f"{', '.join('fgh'[: len(shape)])} = Tx.cta_id")
    body = OPERANDS.format(rows=rows, own=rows // count, digits=digits, axes=axes) + "\n".join(lines).replace("{last}", str(rows - rows // count))
    shapes = {"A": (rows, 8), "B": (rows, 8), "C": (rows, 8), "W": (8, 8), "D": (rows, 8), "E": (rows, 1)}
    params = ", ".join(f'{n}: Tx.Buffer({s}, "float32")' for n, s in shapes.items())
    given = [np.random.default_rng(k).integers(1, 9, s).astype(np.float32) for k, s in enumerate(shapes.values())]
    return kernel(head + body, params, AXES), given


def run(func, given, policies=("late", "early", "random")):
    """Compile, assemble, simulate under several schedules, and compare with the interpreter."""
    made = compile_function(func)
    made.assemble()
    wanted = interpret(func, *given)
    for policy in policies:
        result = made.simulate(*given, policy=policy, seed=4)
        assert not result.faults, [str(f) for f in result.faults[:3]]
        for name, right in wanted.items():
            np.testing.assert_allclose(np.asarray(result.arrays[name]), np.asarray(right), rtol=2e-6, err_msg=name)
    assert all(call.equation.status == "equal" for call in made.calls)
    return made
