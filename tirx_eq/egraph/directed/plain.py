"""A piece as it stands, as a term."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.index import Term
from .. import encode
from ..pieces import Piece


def plain(piece: Piece, names: Sequence[str] | None = None) -> Term:
    """The term that a piece spells out, a sum with a multiple of -1 being a difference.

    Variables are called by ``names``, or by their numbers and ranges (``number:low:high``).
    """
    out: list[Term] = []
    for key in piece:
        op = key[0]
        if op == "V":
            out.append(names[key[1]] if names else f"{key[1]}:{key[2]}:{key[3]}")
        elif op == "K":
            out.append(key[1])
        elif op[-1] == "K":
            out.append(encode.decode(op, (out[key[1]], key[2])))
        elif op == "Add" and piece[key[2]][0] == "MulK" and piece[key[2]][2] == -1:
            out.append(("sub", out[key[1]], out[piece[key[2]][1]]))
        else:
            out.append(encode.decode(op, tuple([out[a] for a in key[1:]])))
    return out[-1]
