"""Code for values of several lanes in registers: singly, or two lanes in one register, each form made when first asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from ...ir import dtype as dt
from ...ir.rounding import round_to
from ..program import Instruction, Node, Operand, Routine, Temp, Word, instruction
from .recipes import CASTS, PAIR, ROUTINES, SINGLE, cast_path, parse_recipe, recipe

#: Where lane k (of the pair k) of a result shall go, or None for a new register.
Into = Callable[[int], Operand | None]


def nowhere(_: int) -> Operand | None:
    return None


@dataclass(eq=False)
class Lanes:
    """``count`` values of one dtype; lane k is in ``singles[k]`` or half of ``pairs[k // 2]``.

    ``filled`` is a 32-bit register full of the value, where it is the same in all lanes and has no register of its own.
    """

    dtype: str
    count: int
    nodes: list[Node]
    singles: list[Operand | None] = field(default_factory=list)
    pairs: list[Operand | None] = field(default_factory=list)
    filled: Operand | None = None

    def __post_init__(self) -> None:
        self.singles += [None] * (self.count - len(self.singles))
        self.pairs += [None] * (self.count // 2 - len(self.pairs))

    @property
    def bits(self) -> int:
        return dt.storage_bits(self.dtype)

    def emit(self, opcode: str, *operands: Operand) -> None:
        self.nodes.append(instruction(opcode, *operands))

    def single(self, k: int) -> Operand:
        """The register (or number) of lane k."""
        found = self.singles[k]
        if found is None:
            self._split(k // 2)
            found = self.singles[k]
            assert found is not None
        return found

    def pair(self, k: int) -> Operand:
        """The register of lanes 2k and 2k + 1."""
        found = self.pairs[k]
        if found is None:
            found = self.pairs[k] = self._join(k)
        return found

    def _split(self, k: int) -> None:
        whole = self.pairs[k]
        assert whole is not None
        if self.bits == 8:
            high = Temp("b16")
            self.emit("shr.b16", high, whole, 8)
            self.singles[2 * k : 2 * k + 2] = [whole, high]
            return
        low, high = Temp(SINGLE[self.bits]), Temp(SINGLE[self.bits])
        self.emit(f"mov.{PAIR[self.bits]}", (low, high), whole)
        self.singles[2 * k : 2 * k + 2] = [low, high]

    def _join(self, k: int) -> Operand:
        low, high = self._register(self.single(2 * k)), self._register(self.single(2 * k + 1))
        whole = Temp(PAIR[self.bits])
        if self.bits == 8:
            a, b = Temp("b16"), Temp("b16")
            self.emit("and.b16", a, low, 0xFF)
            self.emit("shl.b16", b, high, 8)
            self.emit("or.b16", whole, a, b)
        else:
            self.emit(f"mov.{PAIR[self.bits]}", whole, (low, high))
        return whole

    def _register(self, value: Operand) -> Operand:
        """The value in a register, if it is a number."""
        if not isinstance(value, (int, float)):
            return value
        register = Temp(SINGLE[self.bits])
        self.emit(f"mov.f{self.bits}" if isinstance(value, float) else f"mov.{SINGLE[self.bits]}", register, value)
        return register

    def set_word(self, first: int, word: Operand) -> None:
        """The lanes of 4 bits from ``first`` on, up to eight, are those in a 32-bit register."""
        pairs = tuple(Temp("b8") for _ in range(4))
        self.emit("mov.b32", pairs, word)
        count = min(4, (self.count - first) // 2)
        self.pairs[first // 2 : first // 2 + count] = pairs[:count]

    def word(self, first: int) -> Operand:
        """A 32-bit register with the lanes from ``first`` on that fill it; of 4 bits there may be fewer."""
        if self.filled is not None:
            return self.filled
        if self.bits == 32:
            return self.single(first)
        if self.bits == 16:
            return self.pair(first // 2)
        whole = Temp("b32")
        last = self.count // 2 - 1
        self.emit("mov.b32", whole, tuple(self.pair(min(first // 2 + k, last)) for k in range(32 // (2 * self.bits))))
        return whole


def run_recipe(text: str, dtype: str, inputs: dict[str, Operand], outputs: dict[str, Operand]) -> list[Instruction]:
    """A recipe's instructions; ``inputs`` and ``outputs`` say what its names stand for, temporaries are of ``dtype``."""
    known: dict[str, Operand] = {**inputs, **outputs}

    def operand(o: str | int | float | tuple[str, ...]) -> Operand:
        if isinstance(o, tuple):
            return tuple("|" if name == "_" else operand(name) for name in o)
        if not isinstance(o, str):
            return o
        name, _, kind = o.partition(":")
        if name not in known:
            known[name] = Temp(kind or SINGLE[dt.storage_bits(dtype)])
        return known[name]

    return [instruction(line.opcode, *(operand(o) for o in line.operands)) for line in parse_recipe(text)]


def _lane_names(names: str, values: Sequence[Lanes], k: int) -> dict[str, Operand]:
    return {n: v.single(k) for n, v in zip(names, values)}


def _pair_names(text: str, names: str, values: Sequence[Lanes], k: int) -> dict[str, Operand]:
    """The names that a recipe for two lanes uses: ``A`` for both in one register, ``a0`` and ``a1`` apart."""
    found: dict[str, Operand] = {}
    used = {o for line in parse_recipe(text) for o in line.operands if isinstance(o, str)}
    for n, v in zip(names, values):
        if n.upper() in used:
            found[n.upper()] = v.pair(k)
        for j in (0, 1):
            if f"{n}{j}" in used:
                found[f"{n}{j}"] = v.single(2 * k + j)
    return found


def _apply(
    one: str | None, two: str | None, values: Sequence[Lanes], target: str, work: str, into: Into, into_pair: Into,
    routine: str = "",
) -> Lanes:  # fmt: skip
    """Run the recipe for two lanes where there is one, else that for one lane; ``routine``: the function that it is, if it is
    to be taken as a whole."""
    first = values[0]
    result = Lanes(target, first.count, first.nodes)
    for k in range(first.count // 2 if two is not None else 0):
        assert two is not None
        if "d0" in two:
            outputs: dict[str, Operand] = {f"d{j}": into(2 * k + j) or Temp(SINGLE[result.bits]) for j in (0, 1)}
            result.singles[2 * k : 2 * k + 2] = list(outputs.values())
        else:
            outputs = {"D": into_pair(k) or Temp(PAIR[result.bits])}
            result.pairs[k] = outputs["D"]
        body = run_recipe(two, work, _pair_names(two, "abc", values, k), outputs)
        if routine:
            both = (first.single(2 * k), first.single(2 * k + 1))
            first.nodes.append(Routine(routine, first.dtype, target, outputs["D"], both, tuple(body)))
        else:
            first.nodes += body
    if two is None:
        assert one is not None
        for k in range(first.count):
            result.singles[k] = into(k) or Temp(SINGLE[result.bits])
            inputs = _lane_names("abc", values, k)
            made = result.singles[k]
            assert made is not None
            body = run_recipe(one, work, inputs, {"d": made})
            if routine:
                first.nodes.append(Routine(routine, first.dtype, target, made, tuple(inputs.values()), tuple(body)))
            else:
                first.nodes += body
    return result


def convert(v: Lanes, target: str, packed: bool, into: Into = nowhere, into_pair: Into = nowhere) -> Lanes:
    """The values in another dtype."""
    path = cast_path(v.dtype, target)
    assert path is not None
    for source, step in pairwise(path):
        last = step == target
        one, two = CASTS.get((source, step, 1)), CASTS.get((source, step, 2))
        two = two if (packed or one is None) and v.count % 2 == 0 else None
        wide = source if dt.bits(source) > dt.bits(step) else step
        whole = "cast" if (source, step) in ROUTINES else ""
        v = _apply(one, two, [v], step, wide, into if last else nowhere, into_pair if last else nowhere, whole)
    return v


def compute(
    op: str, values: Sequence[Lanes], packed: bool, into: Into = nowhere, into_pair: Into = nowhere, result: str | None = None,
    argument: str = "float32", upwards: bool = False,
) -> Lanes:  # fmt: skip
    """An arithmetic operation on values of one dtype; ``result``: the dtype that the result is rounded to, if that is known;
    ``argument``: one that the first operand is a number of; ``upwards``: sums are rounded up, as what follows will be."""
    dtype, count = values[0].dtype, values[0].count
    two = recipe(op, dtype, 2) if packed and count % 2 == 0 else None
    one = recipe(op, dtype, 1, result, argument)
    if upwards and op in ("add", "fma"):
        one, two = (text and text.replace(".rn.", ".rp.") for text in (one, two))
    whole = op if (op, dtype) in ROUTINES else ""
    return _apply(one, two, values, dtype, dtype, into, into_pair, whole)


def scalar_lanes(dtype: str, count: int, value: Operand, nodes: list[Node]) -> Lanes:
    """``count`` lanes that all are the value in one register."""
    made = Lanes(dtype, count, nodes, [value] * count)
    if count >= 2 and made.bits < 64:
        made.pairs = [made.pair(0)] * (count // 2)
    return made


def bits_of(dtype: str, value: float | int) -> int:
    """The bit pattern of a constant of ``dtype``, rounded to it as a conversion does."""
    import numpy as np

    width = max(8, dt.storage_bits(dtype))
    given = np.asarray([value])
    array = round_to(given.astype(np.float64), dtype) if dt.is_float(dtype) else given.astype(dt.numpy_dtype(dtype))
    return int(array.view(f"u{width // 8}")[0])


__all__ = ["Lanes", "Word", "bits_of", "compute", "convert", "nowhere", "scalar_lanes"]
