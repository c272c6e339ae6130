"""All templates, the operands of calls that have a form of their own, and why other intrinsics have no PTX."""

from __future__ import annotations

from typing import Any

from ...ir import Call
from . import barriers, collectives, copies, events, matrix, memory, tcgen05, values
from .language import Template

FAMILIES = {
    "barriers": barriers, "collectives": collectives, "copies": copies, "events": events, "matrix": matrix, "memory": memory,
    "tcgen05": tcgen05,
    "values": values,
}  # fmt: skip
TEMPLATES: dict[str, tuple[Template, ...]] = {name: t for family in FAMILIES.values() for name, t in family.TEMPLATES.items()}

_LEVELS = "l1_evict l2_evict prefetch_size"
_PAIR = "rounding ftz dps return_dtype"
#: Operators whose calls the intrinsic table doesn't describe -> their operands, as an effect and as a value.
OPERANDS: dict[str, tuple[str, str]] = {
    "tirx.ptx.ld": (f"*dst addr policy return_type weak space cop vec ptx_type has_policy count {_LEVELS}",
                    f"addr policy return_type weak space cop vec ptx_type has_policy count {_LEVELS}"),
    "tirx.ptx.ld_global_nc": (f"*dst addr policy return_type cop vec ptx_type has_policy count {_LEVELS}",
                              f"addr policy return_type cop vec ptx_type has_policy count {_LEVELS}"),
    "tirx.ptx.ld_relaxed": (f"*dst addr policy return_type scope space vec ptx_type has_policy count {_LEVELS}",
                            f"addr policy return_type scope space vec ptx_type has_policy count {_LEVELS}"),
    "tirx.ptx.ld_acquire": (f"*dst addr policy return_type scope space vec ptx_type has_policy count {_LEVELS}",
                            f"addr return_type scope space vec ptx_type has_policy count {_LEVELS}"),
    "tirx.ptx.ld_volatile": ("*dst addr return_type space vec ptx_type count prefetch_size",
                             "addr return_type space vec ptx_type count prefetch_size"),
    "tirx.ptx.ld_mmio": ("*dst addr return_type sem scope space ptx_type count",
                         "addr return_type sem scope space ptx_type count"),
    "tirx.prefetch": ("address rw locality cache_type", ""),
    "tirx.cuda.ldg": ("*dst addr dtype vec count", "addr dtype"),
    **{f"tirx.ptx.{op}_f32x2": (f"d a b {_PAIR}", f"a b {_PAIR}") for op in ("add", "sub", "mul")},
    "tirx.ptx.fma_f32x2": (f"d a b c {_PAIR}", f"a b c {_PAIR}"),
    "tirx.ptx.cvt": ("", "*values has_rbits has_scale dtype atype rounding ftz sat relu satfinite scaled"),
    "tirx.ptx.cp_async_raw": ("dst_ptr dst_offset src_ptr src_offset cp_size predicate?", ""),
    "tirx.ptx.map_shared_rank": ("", "ptr rank"),
    "tirx.cuda.sm100_2sm_leader_smem_addr": ("", "ptr"),
    "tirx.tvm_storage_sync": ("scope is_load? blocks?", ""), "tirx.tvm_warp_activemask": ("", ""),
    **{f"tirx.tvm_warp_shuffle{n}": ("", "mask value lane width warp_size") for n in ("", "_up", "_down", "_xor")},
    "tirx.dp4a": ("", "vec1 vec2 acc"), "tirx.q_multiply_shift": ("", "x y q s"),
}  # fmt: skip


def raw_operands(call: Call) -> dict[str, Any] | None:
    """The operands by name of a call in :data:`OPERANDS`, or None if it isn't one of those or has others."""
    if call.op.name == "tirx.ptx.mma":
        return matrix.mma_operands(call)
    form = OPERANDS.get(call.op.name)
    if form is None:
        return None
    names = form[0 if call.dtype == "void" else 1].split()
    args = list(call.args)
    if call.op.name == "tirx.ptx.cvt":  # the number of values stands after them
        place = len(args) - 10
        args = [*args[:place], *args[place + 1 :]] if place >= 0 else args
    found: dict[str, Any] = {}
    spread = len(args) - (len(names) - 1)
    for name in names:
        if name.startswith("*"):
            if spread < 0:
                return None
            found[name[1:]] = tuple(args[:spread])
            args = args[spread:]
        elif args:
            found[name.rstrip("?")] = args.pop(0)
        elif name.endswith("?"):
            found[name[:-1]] = None
        else:
            return None
    return found if not args else None


_HOST = "it is a call into NVSHMEM's library, which runs on the host's side too"
_SCHEDULED = "it belongs to scheduled kernels of TVM, which have no thread ids of their own"
_PACKED = "it is for code that runs on the host"
_PROFILE = "it is a profiling event of TVM's tools, which put code of their own in its place"
_WGMMA = "wgmma is an instruction of sm_90a; this target has tcgen05"
_FRAGMENT = "fragments of wmma have a layout that only CUDA C++ knows; ptx.mma and ldmatrix say theirs"
_LEGACY = "it is the form before 0.26, for which TVM 0.26 generates no code either; the form without 'legacy' is lowered"
_NO_CODE = "TVM 0.26 has the name but no code for it"

#: Intrinsics without PTX -> why.
REFUSED: dict[str, str] = {
    **{f"tirx.nvshmem.{n}": _HOST for n in (
        "my_pe", "n_pes", "signal_op", "wait_until", "quiet", "fence", "barrier_all", "getmem_nbi", "getmem_nbi_warp",
        "getmem_nbi_block", "putmem_nbi", "putmem_nbi_warp", "putmem_nbi_block", "putmem_signal_nbi", "putmem_signal_nbi_warp",
        "putmem_signal_nbi_block")},
    **{f"tirx.ptx.wgmma_{n}": _WGMMA for n in (
        "fence", "commit_group", "wait_group", "noop_barrier", "encode_matrix_descriptor", "mma_async_ss", "mma_async_rs")},
    "tirx.cuda.iket_official_event": _PROFILE,
    **{f"tirx.timer_{n}_cuda": _PROFILE for n in ("init", "start", "end", "finalize")},
    **{f"tirx.tvm_{n}": _FRAGMENT for n in (
        "fill_fragment", "load_matrix_sync", "mma_sync", "bmma_sync", "store_matrix_sync")},
    **{f"tirx.tvm_{n}": _PACKED for n in (
        "call_packed", "call_cpacked", "call_packed_lowered", "call_cpacked_lowered", "context_id", "stack_make_array",
        "stack_make_shape", "static_handle", "struct_get", "struct_set", "throw_last_error", "tuple")},
    "tirx.lookup_param": _PACKED,
    **{f"tirx.tvm_{n}": _SCHEDULED for n in (
        "thread_allreduce", "thread_invariant", "global_barrier_kinit", "kernel_replace_point")},
    "tirx.ignore_loop_partition": _SCHEDULED,
    **{f"tirx.{n}": "it is for vectors of a length that the machine chooses, which a GPU has none of" for n in (
        "vscale", "get_active_lane_mask")},
    **{f"tirx.{n}": "it names an intrinsic of LLVM, whose code for a GPU is not PTX text" for n in (
        "call_llvm_intrin", "call_llvm_pure_intrin")},
    **{f"tirx.{n}": _LEGACY for n in ("ptx.mma_legacy", "ptx.ldmatrix_legacy", "mma_fill_legacy", "mma_store_legacy")},
    **{f"tirx.{n}": "it stores or fills a fragment whose layout TVM's tensorisation chose" for n in ("mma_fill", "mma_store")},
    "tirx.ptx.cp_async_bulk": _NO_CODE, "tirx.ptx.ldg32": _NO_CODE,
    "tirx.ptx.mma_sp": "TVM 0.26 has the name but no code for it; sparse products are those of tcgen05",
    "tirx.cuda.grid_sync": "the barrier of a grid lives in memory that a cooperative launch provides",
    "tirx.cuda.printf": "device printf calls a function of the driver with a format in memory; kernels here are one function",
    "tirx.cuda.func_call": "it carries C++ text, which only a C++ compiler can read",
    "tirx.q_multiply_shift_per_axis": "it is lowered by TVM's own passes before code generation",
    "tirx.buffer_offset": "it is the offset that TVM's own address lowering stores; nothing else has one",
}  # fmt: skip
