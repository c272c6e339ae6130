"""Matrices that a warp holds in registers: ldmatrix, stmatrix, mma.sync (PTX ISA 9.7.14)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir import Call
from . import values
from .collectives import warp_of
from .faults import InterpreterError
from .memory import Pointer
from .operands import named_operands, plain, pointer, read_at, text, write_at
from .registers import unpacked

if TYPE_CHECKING:
    from .machine import Machine

Array = Any
Handler = Callable[[Any, Call, Any], Any]


def _whole_warps(m: Machine, threads: Array, what: str) -> Array:
    first = warp_of(m, threads)
    if any(np.count_nonzero(first == w) != 32 for w in np.unique(first)):
        raise InterpreterError(f"{what} is reached by a part of a warp only")
    return first


def _move(store: bool) -> Handler:
    """8x8 matrices of 16-bit elements between rows in memory and registers; transposed, a thread has two of a column."""

    def apply(m: Machine, e: Call, threads: Array) -> None:
        given = named_operands(e)
        first = _whole_warps(m, threads, e.op.short_name)
        lane = m.wave.tid[threads] % 32
        address = pointer(m, given["smem_ptr"], threads)
        if text(given["dtype"]).lstrip(".") != "b16":
            raise InterpreterError(f"'{e.op.short_name}' of 8-bit elements has no meaning here")
        handles = given["src_handles" if store else "dst_handles"]
        turned = bool(plain(given["trans"]))
        for k, handle in enumerate(handles):
            register = pointer(m, handle, threads)
            for half in (0, 1):
                row, column = lane // 4, 2 * (lane % 4) + half
                if turned:
                    row, column = column, row
                giver = np.searchsorted(threads, first + 8 * k + row)
                place = Pointer(address.storage, address.rows[giver], address.byte[giver] + 2 * column)
                if store:
                    write_at(m, place, read_at(m, register.moved(2 * half), "uint16", threads), "uint16")
                else:
                    write_at(m, register.moved(2 * half), read_at(m, place, "uint16", threads), "uint16")

    return apply


def _multiply(m: Machine, e: Call, threads: Array) -> None:
    """``mma.sync.m16n8k{8,16}`` of halves (accumulated in float32 or halves): products exact, one rounding of the sum."""
    shape, _, _, d_type, a_type, b_type, _ = (text(x) for x in e.args[:7])
    counts = [int(plain(x)) for x in e.args[7:11]]
    bare = bool(plain(e.args[11]))
    names = {"float16": "f16", "bfloat16": "bf16", "fp16": "f16", "bf16": "bf16", "float32": "f32", "fp32": "f32"}
    a_name, d_name = names.get(a_type), names.get(d_type)
    if shape not in ("m16n8k16", "m16n8k8") or a_name not in ("f16", "bf16") or d_name != "f32" or a_type != b_type:
        raise InterpreterError(f"mma.{shape} of {a_type} into {d_type} has no meaning here")
    first, lane = _whole_warps(m, threads, "mma"), m.wave.tid[threads] % 32
    rest, groups = list(e.args[12:]), []
    for k, count in enumerate(counts):
        count = 0 if k == 3 and bare else count
        groups.append(rest[:count])
        rest = rest[count:]
    group, inside = lane // 4, lane % 4
    depth = int(shape.split("k")[1])
    read = lambda p: unpacked(read_at(m, pointer(m, p, threads), "uint32", threads), f"{a_name}x2")  # noqa: E731
    for w in np.unique(first):
        here = first == w
        a, b, c = np.zeros((16, depth)), np.zeros((depth, 8)), np.zeros((16, 8))
        for r, handle in enumerate(groups[1]):
            for half, value in enumerate(read(handle)):
                a[(group + 8 * (r % 2))[here], (2 * inside + half + 8 * (r // 2))[here]] = value[here]
        for r, handle in enumerate(groups[2]):
            for half, value in enumerate(read(handle)):
                b[(2 * inside + half + 8 * r)[here], group[here]] = value[here]
        for r, handle in enumerate(groups[3]):
            c[(group + 8 * (r // 2))[here], (2 * inside + r % 2)[here]] = read_at(
                m, pointer(m, handle, threads), "float32", threads)[here]  # fmt: skip
        total = values.round_to(a @ b + c, "float32")
        m.record.summed(depth + 1, np.sum(np.abs(a) @ np.abs(b)))
        for r, handle in enumerate(groups[0]):
            at = pointer(m, handle, threads)
            picked = total[(group + 8 * (r // 2))[here], (2 * inside + r % 2)[here]]
            write_at(m, Pointer(at.storage, at.rows[here], at.byte[here]), picked, "float32")


EFFECTS: dict[str, Handler] = {
    "tirx.ptx.ldmatrix": _move(False), "tirx.ptx.stmatrix": _move(True), "tirx.ptx.mma": _multiply,
}  # fmt: skip
#: Calls that the threads of a warp execute together.
TOGETHER = dict.fromkeys(EFFECTS, "warp")
