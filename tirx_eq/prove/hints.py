"""What the prover cannot find by itself, one line per rule; at most one rule in ten may need one.

A hint never weakens a claim: a witness replaces "m divides e" by the stronger "e is m times this".
"""

from __future__ import annotations

WITNESSES: dict[str, str] = {
    # al a = m gives a = m*q; shifted by b >= l = lo b, it is (m << l) times (q << (b - l))
    "ana/shl-al": "(shl q$1 (sub b lo$1))",
}
"""Rule name → the quotient, as an index term over the variables of the obligation."""
