"""The two example kernels: what the parser builds from them."""

from pathlib import Path

from tirx_eq import ir
from tirx_eq.script import load_file, parse_source

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_scale():
    func = load_file(EXAMPLES / "scale.py")["scale"]
    assert [p.name for p in func.params] == ["A_handle", "B_handle"]
    assert all(isinstance(p.ty, ir.PointerType) for p in func.params)
    a = func.buffer_map[func.params[0]]
    assert (a.name, a.dtype, a.const_shape(), a.scope) == ("A", "float32", (1024,), "global")
    entry = func.body
    assert isinstance(entry, ir.AttrStmt) and entry.attr_key == "tirx.device_entry"
    cta, thread, store = entry.body.seq
    assert cta.definition.scope == "kernel->cta" and thread.definition.scope == "cta->thread"
    assert isinstance(store, ir.BufferStore)
    assert store.value.a.indices == store.indices


def test_gemm_shares_its_buffers():
    func = load_file(EXAMPLES / "gemm_single_tile.py")["gemm"]
    declared = {s.buffer.name: s.buffer for s in func.body.body.seq if isinstance(s, (ir.DeclBuffer, ir.AllocBuffer))}
    found = []
    ir.post_order_visit(func, lambda n: found.append(n) if isinstance(n, ir.TilePrimitiveCall) else None)
    gemm = next(c for c in found if c.op.short_name == "gemm_async")
    assert [type(a) for a in gemm.args[:3]] == [ir.BufferRegion] * 3 and gemm.args[3:6] == (False, False, False)
    assert gemm.args[0].buffer is declared["tmem"]
    assert gemm.args[1].buffer is declared["A_s"]
    assert (gemm.config, gemm.dispatch, gemm.scope.kind) == ({"cta_group": 1}, "tcgen05", "thread")
    assert declared["A_s"].data is declared["pool_buf"].data
    assert [int(declared[n].elem_offset) for n in ("A_s", "B_s", "mbar")] == [0, 8192, 4096]
    copies = [(c.scope.kind, c.op.short_name) for c in found]
    assert ("cta", "copy") in copies and ("warpgroup", "copy_async") in copies and ("thread", "cast") in copies


def test_text_and_file_give_the_same():
    text = (EXAMPLES / "scale.py").read_text().split("if __name__")[0]
    parsed = parse_source(text, "scale.py")["scale"]
    assert ir.structural_equal(parsed, load_file(EXAMPLES / "scale.py")["scale"])
