"""The module builder: operand checks, control flow, text."""

from __future__ import annotations

import re

import pytest

from tirx_eq.errors import PtxError
from tirx_eq.ptx import ptxas
from tirx_eq.ptx.builder import Module, Param
from tirx_eq.ptx.operands import SINK, Address, Imm, Label, Pair, Reg, addr, special, tensor, vec

needs_ptxas = pytest.mark.skipif(ptxas.find_tool("ptxas") is None, reason="PTXAS IS NOT INSTALLED: nothing assembled")


@pytest.fixture
def k():
    return Module("sm_100a").kernel("k", [Param.pointer("x"), Param.scalar("n", "u32"), Param.tensor_map("tm")])


def test_scale_kernel_text():
    module = Module("sm_100a", "8.8")
    k = module.kernel("scale", [Param.pointer("x"), Param.scalar("n", "u32")], block=(256, 1, 1))
    tid = k.op("mov.u32", special("tid.x"))
    with k.if_(k.op("setp.lt.u32", tid, k.load_param("n"))):
        place = k.op("mad.wide.u32", tid, 4, k.op("cvta.to.global.u64", k.load_param("x")))
        k.emit("st.global.f32", addr(place), k.op("mul.f32", k.op("ld.global.f32", addr(place)), 2.0), comment="x *= 2")
    k.emit("ret")
    assert (
        module.text()
        == """\
.version 8.8
.target sm_100a
.address_size 64

.visible .entry scale(
    .param .u64 .ptr .global .align 16 x,
    .param .u32 n
)
.reqntid 256, 1, 1
{
    .reg .pred %p<1>;
    .reg .b32  %r<2>;
    .reg .b64  %rd<3>;
    .reg .f32  %f<2>;

    mov.u32 %r0, %tid.x;
    ld.param.b32 %r1, [n];
    setp.lt.u32 %p0, %r0, %r1;
    @!%p0 bra L_endif;
    ld.param.b64 %rd0, [x];
    cvta.to.global.u64 %rd1, %rd0;
    mad.wide.u32 %rd2, %r0, 4, %rd1;
    ld.global.f32 %f0, [%rd2];
    mul.f32 %f1, %f0, 0f40000000;
    st.global.f32 [%rd2], %f1;  // x *= 2
L_endif:
    ret;
}
"""
    )


REFUSED = [
    (lambda k: k.emit("add.s32", k.reg("b32"), k.reg("b64"), 1),
     r"operand 2 \(a\) is %rd0: a b64 register does not hold"),
    (lambda k: k.emit("add.s32", k.reg("f32"), 1, 2), "a f32 register does not hold a value of type .s32"),
    (lambda k: k.emit("add.f32", k.reg("f32"), k.reg("b64"), 1.0), "b64 register does not hold a value of type .f32"),
    (lambda k: k.emit("add.s32", 4, 1, 2), "a destination must be a register"),
    (lambda k: k.emit("add.s32", k.reg("b32"), 1 << 31, 0), "does not fit type .s32"),
    (lambda k: k.emit("add.u32", k.reg("b32"), 1 << 32, 0), "does not fit type .u32"),
    (lambda k: k.emit("add.u32", k.reg("b32"), 1.5, 0), "a floating-point immediate does not fit"),
    (lambda k: k.emit("add.f32", k.reg("f32"), 1e39, 0.0), "does not fit into f32"),
    (lambda k: k.emit("add.s32", k.reg("b32"), 1), r"2 operands given, the form takes \(d, a, b\)"),
    (lambda k: k.emit("add.s32", SINK, 1, 2), "the sink _ is not permitted"),
    (lambda k: k.emit("add.s32", k.reg("b32"), [1, 2], 3), "a single operand is needed, not a vector"),
    (lambda k: k.emit("add.f16x2", k.reg("b32"), k.reg("b32"), 1), "a register of type .f16x2 is needed"),
    (lambda k: k.emit("add.u32", k.reg("b32"), special("tid.x"), 1), "a special register can only be read by mov"),
    (lambda k: k.emit("mov.u32", k.reg("b32"), special("clock64")), "64-bit special register does not fit"),
    (lambda k: k.emit("st.global.v4.b32", addr(k.reg("b64")), k.regs("b32", 3)),
     "the vector has 3 elements, 4 are needed"),
    (lambda k: k.emit("st.global.v4.b32", addr(k.reg("b64")), k.reg("b32")), "a vector of 4 elements"),
    (lambda k: k.emit("st.global.b32", addr(k.reg("b32")), 0), "an address in .global is held in a b64 register"),
    (lambda k: k.emit("st.shared.b32", addr(k.reg("b64")), 0), "an address in .shared is held in a b32 register"),
    (lambda k: k.emit("st.shared.b32", k.reg("b32"), 0), "an address in brackets is needed"),
    (lambda k: k.emit("ld.global.b32", k.reg("b32"), addr(k.shared("s", 16))), "variable lies in .shared"),
    (lambda k: k.emit("ld.shared.b32", k.reg("b32"), addr(k.shared("s", 16), 16)), "offset 16 is outside the 16 bytes"),
    (lambda k: k.emit("lop3.b32", k.reg("b32"), 1, 2, 3, 256), "256 is outside 0..255"),
    (lambda k: k.emit("lop3.b32", k.reg("b32"), 1, 2, 3, k.reg("b32")), "an immediate is needed, not a register"),
    (lambda k: k.emit("tcgen05.alloc.cta_group::1.sync.aligned.b32", addr(k.reg("b64")), 96),
     "96 is not a power of two"),
    (lambda k: k.emit("tcgen05.alloc.cta_group::1.sync.aligned.b32", addr(k.reg("b64")), 1024),
     "1024 is outside 32..512"),
    (lambda k: k.emit("setmaxnreg.inc.sync.aligned.u32", 100), "100 is not a multiple of 8"),
    (lambda k: k.emit("bar.sync", 16), "16 is outside 0..15"),
    (lambda k: k.emit("bar.sync", 1, 100), "100 is not a multiple of 32"),
    (lambda k: k.emit("mbarrier.init.shared::cta.b64", addr(k.reg("b32")), 0), "0 is outside 1.."),
    (lambda k: k.emit("mbarrier.try_wait.parity.shared::cta.b64", k.reg("pred"), addr(k.reg("b32")), 2),
     "2 is outside 0..1"),
    (lambda k: k.emit("cp.async.cg.shared.global", addr(k.reg("b32")), addr(k.reg("b64")), 8), "8 is outside 16..16"),
    (lambda k: k.emit("cp.async.bulk.global.shared::cta.bulk_group", addr(k.reg("b64")), addr(k.reg("b32")), 24),
     "24 is not a multiple of 16"),
    (lambda k: k.emit("tcgen05.ld.sync.aligned.32x32b.x4.b32", k.regs("b32", 8), addr(k.reg("b32"))),
     "8 elements, 4 are"),
    (lambda k: k.emit("tcgen05.ld.sync.aligned.32x32b.x4.b32", k.regs("b64", 4), addr(k.reg("b32"))), "b64 register"),
    (lambda k: k.emit("tcgen05.ld.sync.aligned.16x32bx2.x4.b32", k.regs("b32", 4), addr(k.reg("b32"))),
     "2 operands given"),
    (lambda k: k.emit("tcgen05.mma.cta_group::1.kind::f16", addr(k.reg("b32")),
                      k.reg("b32"), k.reg("b64"), k.reg("b32"),
                      k.reg("pred")), r"operand 2 \(a_desc\)"),
    (lambda k: k.emit("tcgen05.mma.cta_group::1.kind::f16", addr(k.reg("b32")),
                      k.reg("b64"), k.reg("b64"), k.reg("b32"),
                      k.regs("b32", 8), k.reg("pred")), "8 elements, 4 are needed"),
    (lambda k: k.emit("tcgen05.mma.cta_group::1.kind::f16", addr(k.reg("b32")),
                      k.reg("b64"), k.reg("b64"), k.reg("b32"),
                      k.reg("pred"), 16), "16 is outside 0..15"),
    (lambda k: k.emit("tcgen05.mma.cta_group::1.kind::i8", addr(k.reg("b32")), k.reg("b64"), k.reg("b64"), k.reg("b32"),
                      k.reg("pred"), 1), r"operand 5 \(disable_lane\)"),
    (lambda k: k.emit("cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes",
                      addr(k.reg("b32")),
                      tensor(k.reg("b64"), [0, 0, 0]), addr(k.reg("b32"))), "3 coordinates given, 2 are needed"),
    (lambda k: k.emit("cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes",
                      addr(k.reg("b32")),
                      tensor(k.reg("b32"), [0, 0]), addr(k.reg("b32"))), "held in a b64 register"),
    (lambda k: k.emit("elect.sync", k.reg("pred"), 0xFFFFFFFF), "a pair of destinations"),
    (lambda k: k.emit("selp.b32", k.reg("b32"), 1, 2, k.reg("b32")), "a predicate register is needed"),
    (lambda k: k.emit("bra", k.reg("b32")), "a label is needed"),
    (lambda k: k.emit("add.s32", Reg("b32", 7), 1, 2), "register %r7 was not created by this kernel"),
    (lambda k: k.emit("ret", pred=k.reg("b32")), "the guard %r0 is a b32 register"),
    (lambda k: ~k.reg("b32"), "only a predicate can be negated"),
    (lambda k: k.op("st.global.b32", 1), "the destination is|no destination"),
    (lambda k: k.op("elect.sync", 1), "the destination is a pair"),
    (lambda k: k.op("tcgen05.ld.sync.aligned.32x32b.x4.b32", addr(k.reg("b32"))), "a vector or a pair; use ops"),
    (lambda k: k.load_param("y"), "there is no parameter 'y'"),
    (lambda k: k.shared("x", 4), "'x' is declared twice"),
    (lambda k: k.shared("9", 4), "not a PTX identifier"),
    (lambda k: k.shared("s", 4, 3), "alignment 3 is not a power of two"),
    (lambda k: special("tid.w"), "unknown special register"),
]  # fmt: skip


@pytest.mark.parametrize(("act", "message"), REFUSED)
def test_refused(k, act, message):
    before = len(k.instructions)
    with pytest.raises(PtxError, match=message):
        act(k)
    assert len(k.instructions) == before


def test_cta_groups_do_not_mix(k):
    k.emit("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned")
    with pytest.raises(PtxError, match=r"already has tcgen05 instructions with .cta_group::1"):
        k.emit("tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned")
    # a tensor copy's cta_group says whose barrier it signals, and is free
    k.emit(
        "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.cta_group::2",
        addr(k.reg("b32")), tensor(k.reg("b64"), [0]), addr(k.reg("b32")),
    )  # fmt: skip


def test_foreign_symbol(k):
    other = k.module.kernel("other").shared("s", 16)
    with pytest.raises(PtxError, match="variable 's' is not declared in this kernel"):
        k.emit("ld.shared.b32", k.reg("b32"), addr(other))


def test_labels_must_be_placed(k):
    k.emit("bra", Label("L_nowhere"))
    with pytest.raises(PtxError, match="label L_nowhere is never placed"):
        k.text()
    again = k.new_label("x")
    k.place(again)
    with pytest.raises(PtxError, match="placed twice"):
        k.place(again)


def test_module_refusals():
    with pytest.raises(PtxError, match=r"needs PTX 8.6, the module is written for 8.5"):
        Module("sm_100a", "8.5")
    with pytest.raises(PtxError, match="not a PTX version"):
        Module("sm_100a", "eight")
    with pytest.raises(PtxError, match="unknown target"):
        Module("sm_99")
    module = Module("sm_100a")
    module.kernel("k")
    with pytest.raises(PtxError, match="two kernels called 'k'"):
        module.kernel("k")
    with pytest.raises(PtxError, match="more than 1024 members"):
        module.kernel("big", block=(1024, 2, 1))
    with pytest.raises(PtxError, match="outside 1"):
        module.kernel("zero", block=(0, 1, 1))
    with pytest.raises(PtxError, match="more than 16 members"):
        module.kernel("wide", cluster=(16, 2, 1))
    large = module.kernel("large")
    large.shared("s", 200 * 1024)
    large.dynamic_shared("d", 32 * 1024)
    with pytest.raises(PtxError, match="bytes of shared memory exceed 232448"):
        large.text()


def control_flow_module():
    """Every construct of structured control flow, in one kernel."""
    module = Module("sm_100a")
    k = module.kernel("flow", [Param.pointer("out"), Param.scalar("n", "s32")], block=(32, 1, 1), cluster=(2, 1, 1))
    n, total = k.load_param("n"), k.op("mov.b32", 0)
    bar = k.shared("bar", 8, 8)
    buffer = k.dynamic_shared("buf", 4096)
    positive = k.op("setp.gt.s32", n, 0)
    with k.if_else(positive) as arms:
        with arms.then():
            k.emit("add.s32", total, total, 1)
        with arms.otherwise():
            k.emit("sub.s32", total, total, 1)
    with k.if_(~positive):
        k.emit("add.s32", total, total, 7)
    with k.for_range(0, n) as outer:
        with k.for_range(0, 4, hint="inner") as inner:
            inner.continue_if(k.op("setp.eq.s32", inner.index, outer.index))
            k.emit("add.s32", total, total, inner.index)
    with k.loop() as loop:
        k.emit("add.s32", total, total, 3)
        loop.break_if(k.op("setp.gt.s32", total, 100))
    k.wait_parity(k.op("mov.u32", bar), 1, order="acquire.cluster")
    k.emit("st.shared.b32", addr(k.op("mov.u32", buffer), 64), total)
    k.emit("st.global.b32", addr(k.op("cvta.to.global.u64", k.load_param("out"))), total)
    k.emit("ret")
    return module, k


def test_control_flow_labels_are_distinct():
    module, k = control_flow_module()
    text = module.text()
    placed = re.findall(r"^(L\w*):", text, re.MULTILINE)
    assert len(placed) == len(set(placed))
    assert set(re.findall(r"bra (L\w*);", text)) == set(placed)
    assert ".reqnctapercluster 2, 1, 1" in text
    assert ".extern .shared .align 1024 .b8 buf[];" in text
    assert k.static_shared_bytes == 8 and k.dynamic_shared_bytes == 4096
    assert k.launch((4, 1, 1)).dynamic_shared_bytes == 4096
    with pytest.raises(PtxError, match="not a multiple of cluster"):
        k.launch((3, 1, 1))


@needs_ptxas
def test_local_array_assembles():
    module = Module("sm_100a")
    k = module.kernel("k", [Param.pointer("out")])
    table = k.local("table", 64)
    at = k.op("add.s64", k.op("mov.u64", table), k.op("mul.wide.u32", k.op("mov.u32", special("tid.x")), 4))
    k.emit("st.local.b32", addr(table, 8), 5)
    k.emit("st.global.b32", addr(k.op("cvta.to.global.u64", k.load_param("out"))), k.op("ld.local.b32", addr(at)))
    k.emit("ret")
    assert ptxas.assemble(module.text(), "sm_100a").stack == 64


@needs_ptxas
def test_control_flow_assembles():
    module, _ = control_flow_module()
    made = ptxas.assemble(module.text(), "sm_100a")
    assert made.spill_loads == made.spill_stores == 0


def test_counted_loop_text(k):
    """The test at the top leaves out a loop of no iterations; it is absent when the first is known to happen."""
    n = k.load_param("n")
    with k.for_range(0, n, 2) as loop:
        k.emit("add.s32", n, n, loop.index)
    assert [line.strip() for line in k.body()[1:]] == [
        "mov.b32 %r1, 0;", "setp.ge.s32 %p0, %r1, %r0;", "@%p0 bra L_for_end;", "L_for:", "add.s32 %r0, %r0, %r1;",
        "add.s32 %r1, %r1, 2;", "setp.lt.s32 %p1, %r1, %r0;", "@%p1 bra L_for;", "L_for_end:",
    ]  # fmt: skip
    before = len(k.instructions)
    with k.for_range(0, 4, type="u32"):
        pass
    assert k.instructions[before:] == ["mov.b32", "add.u32", "setp.lt.u32", "bra"]


def test_if_else_arms_in_order(k):
    p = k.reg("pred")
    with pytest.raises(PtxError, match=r"otherwise\(\) must follow"), k.if_else(p) as arms, arms.otherwise():
        pass
    with pytest.raises(PtxError, match="without a then"), k.if_else(p):
        pass
    with pytest.raises(PtxError, match="step 0 is not positive"), k.for_range(0, 4, 0):
        pass


def test_spelling():
    assert str(Imm(1 << 20)) == "0x100000" and str(Imm(-3)) == "-3" and Imm(3, hex=True).spell("b32") == "0x3"
    assert Imm(1.0).spell("f32") == "0f3F800000" and Imm(1.0).spell("f64") == "0d3FF0000000000000"
    assert str(Address(Reg("b64", 1), -8)) == "[%rd1+-8]"
    assert str(vec([Reg("b32", 0), Imm(1)])) == "{%r0, 1}"
    assert str(Pair(SINK, Reg("pred", 2))) == "_|%p2"


@needs_ptxas
def test_assembler_errors_show_the_line():
    text = Module("sm_100a").text() + ".visible .entry k() {\n    add.s32 %r1, %r2, 1;\n    ret;\n}\n"
    with pytest.raises(PtxError, match=r"line 6.*\n\s+add.s32 %r1, %r2, 1;"):
        ptxas.assemble(text, "sm_100a")


def test_counting_ptx_text():
    text = """
    .version 8.8
    // comment; with a semicolon
    .global .b32 table[2] = {1, 2};
    .visible .entry k(.param .u64 p) .reqntid 32
    {
        .reg .b32 %r<4>; /* { ; } */
        .shared .b8 s[4];
    L0: mov.b32 %r0, 1;
    L1:
        { .reg .b32 t; mov.b32 t, %r0; }
        st.shared.v2.b32 [s], {%r0,
                               %r1};
        @%p0 bra L0;
        ret;
    }
    """
    assert ptxas.instruction_lines(text) == [
        "mov.b32 %r0, 1", "mov.b32 t, %r0", "st.shared.v2.b32 [s], {%r0, %r1}", "@%p0 bra L0", "ret",
    ]  # fmt: skip
