"""Which target has which feature.

A feature is granted by *target name*, never by family: ``sm_120a`` is a Blackwell part without tensor memory, plain
``sm_100`` is the same chip as ``sm_100a`` without the architecture-specific instructions.  The sets below were
established by assembling one probe per (feature, target) with ptxas 13.5; the test suite repeats that where an
assembler is installed.

``sm_XYa`` code runs on compute capability X.Y only; ``sm_XYf`` code may be compiled for the later members of its
family; code for a plain ``sm_XY`` runs on everything newer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tirx_eq.errors import PtxError

Version = tuple[int, int]


@dataclass(frozen=True)
class Target:
    """One value of ``.target``: ``arch`` is the number (100 for sm_100a), ``suffix`` is "", "a" or "f".

    ``ptx`` is the lowest ``.version`` that knows this target.
    """

    name: str
    arch: int
    suffix: str
    ptx: Version


def _targets() -> dict[str, Target]:
    table: dict[int, dict[str, Version]] = {
        80: {"": (7, 0)},
        86: {"": (7, 1)},
        87: {"": (7, 4)},
        88: {"": (9, 0)},
        89: {"": (7, 8)},
        90: {"": (7, 8), "a": (8, 0)},
        100: {"": (8, 6), "a": (8, 6), "f": (8, 8)},
        103: {"": (8, 8), "a": (8, 8), "f": (8, 8)},
        107: {"": (9, 4), "a": (9, 4), "f": (9, 4)},
        110: {"": (9, 0), "a": (9, 0), "f": (9, 0)},
        120: {"": (8, 7), "a": (8, 7), "f": (8, 8)},
        121: {"": (8, 8), "a": (8, 8), "f": (8, 8)},
    }
    return {
        f"sm_{arch}{suffix}": Target(f"sm_{arch}{suffix}", arch, suffix, floor)
        for arch, suffixes in table.items()
        for suffix, floor in suffixes.items()
    }


#: Every target this package can write, by name.
TARGETS: dict[str, Target] = _targets()


def _from(arch: int) -> frozenset[str]:
    return frozenset(t.name for t in TARGETS.values() if t.arch >= arch)


def _only(*names: str) -> frozenset[str]:
    return frozenset(f"sm_{n}" for n in names)


_DATACENTER = ("100a", "100f", "103a", "103f", "107a", "107f", "110a", "110f")
_SPECIFIC = ("100a", "103a", "107a", "110a")
_CONSUMER = ("120a", "120f", "121a", "121f")


@dataclass(frozen=True)
class Feature:
    """A group of instructions or modifiers that stand or fall together."""

    name: str
    what: str
    targets: frozenset[str]


#: Features by name.  An instruction table row without a feature exists on every target from sm_80 on.
FEATURES: dict[str, Feature] = {
    f.name: f
    for f in (
        Feature("sm_86", "ex2 and tanh on bf16, min/max with .xorsign", _from(86)),
        Feature("sm_89", "fp8 conversions and fp8 mma.sync", _from(89)),
        Feature("sm_90", "clusters, bulk copies, tensor maps, griddepcontrol, stmatrix", _from(90)),
        Feature("sm_100", "packed f32x2 arithmetic, 256-bit global accesses, clusterlaunchcontrol", _from(100)),
        Feature("setmaxnreg", "register reallocation between warpgroups", _only("90a", *_DATACENTER, *_CONSUMER)),
        Feature("tcgen05", "tensor memory and tcgen05 instructions", _only(*_DATACENTER)),
        Feature("tcgen05.i8", "integer kind of tcgen05.mma", _only("100a", "110a")),
        Feature("tcgen05.scale_vec", "scale_vec spelling of block scaling", _only(*_SPECIFIC)),
        Feature("tcgen05.sparse_fp4", "sparse tcgen05.mma of kinds mxf4 and mxf4nvf4", _only(*_SPECIFIC)),
        Feature("tcgen05.shift", "shifting rows of tensor memory", _only(*_SPECIFIC)),
        Feature(
            "tcgen05.scale_input_d",
            "scaling of the accumulator by a power of two in tcgen05.mma",
            _only(*(t for t in _DATACENTER if not t.startswith("110"))),
        ),
        Feature("tcgen05.ld.red", "tcgen05.ld with reduction", _only("103a", "103f", "107a", "107f", "110a", "110f")),
        Feature("tma.cta_group", "tensor copies that signal the barrier of the CTA pair", _only(*_DATACENTER)),
        Feature(
            "tma.gather4", "tensor copies with four row coordinates, to shared memory of a cluster", _only(*_DATACENTER)
        ),
        Feature(
            "narrow",
            "conversions to and from fp4, fp6 and ue8m0, 8-bit ldmatrix and stmatrix, swizzle atoms of tensormap.replace",
            _only(*_DATACENTER, *_CONSUMER),
        ),
        Feature("redux.f32", "floating-point redux.sync", _only("100a", "100f", "103a", "103f", "107a", "107f")),
        Feature("clc.multicast", "clusterlaunchcontrol for a whole cluster", _only(*_DATACENTER, *_CONSUMER)),
        Feature("mma.fp4", "mma.sync with fp4 and fp6 operands", _only(*_CONSUMER)),
        Feature("stochastic", "conversions with stochastic rounding", _only("100a", "103a", "107a")),
    )
}


def find_target(name: str) -> Target:
    """The target called ``name`` (for example "sm_100a"); raises ``PtxError`` if there is none."""
    target = TARGETS.get(name)
    if target is None:
        raise PtxError(f"unknown target '{name}'", hint="known targets: " + ", ".join(TARGETS))
    return target


def target_has(target: str | Target, feature: str) -> bool:
    """Whether ``target`` has ``feature`` (a key of ``FEATURES``); raises ``PtxError`` if either name is unknown."""
    name = target.name if isinstance(target, Target) else find_target(target).name
    if feature not in FEATURES:
        raise PtxError(f"unknown target feature '{feature}'", hint="known features: " + ", ".join(FEATURES))
    return name in FEATURES[feature].targets


def require(target: str | Target, feature: str, what: str | None = None) -> None:
    """Raise ``PtxError`` if ``target`` lacks ``feature``; ``what`` names the construct that asked for it.

    A lowering calls this before it writes any PTX.
    """
    if target_has(target, feature):
        return
    name = target.name if isinstance(target, Target) else target
    asked = f"{what}: " if what else ""
    raise PtxError(
        f"{asked}target {name} has no {feature} ({FEATURES[feature].what})",
        hint="targets that have it: " + ", ".join(t for t in TARGETS if t in FEATURES[feature].targets),
    )


def parse_version(version: str | Version) -> Version:
    """A PTX ISA version as (major, minor), from "8.7" or a pair; raises ``PtxError`` if it is not one."""
    if isinstance(version, str):
        match = re.fullmatch(r"(\d+)\.(\d+)", version)
        if match is None:
            raise PtxError(f"'{version}' is not a PTX version", hint='write it as "8.7"')
        return int(match[1]), int(match[2])
    return version
