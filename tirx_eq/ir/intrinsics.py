"""Device intrinsics a kernel may call: ``tirx.ptx.*`` and ``tirx.cuda.*``, with their parameters.

The table (:mod:`tirx_eq.ir.intrinsic_table`) is what the script namespace offers and what the printer prints;
:func:`build_call` makes a call from arguments, :func:`arguments_of` gets the arguments back.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from ..errors import IRError
from .intrinsic_table import OTHER_OPERATORS, ROWS

REQUIRED = object()

#: 64-bit L2 cache policies by name, as ``createpolicy.fractional`` encodes them (TIRx uses these constants)
CACHE_POLICIES = {
    "evict_normal": 0x1000000000000000,
    "evict_first": 0x12F0000000000000,
    "evict_last": 0x14F0000000000000,
}


@dataclass(frozen=True)
class Parameter:
    """A parameter; ``kind`` is positional, variadic or keyword; ``choices`` the admissible constants (None: any)."""

    name: str
    kind: str
    default: Any = REQUIRED
    choices: tuple[Any, ...] | None = None


@dataclass(frozen=True)
class Intrinsic:
    """One row of the table, read: see :mod:`tirx_eq.ir.intrinsic_table` for the meaning of the columns."""

    op: str
    script: str
    parameters: tuple[Parameter, ...]
    operands: tuple[str, ...]
    result: str


def _read_row(path: str, parameters: str, operands: str = "", result: str = "", op: str = "") -> Intrinsic:
    family, _, rest = path.partition(".")
    read = tuple(_read_parameters(parameters))
    names = tuple(("*" if p.kind == "variadic" else "") + p.name for p in read)
    return Intrinsic(
        op or f"tirx.{family}.{rest.replace('.', '_')}", path, read, tuple(operands.split()) or names, result
    )


def _read_parameters(text: str) -> Iterable[Parameter]:
    kind = "positional"
    for part in filter(None, (p.strip() for p in text.split(", "))):
        if part == "*":
            kind = "keyword"
        elif part.startswith("*"):
            yield Parameter(part[1:], "variadic")
            kind = "keyword"
        else:
            head, has_default, default = part.partition("=")
            name, has_choices, choices = head.partition(":")
            yield Parameter(
                name, kind, ast.literal_eval(default) if has_default else REQUIRED,
                tuple(_constant(c) for c in choices.split("|")) if has_choices else None,
            )  # fmt: skip


def _constant(text: str) -> Any:
    if text in ("True", "False"):
        return text == "True"
    return int(text) if text.lstrip("-").isdigit() else text


class _Table(Mapping[str, Any]):
    """Operator name -> Intrinsic (None where the call needs code of its own); rows are read when first asked for."""

    def __init__(self) -> None:
        self._rows: dict[str, tuple[str, ...] | None] = dict.fromkeys(OTHER_OPERATORS)
        for row in ROWS:
            family, _, rest = row[0].partition(".")
            self._rows[row[4] if len(row) > 4 else f"tirx.{family}.{rest.replace('.', '_')}"] = row

    def __getitem__(self, name: str) -> Intrinsic | None:
        return _read_cached(self._rows[name])

    def __iter__(self) -> Any:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


@cache
def _read_cached(row: tuple[str, ...] | None) -> Intrinsic | None:
    return None if row is None else _read_row(*row)


#: operator name -> Intrinsic, or None for one that is only known by name
INTRINSICS: Mapping[str, Intrinsic | None] = _Table()


def by_script_path() -> dict[str, Intrinsic]:
    """The intrinsics by their name in the script namespace (``ptx.mbarrier.init``)."""
    return {i.script: i for i in INTRINSICS.values() if i is not None}


# -- calls ------------------------------------------------------------------------------------------------------------


def build_call(intrinsic: Intrinsic, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The Call of an intrinsic with Python or IR values as arguments.

    The operands of the call itself are accepted too, all positional, as TIRx's printer writes them.  Raises IRError for
    a missing, unknown or inadmissible argument.
    """
    from .expr import Call
    from .op import Op

    try:
        bound = bind_arguments(intrinsic, args, kwargs)
    except IRError:
        raw = None if kwargs else _raw_call(intrinsic, args)
        if raw is None:
            raise
        return raw
    _derive(intrinsic, bound)
    operands: list[Any] = []
    for token in intrinsic.operands:
        operands.extend(_operand(token, bound))
    values = tuple(as_operand(o) for o in operands)
    return Call(_result_type(intrinsic, bound), Op.get(intrinsic.op), values)


def _raw_call(intrinsic: Intrinsic, args: Sequence[Any]) -> Any:
    """The call with exactly these operands, if some arguments make it; else None."""
    from .expr import Call
    from .op import Op

    if len(args) <= sum(p.kind == "positional" and p.default is REQUIRED for p in intrinsic.parameters):
        return None
    try:
        operands = tuple(as_operand(a) for a in args)
    except IRError:
        return None
    for given in _optional_sets(intrinsic):
        values = _match_operands(intrinsic, operands, given)
        if values is None:
            continue
        try:
            call = Call(_result_type(intrinsic, values), Op.get(intrinsic.op), operands)
        except (IRError, KeyError):
            continue
        if arguments_of(call) is not None:
            return call
    return None


def bind_arguments(intrinsic: Intrinsic, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by parameter name, defaults filled in."""
    bound: dict[str, Any] = {}
    rest = list(args)
    for p in intrinsic.parameters:
        if p.kind == "variadic":
            bound[p.name] = tuple(rest)
            rest = []
        elif p.kind == "positional" and rest:
            if p.name in kwargs:
                raise IRError(f"{intrinsic.script}: '{p.name}' is given twice")
            bound[p.name] = rest.pop(0)
        elif p.name in kwargs:
            bound[p.name] = kwargs[p.name]
        elif p.default is not REQUIRED:
            bound[p.name] = p.default
        else:
            raise IRError(f"{intrinsic.script} needs '{p.name}'", hint=_usage(intrinsic))
        _check_choice(intrinsic, p, bound[p.name])
    unknown = [k for k in kwargs if k not in bound and k != "dtype"]
    if rest or unknown:
        what = f"the parameter '{unknown[0]}'" if unknown else f"{len(args)} positional arguments"
        raise IRError(f"{intrinsic.script} doesn't take {what}", hint=_usage(intrinsic))
    return bound


def _usage(intrinsic: Intrinsic) -> str:
    parts: list[str] = []
    for p in intrinsic.parameters:
        if p.kind == "keyword" and not any(x.startswith("*") for x in parts):
            parts.append("*")
        text = "*" + p.name if p.kind == "variadic" else p.name
        parts.append(text if p.default is REQUIRED else f"{text}={p.default!r}")
    return f"{intrinsic.script}({', '.join(parts)})"


def _check_choice(intrinsic: Intrinsic, p: Parameter, value: Any) -> None:
    if p.choices is None or value is p.default:
        return
    plain = getattr(value, "value", value)
    if isinstance(plain, (str, int)) and plain not in p.choices and str(plain) not in p.choices:
        raise IRError(
            f"{intrinsic.script}: {p.name}={plain!r} is not admissible",
            hint=f"one of {', '.join(repr(c) for c in p.choices)}",
        )


def _derive(intrinsic: Intrinsic, bound: dict[str, Any]) -> None:
    """Values that follow from others: cache policies, the state space of a remote barrier, lane masks."""
    from .arith import const

    if "policy" in intrinsic.operands:
        hint = getattr(bound.get("cache_hint", ""), "value", bound.get("cache_hint", ""))
        given = bound.get("cache_policy")
        if given is None and hint not in ("", *CACHE_POLICIES):
            raise IRError(
                f"{intrinsic.script}: there is no built-in cache policy {hint!r}",
                hint=f"one of {', '.join(CACHE_POLICIES)}, or give cache_policy=",
            )
        bound["has_policy"] = int(given is not None or bool(hint))
        bound["policy"] = given if given is not None else const(CACHE_POLICIES.get(hint, 0), "uint64")
    if "space" in bound and bound["space"] is None:
        bound["space"] = "shared" if bound.get("remote") is None else "shared::cluster"
    if bound.get("remote") is not None and getattr(bound["space"], "value", bound["space"]) != "shared::cluster":
        raise IRError(f"{intrinsic.script}: a remote barrier is in space='shared::cluster'")
    if "multicast" in bound and bound["multicast"] is None:
        mask = getattr(bound["cta_mask"], "value", bound["cta_mask"])
        bound["multicast"] = not (isinstance(mask, int) and mask & (mask - 1) == 0)
    if "disable_output_lane" in bound and not bound["disable_output_lane"]:
        group = getattr(bound["cta_group"], "value", bound["cta_group"])
        bound["disable_output_lane"] = (0,) * (4 if group == 1 else 8)
    if intrinsic.op == "tirx.ptx.ldmatrix":
        bits = str(getattr(bound["dtype"], "value", bound["dtype"])).lstrip(".")
        number = getattr(bound["num"], "value", bound["num"])
        if not isinstance(number, int):
            raise IRError(f"ptx.ldmatrix: the number of matrices is a constant, got {bound['num']!r}")
        count = number // (1 if bits == "b16" else 2)
        if len(bound["dst_handles"]) != count:
            raise IRError(f"ptx.ldmatrix: {count} destinations are needed, got {len(bound['dst_handles'])}")


def _operand(token: str, bound: Mapping[str, Any]) -> Sequence[Any]:
    name = token[1:]
    match token[0]:
        case "*":
            return tuple(bound[name])
        case "?":
            return () if bound[name] is None else (bound[name],)
        case "#":
            return (int(bound[name] is not None),)
        case "~":
            return (int(bool(bound[name])),)
        case "'":
            return (name[:-1],)
    return (bound[token],)


def as_operand(value: Any) -> Any:
    """A value as an operand of a call: strings and numbers become constants, regions of one element loads."""
    from .arith import const
    from .buffer import Buffer, BufferRegion
    from .expr import BufferLoad, Expr, IntImm

    if isinstance(value, Expr):
        return value
    if isinstance(value, BufferRegion):
        return value.as_load()
    if isinstance(value, Buffer):
        if value.const_shape() == (1,):
            return BufferLoad(value, (IntImm("int32", 0),))
        raise IRError(f"the buffer '{value.name}' is used where a value is wanted", hint=f"index it: {value.name}[…]")
    if isinstance(value, (tuple, list)):
        raise IRError("a list is used where a single value is wanted")
    return const(value)


def _result_type(intrinsic: Intrinsic, bound: Mapping[str, Any]) -> str:
    from . import dtype as dt

    kind = intrinsic.result
    if intrinsic.op == "tirx.ptx.fetch_register":
        return f"int{int(bound['bits'])}"
    if kind.startswith("="):
        return str(as_operand(bound[kind[1:]]).dtype)
    if kind.startswith("@"):
        named = bound[kind[1:]]
        return dt.normalize(getattr(named, "value", named) or "void")
    return kind or "void"


# -- back to arguments ------------------------------------------------------------------------------------------------


def arguments_of(call: Any) -> tuple[Intrinsic, list[Any], dict[str, Any]] | None:
    """The intrinsic and the arguments from which :func:`build_call` makes this call; None if there are none."""
    intrinsic = INTRINSICS.get(call.op.name)
    if intrinsic is None or call.attrs:
        return None
    for given in _optional_sets(intrinsic):
        values = _match_operands(intrinsic, call.args, given)
        if values is None:
            continue
        args, kwargs = _as_arguments(intrinsic, values, call)
        try:
            if build_call(intrinsic, args, kwargs) == call:
                return intrinsic, args, kwargs
        except IRError:
            continue
    return None


def bound_arguments(call: Any) -> dict[str, Any] | None:
    """Every parameter of the intrinsic with its argument in this call, defaults and what follows from others filled in.

    A variadic parameter has a tuple, an absent one None; a cache policy is ``policy`` with ``has_policy``.
    """
    found = arguments_of(call)
    if found is None:
        return None
    intrinsic, args, kwargs = found
    bound = bind_arguments(intrinsic, args, kwargs)
    _derive(intrinsic, bound)
    return bound


def _optional_sets(intrinsic: Intrinsic) -> Iterable[set[str]]:
    """All ways to give or leave out the optional operands."""
    optional = [t[1:] for t in intrinsic.operands if t[0] == "?"]
    for given in itertools.product((False, True), repeat=len(optional)):
        yield {n for n, g in zip(optional, given) if g}


def _match_operands(intrinsic: Intrinsic, args: Sequence[Any], given: set[str]) -> dict[str, Any] | None:
    """Parameter values read off the operands, assuming that just the optional ones in ``given`` are there."""
    tokens = [t for t in intrinsic.operands if t[0] != "?" or t[1:] in given]
    spread = sum(t[0] == "*" for t in tokens)
    extra = len(args) - (len(tokens) - spread)
    if extra < 0 or (extra and not spread):
        return None
    values: dict[str, Any] = {}
    place = 0
    for t in tokens:
        if t[0] == "*":
            values[t[1:]] = tuple(args[place : place + extra])
            place += extra
            continue
        if t[0] not in "#'":
            values[t[1:] if t[0] in "?~" else t] = args[place]
        place += 1
    return values


def _as_arguments(intrinsic: Intrinsic, values: dict[str, Any], call: Any) -> tuple[list[Any], dict[str, Any]]:
    if "has_policy" in values:
        used = bool(getattr(values.pop("has_policy"), "value", 1))
        policy = values.pop("policy")
        name = next((n for n, v in CACHE_POLICIES.items() if getattr(policy, "value", None) == v), None)
        values["cache_hint"] = name if used and name else ""
        if used and not name:
            values["cache_policy"] = policy
    if intrinsic.result.startswith("@"):
        values.setdefault(intrinsic.result[1:], call.dtype)
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for p in intrinsic.parameters:
        if p.name not in values:
            continue
        if p.kind == "variadic":
            args.extend(values[p.name])
        elif p.kind == "positional":
            args.append(values[p.name])
        elif not _is_default(p, values[p.name]):
            kwargs[p.name] = values[p.name]
    return args, kwargs


def _is_default(p: Parameter, value: Any) -> bool:
    plain = getattr(value, "value", value)
    if p.default is REQUIRED or p.default is None:
        return False
    return bool(plain == p.default)
