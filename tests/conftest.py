"""Property tests try the same examples in every run; ``TIRX_EQ_EXPLORE=1`` tries new ones."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("fixed", derandomize=True, deadline=None)
if not os.environ.get("TIRX_EQ_EXPLORE"):
    settings.load_profile("fixed")
