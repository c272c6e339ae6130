"""The device intrinsics as data: script name, parameters, and how a call's operands are made of them.

A row is ``(script path, parameters, operands, result, operator)``; what is left out follows from what comes before.

*parameters* as in a Python signature: ``bar, count=1, *regs, pred=None``; all after ``*`` or ``*regs`` are keywords.
A set of admissible values stands after a colon: ``cta_group:1|2=1``.
*operands*, in the order of ``Call.args``; all parameters in order if empty.  ``x`` the parameter's value, ``*x`` all of
a variadic one, ``?x`` x if it is given, ``#x`` 1 if x is given else 0, ``~x`` 1 if x is true else 0, ``'text'`` a
constant, ``policy`` and ``has_policy`` the cache policy made of ``cache_hint`` and ``cache_policy``.
*result*: the dtype; empty for none; ``=x`` that of operand x; ``@x`` the one that parameter x names.
*operator*: ``tirx.ptx.a_b_c`` for the path ``ptx.a.b.c`` if empty.

Names, orders and defaults are those of TIRx's script (apache-tvm 0.26).
"""

from __future__ import annotations

_SEM = "sem:|relaxed|acquire|release|acq_rel"
_SPACE = "space:shared|shared::cta|shared::cluster"
_GROUP = "cta_group:1|2=1"
_POLICY = "cache_hint:|evict_normal|evict_first|evict_last='', cache_policy=None"
_DESC = "d_dtype, a_dtype, b_dtype, M, N, K, trans_a, trans_b, n_cta_groups:1|2=1, neg_a=False, neg_b=False"
_SF = "sfa_dtype, sfb_dtype, sfa_tmem_addr, sfb_tmem_addr"
_DTYPES = "d_dtype, a_dtype, b_dtype"
_INPUT = "use_a_tmem, cta_group:1|2, enable_input_d=1"
_ARRIVE = "*, sem:|release|relaxed='', scope:|cta|cluster='', space=None, remote=None, pred=None"
_ARRIVE_OPERANDS = "?remote ?pred sem scope space #remote #pred"
_LDST_SHAPE = "shape:16x32bx2|16x64b|16x128b|16x256b|32x32b"
_CP_SHAPE = "shape:32x128b|4x256b|64x128b|128x128b|128x256b"
_CP_MULTICAST = "multicast:|warpx2::02_13|warpx2::01_23|warpx4=''"
_ROUND = "rounding:rn|rz|rm|rp='rn'"
_MEM = "space:global|shared|shared::cta|shared::cluster|local|param::func"
_ST_TAIL = "ptx_type, " + _POLICY + ", l1_evict='', l2_evict=''"
_WGMMA = "M, N, K, in_dtype, out_dtype, transA, transB, scaleA, scaleB, scaleD"

Row = tuple[str, ...]

MBARRIERS: tuple[Row, ...] = (
    ("ptx.mbarrier.init", "bar, thread_count"),
    ("ptx.mbarrier.arrive", "bar, *, count=None, " + _ARRIVE[3:],
     "bar ?count ?remote ?pred sem scope space #count #remote #pred"),
    ("ptx.mbarrier.arrive.expect_tx", "bar, byte_count, " + _ARRIVE, "bar byte_count " + _ARRIVE_OPERANDS),
    ("ptx.mbarrier.arrive.no_complete", "bar, count, *, space:shared|shared::cta='shared', pred=None",
     "bar count ?pred space #pred"),
    ("ptx.mbarrier.complete_tx",
     f"bar, tx_count, *, {_SEM}='relaxed', scope:cta|cluster='cluster', {_SPACE}='shared::cluster', remote=None, "
     "pred=None", "bar tx_count ?remote ?pred sem scope space #remote #pred"),
    ("ptx.mbarrier.try_wait", "bar, phase"),
    ("ptx.mbarrier.try_wait_once", "bar, phase, ticks", "", "uint32"),
    ("ptx.mbarrier.try_wait_acquire_cluster", "bar, phase"),
    ("ptx.mbarrier_test_wait_parity",
     "barrier, phase, *, sem:|acquire|relaxed='', scope:|cta|cluster='', space:shared|shared::cta='shared::cta'",
     "", "uint32"),
)  # fmt: skip

BARRIERS: tuple[Row, ...] = (
    ("ptx.bar.arrive", "name_bar_id, thread_count"),
    ("ptx.bar.sync", "name_bar_id, thread_count"),
    ("ptx.barrier.sync", "name_bar_id, thread_count"),
    ("ptx.barrier.cluster.arrive", "sem:|release|relaxed='', aligned=True"),
    ("ptx.barrier.cluster.wait", "acquire=False, aligned=True"),
    ("ptx.fence", "sem:acquire|release|acq_rel|sc, scope:cta|cluster|gpu|sys"),
    ("ptx.fence.proxy_async",
     "space:|global|shared::cta|shared::cluster|shared::{cta,cluster}=''"),
    ("ptx.fence.mbarrier_init", ""),
    ("ptx.griddepcontrol.wait", ""),
    ("ptx.griddepcontrol.launch_dependents", ""),
    ("ptx.clc_try_cancel", "handle, mbar"),
    ("ptx.clc_query_cancel", "handle, *, use_ld_acquire=True", "handle ~use_ld_acquire", "uint32"),
    ("ptx.elect_sync", "", "", "uint32"),
    ("ptx.setmaxnreg", "inc, reg_count"),
    ("ptx.any_sync", "mask, pred", "", "int32"),
    ("ptx.fetch_register", "bits:32|64, reg_name"),
    ("ptx.fns_b32", "mask, base, offset", "", "uint32"),
)  # fmt: skip

COPIES: tuple[Row, ...] = (
    ("ptx.cp_async",
     f"dst_ptr, src_ptr, cp_size:4|8|16, *, {_POLICY}, prefetch_size:-1|64|128|256=-1, predicate=-1, "
     "fill_mode:|zero=''",
     "dst_ptr src_ptr cp_size policy has_policy prefetch_size predicate fill_mode"),
    ("ptx.cp_async.commit_group", ""),
    ("ptx.cp_async.wait_group", "num=0"),
    ("ptx.cp_async.mbarrier.arrive", "bar, noinc=False, space='shared'"),
    ("ptx.cp_async.bulk", "dtype, shared_ptr, shared_offset, global_ptr, global_offset, bytes, barrier_id",
     "shared_ptr shared_offset global_ptr global_offset bytes barrier_id", "@dtype"),
    ("ptx.cp_async.bulk.commit_group", ""),
    ("ptx.cp_async.bulk.wait_group", "n=0, read=True"),
    ("ptx.cp_async.bulk.s2c", "dst_ptr, src_ptr, size, mbar", "", "", "tirx.ptx.cp_async_bulk_shared_to_cluster"),
    ("ptx.cp_async_bulk_g2s_cta",
     f"dst_ptr, src_ptr, num_bytes, mbarrier_ptr, *, {_POLICY}, ignore_oob=False, ignore_bytes_left=0, "
     "ignore_bytes_right=0",
     "dst_ptr src_ptr num_bytes ignore_bytes_left ignore_bytes_right mbarrier_ptr policy has_policy ~ignore_oob"),
    ("ptx.cp_async_bulk_g2s_cluster",
     f"dst_ptr, src_ptr, num_bytes, mbarrier_ptr, *, {_POLICY}, multicast=False, cta_mask=0",
     "dst_ptr src_ptr num_bytes mbarrier_ptr cta_mask policy has_policy ~multicast"),
    ("ptx.cp_async_bulk_s2s_cluster", "dst_ptr, src_ptr, num_bytes, mbarrier"),
    ("ptx.cp_async_bulk_s2g", f"dst_ptr, src_ptr, num_bytes, *, {_POLICY}, cp_mask=False, byte_mask=0",
     "dst_ptr src_ptr num_bytes byte_mask policy has_policy ~cp_mask"),
    ("ptx.cp_async.bulk.tensor.g2s_cta",
     "dim, dst_ptr, mbar, tensormap_addr, cta_group:1|2, cache_hint, *coords, cache_policy=None, "
     "load_mode:tile|tile_gather4='tile', mbar_is_shared_addr=False",
     "dim dst_ptr mbar tensormap_addr cta_group policy has_policy load_mode ~mbar_is_shared_addr *coords"),
    ("ptx.cp_async.bulk.tensor.g2s_cluster",
     "dim, dst_ptr, mbar, tensormap_addr, cta_mask, cta_group:1|2, cache_hint, *coords, cache_policy=None, "
     "load_mode:tile|tile_gather4='tile', mbar_is_shared_addr=False, multicast=None",
     "dim dst_ptr mbar tensormap_addr cta_mask cta_group policy has_policy load_mode ~mbar_is_shared_addr ~multicast "
     "*coords"),
    ("ptx.cp_async.bulk.tensor.s2g", "dim, src_ptr, tensormap_addr, cache_hint, *coords, cache_policy=None",
     "dim src_ptr tensormap_addr policy has_policy *coords", "", "tirx.ptx.cp_async_bulk_tensor_shared_to_global"),
    ("ptx.cp_async.bulk.tensor.s2g_reduce",
     "dim, src_ptr, tensormap_addr, cache_hint, red_op:add|min|max|inc|dec|and|or|xor, *coords, cache_policy=None",
     "dim src_ptr tensormap_addr policy has_policy red_op *coords", "",
     "tirx.ptx.cp_async_bulk_tensor_shared_to_global_reduce"),
    ("ptx.cp_async.bulk.tensor.prefetch", "dim, tensormap_addr, cache_hint, *coords, cache_policy=None",
     "dim tensormap_addr policy has_policy *coords"),
    ("ptx.prefetch_tensormap", "tensormap_addr, space:|const|param=''"),
    ("ptx.mapa", "ptr, rank, space:|shared::cluster='', ptx_type:u32|u64='u64', return_type='uint64'", "",
     "@return_type"),
)  # fmt: skip

TCGEN05: tuple[Row, ...] = (
    ("ptx.tcgen05.alloc", f"dst_ptr, n_cols, {_GROUP}"),
    ("ptx.tcgen05.dealloc", f"taddr, n_cols, {_GROUP}"),
    ("ptx.tcgen05.relinquish_alloc_permit", _GROUP),
    ("ptx.tcgen05.encode_matrix_descriptor", "desc, addr, ldo, sdo, swizzle"),
    ("ptx.tcgen05.encode_instr_descriptor", f"desc, *, {_DESC}, sat_d=False, is_sparse=False"),
    ("ptx.tcgen05.encode_instr_descriptor_block_scaled",
     f"desc, *, d_dtype, a_dtype, b_dtype, {_SF}, {_DESC[27:]}, is_sparse=False"),
    ("ptx.tcgen05.mma",
     f"d_tmem_addr, a_operand, b_desc, i_desc, *disable_output_lane, {_DTYPES}, {_INPUT}, scale_input_d=0, "
     "weight_stationary=False, pred=None",
     "d_dtype a_dtype b_dtype d_tmem_addr a_operand b_desc i_desc use_a_tmem cta_group enable_input_d scale_input_d "
     "~weight_stationary *disable_output_lane ?pred"),
    ("ptx.tcgen05.mma.block_scale",
     f"d_tmem_addr, a_operand, b_desc, sfa_tmem_addr, sfb_tmem_addr, i_desc, *, {_DTYPES}, sfa_dtype, sfb_dtype, "
     + _INPUT,
     "d_dtype a_dtype b_dtype sfa_dtype sfb_dtype d_tmem_addr a_operand b_desc sfa_tmem_addr sfb_tmem_addr i_desc "
     "use_a_tmem cta_group enable_input_d"),
    ("ptx.tcgen05.mma.sp",
     f"d_tmem_addr, a_operand, b_desc, sp_tmem_addr, i_desc, *disable_output_lane, {_DTYPES}, {_INPUT}, "
     "scale_input_d=0",
     "d_dtype a_dtype b_dtype d_tmem_addr a_operand b_desc sp_tmem_addr i_desc use_a_tmem cta_group enable_input_d "
     "scale_input_d *disable_output_lane"),
    ("ptx.tcgen05.mma.sp.block_scale",
     f"d_tmem_addr, a_operand, b_desc, sfa_tmem_addr, sfb_tmem_addr, sp_tmem_addr, i_desc, *, {_DTYPES}, sfa_dtype, "
     f"sfb_dtype, {_INPUT}",
     "d_dtype a_dtype b_dtype sfa_dtype sfb_dtype d_tmem_addr a_operand b_desc sfa_tmem_addr sfb_tmem_addr "
     "sp_tmem_addr i_desc use_a_tmem cta_group enable_input_d"),
    ("ptx.tcgen05.fence.before_thread_sync", ""),
    ("ptx.tcgen05.fence.after_thread_sync", ""),
    ("ptx.tcgen05.cp", f"taddr, src_desc, *, {_CP_SHAPE}, {_GROUP}, {_CP_MULTICAST}, decompress='', row=0, col=0"),
    ("ptx.tcgen05.shift", f"taddr, {_GROUP}"),
    ("ptx.tcgen05.ld", f"src_addr, *regs, {_LDST_SHAPE}, num, row=0, col=0, pack=False",
     "src_addr row col shape num pack *regs"),
    ("ptx.tcgen05.st", f"dst_addr, *regs, {_LDST_SHAPE}, num, row=0, col=0, unpack=False",
     "dst_addr row col shape num unpack *regs"),
    ("ptx.tcgen05.wait.ld", ""),
    ("ptx.tcgen05.wait.st", ""),
    ("ptx.tcgen05.commit", f"bar, {_GROUP}, cta_mask=0, *, pred=None", "bar cta_group cta_mask ?pred"),
)  # fmt: skip

MATRIX: tuple[Row, ...] = (
    ("ptx.ldmatrix", "trans, num:1|2|4, dtype, smem_ptr, *dst_handles"),
    ("ptx.stmatrix",
     "trans, num:1|2|4, dtype, smem_ptr, *src_handles, shape:m8n8|m16n8='m8n8', space:shared|shared::cta='shared'",
     "trans num dtype shape space smem_ptr *src_handles"),
    ("ptx.mma.sp",
     "dtype, shape, A_layout, B_layout, A_dtype, B_dtype, C_dtype, multiplicand_a, a_index, multiplicand_b, b_index, "
     "accumulator, c_index, metadata, meta_index, sparse_selector, saturate",
     "shape A_layout B_layout A_dtype B_dtype C_dtype multiplicand_a a_index multiplicand_b b_index accumulator "
     "c_index metadata meta_index sparse_selector saturate", "@dtype", "tirx.ptx.mma_sp"),
    ("ptx.wgmma.fence", ""),
    ("ptx.wgmma.commit_group", ""),
    ("ptx.wgmma.wait_group", "n"),
    ("ptx.wgmma.noop_barrier", "reg"),
    ("ptx.wgmma.encode_matrix_descriptor", "desc, addr, ldo, sdo, swizzle"),
    ("ptx.wgmma.mma_async.ss", f"descA, descB, *accums, {_WGMMA}",
     _WGMMA.replace(",", "") + " descA descB *accums"),
    ("ptx.wgmma.mma_async.rs", f"descB, *reg_list, {_WGMMA}", _WGMMA.replace(",", "") + " descB *reg_list"),
)  # fmt: skip


def _arith(op: str, operands: str) -> tuple[Row, ...]:
    names = operands.replace(",", "")
    return (
        (f"ptx.{op}_f32", f"d_addr, {operands}, *, {_ROUND}, ftz=False, sat=False",
         f"d_addr {names} rounding ~ftz ~sat"),
        (f"ptx.{op}_f64", f"d_addr, {operands}, *, {_ROUND}, ftz:False=False, sat:False=False",
         f"d_addr {names} rounding ~ftz ~sat"),
    )  # fmt: skip


def _store(name: str, scoped: bool) -> Row:
    scope = "scope:cta|cluster|gpu|sys='gpu', " if scoped else ""
    return (
        f"ptx.{name}", f"address, *values, src=None, {scope}{_MEM}='global', vec:|v2|v4|v8='', {_ST_TAIL}",
        f"address *values ?src policy {'scope ' if scoped else ''}space vec ptx_type has_policy l1_evict l2_evict #src",
    )  # fmt: skip


MEMORY: tuple[Row, ...] = (
    ("ptx.st", f"address, *values, src=None, weak=False, {_MEM}='shared', cop:|wb|cg|cs|wt='', vec:|v2|v4|v8='', "
     + _ST_TAIL,
     "address *values ?src policy ~weak space cop vec ptx_type has_policy l1_evict l2_evict #src"),
    _store("st_relaxed", True),
    _store("st_release", True),
    ("ptx.st_volatile", f"address, *values, src=None, {_MEM}='global', vec:|v2|v4|v8='', ptx_type",
     "address *values ?src space vec ptx_type #src"),
    ("ptx.st_mmio", "address, value, *, sem:release|relaxed='release', ptx_type",
     "address value sem 'sys' 'global' ptx_type"),
    ("ptx.st_bulk", "ptr, num_bytes, *, weak=False, space:|shared::cta='shared::cta'", "ptr num_bytes ~weak space"),
    ("ptx.red_scalar",
     f"address, value, *, sem:|relaxed|release='', scope:|cta|cluster|gpu|sys='', {_MEM}='global', "
     f"op:and|or|xor|add|inc|dec|min|max, ptx_type, {_POLICY}",
     "address value policy sem scope space op ptx_type has_policy"),
    ("ptx.ld_global_acquire", "res, addr"),
    ("ptx.ldg32", "reg, guard, addr, local_addr", "", "=reg"),
)  # fmt: skip

VALUES: tuple[Row, ...] = (
    ("ptx.exp2", "x", "", "float32"),
    ("ptx.rcp", "x", "", "float32"),
    ("ptx.reduce3_min_f32", "a, b, c", "", "float32"),
    ("ptx.reduce3_max_f32", "a, b, c", "", "float32"),
    ("ptx.add_rn_f32_bf16", "acc, x", "", "float32"),
    ("ptx.max_f32", "a, b, *, ftz=False, nan=False", "a b ~ftz ~nan", "float32"),
    *_arith("add", "a, b"), *_arith("sub", "a, b"), *_arith("mul", "a, b"), *_arith("fma", "a, b, c"),
)  # fmt: skip

CUDA: tuple[Row, ...] = (
    ("cuda.cta_sync", ""), ("cuda.warp_sync", ""), ("cuda.cluster_sync", ""), ("cuda.grid_sync", ""),
    ("cuda.thread_fence", ""), ("cuda.warpgroup_sync", "bar_no"), ("cuda.thread_rank", "", "", "int32"),
    ("cuda.syncthreads_and", "cond", "", "int64"), ("cuda.syncthreads_or", "cond", "", "int64"),
    ("cuda.nano_sleep", "time"), ("cuda.clock64", "", "", "uint64"),
    ("cuda.trap_when_assert_failed", "cond"), ("cuda.printf", "fmt, *args"),
    ("cuda.atomic_add", "res_addr, value", "", "=value"),
    ("cuda.atomic_cas", "ptr, old_val, new_val", "", "=old_val"),
    ("cuda.warp_reduce", "value, op:sum|max|min, width=32", "", "=value"),
    ("cuda.cta_reduce", "value, op:sum|max|min, num_warps, scratch", "", "=value"),
    ("cuda.ballot_sync", "mask, pred", "", "uint32"), ("cuda.ffs_u32", "value", "", "int32"),
    ("cuda.reduce_add_sync_u32", "mask, value", "", "uint32"),
    ("cuda.reduce_min_sync_u32", "mask, value", "", "uint32"),
    ("cuda.__shfl_sync", "mask, var, lane, width", "", "=var"),
    ("cuda.__shfl_up_sync", "mask, var, delta, width", "", "=var"),
    ("cuda.__shfl_down_sync", "mask, var, delta, width", "", "=var"),
    ("cuda.__shfl_xor_sync", "mask, var, lane_mask, width", "", "=var"),
    ("cuda.__activemask", "", "", "uint32"),
    ("cuda.half2float", "src", "", "float32"), ("cuda.bfloat162float", "src", "", "float32"),
    ("cuda.float22half2", "dst, src"), ("cuda.half8tofloat8", "src_addr, dst_addr"),
    ("cuda.float8tohalf8", "src_addr, dst_addr"), ("cuda.runtime_instr_desc", "desc, sf_id"),
    ("cuda.fdividef", "x, y", "", "float32"),
    ("cuda.get_tmem_addr", "addr, row_offset, col_offset", "", "uint32"),
    ("cuda.cvta_generic_to_shared", "ptr", "", "uint32"),
    ("cuda.smem_addr_from_uint64", "cluster_addr", "", "uint32"),
    ("cuda.uint_as_float", "bits", "", "float32"), ("cuda.float_as_uint", "x", "", "uint32"),
    ("cuda.make_float2", "x, y", "", "uint64"), ("cuda.float2_x", "packed", "", "float32"),
    ("cuda.float2_y", "packed", "", "float32"), ("cuda.fmul2_rn", "a, b", "", "uint64"),
    ("cuda.fadd2_rn", "a, b", "", "uint64"), ("cuda.float22bfloat162_rn", "v0, v1", "", "uint32"),
    ("cuda.float22bfloat162_rn_from_float2", "packed", "", "uint32"),
    ("cuda.bfloat1622float2", "packed", "", "uint64"), ("cuda.hmin2", "a, b", "", "uint32"),
    ("cuda.hmax2", "a, b", "", "uint32"), ("cuda.fp8x4_e4m3_from_float4", "x, y, z, w", "", "uint32"),
    ("cuda.func_call", "func_name, *args, source_code, return_type='void'", "func_name *args source_code",
     "@return_type"),
)  # fmt: skip

_NVSHMEM_COPY = "dst, src, nelems, pe"
_NVSHMEM_PUT_SIGNAL = "dst, src, nelems, sig_addr, signal, sig_op:set|add, pe"
NVSHMEM: tuple[Row, ...] = (
    ("nvshmem.my_pe", "", "", "int32"), ("nvshmem.n_pes", "", "", "int32"),
    ("nvshmem.signal_op", "sig_addr, signal, sig_op:set|add, pe"),
    ("nvshmem.wait_until", "ivar, cmp:eq|ne|gt|ge|lt|le, cmp_value, type='uint64_t'"),
    ("nvshmem.quiet", ""), ("nvshmem.fence", ""), ("nvshmem.barrier_all", ""),
    *((f"nvshmem.{name}{group}", _NVSHMEM_COPY)
      for name in ("getmem_nbi", "putmem_nbi") for group in ("", ".warp", ".block")),
    *((f"nvshmem.putmem_signal_nbi{group}", _NVSHMEM_PUT_SIGNAL) for group in ("", ".warp", ".block")),
)  # fmt: skip

ROWS: tuple[Row, ...] = MBARRIERS + BARRIERS + COPIES + TCGEN05 + MATRIX + MEMORY + VALUES + CUDA + NVSHMEM

#: operators whose calls need code of their own (see tirx_eq/script/intrinsics.py), and other known names
OTHER_OPERATORS = (
    "tirx.ptx.add_f32x2", "tirx.ptx.sub_f32x2", "tirx.ptx.mul_f32x2", "tirx.ptx.fma_f32x2", "tirx.ptx.cvt",
    "tirx.ptx.ld", "tirx.ptx.ld_acquire", "tirx.ptx.ld_relaxed", "tirx.ptx.ld_global_nc", "tirx.ptx.ld_volatile",
    "tirx.ptx.ld_mmio",
    "tirx.ptx.atom_scalar", "tirx.ptx.mma", "tirx.ptx.mma_legacy", "tirx.ptx.ldmatrix_legacy", "tirx.ptx.cp_async_raw",
    "tirx.ptx.map_shared_rank", "tirx.ptx.instruction", "tirx.ptx.addr", "tirx.cuda.ldg",
    "tirx.cuda.wait_until",
    "tirx.cuda.sm100_2sm_leader_smem_addr",
    *(f"tirx.cuda.iket_{n}" for n in (
        "mark", "range_start", "range_end", "range_push", "range_pop", "sentinel_token", "official_event")),
    *(f"tirx.{n}" for n in (
        "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "copysign", "cosh", "ctpop", "dp4a", "hypot",
        "ldexp", "nextafter", "sinh", "vscale", "get_active_lane_mask", "ignore_loop_partition",
        "lookup_param", "prefetch",
        "q_multiply_shift", "q_multiply_shift_per_axis", "atomic_add", "buffer_offset", "mma_fill", "mma_fill_legacy",
        "mma_store", "mma_store_legacy", "timer_init_cuda", "timer_start_cuda", "timer_end_cuda", "timer_finalize_cuda",
        "tensormap_encode_tiled",
        "tvm_call_packed", "tvm_call_cpacked", "tvm_call_packed_lowered", "tvm_call_cpacked_lowered", "tvm_context_id",
        "tvm_fill_fragment", "tvm_load_matrix_sync", "tvm_mma_sync", "tvm_bmma_sync", "tvm_store_matrix_sync",
        "tvm_global_barrier_kinit", "tvm_kernel_replace_point", "tvm_stack_make_array", "tvm_stack_make_shape",
        "tvm_static_handle", "tvm_struct_get", "tvm_struct_set", "tvm_thread_allreduce", "tvm_thread_invariant",
        "tvm_throw_last_error", "tvm_tuple", "tvm_warp_activemask", "tvm_warp_shuffle", "tvm_warp_shuffle_down",
        "tvm_warp_shuffle_up", "tvm_warp_shuffle_xor", "call_llvm_intrin", "call_llvm_pure_intrin")),
)  # fmt: skip
