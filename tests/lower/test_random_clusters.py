# ruff: noqa: E501
"""Calls of clusters with operands spread at random, in the simulator against the interpreter.

``TIRX_EQ_EXPLORE=1`` takes other seeds each time.
"""

from __future__ import annotations

import os
import random

import numpy as np
import pytest

from tirx_eq.lower.candidates import NoCandidate
from tirx_eq.lower.kernel import compile_function

from .distributed_kernels import AXES, run
from .kernels import kernel

SEEDS = [random.randrange(1 << 30) for _ in range(60)] if os.environ.get("TIRX_EQ_EXPLORE") == "1" else [0, 12, 29, 45, 111, 150, 213, 264]
CLUSTERS = ((2,), (4,), (2, 2), (1, 2), (2, 1, 2), (4, 2))
THREADS, COLUMNS = 32, 8


def digits(rng: random.Random, cluster: tuple[int, ...]) -> list[tuple[str, int, str]]:
    """(where it goes, extent, stride on an axis) of the digits of a CTA's coordinates that a layout has."""
    found = []
    for axis, count in zip(("cbx", "cby", "cbz"), cluster):
        where = rng.choice(["rows", "columns", "rows", "copies", None])
        if where is None or count == 1:
            continue
        parts = [(count, 1)] if count == 2 or where == "copies" or rng.random() < 0.6 else [(2, 1), (count // 2, 2)]
        rng.shuffle(parts)
        found += [(where, extent, f"{stride} @ {axis}") for extent, stride in parts]
    rng.shuffle(found)
    return found


def layout(rng: random.Random, cluster: tuple[int, ...], rows: int, registers: bool) -> tuple[str, int] | None:
    """A layout of a tile, and the elements that a thread (or a CTA) has of it."""
    given = digits(rng, cluster)
    of = {w: [(e, s) for where, e, s in given if where == w] for w in ("rows", "columns", "copies")}
    inner, columns = (n // int(np.prod([e for e, _ in of[w]], dtype=int)) for n, w in ((rows, "rows"), (COLUMNS, "columns")))
    if inner % THREADS:
        return None
    mine = [(inner // THREADS, str(columns)), (THREADS, "1 @ tx")] if registers else [(inner, str(columns))]
    iters = [*of["rows"], *(i for i in mine if i[0] > 1), *of["columns"], (columns, "1")]

    def text(parts: list[tuple[int, str]]) -> str:
        return f"({', '.join(str(e) for e, _ in parts)},):({', '.join(s for _, s in parts)},)"

    return f"S[{text(iters)}]" + (f" + R[{text(of['copies'])}]" if of["copies"] else ""), columns * inner // (THREADS if registers else 1)


def program(seed: int) -> tuple[str, int]:
    """The statements of a kernel, and the rows of its tiles A, B and D."""
    rng = random.Random(seed)
    cluster = rng.choice(CLUSTERS)
    rows = min(256, 32 * int(np.prod(cluster)) * rng.choice([1, 2]))
    extents, ids = ", ".join(map(str, cluster)), len(cluster)
    lines = [f"{', '.join('ijk'[:ids])} = Tx.cta_id_in_cluster([{extents}])", f"{', '.join('fgh'[:ids])} = Tx.cta_id([{extents}])",
             f"t = Tx.thread_id([{THREADS}])"]  # fmt: skip

    def operand(name: str) -> str:
        registers = rng.random() < 0.5
        found = None if rng.random() < 0.2 else layout(rng, cluster, rows, registers)
        if found is None:
            return name
        spread, size = found
        if registers:
            lines.append(f'r{name} = Tx.alloc_local(({size},), "float32")')
            lines.append(f"v{name} = r{name}.view({rows}, {COLUMNS}, layout=TileLayout({spread}))")
        else:
            lines.append(f'v{name} = Tx.alloc_shared(({rows}, {COLUMNS}), "float32", layout=TileLayout({spread}))')
        return f"v{name}"

    a, b, d = (operand(n) for n in "ABD")
    lines += [f"Tx.cluster.copy({v}[:, :], {n}[:, :])" for v, n in ((a, "A"), (b, "B"), (d, "D")) if v != n]
    part = rng.choice([f"0:{rows}", f"0:{rows}", f"{rows // 2}:{rows}"])
    call = rng.choice([
        f"add({d}[{part}, :], {a}[{part}, :], {b}[{part}, :])", f"copy({d}[{part}, :], {a}[{part}, :])",
        f"select({d}[{part}, :], {a}[{part}, :], {b}[{part}, :], lambda i, j: (i * 5 + j) % 7 < 3)",
        f"sum(D[0, :], {a}[{part}, :], axes=0)", f"max({d}[{part}, 0], {a}[{part}, :])", f"sum(D[0, 0:1], {a}[{part}, :], axes=[0, 1])",
    ])  # fmt: skip
    lines += ["Tx.cuda.cluster_sync()", f"Tx.cluster.{call}", "Tx.cuda.cluster_sync()"]
    return "\n".join(lines + ([f"Tx.cluster.copy(D[:, :], {d}[:, :])"] if d != "D" and "D[0" not in call else [])), rows


@pytest.mark.parametrize("seed", SEEDS)
def test_operands_spread_at_random(seed):
    text, rows = program(seed)
    func = kernel(text, ", ".join(f'{n}: Tx.Buffer(({rows}, {COLUMNS}), "float32")' for n in "ABD"), AXES)
    given = [np.random.default_rng(seed + k).integers(1, 9, (rows, COLUMNS)).astype(np.float32) for k in range(3)]
    try:
        compile_function(func)
    except NoCandidate as error:  # one CTA of several would have to store, or a CTA's own call isn't lowered
        assert "CTAs hold a value of one element" in str(error) or "at cta scope" in str(error), error
        return
    run(func, given, ["random"])
