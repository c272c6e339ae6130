"""What the namespace offers, against the names of apache-tvm 0.26."""

import importlib

import pytest

from tirx_eq import ir
from tirx_eq.script import parse_source, tirx
from tirx_eq.script.tirx import tile

#: names of TIRx's script namespace that must be here (data types apart)
NAMES = """
Add And Assert Bind Break Broadcast Buffer BufferLoad Cast ComposeLayout Continue Div EQ Else ExecScope
FloatImm FloorDiv FloorMod GE GT If IntImm Iter IterVar LE LT Layout Let Max Min Mod Mul NE Not Optional Or
Ptr R Ramp Range Reduce Return S SMEMPool Select Shuffle StringImm Sub TMEMPool TensorMap Then TileLayout Var
While abs acos acosh add_to_parent address_of alloc_buffer alloc_cast_frag alloc_local alloc_scalar
alloc_shared alloc_tcgen05_ldst_frag asin asinh assume atan atan2 atanh attr bf16 bind bitwise_and bitwise_not
bitwise_or bitwise_xor bool boolean break_loop broadcast buffer buffer_decl buffer_store buffer_var
call_extern call_intrin call_pure_extern cast ceil ceildiv cluster cluster_id clz comm_reducer constexpr
continue_loop copysign cos cosh cta cta_id cta_id_in_cluster cta_id_in_pair cuda decl_buffer decl_scalar
device_entry dp4a env_thread erf evaluate exp exp10 exp2 f16 f32 f64 fabs filter floor floordiv floormod fma
fmod func_attr func_ret grid handle handle_add_byte_offset hypot i16 i32 i64 i8 if_then_else infinity inline
isfinite isinf isnan isnullptr iter_var jit lane_id launch_thread ldexp let likely local_scalar log log10
log1p log2 macro match_buffer max max_value meta_class meta_var min min_value nearbyint nextafter nvshmem
parallel popcount pow prim_func ptr ptr_byte_offset ptx ramp reinterpret round rsqrt scope_id selector serial
shared_scalar shift_left shift_right sigmoid sin sinh smem sqrt static_assert tan tanh thread thread_binding
thread_id thread_id_in_wg thread_return tile tmem trunc truncdiv truncmod tvm_access_ptr tvm_storage_sync
tvm_warp_activemask tvm_warp_shuffle tvm_warp_shuffle_down tvm_warp_shuffle_up tvm_warp_shuffle_xor
type_annotation u16 u32 u64 u8 undef unroll vectorcombine vectorhigh vectorized vectorlow void vscale warp
warp_id warp_id_in_wg warpgroup warpgroup_id wg wg_reg_tile
""".split()

#: names that are not here: schedulable blocks, host code, other targets, and the builder itself
LEFT_OUT = """
Call CallEffectKind CommReducer DtypeConstructor LetAnnotation LocalVectorAnnotation ProducerLoad ScopeIdDef
TVMBackendAllocWorkspace TVMBackendFreeWorkspace anylist_getitem anylist_resetitem
anylist_setitem_call_cpacked anylist_setitem_call_packed arg axis block_name_suffix_context builder
call_cpacked call_cpacked_lowered call_kernel call_llvm_intrin call_llvm_pure_intrin call_packed
call_packed_lowered cooperative_tensor_fill cooperative_tensor_load cooperative_tensor_multiply_accumulate
cooperative_tensor_store end_profile_intrinsic func_name get_active_lane_mask ignore_loop_partition
index_map init llvm_lookup_intrinsic_id lookup_param metal nki parser print_buffer q_multiply_shift
q_multiply_shift_per_axis reads register_script_namespace sblock sblock_alloc_buffer sblock_attr
scalar_wrapper start_profile_intrinsic target tvm_bmma_sync tvm_call_cpacked tvm_call_cpacked_lowered
tvm_call_packed tvm_call_packed_lowered tvm_fill_fragment tvm_global_barrier_kinit tvm_kernel_replace_point
tvm_load_matrix_sync tvm_mma_sync tvm_stack_alloca tvm_stack_make_array tvm_stack_make_shape
tvm_store_matrix_sync tvm_struct_get tvm_struct_set tvm_thread_allreduce tvm_thread_invariant
tvm_throw_last_error tvm_tuple var webgpu where writes
""".split()


@pytest.mark.parametrize("name", NAMES)
def test_name(name):
    assert getattr(tirx, name) is not None
    assert name in dir(tirx) and name in tirx.__all__


@pytest.mark.parametrize("base", ["int8", "uint32", "float16", "bfloat16", "float32", "float8_e4m3fn", "float4_e2m1fn"])
def test_data_types(base):
    for lanes in (1, 2, 4, 8, 16, 32, 64):
        name = base if lanes == 1 else f"{base}x{lanes}"
        assert str(getattr(tirx, name)) == name
        assert getattr(tirx, name)().dtype == name
    assert getattr(tirx, base)(1).dtype == base


def test_left_out_names_say_so():
    for name in LEFT_OUT:
        with pytest.raises(AttributeError, match=f"no '{name}'"):
            getattr(tirx, name)


def test_tile_namespace():
    scoped = {p.name for p in ir.op.TILE_PRIMITIVES} - {"compose_op"}
    assert scoped <= set(dir(tile))
    for name in scoped:
        assert callable(getattr(tile, name)) and callable(getattr(tile.cta, name))
        assert callable(getattr(tirx.warp, name)) and callable(getattr(tirx.tile.cluster, name))
    with pytest.raises(AttributeError, match="did you mean copy"):
        tile.copyy  # noqa: B018
    with pytest.raises(AttributeError, match="did you mean gemm"):
        tile.cta.gem  # noqa: B018


def test_short_scope_names():
    text = (
        "from tirx_eq.script import tirx as Tx\n@Tx.prim_func\ndef f(A: Tx.Buffer((4,))):\n"
        "    Tx.wg.zero(A)\n    Tx.warpgroup.zero(A)\n    Tx.zero(A)\n    Tx.thread.zero(A)\n"
        "    Tx.zero(A, scope='warp')\n"
    )
    kinds = [s.scope.kind for s in parse_source(text)["f"].body.seq]
    assert kinds == ["warpgroup", "warpgroup", "thread", "thread", "warp"]


def test_import_is_light():
    """Importing the script must not import solvers, TVM or the e-graph."""
    import subprocess
    import sys

    code = (
        "import sys, tirx_eq.script.tirx; "
        "print([m for m in sys.modules if m.split('.')[0] in ('egglog', 'z3', 'islpy', 'tvm', 'tvm_ffi')])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_ir_does_not_know_the_script():
    """Layers point downwards: nothing in the IR imports the script or, when it is imported, the layouts."""
    import subprocess
    import sys

    code = (
        "import sys, tirx_eq.ir.printer; "
        "print([m for m in sys.modules if m.startswith(('tirx_eq.script', 'tirx_eq.layout'))])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
    assert importlib.util.find_spec("tirx_eq.ir.printer") is not None
