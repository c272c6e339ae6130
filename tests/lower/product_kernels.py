"""Kernels that multiply matrices in registers, held as the fragments of mma.sync."""

from __future__ import annotations

from tirx_eq.ir import PrimFunc
from tirx_eq.ir import dtype as dt

from .kernels import kernel

AXES = "from tirx_eq.layout import laneid, warpid, wid_in_wg\n"
#: Scope -> the axis of its warps, and how many there are in 128 threads.
WARPS = {"warp": ("", 1), "wg": ("wid_in_wg", 4), "cta": ("warpid", 4)}
Iters = list[tuple[int, str]]


def _layout(first: Iters, second: Iters, copies: str = "") -> str:
    """A layout from the iterators of both dimensions, those of extent 1 left out."""
    iters = [(e, s) for e, s in (*first, *second) if e != 1]
    return f"S[({', '.join(str(e) for e, _ in iters)}):({', '.join(s for _, s in iters)})]{copies}"


def fragments(
    m: int, n: int, k: int, dtype: str, scope: str, transposed: tuple[bool, bool] = (False, False)
) -> dict[str, tuple[str, int]]:
    """Layouts of A, B and D (and C) with their registers per thread; warps share out the rows."""
    axis, warps = WARPS[scope]
    per = max(1, 32 // dt.bits(dtype))
    rows, slices, columns = m // warps // 16, k // (4 * per), n // 8
    split = [(warps, f"1 @ {axis}")] if axis else []
    copies = f" + R[{warps}:1 @ {axis}]" if axis else ""
    a_row = [*split, (rows, f"{slices * 2 * per}"), (2, f"{per}"), (8, "4 @ laneid")]
    a_depth = [(slices, f"{2 * per}"), (4, "1 @ laneid"), (per, "1")]
    b_depth = [(slices, f"{per}"), (4, "1 @ laneid"), (per, "1")]
    b_column = [(columns, f"{slices * per}"), (8, "4 @ laneid")]
    d_row = [*split, (rows, f"{columns * 4}"), (2, "2"), (8, "4 @ laneid")]
    d_column = [(columns, "4"), (4, "1 @ laneid"), (2, "1")]
    a = (a_depth, a_row) if transposed[0] else (a_row, a_depth)
    b = (b_column, b_depth) if transposed[1] else (b_depth, b_column)
    return {
        "A": (_layout(*a), rows * slices * 2 * per), "B": (_layout(*b, copies=copies), columns * slices * per),
        "D": (_layout(d_row, d_column), rows * columns * 4),
    }  # fmt: skip


def register_product(
    shape: tuple[int, int, int], dtypes: tuple[str, str, str], scope: str = "warp",
    transposed: tuple[bool, bool] = (False, False), beta: float | str = 1.0, alpha: float | str = 1.0, in_place: bool = True,
    scalars: str = "", config: str = "",
) -> PrimFunc:  # fmt: skip
    """D = alpha * A·B + beta * C with everything in registers; 128 threads, of which a warp works at warp scope.

    ``alpha`` and ``beta`` may be expressions of the parameters ``scalars``.
    """
    m, n, k = shape
    a, b, d = dtypes
    where = fragments(m, n, k, a, scope, transposed)
    sizes = {"A": (k, m) if transposed[0] else (m, k), "B": (n, k) if transposed[1] else (k, n), "C": (m, n), "D": (m, n)}
    guard = "if w == 0:\n    " if scope == "warp" else ""
    lines = ["tid = Tx.thread_id([128])", "w = Tx.warp_id([4])"]
    for name, dtype in (("A", a), ("B", b), ("C", d), ("D", d)):
        layout, count = where["D" if name == "C" else name]
        rows, columns = sizes[name]
        lines.append(f'r{name} = Tx.alloc_local(({count},), "{dtype}")')
        lines.append(f"{name.lower()} = r{name}.view({rows}, {columns}, layout=TileLayout({layout}))")
        if name != "D":
            lines.append(f"{guard}Tx.{scope}.copy({name.lower()}[:, :], {name}[:, :])")
    out = "c" if in_place else "d"
    rest = f"{transposed[0]}, {transposed[1]}, {alpha}, {beta}{config}"
    lines.append(f"{guard}Tx.{scope}.gemm({out}[:, :], a[:, :], b[:, :], c[:, :], {rest})")
    lines.append(f"{guard}Tx.{scope}.copy(D[:, :], {out}[:, :])")
    params = ", ".join(f'{x}: Tx.Buffer({sizes[x]}, "{t}")' for x, t in zip("ABCD", (a, b, d, d))) + scalars
    return kernel("\n".join(lines), params, AXES)
