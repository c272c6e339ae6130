"""What a proof attempt says: ``Verdict``, and the evidence that makes it checkable by someone else.

``equal`` and ``different`` are theorems; ``unknown`` is neither and carries the question as SMT-LIB text, so that it
can be taken to another solver.  Everything here turns into JSON and back without loss (``to_json``, ``from_json``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from ..errors import ProofError
from ..ir.index import Term, parse, show

Status = Literal["equal", "different", "unknown"]
STATUSES: tuple[Status, ...] = ("equal", "different", "unknown")


@dataclass(frozen=True)
class Structural:
    """Both sides are the same after the named normal form (``syntax`` means: as they were written)."""

    form: str = "syntax"


@dataclass(frozen=True)
class NormalForm:
    """Both sides have this canonical form; ``form`` is its text."""

    form: str


@dataclass(frozen=True)
class Matrix:
    """Both sides are this affine map over GF(2).

    ``inputs`` names the input bits, each ``(what, bit)``; row ``i`` is output bit ``i`` as a mask over the inputs,
    with bit 0 the constant and bit ``j + 1`` input ``j``.  An input that is a whole term (not a variable) stands for
    any value of that term.
    """

    inputs: tuple[tuple[str, int], ...]
    rows: tuple[int, ...]


@dataclass(frozen=True)
class Enumeration:
    """Every one of ``points`` integer points of ``box`` (inclusive bounds per variable) was evaluated."""

    points: int
    box: tuple[tuple[str, int, int], ...]


@dataclass(frozen=True)
class Empty:
    """Presburger arithmetic: the set of points on which the sides differ, in ``constraint`` form, has no element."""

    library: str
    constraint: str


@dataclass(frozen=True)
class Unsat:
    """A solver found the negated claim unsatisfiable within ``rlimit`` (never a wall clock).

    ``width`` is the number of bits of every intermediate value (0: unbounded integers); ``digest`` is the SHA-256 of
    the SMT-LIB text that was solved.
    """

    logic: str
    width: int
    rlimit: int
    used: int
    digest: str


@dataclass(frozen=True)
class RuleChain:
    """The sides are joined by these rules, each of which has a proof record."""

    rules: tuple[str, ...]


@dataclass(frozen=True)
class Lemmas:
    """A claim cut into steps, each proved by itself."""

    steps: tuple[tuple[str, Certificate], ...]


Certificate = Structural | NormalForm | Matrix | Enumeration | Empty | Unsat | RuleChain | Lemmas
_KINDS: dict[str, type] = {
    k.__name__: k for k in (Structural, NormalForm, Matrix, Enumeration, Empty, Unsat, RuleChain, Lemmas)
}


@dataclass(frozen=True)
class IndexClaim:
    """``before == after`` at every point of ``ranges`` (name, low, high; inclusive) that satisfies ``assume``."""

    before: Term
    after: Term
    ranges: tuple[tuple[str, int, int], ...]
    assume: tuple[Term, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Terms as neutral text."""
        return {
            "kind": "index",
            "before": show(self.before),
            "after": show(self.after),
            "ranges": {n: [lo, hi] for n, lo, hi in self.ranges},
            "assume": [show(t) for t in self.assume],
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> IndexClaim:
        """The claim that ``to_json`` wrote."""
        ranges = tuple((str(n), int(r[0]), int(r[1])) for n, r in data["ranges"].items())
        assume = tuple(parse(t) for t in data.get("assume", ()))
        return IndexClaim(parse(data["before"]), parse(data["after"]), ranges, assume)


@dataclass(frozen=True)
class LayoutClaim:
    """A question about layouts, given as specification dicts (design section 8).

    ``question`` is equal, injective, covers, conflict_free, or same_up_to_offset / same_up_to_permutation; ``layouts``
    the one or two layouts; ``size`` the number of elements; ``shape`` the shape asked about, if any; ``detail`` what
    else the question needs (extents to cover; dtype, lanes and vector of an access).
    """

    question: str
    layouts: tuple[dict[str, Any], ...]
    size: int
    shape: tuple[int, ...] | None = None
    detail: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As a dict with ``kind: layout``."""
        return {
            "kind": "layout",
            "question": self.question,
            "layouts": list(self.layouts),
            "size": self.size,
            "shape": None if self.shape is None else list(self.shape),
            "detail": self.detail,
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> LayoutClaim:
        """The claim that ``to_json`` wrote."""
        shape = data.get("shape")
        return LayoutClaim(
            str(data["question"]),
            tuple(data["layouts"]),
            int(data["size"]),
            None if shape is None else tuple(shape),
            dict(data.get("detail", {})),
        )


@dataclass(frozen=True)
class AxisClaims:
    """Equality of symbolic layouts, axis by axis: all of ``parts`` (name, claim) hold.  In a counterexample ``flat`` is
    the variable x of the parts, ``coordinate`` their c0, c1 …"""

    parts: tuple[tuple[str, IndexClaim], ...]

    def to_json(self) -> dict[str, Any]:
        """As a dict with ``kind: axes``."""
        return {"kind": "axes", "parts": [[name, part.to_json()] for name, part in self.parts]}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> AxisClaims:
        """The claims that ``to_json`` wrote."""
        return AxisClaims(tuple((str(name), IndexClaim.from_json(part)) for name, part in data["parts"]))


Claim = IndexClaim | LayoutClaim | AxisClaims


@dataclass(frozen=True)
class Verdict:
    """The answer to one claim.

    ``decided_by`` is the procedure that answered.  ``counterexample`` (only with ``different``) maps the inputs at
    which the sides differ to integers, and ``before``/``after`` hold the two values there; it has been replayed by a
    scalar evaluator.  ``certificate`` (only with ``equal``) is what ``check`` replays.  ``detail`` is text for people.
    ``smtlib`` (only with ``unknown``) is the open question: satisfiable exactly if the sides differ.
    ``claim`` says what was asked, in a form that can be asked again.
    """

    status: Status
    decided_by: str
    counterexample: dict[str, Any] | None = None
    certificate: Certificate | None = None
    detail: str = ""
    before: Any = None
    after: Any = None
    smtlib: str = ""
    claim: Claim | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.status not in STATUSES:
            raise ProofError(f"verdict: status {self.status!r} is none of {', '.join(STATUSES)}")
        if self.status == "different" and self.counterexample is None:
            raise ProofError("verdict: 'different' needs a counterexample")
        if self.status == "equal" and self.certificate is None:
            raise ProofError("verdict: 'equal' needs a certificate")

    def __bool__(self) -> bool:
        """True only for ``equal``."""
        return self.status == "equal"

    def save_question(self, path: str | Path) -> Path:
        """Write the open question of an ``unknown`` verdict as an SMT-LIB file; ``sat`` would mean that the sides differ.

        ``ProofError`` if there is no such question.
        """
        if not self.smtlib:
            raise ProofError(f"verdict: '{self.status}' by {self.decided_by} leaves no question open")
        target = Path(path)
        target.write_text(self.smtlib if self.smtlib.endswith("\n") else self.smtlib + "\n")
        return target

    def to_json(self) -> dict[str, Any]:
        """A JSON-able dict; empty fields are left out."""
        out: dict[str, Any] = {}
        for f in fields(self):
            value = getattr(self, f.name)
            if f.name == "certificate" and value is not None:
                value = certificate_to_json(value)
            if f.name == "claim" and value is not None:
                value = value.to_json()
            if value not in (None, ""):
                out[f.name] = value
        return out

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Verdict:
        """The verdict that ``to_json`` wrote; ``ProofError`` if the text is not one."""
        unknown = set(data) - {f.name for f in fields(Verdict)}
        if unknown or "status" not in data or "decided_by" not in data:
            raise ProofError(f"verdict: not the JSON form of a verdict (fields {sorted(data)})")
        values = dict(data)
        if values.get("certificate") is not None:
            values["certificate"] = certificate_from_json(values["certificate"])
        if values.get("claim") is not None:
            kinds: dict[str, Any] = {"index": IndexClaim, "layout": LayoutClaim, "axes": AxisClaims}
            kind = kinds.get(values["claim"].get("kind"))
            if kind is None:
                raise ProofError(f"verdict: the claim's kind {values['claim'].get('kind')!r} is none of {', '.join(kinds)}")
            values["claim"] = kind.from_json(values["claim"])
        return Verdict(**values)


def certificate_to_json(certificate: Certificate) -> dict[str, Any]:
    """``{"kind": ..., field: value}`` with tuples as lists."""
    out: dict[str, Any] = {"kind": type(certificate).__name__}
    for f in fields(certificate):
        value = getattr(certificate, f.name)
        if isinstance(certificate, Lemmas):
            value = [[name, certificate_to_json(step)] for name, step in value]
        out[f.name] = _listed(value)
    return out


def certificate_from_json(data: Mapping[str, Any]) -> Certificate:
    """The certificate that ``certificate_to_json`` wrote; ``ProofError`` if it is not one."""
    kind = _KINDS.get(str(data.get("kind")))
    if kind is None:
        raise ProofError(f"certificate: kind {data.get('kind')!r} is none of {', '.join(_KINDS)}")
    values = {k: v for k, v in data.items() if k != "kind"}
    if set(values) - {f.name for f in fields(kind)}:
        raise ProofError(f"certificate: {data.get('kind')} has no field {sorted(values)}")
    if kind is Lemmas:
        return Lemmas(tuple((str(n), certificate_from_json(c)) for n, c in values["steps"]))
    made: Certificate = kind(**{k: _tupled(v) for k, v in values.items()})
    return made


def _listed(value: Any) -> Any:
    return [_listed(v) for v in value] if isinstance(value, tuple | list) else value


def _tupled(value: Any) -> Any:
    return tuple(_tupled(v) for v in value) if isinstance(value, list) else value
