"""What an interpretation notes on its way, so that results of another execution can be compared with a fair bound."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class Record:
    """``approximate``: functions used that the target evaluates approximately; ``terms``: the most terms of one sum;
    ``magnitude``: the largest sum of magnitudes of one; ``largest``: the largest value of a float operand of a tile."""

    approximate: set[str] = field(default_factory=set)
    terms: int = 0
    magnitude: float = 0.0

    def summed(self, terms: int, magnitudes: Any) -> None:
        """Note a sum of ``terms`` products or values; ``magnitudes`` are the sums of their magnitudes."""
        self.terms = max(self.terms, terms)
        finite = np.asarray(magnitudes, dtype=np.float64)
        finite = finite[np.isfinite(finite)]
        if finite.size:
            self.magnitude = max(self.magnitude, float(finite.max()))

    def used(self, function: str) -> None:
        """Note a function that is approximate on the target."""
        self.approximate.add(function)
