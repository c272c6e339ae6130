"""Pictures of layouts: SVG and HTML for notebooks, text for terminals.  No other program is needed.

A picture is a grid over a 2-D shape (leading dimensions are folded into rows).  Each cell shows the element's place and is
coloured by thread, warp, bank, atom or address; an element with copies has a marked corner and lists them all on hover.
Two layouts side by side mark the first element, in row-major order, whose places differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from colorsys import hls_to_rgb
from dataclasses import dataclass
from html import escape
from typing import Any

from ..errors import LayoutError
from ..ir import dtype as dt
from .axis import Axis
from .base import Layout
from .compose import ComposeLayout
from .image import image
from .swizzle import SwizzleLayout
from .tile import TileLayout
from .value import product_int

CELL_WIDTH, CELL_HEIGHT, MARGIN = 46, 22, 34
#: most rows and columns that are drawn; the rest is cut off with a note
MOST_ROWS, MOST_COLUMNS = 64, 64
_TEXT_ROWS, _TEXT_COLUMNS = 32, 16

#: what cells can be coloured by
COLOURS = ("auto", "thread", "warp", "bank", "atom", "address")


@dataclass(frozen=True)
class Cell:
    """One element: its coordinate, its places (base place first), and the number its colour stands for."""

    coord: tuple[int, ...]
    places: tuple[dict[str, int], ...]
    group: int

    @property
    def label(self) -> str:
        """Short text of the base place: threads and address."""
        at = self.places[0]
        short = {"laneid": "L", "warpid": "W", "tx": "T", "tid_in_wg": "t", "wid_in_wg": "w", "wgid": "G"}
        parts = [f"{short.get(a, a)}{v}" if a != "m" else str(v) for a, v in at.items()]
        return ":".join(parts) or "0"

    def describe(self, count: int = 8) -> str:
        """The coordinate and its places, for hovering."""
        shown = [", ".join(f"{a} = {v}" for a, v in p.items()) or "0" for p in self.places[:count]]
        more = f" and {len(self.places) - count} more" if len(self.places) > count else ""
        return f"({', '.join(map(str, self.coord))}) → {'; '.join(shown)}{more}"


@dataclass(frozen=True)
class Grid:
    """Cells by row and column, what was cut off, and what the colours mean."""

    rows: tuple[tuple[Cell, ...], ...]
    shape: tuple[int, ...]
    colour: str
    cut: bool


def default_shape(layout: Layout) -> tuple[int, int]:
    """A shape to draw a layout over: 2-D, cut where a digit starts, as near to square as that allows."""
    tile = layout.tile if isinstance(layout, ComposeLayout) else layout
    if isinstance(layout, SwizzleLayout):
        return layout.period >> (layout.per_element + layout.swizzle_len), 1 << (layout.per_element + layout.swizzle_len)
    assert isinstance(tile, TileLayout)
    if not tile.is_constant():
        raise LayoutError("a picture needs numbers for all extents, strides and offsets")
    size = int(tile.size())  # type: ignore[arg-type]
    columns, best = 1, (size, 1)
    for it in reversed(tile.shard):
        columns *= int(it.extent)  # type: ignore[arg-type]
        rows = size // columns
        if abs(rows - columns) < abs(best[0] - best[1]):
            best = (rows, columns)
    return best


def grid(
    layout: Layout,
    shape: Sequence[int] | None = None,
    *,
    colour: str = "auto",
    dtype: Any = "float16",
    most: tuple[int, int] = (MOST_ROWS, MOST_COLUMNS),
) -> Grid:
    """The cells of a layout over ``shape``; ``dtype`` is used for banks (4 bytes) and atoms (16 bytes).

    LayoutError for an unknown colour, a shape of another size, or a symbolic layout.
    """
    if colour not in COLOURS:
        raise LayoutError(f"colour '{colour}' is none of {', '.join(COLOURS)}")
    dims = tuple(shape) if shape is not None else default_shape(layout)
    total = product_int(dims)
    size = total if isinstance(layout, SwizzleLayout) else layout.size()
    if total != size:
        raise LayoutError(f"picture: a shape of {total} elements for a layout of {size}")
    columns = dims[-1] if dims else 1
    rows = total // columns
    chosen = _colour(layout) if colour == "auto" else colour
    _, bits, lanes = dt.parse(dt.normalize(dtype))
    made = []
    for r in range(min(rows, most[0])):
        row = []
        for c in range(min(columns, most[1])):
            flat = r * columns + c
            places = ordered_places(layout, flat, total)
            row.append(Cell(_coordinate(flat, dims), places, _group(places[0], chosen, bits * lanes)))
        made.append(tuple(row))
    return Grid(tuple(made), dims, chosen, rows > most[0] or columns > most[1])


def ordered_places(layout: Layout, flat: int, size: int) -> tuple[dict[str, int], ...]:
    """All places of an element, the base place first, the others in order."""
    base = dict(layout.at(flat))
    bare = tuple(sorted((a, v) for a, v in base.items() if v))
    others = sorted(image(layout, flat, size if isinstance(layout, SwizzleLayout) else None) - {bare})
    return (base, *({a: dict(p).get(a, 0) for a in base} for p in others))


def _coordinate(flat: int, dims: Sequence[int]) -> tuple[int, ...]:
    coord = []
    for extent in reversed(dims):
        flat, c = divmod(flat, extent)
        coord.append(c)
    return tuple(reversed(coord))


def _colour(layout: Layout) -> str:
    axes = layout.axes()
    if any(Axis.get(a).is_thread() for a in axes):
        return "thread"
    return "atom" if "m" in axes else "address"


def _group(at: dict[str, int], colour: str, bits: int) -> int:
    if colour == "thread":
        factors = {"laneid": 1, "tx": 1, "tid_in_wg": 1, "warpid": 32, "wid_in_wg": 32, "wgid": 128}
        return sum(factors.get(a, 1) * v for a, v in at.items() if Axis.get(a).is_thread())
    if colour == "warp":
        threads = _group(at, "thread", bits)
        return threads // 32
    address = at.get("m", at.get("TCol", 0))
    if colour == "bank":
        return address * bits // 32 % 32
    if colour == "atom":
        return address * bits // 128 % 8
    return at.get("TLane", address)


# -- SVG -------------------------------------------------------------------------------------------------------------


def _fill(group: int) -> str:
    """A colour per number; neighbours are far apart on the wheel, and text stays readable on all of them."""
    hue = group * 137 % 360
    light = 0.80 - 0.08 * (group // 8 % 3)
    # As numbers of red, green and blue: hsl() is known to browsers, not to every reader of SVG.
    red, green, blue = (round(255 * part) for part in hls_to_rgb(hue / 360, light, 0.65))
    return f"#{red:02x}{green:02x}{blue:02x}"


def svg(layout: Layout, shape: Sequence[int] | None = None, **options: Any) -> str:
    """A picture of one layout; options as for :func:`grid`."""
    made = grid(layout, shape, **options)
    body, width, height = _panel(made, 0, _title(layout), None)
    return _document(body, width, height)


def svg_pair(a: Layout, b: Layout, shape: Sequence[int] | None = None, **options: Any) -> str:
    """Two layouts of one size side by side, with the first element at which they differ marked in both."""
    dims = tuple(shape) if shape is not None else default_shape(b if isinstance(a, SwizzleLayout) else a)
    left, right = grid(a, dims, **options), grid(b, dims, **options)
    mark = first_difference(a, b, product_int(dims))
    coord = None if mark is None else _coordinate(mark, dims)
    one, width, height = _panel(left, 0, _title(a), coord)
    two, more, high = _panel(right, width + MARGIN, _title(b), coord)
    note = "equal" if mark is None else f"first difference at {coord}"
    text = f'<text x="{MARGIN}" y="{max(height, high) + 14}" class="n">{escape(note)}</text>'
    return _document(one + two + text, width + MARGIN + more, max(height, high) + 22)


def first_difference(a: Layout, b: Layout, size: int) -> int | None:
    """The first flat index whose sets of places differ; None if the layouts are equal."""
    import numpy as np

    if a.is_constant() and b.is_constant():
        from .digest import value_table

        (x, p, r), (y, q, s) = value_table(a, size), value_table(b, size)
        if p == q and r is None and s is None:
            differ = np.zeros(size, dtype=bool)
            for axis in {*x, *y}:
                differ |= x.get(axis, np.zeros(size, dtype=np.int64)) != y.get(axis, np.zeros(size, dtype=np.int64))
            return int(np.argmax(differ)) if differ.any() else None
    for flat in range(size):
        if image(a, flat, size if isinstance(a, SwizzleLayout) else None) != image(
            b, flat, size if isinstance(b, SwizzleLayout) else None
        ):
            return flat
    return None


def _title(layout: Layout) -> str:
    return layout.script(prefix="").replace("Axis.", "")


def _panel(made: Grid, left: int, title: str, mark: tuple[int, ...] | None) -> tuple[str, int, int]:
    """(SVG elements, width, height) of one grid whose left edge is at ``left``."""
    parts = [f'<text x="{left + MARGIN}" y="13" class="h">{escape(title)}</text>']
    columns = len(made.rows[0]) if made.rows else 0
    for c in range(columns):
        x = left + MARGIN + c * CELL_WIDTH + CELL_WIDTH // 2
        parts.append(f'<text x="{x}" y="{MARGIN - 5}" class="i">{c}</text>')
    for r, row in enumerate(made.rows):
        y = MARGIN + r * CELL_HEIGHT
        parts.append(f'<text x="{left + MARGIN - 6}" y="{y + 15}" class="r">{r}</text>')
        for c, cell in enumerate(row):
            x = left + MARGIN + c * CELL_WIDTH
            chosen = ' class="d"' if cell.coord == mark else ""
            parts.append(
                f'<g><title>{escape(cell.describe())}</title><rect x="{x}" y="{y}" width="{CELL_WIDTH}" '
                f'height="{CELL_HEIGHT}" fill="{_fill(cell.group)}"{chosen}/>'
                f'<text x="{x + CELL_WIDTH // 2}" y="{y + 15}" class="c">{escape(cell.label)}</text>'
            )
            if len(cell.places) > 1:
                parts.append(f'<path d="M{x + CELL_WIDTH - 8} {y} h8 v8 z" class="k"/>')
            parts.append("</g>")
    height = MARGIN + len(made.rows) * CELL_HEIGHT + 20
    note = f"coloured by {made.colour}" + (f"; cut off, the shape is {made.shape}" if made.cut else "")
    if any(len(cell.places) > 1 for row in made.rows for cell in row):
        note += "; a corner marks copies"
    parts.append(f'<text x="{left + MARGIN}" y="{height - 6}" class="n">{escape(note)}</text>')
    wide = max(columns * CELL_WIDTH, 7 * len(title), 6 * len(note))
    return "".join(parts), MARGIN + wide + 8, height


_STYLE = (
    "text{font-family:ui-monospace,Menlo,Consolas,monospace;fill:#111}"
    ".c{font-size:10px;text-anchor:middle}.i{font-size:10px;text-anchor:middle;fill:#666}"
    ".r{font-size:10px;text-anchor:end;fill:#666}.h{font-size:11px;font-weight:bold}.n{font-size:10px;fill:#555}"
    "rect{stroke:#fff;stroke-width:1}rect.d{stroke:#d00;stroke-width:3}.k{fill:#111}"
)


def _document(body: str, width: int, height: int) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
        f"<style>{_STYLE}</style><rect x=\"0\" y=\"0\" width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>{body}</svg>"
    )


def html(layout: Layout) -> str:
    """What a notebook shows: the picture, or the text alone if there is none (symbolic layouts)."""
    try:
        return f'<div style="overflow:auto;max-height:480px">{svg(layout)}</div>'
    except LayoutError:
        return f"<pre>{escape(layout.script())}</pre>"


# -- text ------------------------------------------------------------------------------------------------------------


def text(layout: Layout, shape: Sequence[int] | None = None, *, colours: bool = False, **options: Any) -> str:
    """The grid as text: one line per row, an element with copies followed by ``+``; ``colours`` uses terminal colours."""
    options.setdefault("most", (_TEXT_ROWS, _TEXT_COLUMNS))
    made = grid(layout, shape, **options)
    labels = [[cell.label + ("+" if len(cell.places) > 1 else "") for cell in row] for row in made.rows]
    width = max((len(label) for row in labels for label in row), default=1)
    side = len(str(len(labels) - 1)) if labels else 1
    lines = [_title(layout)]
    columns = len(labels[0]) if labels else 0
    lines.append(" " * side + " │ " + " ".join(str(c).rjust(width) for c in range(columns)))
    for r, (row, cells) in enumerate(zip(labels, made.rows)):
        shown = [
            f"\x1b[48;5;{_terminal(cell.group)}m\x1b[30m{label.rjust(width)}\x1b[0m" if colours else label.rjust(width)
            for label, cell in zip(row, cells)
        ]
        lines.append(str(r).rjust(side) + " │ " + " ".join(shown))
    if made.cut:
        lines.append(f"… cut off; the shape is {made.shape}")
    return "\n".join(lines)


def _terminal(group: int) -> int:
    """One of the 216 colours of a terminal, light ones only."""
    r, g, b = ((group * 137 // step) % 3 + 3 for step in (1, 3, 9))
    return 16 + 36 * r + 6 * g + b


def text_pair(a: Layout, b: Layout, shape: Sequence[int] | None = None, **options: Any) -> str:
    """Two layouts as text, one under the other, and the first element at which they differ with both places."""
    dims = tuple(shape) if shape is not None else default_shape(b if isinstance(a, SwizzleLayout) else a)
    size = product_int(dims)
    parts = [text(a, dims, **options), text(b, dims, **options)]
    mark = first_difference(a, b, size)
    if mark is None:
        return "\n\n".join([*parts, "equal"])
    at = _coordinate(mark, dims)
    left, right = (Cell(at, ordered_places(x, mark, size), 0).describe() for x in (a, b))
    return "\n\n".join([*parts, f"first difference:\n  {left}\n  {right}"])

