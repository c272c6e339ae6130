"""The parts of the document that follow from the compiler's own tables: ``copy_async``, ``gemm_async``, and fragments."""

from __future__ import annotations

from itertools import product

from tirx_eq.lower.candidates import Premises, lowering_rules
from tirx_eq.lower.conditions.gemm import KINDS, SCALED_KINDS
from tirx_eq.lower.mma_sync import MMA_KINDS

from .cells import PLACES, SCOPES

#: What a rule's conditions say of where its operands are.
_WHERE = {"registers": ("registers", "a thread's registers"), "shared": ("shared memory",), "global": ("global memory",),
          "tensor memory": ("tensor memory",)}  # fmt: skip
#: Scopes within a CTA: threads copy together, or elect one that issues the copy; whole warps reach tensor memory.
_WARPS = ("warp", "warpgroup", "cta")
_MANY = ("thread", "warp", "warpgroup", "cta")

NO_ENGINE = (
    "no asynchronous instruction connects the two: there are copies between global and shared memory, between shared "
    "memories of a cluster, from registers to another CTA's shared memory, from shared to tensor memory, and between "
    "tensor memory and registers; `copy` does the rest"
)
COPIES = """## copy_async

Bits are moved, so dtypes don't matter: every copy takes all.  Tensor copies, bulk copies and those from shared to tensor
memory are issued by one thread: at wider scopes than a thread's, one lane of the first warp of each unit is elected.  At CTA
scope every warpgroup exchanges with tensor memory what the layout of the registers gives it.  At cluster scope each CTA copies
what it has, and tells its own barrier of it.
"""
PRODUCTS = """## gemm_async

Issued by one thread, which a warp, a warpgroup or a CTA that makes the call elects; for one CTA or a pair.  At cluster scope
each CTA multiplies what it has.  B is in shared memory, the accumulator in tensor memory, A in either: the tensor core reads
and writes nowhere else, and takes no other dtypes.  Scale factors are in tensor memory.  The weight-stationary form is one
CTA's.
"""
PADDED = (
    "An `e2m1` beside 8-bit floats takes a byte: in shared memory 16 of them are packed in 8 of every 16 bytes "
    "(`mma_padded_layout`), as tensor copies that pad and `copy` leave them; in tensor memory each is in the central bits of a "
    "byte of its own (a step of 2 along `TCol`), as `tcgen05.cp` on the way from there and stores "
    "from registers leave it."
)
FRAGMENTS = """
## gemm of fragments

At warp, warpgroup and CTA scope, A, B, C and D in registers as `mma.sync` has them: `gemm/mma_sync`, in these shapes, and
where `alpha` or `beta` is another number than 1, or known at run time only, `gemm/mma_sync_scaled`; a scaled
D of f16, and any of bf16, is formed in f32 and rounded once.
A thread alone can't: the instruction is executed by the 32 lanes of a warp.
"""
BY_WARPS = "`tcgen05.ld` and `tcgen05.st` are executed by all 32 lanes of a warp together, not by one thread"
#: Conditions of copies in which one CTA names others.
NAMING = ("a mask of CTAs is given", "a CTA of the cluster is named", "the barrier is in the other CTA of a pair")
NO_CLUSTER = "copies into a CTA that is named are made by another CTA, not by all of them"


def copies() -> str:
    """The table of asynchronous copies: by whom, from where to where."""
    letters: dict[str, str] = {}
    rules = [p for p in lowering_rules() if p.op == "copy_async"]
    lines = [COPIES, "| operands | " + " | ".join(SCOPES) + " |", "|---" * (len(SCOPES) + 1) + "|"]
    for destination, source in product(PLACES, PLACES):
        mine = [p for p in rules if _in(p, "destination", destination) and _in(p, "source", source)]
        row = [_entry(mine, scope, letters) for scope in SCOPES]
        lines.append(f"| {destination} ← {source} | " + " | ".join(row) + " |")
    lines += ["", *(f"- **{letter}** — {why}." for why, letter in letters.items())]
    return "\n".join(lines)


def _in(p: Premises, which: str, place: str) -> bool:
    return any(f"{which} in {name}" in p.holds for name in _WHERE[place])


def _scopes(p: Premises) -> tuple[str, ...]:
    if p.scope is not None:
        return (p.scope,)
    together = {"each warp moves its own lanes", "registers of several threads and memory"}
    return _WARPS if together & set(p.holds) else _MANY


def _entry(rules: list[Premises], scope: str, letters: dict[str, str]) -> str:
    if scope == "cluster":  # what each of its CTAs does
        found = [p.rule.name for p in rules if "cta" in _scopes(p) and not set(p.holds) & set(NAMING)]
    else:
        found = [p.rule.name for p in rules if scope in _scopes(p)]
    if found:
        return "<br>".join(found)
    if not rules:
        why = NO_ENGINE
    elif scope == "cluster":
        why = NO_CLUSTER
    else:
        why = BY_WARPS
    return f"— **{letters.setdefault(why, 'k' + str(len(letters) + 1))}**"


def products() -> str:
    """Products on the tensor core, by dtypes: of shared and tensor memory, and of fragments in registers."""
    lines = [PRODUCTS, "| A | B | accumulator | A in shared memory | A in tensor memory |", "|---|---|---|---|---|"]
    for (a, b, d), kind in KINDS.items():
        forms = f"kind::{kind.name} and weight-stationary"
        lines.append(f"| {a} | {b} | {d} | {forms} | {forms} |")
    for (a, b, factor, count), kind in SCALED_KINDS.items():
        scaled = f"kind::{kind.name}.block_scale"
        told = f"float32, a {factor} for {count} elements of K"
        lines.append(f"| {a} | {b} | {told} | {scaled} | {scaled} |")
    lines += ["", PADDED]
    lines += [FRAGMENTS, "| A | B | accumulator | shapes |", "|---|---|---|---|"]
    for (a, b, d), mma in MMA_KINDS.items():
        lines.append(f"| {a} | {b} | {d} | " + ", ".join(f"m16n8k{k}" for k in mma.depths) + " |")
    return "\n".join(lines)
