"""What a kernel's engineer should know about it: faults with counterexamples, and work that can go with proofs.

``audit(func)`` looks at a function of ours or, through the importer, of TVM::

    findings.py   what a finding is
    accesses.py   loads, stores and regions: outside their buffer, bank conflicts
    layouts.py    layouts that put two elements in one place, views beyond their storage, alignment
    views.py      views under another type, equal layouts that TVM takes for different
    reference.py  what TVM itself is known to get wrong
    operators.py  index expressions that have a cheaper equal
    tiles.py      tile calls with a cheaper variant, without one, or with configuration that nothing reads
    report.py     text, HTML
    run.py        the audit as a whole
"""

from .findings import Audit, Finding
from .run import audit

__all__ = ["Audit", "Finding", "audit"]
