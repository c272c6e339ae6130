"""The IR of TIRx: nodes, operator registry, traversal, equality, JSON, passes.

Nodes are frozen dataclasses (design section 3); see ``expr``, ``stmt``, ``tile``, ``buffer`` and ``function``.
"""

from .arith import call, cast, const, select
from .buffer import Buffer, BufferRegion, make_buffer
from .exec_scope import ExecScope, ScopeIdDef
from .expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    CommReducer,
    Div,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    IterVar,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Opaque,
    Or,
    PointerType,
    PrimType,
    Ramp,
    Range,
    Reduce,
    Select,
    Shuffle,
    StringImm,
    Sub,
    TensorMapType,
    Var,
)
from .function import IRModule, PrimFunc, Target
from .functor import ExprMutator, ExprVisitor, StmtMutator, StmtVisitor, post_order_visit, substitute
from .op import Op, TilePrimitive
from .serial import load_json, save_json
from .stmt import (
    AllocBuffer,
    AssertStmt,
    AttrStmt,
    Bind,
    Break,
    BufferStore,
    Continue,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    Return,
    ScopeIdDefStmt,
    SeqStmt,
    Stmt,
    While,
    seq,
)
from .structural import first_difference, structural_equal, structural_hash
from .tile import LambdaExpr, TilePrimitiveCall
from .transform import PassContext, Sequential, prim_func_pass

__all__ = [
    "EQ", "GE", "GT", "LE", "LT", "NE", "Add", "AllocBuffer", "And", "AssertStmt", "AttrStmt", "Bind", "Break",
    "Broadcast", "Buffer", "BufferLoad", "BufferRegion", "BufferStore", "Call", "Cast", "CommReducer", "Continue",
    "DeclBuffer", "Div", "Evaluate", "ExecScope", "Expr", "ExprMutator", "ExprVisitor", "FloatImm", "FloorDiv",
    "FloorMod", "For", "IRModule", "IfThenElse", "IntImm", "IterVar", "LambdaExpr", "Let", "Max", "Min", "Mod",
    "Mul", "Not", "Op", "Opaque", "Or", "PassContext", "PointerType", "PrimFunc", "PrimType", "Ramp", "Range",
    "Reduce", "Return", "ScopeIdDef", "ScopeIdDefStmt", "Select", "SeqStmt", "Sequential", "Shuffle", "Stmt",
    "StmtMutator", "StmtVisitor", "StringImm", "Sub", "Target", "TensorMapType", "TilePrimitive",
    "TilePrimitiveCall", "Var", "While", "call", "cast", "const", "first_difference", "load_json", "make_buffer",
    "post_order_visit", "prim_func_pass", "save_json", "select", "seq", "structural_equal", "structural_hash",
    "substitute",
]  # fmt: skip
