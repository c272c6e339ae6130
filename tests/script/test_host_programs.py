"""Kernels that use Python around them: closures, functions, classes, specialisation, inline functions."""

import pytest

from tirx_eq import ir
from tirx_eq.errors import IRError, ParseError
from tirx_eq.script import tirx as Tx
from tirx_eq.script.lang import (
    ClusterPersistentScheduler2D,
    FlashAttentionLinearScheduler,
    MBarrier,
    Pipeline,
    PipelineState,
    WarpgroupRole,
    WarpRole,
)
from tirx_eq.script.tirx import tile as tile_namespace

WIDTH = 16


def statements(func):
    body = func.body.body if isinstance(func.body, ir.AttrStmt) else func.body
    return body.seq if isinstance(body, ir.SeqStmt) else (body,)


def equal(a, b):
    return ir.first_difference(a.without_attr("global_symbol"), b.without_attr("global_symbol"))


def test_closures_and_globals():
    def make(rows, dtype):
        shape = (rows, WIDTH)

        @Tx.prim_func
        def f(A: Tx.Buffer(shape, dtype)):
            A[rows - 1, WIDTH - 1] = 1.0

        return f

    f = make(4, "float16")
    (buffer,) = f.buffer_map.values()
    assert (buffer.const_shape(), buffer.dtype) == ((4, 16), "float16")
    assert [int(i) for i in f.body.indices] == [3, 15]


def test_decorator_with_arguments_sees_the_same_names():
    shape = (8,)

    @Tx.prim_func(private=True)
    def f(A: Tx.Buffer(shape, "int8")):
        A[0] = 1

    assert "global_symbol" not in f.attrs and f.name == "main"
    assert next(iter(f.buffer_map.values())).const_shape() == (8,)


def test_constants_of_the_ir_are_numbers_to_python():
    @Tx.prim_func
    def f(A: Tx.Buffer((2, 4), "int32")):
        values = Tx.meta_var([k * k for k in range(A.shape[1])])
        A[0, len(A.shape)] = values[A.shape[0]]

    assert int(f.body.value) == 4 and [int(i) for i in f.body.indices] == [0, 2]


def test_both_spellings_give_the_same():
    @Tx.prim_func
    def older(A: Tx.Buffer((64,), "float32"), B: Tx.Buffer((64,), "float32")):
        Tx.device_entry()
        tx = Tx.thread_id([32])
        Tx.tile.cta.copy(A, B)
        Tx.copy(A[0:4], B[0:4])
        Tx.tile.wg.copy_async(A, B)
        Tx.warpgroup.copy_async(A, B)
        A[tx] = Tx.exp(B[tx]) + Tx.max(A[tx], 0.0)
        Tx.exp(A[0:4], B[0:4])

    @Tx.prim_func
    def newer(A: Tx.Buffer((64,), "float32"), B: Tx.Buffer((64,), "float32")):
        Tx.device_entry()
        tx = Tx.thread_id([32])
        Tx.cta.copy(A, B)
        tile_namespace.thread.copy(A[0:4], B[0:4])
        tile_namespace.wg.copy_async(A, B)
        Tx.wg.copy_async(A, B)
        A[tx] = Tx.exp(B[tx]) + Tx.max(A[tx], 0.0)
        tile_namespace.exp(A[0:4], B[0:4])

    assert equal(older, newer) is None


@Tx.meta_class
class Ring:
    """A user's own class: slots in shared memory and a position."""

    def __init__(self, pool, slots):
        self.slots = slots
        self.data = pool.alloc((slots, 16), "float32")
        self.position = Tx.local_scalar("int32")

    @Tx.inline
    def put(self, value, times=1):
        for i in Tx.unroll(times):
            self.data[self.position, i] = value
        self.position = self.position + 1
        if self.position == self.slots:
            self.position = 0

    def first(self):
        return self.data[0:1, 0:8]


def scaled(x, k):
    return x * k + 1


def test_users_own_classes_and_functions():
    @Tx.prim_func
    def f(A: Tx.Buffer((64,), "float32")):
        Tx.device_entry()
        tx = Tx.thread_id([32])
        pool = Tx.SMEMPool()
        ring = Ring(pool, 4)
        ring.position = 0
        ring.put(A[tx], times=2)
        pool.commit()
        Tx.cta.fill(ring.first(), 0.0)
        A[scaled(tx, 2) % 64] = ring.data[0, 1]

    stmts = statements(f)
    names = [s.buffer.name for s in stmts if isinstance(s, (ir.AllocBuffer, ir.DeclBuffer))]
    assert names == ["pool_buf", "ring_data", "ring_position"]
    kinds = [type(s).__name__ for s in stmts]
    assert kinds.count("For") == 1 and kinds.count("IfThenElse") == 1 and kinds.count("TilePrimitiveCall") == 1
    assert isinstance(stmts[-1].indices[0], ir.FloorMod)


def test_inline_sees_names_defined_after_it():
    @Tx.inline
    def put(buffer, i):
        buffer[i] = later

    later = 3.0

    @Tx.prim_func
    def f(A: Tx.Buffer((4,), "float32")):
        put(A, 1)

    assert f.body.value == ir.FloatImm("float32", 3.0)


def test_specialisation():
    @Tx.jit
    def kernel(
        A: "Tx.Buffer((N, 4), 'float32')",  # noqa: F821
        extra: Tx.Optional(Tx.handle),
        *,
        N: Tx.constexpr,
        scale: Tx.constexpr = 2,
    ):
        if extra is not None:
            A[0, 0] = 1.0
        A[N - 1, 0] = Tx.float32(scale)

    small, large = kernel.specialize(N=2), kernel.specialize(N=8, scale=3, extra=None)
    assert kernel.specialize(N=2) is small
    assert [p.name for p in small.params] == ["A_handle", "extra"]
    assert [p.name for p in large.params] == ["A_handle"]
    assert int(large.body.indices[0]) == 7 and large.body.value.value == 3.0
    for bad in ({}, {"N": 2, "M": 3}, {"N": 2, "extra": 5}):
        with pytest.raises(ParseError):
            kernel.specialize(**bad)


def test_a_name_means_what_it_meant():
    @Tx.prim_func
    def f(A: Tx.Buffer((4,), "int32")):
        x: Tx.int32 = 1
        if A[0] > 0:
            x = 2
            y = 5
            A[1] = y
        y = 7
        A[2] = x + y

    scalars = [s for s in statements(f) if isinstance(s, ir.AllocBuffer)]
    assert [s.buffer.name for s in scalars] == ["x", "y"]
    inner = next(s for s in statements(f) if isinstance(s, ir.IfThenElse)).then_case.seq
    assert isinstance(inner[0], ir.BufferStore) and inner[0].buffer is scalars[0].buffer
    assert isinstance(inner[1], ir.AllocBuffer) and inner[1].buffer is not scalars[1].buffer


def test_python_conditions_decide_at_once():
    @Tx.prim_func
    def f(A: Tx.Buffer((4,), "int32")):
        if WIDTH > 8 and len("ab") == 2:
            A[0] = 1
        else:
            A[0] = 2
        A[1] = 3 if WIDTH == 16 else 4

    assert [int(s.value) for s in statements(f)] == [1, 3]


def test_comparisons_in_host_functions_are_not_taken_for_conditions():
    def guard(x):
        return Tx.If(x == 3)

    with pytest.raises(IRError, match="the Python value False"):

        @Tx.prim_func
        def f(n: Tx.int32):
            with guard(n):
                with Tx.Then():
                    Tx.evaluate(n)


def test_pipelines_and_roles():
    @Tx.prim_func
    def f(A: Tx.Buffer((64,), "float32")):
        Tx.device_entry()
        warp = Tx.warp_id([4])
        group = Tx.warpgroup_id([1])
        pool = Tx.SMEMPool()
        pipe = Pipeline(pool, 3, full="tma", empty="tcgen05", init_empty=2)
        bar = MBarrier(pool, 1)
        pool.commit()
        bar.init(4)
        state = PipelineState(3, 0)
        single = PipelineState(1, 1)
        with WarpRole(warp, 0, regs=48):
            pipe.empty.wait(state.stage, state.phase ^ 1)
            pipe.full.arrive(state.stage, 1024)
            state.advance()
        with WarpgroupRole(group, (0, 1), regs=232, increase=True):
            pipe.full.wait(state.stage, state.phase)
            pipe.empty.arrive(state.stage)
            single.advance()
            bar.arrive(0, remote=1)
            bar.remote_view(1).arrive(0)

    stmts = statements(f)
    first, second = [s for s in stmts if isinstance(s, ir.IfThenElse)][-2:]
    called = [s.value.op.short_name for s in first.then_case.seq if isinstance(s, ir.Evaluate)]
    assert called == ["setmaxnreg", "mbarrier_try_wait", "mbarrier_arrive_expect_tx"]
    called = [s.value.op.short_name for s in second.then_case.seq if isinstance(s, ir.Evaluate)]
    assert called == ["setmaxnreg", "mbarrier_try_wait", "tcgen05_commit", "mbarrier_arrive", "mbarrier_arrive"]
    assert isinstance(second.condition, ir.And)
    with pytest.raises(IRError, match="not a kind of barrier"):

        @Tx.prim_func
        def g():
            p = Pipeline(Tx.SMEMPool(), 2, full="other", empty="mbar")  # noqa: F841


def evaluate_schedule(func, cta, names, limit=200):
    """Run the scalar statements of a schedule kernel on numbers: the values of the buffers ``names`` per tile."""
    state: dict = {}
    out = []

    def value(e):
        if isinstance(e, ir.IntImm):
            return e.value
        if isinstance(e, ir.BufferLoad):
            return state[e.buffer]
        if isinstance(e, ir.Var):
            return state[e]
        if isinstance(e, ir.Call):
            return value(e.args[0]) & value(e.args[1])
        ops = {
            "Add": lambda a, b: a + b, "Sub": lambda a, b: a - b, "Mul": lambda a, b: a * b,
            "FloorDiv": lambda a, b: a // b, "FloorMod": lambda a, b: a % b, "LT": lambda a, b: a < b,
            "GT": lambda a, b: a > b,
        }  # fmt: skip
        return ops[type(e).__name__](value(e.a), value(e.b))

    def run(s):
        if isinstance(s, ir.SeqStmt):
            for x in s.seq:
                run(x)
        elif isinstance(s, ir.BufferStore):
            state[s.buffer] = value(s.value)
        elif isinstance(s, ir.Bind):
            state[s.var] = value(s.value)
        elif isinstance(s, ir.IfThenElse):
            if value(s.condition):
                run(s.then_case)
            elif s.else_case is not None:
                run(s.else_case)
        elif isinstance(s, ir.While):
            while value(s.condition) and len(out) < limit:
                run(s.body)
        elif isinstance(s, ir.ScopeIdDefStmt):
            state[s.definition.def_ids[0]] = cta
        elif isinstance(s, ir.Evaluate):
            by_name = {b.name: v for b, v in state.items() if isinstance(b, ir.Buffer)}
            out.append(tuple(by_name[n] for n in names))

    for s in statements(func):
        run(s)
    return out


@pytest.mark.parametrize(("rows", "cols", "group"), [(13, 7, 4), (8, 3, 8), (5, 5, 8), (16, 4, 2)])
def test_persistent_tiles_cover_the_matrix_once(rows, cols, group):
    clusters = 6

    @Tx.prim_func
    def f():
        Tx.device_entry()
        bx = Tx.cta_id([clusters])
        s = ClusterPersistentScheduler2D("s", rows, cols, clusters, l2_group_size=group)
        s.init(bx)
        while s.valid():
            Tx.evaluate(1)
            s.next_tile()

    tiles = [t for c in range(clusters) for t in evaluate_schedule(f, c, ("s_m_idx", "s_n_idx"))]
    assert sorted(tiles) == [(m, n) for m in range(rows) for n in range(cols)]


def test_attention_tasks_cover_everything_once():
    @Tx.prim_func
    def f():
        Tx.device_entry()
        bx = Tx.cta_id([5])
        s = FlashAttentionLinearScheduler("s", 2, 3, 4, 5)
        s.init(bx)
        while s.valid():
            Tx.evaluate(1)
            s.next_tile()

    names = ("s_batch_idx", "s_head_idx", "s_m_block_idx")
    tasks = [t for c in range(5) for t in evaluate_schedule(f, c, names)]
    assert sorted(tasks) == [(b, h, m) for b in range(2) for h in range(3) for m in range(4)]


def test_pools():
    @Tx.prim_func
    def f():
        pool = Tx.SMEMPool()
        a = pool.alloc((3,), "uint8")  # noqa: F841
        b = pool.alloc((4,), "float32", align=16)  # noqa: F841
        packed = pool.alloc((5,), "float4_e2m1fn")  # noqa: F841
        pool.move_base_to(100)
        c = pool.alloc((2,), "float16")  # noqa: F841
        tmem = Tx.TMEMPool(pool, 512)
        d = tmem.alloc((128, 64), "float16")  # noqa: F841
        e = tmem.alloc((64, 32), "float32")  # noqa: F841
        pool.commit()

    stmts = statements(f)
    offsets = {s.buffer.name: int(s.buffer.elem_offset) for s in stmts if isinstance(s, ir.DeclBuffer)}
    assert (offsets["a"], offsets["b"], offsets["packed"], offsets["c"]) == (0, 4, 64, 50)
    columns = {s.buffer.name: [int(x) for x in s.buffer.allocated_addr] for s in stmts if isinstance(s, ir.DeclBuffer)}
    assert (columns["d"], columns["e"]) == ([0], [32])
    assert stmts[-1].value == ir.IntImm("int64", 108)
    for text, message in [("tmem.alloc((128, 600))", "600 columns are needed"), ("tmem.dealloc()", "after commit")]:
        from tirx_eq.script import parse_source

        source = (
            "from tirx_eq.script import tirx as Tx\n@Tx.prim_func\ndef f():\n    pool = Tx.SMEMPool()\n"
            f"    tmem = Tx.TMEMPool(pool, 512)\n    {text}\n"
        )
        with pytest.raises(IRError, match=message):
            parse_source(source)


def test_spans_point_at_the_statement():
    @Tx.prim_func
    def f(A: Tx.Buffer((4,), "int32")):
        A[0] = 1

    assert f.body.span.file == __file__
    assert f.body.span.text.strip() == "A[0] = 1"


def test_operands_in_tensor_memory():
    @Tx.prim_func
    def f():
        pool = Tx.SMEMPool()
        tmem = Tx.TMEMPool(pool, 512)
        d = tmem.alloc_tcgen05_mma_D((64, 64), M=128, cta_group=2)  # noqa: F841
        a = tmem.alloc_tcgen05_mma_A((64, 32), "float16", M=128, cta_group=2)  # noqa: F841
        s = tmem.alloc_sf((128, 8), "float8_e8m0fnu", sf_per_mma=1, sf_reuse=4)  # noqa: F841

    buffers = {s.buffer.name: s.buffer for s in statements(f) if isinstance(s, ir.DeclBuffer)}
    assert buffers["d"].layout.at(10, 40, shape=(64, 64)) == {"TLane": 74, "TCol": 8}
    assert buffers["a"].layout.at(10, 5, shape=(64, 32)) == {"TLane": 10, "TCol": 5}
    scale = buffers["s"].layout
    # row 70 is the third group of 32 rows; four instructions in a row read the same factor
    assert [scale.at(70, k, shape=(128, 8)) for k in (0, 3)] == [{"TLane": 6, "TCol": 8}] * 2
    assert scale.at(70, 4, shape=(128, 8)) == {"TLane": 6, "TCol": 9}
    columns = [int(buffers[n].allocated_addr[0]) for n in ("d", "a", "s")]
    assert columns == [0, 32, 48]
    from tirx_eq.script import parse_source

    for call, message in [
        ("alloc_tcgen05_mma_D((128, 64), M=128, cta_group=2)", "has 64 rows a CTA"),
        ("alloc_tcgen05_mma_A((64, 64), M=64, cta_group=1, ws=True)", "datapath E is not available"),
        ("alloc_sf((100, 8), 'uint8', sf_per_mma=1)", "rows a multiple of 32"),
    ]:
        text = (
            "from tirx_eq.script import tirx as Tx\n@Tx.prim_func\ndef f():\n"
            f"    tmem = Tx.TMEMPool(Tx.SMEMPool(), 512)\n    x = tmem.{call}\n"
        )
        with pytest.raises(IRError, match=message):
            parse_source(text)
