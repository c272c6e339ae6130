"""Marks for a profiler: TVM's own pipeline takes them out unless a tool asks for them, and so do we."""

from __future__ import annotations

from .language import Template

_NOTHING = (Template("", "result=void"), Template("mov.b32 %d 0"))
TEMPLATES: dict[str, tuple[Template, ...]] = {
    f"tirx.cuda.iket_{n}": _NOTHING for n in ("mark", "range_start", "range_end", "range_push", "range_pop", "sentinel_token")
}
