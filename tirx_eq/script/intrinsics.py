"""``Tx.ptx`` and ``Tx.cuda``: namespaces made of the intrinsics table, and the few calls with code of their own."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ..errors import IRError
from ..ir import Call, Expr, Op, const
from ..ir.intrinsics import CACHE_POLICIES, as_operand, build_call, by_script_path
from .values import as_expr


class Namespace:
    """A tree of names; a name may be callable and have names below it (``ptx.cp_async`` and ``ptx.cp_async.bulk``)."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._members: dict[str, Any] = {}
        self._call: Callable[..., Any] | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._call is None:
            raise IRError(f"'{self._path}' is a group of functions: {', '.join(sorted(self._members))}")
        return self._call(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        members = self.__dict__.get("_members", {})
        if name in members:
            return members[name]
        near = difflib.get_close_matches(name, members, 3, 0.6)
        more = f"; did you mean {', '.join(near)}?" if near else ""
        raise AttributeError(f"there is no '{self.__dict__.get('_path', '')}.{name}'{more}")

    def __dir__(self) -> list[str]:
        return sorted(self._members)

    def __repr__(self) -> str:
        return f"Tx.{self._path}"

    def add(self, path: str, function: Callable[..., Any]) -> None:
        """Put a function at a dotted path below this namespace."""
        head, _, rest = path.partition(".")
        below = self._members.get(head)
        if not isinstance(below, Namespace):
            below = self._members[head] = Namespace(f"{self._path}.{head}")
        if rest:
            below.add(rest, function)
        else:
            below._call = function


def _from_table(intrinsic: Any, *args: Any, **kwargs: Any) -> Expr:
    return build_call(intrinsic, args, kwargs)


def _raw(op: str, dtype: str, *args: Any) -> Call:
    return Call(dtype or "void", Op.get(op), tuple(as_operand(a) for a in args))


# -- calls with operands of their own ---------------------------------------------------------------------------------


def _mma(
    shape: Any, a_layout: Any, b_layout: Any, d_type: Any, a_type: Any, b_type: Any, c_type: Any, d_ptrs: Any,
    a_ptrs: Any, b_ptrs: Any, c_ptrs: Any = None, saturate: bool = False, bit_op: Any = None,
) -> Call:  # fmt: skip
    """``mma.sync``: lists of pointers to the registers of D, A, B and C."""
    d, a, b, c = list(d_ptrs), list(a_ptrs), list(b_ptrs), list(c_ptrs or ())
    rest = () if bit_op is None else (bit_op,)
    return _raw(
        "tirx.ptx.mma", "", shape, a_layout, b_layout, d_type, a_type, b_type, c_type, len(d), len(a), len(b), len(c),
        c_ptrs is None, *d, *a, *b, *c, saturate, *rest,
    )  # fmt: skip


_SCALAR_RETURN = {
    "b32": "uint32", "u32": "uint32", "s32": "int32", "b64": "uint64", "u64": "uint64", "s64": "int64",
    "f32": "float32", "f64": "float64",
}  # fmt: skip
_CVT_RETURN = {
    "u8": "uint8", "s8": "int8", "u16": "uint16", "s16": "int16", "u32": "uint32", "s32": "int32", "u64": "uint64",
    "s64": "int64", "f32": "float32", "f64": "float64", "f16": "uint16", "bf16": "uint16", "e4m3x2": "uint16",
    "e5m2x2": "uint16", "e2m1x2": "uint8", "e2m3x2": "uint16", "e3m2x2": "uint16", "ue8m0x2": "uint16",
    "s2f6x2": "uint16", "tf32": "uint32", "f16x2": "uint32", "bf16x2": "uint32", "e2m1x4": "uint16", "e4m3x4": "uint32",
    "e5m2x4": "uint32", "e2m3x4": "uint32", "e3m2x4": "uint32",
}  # fmt: skip


def _cvt(
    dtype: str, *values: Any, atype: str, rounding: str = "", ftz: bool = False, sat: bool = False, relu: bool = False,
    satfinite: bool = False, scaled: str = "", rbits: Any = None, scale_factor: Any = None,
) -> Call:  # fmt: skip
    """``cvt``: convert ``values`` of ``atype`` to ``dtype`` (PTX type names)."""
    if dtype not in _CVT_RETURN:
        raise IRError(f"ptx.cvt: '{dtype}' is not a type to convert to", hint=f"one of {', '.join(_CVT_RETURN)}")
    if (rbits is not None) != (rounding == "rs"):
        raise IRError("ptx.cvt: rbits= is given just when rounding='rs'")
    if (scale_factor is not None) != bool(scaled):
        raise IRError("ptx.cvt: scale_factor= is given just when scaled= is")
    more = [v for v in (rbits, scale_factor) if v is not None]
    return _raw(
        "tirx.ptx.cvt", _CVT_RETURN[dtype], *values, *more, len(values), int(rbits is not None),
        int(scale_factor is not None), dtype, atype, rounding, int(ftz), int(sat), int(relu), int(satfinite), scaled,
    )  # fmt: skip


def _policy(hint: str, policy: Any) -> tuple[Any, int]:
    if policy is not None:
        return policy, 1
    if hint and hint not in CACHE_POLICIES:
        raise IRError(f"there is no built-in cache policy {hint!r}", hint=f"one of {', '.join(CACHE_POLICIES)}")
    return const(CACHE_POLICIES.get(hint, 0), "uint64"), int(bool(hint))


def _destinations(dst: Any, vec: str, name: str) -> tuple[list[Any], int]:
    if dst is None:
        if vec:
            raise IRError(f"ptx.{name}: a vector load needs dst=")
        return [], 0
    if isinstance(dst, (list, tuple)):
        if len(dst) != (int(vec[1:]) if vec else 1):
            raise IRError(f"ptx.{name}: dst has {len(dst)} members for vec={vec!r}")
        return list(dst), len(dst)
    return [dst], 1


def _load(name: str, modifiers: tuple[str, ...], policy_without_dst: bool) -> Callable[..., Call]:
    """The ``ld`` family: a value is returned, or with ``dst=`` stored through pointers."""
    defaults = {"weak": False, "scope": "gpu", "space": "global", "cop": ""}

    def load(
        addr: Any, return_type: Any, ptx_type: str, *, dst: Any = None, vec: str = "", cache_hint: str = "",
        cache_policy: Any = None, l1_evict: str = "", l2_evict: str = "", prefetch_size: str = "", **given: Any,
    ) -> Call:  # fmt: skip
        unknown = set(given) - set(modifiers)
        if unknown:
            raise IRError(f"ptx.{name} doesn't take '{sorted(unknown)[0]}'")
        policy, has_policy = _policy(cache_hint, cache_policy)
        values = [given.get(m, defaults[m]) for m in modifiers]
        values = [int(v) if m == "weak" else v for m, v in zip(modifiers, values)]
        targets, to_dst = _destinations(dst, vec, name)
        tail = (l1_evict, l2_evict, prefetch_size)
        if to_dst:
            return _raw(
                f"tirx.ptx.{name}", "", *targets, addr, policy, return_type, *values, vec, ptx_type, has_policy,
                to_dst, *tail,
            )  # fmt: skip
        before = (addr, policy) if policy_without_dst else (addr,)
        shown = "" if policy_without_dst else vec
        return _raw(
            f"tirx.ptx.{name}", str(return_type), *before, return_type, *values, shown, ptx_type, has_policy, 0, *tail
        )

    load.__name__ = name
    return load


def _ld_volatile(
    addr: Any, return_type: Any, ptx_type: str, *, space: str = "global", vec: str = "", dst: Any = None,
    prefetch_size: str = "",
) -> Call:  # fmt: skip
    """``ld.volatile``."""
    targets, to_dst = _destinations(dst, vec, "ld_volatile")
    dtype = "" if to_dst else str(return_type)
    return _raw("tirx.ptx.ld_volatile", dtype, *targets, addr, return_type, space, vec, ptx_type, to_dst, prefetch_size)


def _ld_mmio(addr: Any, return_type: Any, ptx_type: str, *, sem: str = "acquire", dst: Any = None) -> Call:
    """``ld.mmio``."""
    first = () if dst is None else (dst,)
    dtype = str(return_type) if dst is None else ""
    return _raw("tirx.ptx.ld_mmio", dtype, *first, addr, return_type, sem, "sys", "global", ptx_type, len(first))


def _atom_scalar(
    address: Any, value: Any, *, sem: str = "", scope: str = "", space: str = "global", op: str, ptx_type: str,
    cache_hint: str = "", cache_policy: Any = None,
) -> Call:  # fmt: skip
    """``atom``: an atomic operation that returns the old value."""
    policy, has_policy = _policy(cache_hint, cache_policy)
    if ptx_type not in _SCALAR_RETURN:
        raise IRError(f"ptx.atom_scalar: '{ptx_type}' is not a type of it", hint=f"one of {', '.join(_SCALAR_RETURN)}")
    dtype = _SCALAR_RETURN[ptx_type]
    return _raw("tirx.ptx.atom_scalar", dtype, address, value, policy, sem, scope, space, op, ptx_type, has_policy)


def _packed(op: str, operands: int, default_rounding: str) -> Callable[..., Call]:
    """Packed f32x2 arithmetic: into an address (dps) or as a 64-bit value."""

    def apply(
        *args: Any, rounding: str = default_rounding, ftz: bool = False, dps: bool = True, return_dtype: str = "uint64"
    ) -> Call:
        wanted = operands + (1 if dps else 0)
        if len(args) != wanted:
            raise IRError(f"ptx.{op}_f32x2 takes {wanted} operands{' (an address first)' if dps else ''}")
        head = args[:1] if dps else ()
        values = [_pair_bits(a) for a in args[len(head) :]]
        dtype = "void" if dps else return_dtype
        return _raw(f"tirx.ptx.{op}_f32x2", dtype, *head, *values, rounding, int(ftz), int(dps), dtype)

    apply.__name__ = f"{op}_f32x2"
    return apply


def _pair_bits(value: Any) -> Any:
    expr = as_expr(value)
    return Call("uint64", Op.get("tirx.reinterpret"), (expr,)) if expr.dtype == "float32x2" else expr


def _tensor_copy(intrinsic: Any, *args: Any, **kwargs: Any) -> Expr:
    """A bulk tensor copy; with the cache policy as an expression its operands stand as they are in the call."""
    place = next(i for i, p in enumerate(intrinsic.parameters) if p.name == "cache_hint")
    if len(args) > place and isinstance(args[place], Expr) and args[place].dtype != "handle":
        return _raw(intrinsic.op, "", *args)
    return build_call(intrinsic, args, kwargs)


def _leader_address(ptr: Any) -> Expr:
    """The shared address of the same place in the leader CTA of a pair."""
    return _from_table(by_script_path()["cuda.cvta_generic_to_shared"], ptr) & const(0xFEFFFFFF, "uint32")


def _ldg(addr: Any, dtype: str, *, dst: Any = None, vec: str = "") -> Call:
    """``ld.global.nc`` by value, or as a vector into ``dst``."""
    if dst is None:
        return _raw("tirx.cuda.ldg", dtype, addr, dtype)
    if vec not in ("v2", "v4") or len(dst) != int(vec[1:]):
        raise IRError("cuda.ldg: dst= needs vec='v2' or 'v4' and as many members")
    return _raw("tirx.cuda.ldg", "", *dst, addr, dtype, vec, int(vec[1:]))


def _mapa_shared(ptr: Any, rank: Any) -> Expr:
    """The address of the same place in the shared memory of another CTA of the cluster."""
    return build_call(by_script_path()["ptx.mapa"], (ptr, rank), {})


def _reduce_as(path: str, op: str) -> Callable[..., Expr]:
    def apply(value: Any, *rest: Any, **kwargs: Any) -> Expr:
        return build_call(by_script_path()[path], (value, op, *rest), kwargs)

    return apply


def _arrive_noinc(bar: Any, space: str = "shared::cta") -> Expr:
    return build_call(by_script_path()["ptx.cp_async.mbarrier.arrive"], (bar, True, space), {})


SPECIAL: Mapping[str, Callable[..., Any]] = {
    "ptx.mma": _mma,
    "ptx.cvt": _cvt,
    "ptx.ld": _load("ld", ("weak", "space", "cop"), True),
    "ptx.ld_global_nc": _load("ld_global_nc", ("cop",), True),
    "ptx.ld_acquire": _load("ld_acquire", ("scope", "space"), False),
    "ptx.ld_relaxed": _load("ld_relaxed", ("scope", "space"), True),
    "ptx.ld_volatile": _ld_volatile,
    "ptx.ld_mmio": _ld_mmio,
    "ptx.atom_scalar": _atom_scalar,
    "ptx.add_f32x2": _packed("add", 2, "rn"),
    "ptx.sub_f32x2": _packed("sub", 2, "rn"),
    "ptx.mul_f32x2": _packed("mul", 2, ""),
    "ptx.fma_f32x2": _packed("fma", 3, "rn"),
    "ptx.map_shared_rank": _mapa_shared,
    "ptx.cp_async.mbarrier.arrive.noinc": _arrive_noinc,
    "cuda.ldg": _ldg,
    "cuda.sm100_2sm_leader_smem_addr": _leader_address,
    **{f"cuda.warp_{op}": _reduce_as("cuda.warp_reduce", op) for op in ("sum", "max", "min")},
    **{f"cuda.cta_{op}": _reduce_as("cuda.cta_reduce", op) for op in ("sum", "max", "min")},
}


def make_namespaces() -> dict[str, Namespace]:
    """``ptx``, ``cuda`` and ``nvshmem``."""
    roots = {name: Namespace(name) for name in ("ptx", "cuda", "nvshmem")}
    for path, intrinsic in by_script_path().items():
        family, _, rest = path.partition(".")
        maker = _tensor_copy if ".bulk.tensor." in path else _from_table
        roots[family].add(rest, partial(maker, intrinsic))
    for path, function in SPECIAL.items():
        function.__qualname__ = path  # which Python names in its messages about arguments
        family, _, rest = path.partition(".")
        roots[family].add(rest, function)
    return roots
