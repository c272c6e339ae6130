"""Layouts: where each element of a buffer is, as data with one meaning.

A :class:`Layout` maps a flat index to a set of coordinates on named axes.  ``TileLayout`` is digits times strides plus
copies plus an offset, ``SwizzleLayout`` an XOR of address bits, ``ComposeLayout`` the second after the first::

    TileLayout(S[(128, 64) : (1 @ TLane, 1 @ TCol)])
    ComposeLayout(3, 3, 3, TileLayout(S[(128, 2, 64) : (64, 8192, 1)]))

Modules: ``axis``, ``notation``, ``tile``, ``swizzle``, ``compose`` (the data); ``grouping``, ``slicing``, ``algebra``,
``image``, ``normal`` (operations); ``hardware`` (tcgen05 and shared-memory layouts), ``conflicts`` (banks), ``draw``.
"""

from .axis import (
    AXES,
    Axis,
    Bank,
    F,
    OnAxis,
    P,
    TCol,
    TLane,
    bx,
    by,
    bz,
    cbx,
    cby,
    cbz,
    laneid,
    m,
    tid_in_wg,
    tx,
    warpid,
    wgid,
    wid_in_wg,
)
from .base import Layout
from .compose import ComposeLayout
from .hardware import (
    SwizzleMode,
    mma_atom_layout,
    mma_atom_shape,
    mma_padded_layout,
    mma_shared_layout,
    tcgen05_atom_layout,
    tmem_datapath_layout,
    tmem_mma_operand_layout,
    wg_local_layout,
)
from .notation import R, S, Spec
from .open import OpenLayout, auto, is_open
from .spec import from_json
from .swizzle import SwizzleLayout
from .tile import Iter, TileLayout, default_layout

__all__ = [
    "AXES", "Axis", "Bank", "ComposeLayout", "F", "Iter", "Layout", "OnAxis", "OpenLayout", "P", "R", "S", "Spec",
    "SwizzleLayout", "SwizzleMode", "TCol", "TLane", "TileLayout", "auto", "bx", "by", "bz", "cbx", "cby", "cbz",
    "default_layout", "from_json", "is_open", "laneid", "m", "mma_atom_layout", "mma_atom_shape", "mma_padded_layout",
    "mma_shared_layout", "tcgen05_atom_layout", "tid_in_wg", "tmem_datapath_layout", "tmem_mma_operand_layout", "tx", "warpid",
    "wg_local_layout", "wgid", "wid_in_wg",
]  # fmt: skip
