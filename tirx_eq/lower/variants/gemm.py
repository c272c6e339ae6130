"""Matrix multiplication on the fifth-generation tensor core (PTX ISA 9.7.16, tcgen05.mma)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ...errors import LoweringError
from ...ir import Expr, IntImm, Var, cast, const
from ..code.shared import shared_address
from ..conditions.gemm import cta_group, instruction_descriptor, k_slices, kind_of, mma_shape
from ..conditions.scaled_gemm import Scales, scaled_descriptor, scales
from ..conditions.tmem_place import cells, first_column
from ..context import CallContext
from ..equations.mma import matrix_equation, stationary_equation
from ..machine import B200, Price
from ..program import Block, Index, Node, Operand, Pointer, Temp, instruction
from .base import Equation, Variant
from .issue import by_one_thread
from .tmem import tmem_base


def _descriptors(c: CallContext, name: str, nodes: list[Node]) -> list[Operand]:
    """Registers with the descriptors of a shared operand's K slices."""
    found = k_slices(c, name)
    if isinstance(found, str):
        raise LoweringError(found, span=c.span)
    temps: list[Operand] = []
    for piece in found:
        template = piece.descriptor.template
        # The start address fills the low 14 bits of the field, so it can be added: shared addresses are below 2^18.
        low = (shared_address() + c.resolve(piece.start)) // 16 + (template & 0xFFFFFFFF)
        temp = Temp("b64")
        nodes.append(instruction("mov.b64", temp, (Index(low), Index(const(template >> 32, "int64")))))
        temps.append(temp)
    return temps


def _tmem_slices(c: CallContext, base: Var) -> list[Operand]:
    """Addresses of A's K slices in tensor memory; one instruction takes 8 columns."""
    a, kind = c.operands["A"], kind_of(c)
    assert kind is not None
    first = first_column(c, a, int(cells(a, a.places(c.lowest()))[0].min()))
    columns = kind.k * kind.container(a.bits) // 32
    return [Pointer(base + (first + k * columns)) for k in range(mma_shape(c).k // kind.k)]


def _accumulator_column(c: CallContext) -> Expr | int:
    d = c.operands["C"]
    return first_column(c, d, int(cells(d, d.places(c.lowest()))[0].min()))


def emit_mma(c: CallContext, a_in_tmem: bool, form: str = "") -> Block:
    """One tcgen05.mma per slice of K; the first overwrites the accumulator unless ``accum`` is set."""
    kind = kind_of(c)
    assert kind is not None
    idesc = Temp("b32")
    nodes: list[Node] = [instruction("mov.b32", idesc, instruction_descriptor(c).encode())]
    left = _left(c, a_in_tmem, nodes)
    right = _descriptors(c, "B", nodes)
    load_base, base = tmem_base(c, c.operands["C"])
    nodes.append(load_base)
    at = Pointer(base + _accumulator_column(c))
    yes, first = _enables(c, nodes, len(left))
    opcode = f"tcgen05.mma{form}.cta_group::{cta_group(c)}.kind::{kind.name}"
    for k, (a, b) in enumerate(zip(left, right)):
        nodes.append(instruction(opcode, at, a, b, idesc, first if k == 0 else yes))
    return tuple(nodes)


def _left(c: CallContext, in_tmem: bool, nodes: list[Node]) -> list[Operand]:
    """The K slices of A: addresses in tensor memory, or descriptors."""
    if not in_tmem:
        return _descriptors(c, "A", nodes)
    load, base = tmem_base(c, c.operands["A"], "tmem_a")
    nodes.append(load)
    return _tmem_slices(c, base)


def emit_scaled(c: CallContext, a_in_tmem: bool) -> Block:
    """One instruction per slice of K, each with the columns of its scale factors, and their bytes in its descriptor."""
    kind = kind_of(c)
    assert kind is not None
    nodes: list[Node] = []
    left, right = _left(c, a_in_tmem, nodes), _descriptors(c, "B", nodes)
    bases = []
    for name in ("C", "SFA", "SFB"):
        load, base = tmem_base(c, c.operands[name], f"tmem_{name.lower()}")
        nodes.append(load)
        bases.append(base)
    d, a_base, b_base = bases
    at = Pointer(d + _accumulator_column(c))
    yes, first = _enables(c, nodes, len(left))
    opcode = f"tcgen05.mma.cta_group::{cta_group(c)}.kind::{kind.name}.block_scale.scale_vec::{kind.scales}X"
    factors = zip(_scales(c, "A"), _scales(c, "B"))
    for k, (a, b, (x, y)) in enumerate(zip(left, right, factors)):
        idesc = Temp("b32")
        nodes.append(instruction("mov.b32", idesc, scaled_descriptor(c, x, y).encode()))
        scales_at = (Pointer(a_base + x.column), Pointer(b_base + y.column))
        nodes.append(instruction(opcode, at, a, b, idesc, *scales_at, first if k == 0 else yes))
    return tuple(nodes)


def _scales(c: CallContext, name: str) -> list[Scales]:
    found = scales(c, name)
    if isinstance(found, str):
        raise LoweringError(found, span=c.span)
    return found


def _enables(c: CallContext, nodes: list[Node], count: int) -> tuple[Temp, Temp]:
    """Predicates: true, and whether the first instruction adds to what the accumulator holds."""
    accumulate = const(c.call.operand("accum"))
    yes, first = Temp("pred"), Temp("pred")
    if count > 1:
        nodes.append(instruction("setp.eq.u32", yes, 0, 0))
    if isinstance(accumulate, IntImm):
        nodes.append(instruction("setp.ne.u32", first, int(accumulate), 0))
    else:
        nodes.append(instruction("setp.ne.u32", first, Index(cast("int32", c.resolve(accumulate))), 0))
    return yes, first


def price_mma(c: CallContext, a_in_tmem: bool) -> Price:
    """Tensor-core cycles, or shared-memory bandwidth for the operands if that is more (128 bytes per cycle)."""
    kind, shape = kind_of(c), mma_shape(c)
    assert kind is not None
    rate = B200.mma_f16 * kind.k / 16  # the rate is per byte of operand row: 32 bytes of K take equal time
    math = 2 * shape.m * shape.n * shape.k / rate * max(1, 128 // shape.pair_m)  # fewer rows leave lanes idle
    a_bits, b_bits = (kind.container(c.operands[n].bits) for n in "AB")
    b_bytes = shape.n // cta_group(c) * shape.k * b_bits / 8
    a_bytes = 0 if a_in_tmem else shape.m * shape.k * a_bits / 8
    return Price(issue=3 * shape.k // kind.k + 6, tensor=max(math, (a_bytes + b_bytes) / B200.shared_bytes))


def price_stationary(c: CallContext, a_in_tmem: bool) -> Price:
    """B goes into a collector buffer before the rows of A stream past it; each instruction here fills buffer 0 anew, so the
    fill isn't hidden behind the products (the buffers: PTX ISA, tcgen05.mma.ws; that it isn't hidden is inferred)."""
    usual, shape = price_mma(c, a_in_tmem), mma_shape(c)
    fill = shape.n * shape.k * c.operands["B"].bits / 8 / B200.shared_bytes
    return replace(usual, tensor=usual.tensor + fill)


def _emit_stationary(c: CallContext, a_in_tmem: bool) -> Block:
    return emit_mma(c, a_in_tmem, ".ws")


#: Form of the instruction -> price, program (each of a call, and whether A is in tensor memory), config read, equation.
_FORMS: dict[str, tuple[Callable[..., Price], Callable[..., Block], tuple[str, ...], Equation]] = {
    "Scaled": (price_mma, emit_scaled, ("cta_group",), matrix_equation),
    "": (price_mma, emit_mma, ("cta_group", "weight_stationary"), matrix_equation),
    "Stationary": (price_stationary, _emit_stationary, ("cta_group", "weight_stationary"), stationary_equation),
}


def _variant(form: str, a_in_tmem: bool) -> Variant:
    price, emit, config, equation = _FORMS[form]
    node = f"Tcgen05Mma{form}{'Tmem' if a_in_tmem else ''}"
    return by_one_thread(
        Variant(node, (), lambda c, _: price(c, a_in_tmem), lambda c, _: emit(c, a_in_tmem), config, equation=equation)
    )


GEMMS = tuple(_variant(form, a_in_tmem) for form in _FORMS for a_in_tmem in (False, True))
