"""The tensor maps that a program uses: each is a parameter of the kernel, which the host encodes at the launch."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ..ir import Var, post_order_visit
from ..ptx.tensormap import TensorMap
from .names import fresh
from .program import Block, Box, Instruction, node_exprs, walk
from .storage import Storage


def used_maps(
    program: Block, storage: Storage, encoded: Mapping[Var, TensorMap], taken: Collection[str] = ()
) -> dict[TensorMap, str]:
    """The tensor maps of a program, each with the name of the parameter that brings it; none of them is ``taken``.

    A map is an operand of a copy, or the address of a variable that the host part of the function encodes (``encoded``) is
    taken: kernels that write their own maps begin with such a copy.
    """
    names: dict[TensorMap, str] = {}
    for root in storage.roots.values():
        if root.space == "param" and isinstance(root.address, Var) and root.address in encoded:
            _add(names, encoded[root.address], taken)
    for node in walk(program):
        for operand in node.operands if isinstance(node, Instruction) else ():
            if isinstance(operand, Box):
                _add(names, operand.map, taken)
        if encoded:
            for e in node_exprs(node):
                post_order_visit(e, lambda n: _add(names, encoded[n], taken) if isinstance(n, Var) and n in encoded else None)
    return names


def _add(names: dict[TensorMap, str], made: TensorMap, taken: Collection[str]) -> None:
    if made not in names:
        names[made] = fresh(f"{made.tensor}_map", {*names.values(), *taken})
