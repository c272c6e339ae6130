"""Device intrinsics a kernel may call: ``tirx.ptx.*`` and ``tirx.cuda.*``, with their parameters.

This table is what the script namespace offers and what the printer prints; the lowering gives each its PTX.
"""

from __future__ import annotations

INTRINSICS: dict[str, object] = {}
