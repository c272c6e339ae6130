"""One instance of every node, and random functions, for the tests of the IR."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tirx_eq import ir
from tirx_eq.layout import S, TileLayout


def variables() -> dict[str, ir.Var]:
    """Variables that the samples use; the same names, new objects on each call."""
    return {
        "i": ir.Var("i"), "j": ir.Var("j"), "n": ir.Var("n"), "x": ir.Var("x", "float32"), "c": ir.Var("c", "bool"),
        "p": ir.Var("p", ir.PointerType(ir.PrimType("float32"), "global")),
    }  # fmt: skip


def a_buffer(name: str = "A", scope: str = "global", **more: Any) -> ir.Buffer:
    """An 8 x 4 buffer of float32."""
    return ir.make_buffer(name, (8, 4), "float32", scope, layout=TileLayout(S[(8, 4):(4, 1)]), **more)


def expr_samples() -> dict[type, ir.Expr]:
    """An instance of each expression node with operands that the node admits."""
    v = variables()
    i, j, x, c, buffer = v["i"], v["j"], v["x"], v["c"], a_buffer()
    arithmetic = (
        ir.Add, ir.Sub, ir.Mul, ir.Div, ir.Mod, ir.FloorDiv, ir.FloorMod, ir.Min, ir.Max,
        ir.EQ, ir.NE, ir.LT, ir.LE, ir.GT, ir.GE,
    )  # fmt: skip
    made: dict[type, ir.Expr] = {cls: cls(i, j) for cls in arithmetic}
    lhs, rhs = ir.Var("lhs", "float32"), ir.Var("rhs", "float32")
    reducer = ir.CommReducer((lhs,), (rhs,), (ir.Add(lhs, rhs),), (ir.FloatImm("float32", 0.0),))
    axis = ir.IterVar(ir.Range(ir.const(0), ir.const(8)), ir.Var("k"), "CommReduce")
    made |= {
        ir.Var: i,
        ir.IntImm: ir.IntImm("int32", 3),
        ir.FloatImm: ir.FloatImm("float32", 0.5),
        ir.StringImm: ir.StringImm("text"),
        ir.And: ir.And(c, ir.LT(i, j)),
        ir.Or: ir.Or(c, ir.LT(i, j)),
        ir.Not: ir.Not(c),
        ir.Select: ir.Select(c, i, j),
        ir.Cast: ir.Cast("int64", i),
        ir.Ramp: ir.Ramp(i, ir.const(1), 4),
        ir.Broadcast: ir.Broadcast(i, 4),
        ir.Shuffle: ir.Shuffle((ir.Broadcast(i, 2), ir.Broadcast(j, 2)), (ir.const(0), ir.const(2))),
        ir.Let: ir.Let(v["n"], i, ir.Add(v["n"], j)),
        ir.Call: ir.call("tirx.bitwise_and", "int32", i, j),
        ir.BufferLoad: ir.BufferLoad(buffer, (i, j)),
        ir.IterVar: ir.IterVar(ir.Range(ir.const(0), ir.const(8)), ir.Var("t"), "ThreadIndex", "threadIdx.x"),
        ir.Reduce: ir.Reduce(
            reducer, (ir.BufferLoad(buffer, (axis.var, j)),), (), (axis,), ir.IntImm("bool", 1), 0
        ),
        ir.Opaque: ir.Opaque("other.Node", (i, x), "Node(i, x)", "int32"),
    }  # fmt: skip
    return made


def stmt_samples() -> dict[type, ir.Stmt]:
    """An instance of each statement node."""
    v = variables()
    i, j, c = v["i"], v["j"], v["c"]
    buffer, view, local = a_buffer(), a_buffer("V"), a_buffer("L", "local")
    store = ir.BufferStore(buffer, ir.FloatImm("float32", 1.0), (i, j))
    ids = ir.ScopeIdDef((ir.Var("tx"),), (ir.const(128),), "cta", "thread")
    return {
        ir.SeqStmt: ir.SeqStmt((store, ir.Evaluate(i))),
        ir.Bind: ir.Bind(v["n"], ir.Add(i, j)),
        ir.AllocBuffer: ir.AllocBuffer(local, {"note": ir.const(1)}),
        ir.DeclBuffer: ir.DeclBuffer(view, view.data),
        ir.ScopeIdDefStmt: ir.ScopeIdDefStmt(ids),
        ir.AttrStmt: ir.AttrStmt(0, "tirx.device_entry", ir.IntImm("bool", 1), store),
        ir.For: ir.For(i, ir.const(0), ir.const(8), "serial", store, None, {"hint": 1}, ir.const(2)),
        ir.While: ir.While(c, store),
        ir.IfThenElse: ir.IfThenElse(c, store, ir.Evaluate(j)),
        ir.BufferStore: store,
        ir.Evaluate: ir.Evaluate(i),
        ir.AssertStmt: ir.AssertStmt(c, "ValueError", ("c must hold",)),
        ir.Break: ir.Break(),
        ir.Continue: ir.Continue(),
        ir.Return: ir.Return(i),
        ir.TilePrimitiveCall: ir.TilePrimitiveCall(
            ir.Op.get("tirx.tile.copy"), (local.full_region(), buffer[0:8, 0:4]), {"scratch": view},
            {"vec_len": 4}, "vec_128b", ir.ExecScope("cta"),
        ),
    }  # fmt: skip


def other_samples() -> dict[type, Any]:
    """Nodes that are neither expressions nor statements."""
    v = variables()
    buffer = a_buffer()
    return {
        ir.Range: ir.Range(v["i"], ir.const(4)),
        ir.Buffer: a_buffer("B", strides=(4, 1)),
        ir.BufferRegion: buffer[0:8, 1:3],
        ir.CommReducer: expr_samples()[ir.Reduce].combiner,  # type: ignore[attr-defined]
        ir.ScopeIdDef: ir.ScopeIdDef((ir.Var("w"), ir.Var("l")), (ir.const(4), ir.const(2)), "kernel", "cta"),
        ir.LambdaExpr: ir.LambdaExpr((v["i"],), ir.LT(v["i"], ir.const(2))),
        ir.PrimFunc: copy_kernel(),
    }


def copy_kernel(size: Any = 64, name: str = "copy") -> ir.PrimFunc:
    """``B[bx * 16 + tx] = A[bx * 16 + tx]`` over 4 CTAs of 16 threads, with a local in between."""
    a, b = ir.make_buffer("A", (size,), "float32"), ir.make_buffer("B", (size,), "float32")
    bx, tx = ir.Var("bx"), ir.Var("tx")
    local = ir.make_buffer("tmp", (1,), "float32", "local")
    place = bx * 16 + tx
    body = ir.SeqStmt((
        ir.ScopeIdDefStmt(ir.ScopeIdDef((bx,), (ir.const(4),), "kernel", "cta")),
        ir.ScopeIdDefStmt(ir.ScopeIdDef((tx,), (ir.const(16),), "cta", "thread")),
        ir.AllocBuffer(local),
        ir.BufferStore(local, ir.BufferLoad(a, (place,)), (ir.const(0),)),
        ir.BufferStore(b, ir.BufferLoad(local, (ir.const(0),)), (place,)),
    ))  # fmt: skip
    handles = tuple(ir.Var(f"{x.name}_handle", x.data.ty) for x in (a, b))
    entry = ir.AttrStmt(0, "tirx.device_entry", ir.IntImm("bool", 1), body)
    return ir.PrimFunc(handles, dict(zip(handles, (a, b))), entry, attrs={"global_symbol": name})


def index_exprs(names: list[ir.Var]) -> st.SearchStrategy[ir.Expr]:
    """int32 expressions over the variables, built by the folding operators."""
    leaves = st.sampled_from(names) | st.integers(-8, 64).map(ir.const)

    def grow(inner: st.SearchStrategy[ir.Expr]) -> st.SearchStrategy[ir.Expr]:
        pairs = st.tuples(inner, inner)
        return (
            pairs.map(lambda p: p[0] + p[1]) | pairs.map(lambda p: p[0] - p[1]) | pairs.map(lambda p: p[0] * p[1])
            | st.tuples(inner, st.integers(1, 9)).map(lambda p: p[0] // p[1])
            | st.tuples(inner, st.integers(1, 9)).map(lambda p: p[0] % p[1])
            | pairs.map(lambda p: p[0] & p[1]) | pairs.map(lambda p: ir.select(p[0] < p[1], p[0], p[1]))
        )  # fmt: skip

    return st.recursive(leaves, grow, max_leaves=8)


@st.composite
def functions(draw: Any) -> ir.PrimFunc:
    """Functions with nested loops, branches, declarations and tile calls over two global buffers."""
    n = ir.Var("n")
    shape = (draw(st.integers(1, 64)), n)
    params = [ir.make_buffer(name, shape, "int32") for name in ("A", "B")]

    def body(names: list[ir.Var], buffers: list[ir.Buffer], depth: int) -> ir.Stmt:
        stmts: list[ir.Stmt] = []
        names, buffers = list(names), list(buffers)
        for _ in range(draw(st.integers(1, 3))):
            kinds = ["store", "bind", "alloc", "view", "tile", "break"] + (["for", "if", "while"] if depth < 2 else [])
            kind = draw(st.sampled_from(kinds))
            exprs = index_exprs(names)
            target = draw(st.sampled_from(buffers))
            index = (draw(exprs), draw(exprs))
            if kind == "store":
                source = draw(st.sampled_from(buffers))
                stmts.append(ir.BufferStore(target, ir.BufferLoad(source, index) + draw(exprs), index))
            elif kind == "bind":
                var = ir.Var(draw(st.sampled_from("uvw")))
                stmts.append(ir.Bind(var, draw(exprs)))
                names.append(var)
            elif kind == "alloc":
                made = ir.make_buffer(draw(st.sampled_from("PQ")), (4, 8), "int32", "shared")
                stmts.append(ir.AllocBuffer(made, {"note": draw(st.integers(0, 3))}))
                buffers.append(made)
            elif kind == "view":
                view = ir.make_buffer("V", (8, 4), "int32", data=target.data, elem_offset=draw(exprs))
                stmts.append(ir.DeclBuffer(view, target.data))
                buffers.append(view)
            elif kind == "tile":
                region = target[index[0] : index[0] + 4, 0:4]
                source = draw(st.sampled_from(buffers))
                stmts.append(ir.TilePrimitiveCall(
                    ir.Op.get("tirx.tile.add"), (region, source[0:4, 0:4], draw(exprs)), {"w": source},
                    {"vec_len": draw(st.integers(1, 4))}, draw(st.sampled_from([None, "reg"])),
                    ir.ExecScope(draw(st.sampled_from(["warp", "cta"]))),
                ))  # fmt: skip
            elif kind == "for":
                var = ir.Var(draw(st.sampled_from("ijk")))
                stmts.append(ir.For(
                    var, ir.const(0), draw(exprs), draw(st.sampled_from(["serial", "unrolled"])),
                    body([*names, var], buffers, depth + 1),
                ))  # fmt: skip
            elif kind == "if":
                other = body(names, buffers, depth + 1) if draw(st.booleans()) else None
                stmts.append(ir.IfThenElse(draw(exprs) < draw(exprs), body(names, buffers, depth + 1), other))
            elif kind == "while":
                stmts.append(ir.While(draw(exprs) < draw(exprs), body(names, buffers, depth + 1)))
            else:
                stmts.append(ir.Break())
        return ir.stmt.seq(stmts)

    handles = tuple(ir.Var(f"{b.name}_handle", b.data.ty) for b in params)
    return ir.PrimFunc(
        (*handles, n), dict(zip(handles, params)), body([n], params, 0), attrs={"global_symbol": "f"}
    )


def renamed(func: ir.PrimFunc) -> ir.PrimFunc:
    """The function with every variable and every buffer made anew under another name."""
    variables: dict[ir.Var, ir.Var] = {}
    buffers: dict[ir.Buffer, ir.Buffer] = {}

    class Rename(ir.StmtMutator):
        def visit_var(self, value: ir.Var) -> ir.Var:
            return variables.setdefault(value, ir.Var(f"{value.name}_", value.ty))

        def visit_buffer(self, value: ir.Buffer) -> ir.Buffer:
            if value not in buffers:
                shape, strides, offset, address, data = (
                    self.visit(getattr(value, f)) for f in ("shape", "strides", "elem_offset", "allocated_addr", "data")
                )
                buffers[value] = ir.Buffer(
                    data, value.dtype, shape, strides, offset, f"{value.name}_", value.data_alignment,
                    value.offset_factor, value.layout, address,
                )  # fmt: skip
            return buffers[value]

    rename = Rename()
    params = tuple(rename.visit_var(p) for p in func.params)
    buffer_map = {rename.visit_var(v): rename.visit_buffer(b) for v, b in func.buffer_map.items()}
    return ir.PrimFunc(params, buffer_map, rename.visit(func.body), func.ret_type, dict(func.attrs))
