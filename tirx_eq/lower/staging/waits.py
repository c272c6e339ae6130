"""Waits for a word of global memory (``tirx.cuda.wait_until``), as loops that read it."""

from __future__ import annotations

from ...errors import LoweringError
from ...ir import (
    AllocBuffer,
    Buffer,
    BufferLoad,
    Call,
    Evaluate,
    Expr,
    IntImm,
    Not,
    Op,
    PointerType,
    PrimFunc,
    PrimType,
    Stmt,
    StmtMutator,
    StringImm,
    Var,
    While,
    const,
    post_order_visit,
)  # fmt: skip
from ...ir import dtype as dt
from ...ir.stmt import seq
from ..intrinsics.instruction import INSTRUCTION
from ..intrinsics.language import constant

WAIT = "tirx.cuda.wait_until"
_SCOPES = ("cta", "cluster", "gpu", "sys")


def expand_waits(func: PrimFunc) -> PrimFunc:
    """The function with each wait made of what it does.

    The word is read (relaxed, at the scope given) into the wait's scalar until the predicate holds, with pauses of
    ``backoff_ns`` between; then once more with acquire into a register that nobody reads, so that what the writers published
    before is seen, and the scalar keeps the value that the predicate accepted.
    """
    found = []
    post_order_visit(func.body, lambda n: found.append(n) if isinstance(n, Call) and n.op.name == WAIT else None)
    return _Waits().visit_prim_func(func) if found else func


class _Waits(StmtMutator):
    def __init__(self) -> None:
        self.count = 0

    def visit_evaluate(self, value: Evaluate) -> Stmt:
        call = value.value
        return self._wait(value, call) if isinstance(call, Call) and call.op.name == WAIT else value

    def _wait(self, s: Evaluate, call: Call) -> Stmt:
        dst, address, predicate, scope, space, kind, backoff = call.args
        if not isinstance(dst, BufferLoad) or dst.buffer.scope != "local":
            raise LoweringError("'wait_until' reads into a scalar of the thread, which its first argument must be", span=s.span)
        if constant(scope) not in _SCOPES or constant(space) != "global":
            raise LoweringError(
                f"'wait_until' waits in global memory at the scope of {', '.join(_SCOPES)}, not in {constant(space)} memory at "
                f"that of '{constant(scope)}'", hint="waits within a CTA or cluster are for mbarriers", span=s.span,
            )  # fmt: skip
        type_ = constant(kind) or f"b{dt.bits(dst.dtype)}"
        if type_ not in ("b32", "u32", "s32", "b64", "u64", "s64"):
            raise LoweringError(f"'wait_until' can't wait for a word of type '{type_}'", span=s.span)
        name = f"seen_{self.count}"
        self.count += 1
        seen = Buffer(Var(name, PointerType(PrimType(dst.dtype), "local")), dst.dtype, (const(1),), name=name)

        def load(order: str, to: Expr) -> Stmt:
            opcode = f"ld.{order}.{constant(scope)}.global.{type_}"
            args = (StringImm("ld"), StringImm(opcode), to, address, StringImm(""))
            return Evaluate(Call("void", Op.get(INSTRUCTION), args), span=s.span)

        body = [load("relaxed", dst)]
        if not (isinstance(backoff, IntImm) and backoff.value == 0):
            body.insert(0, Evaluate(Call("void", Op.get("tirx.cuda.nano_sleep"), (backoff,)), span=s.span))
        return seq((
            load("relaxed", dst), While(Not(predicate), seq(body), span=s.span),
            AllocBuffer(seen), load("acquire", BufferLoad(seen, (const(0),))),
        ))  # fmt: skip
