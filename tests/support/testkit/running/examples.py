"""How many examples of a property are tried: everybody's are the same every time, so few of them find what there is.

`dev.py sweep` makes new ones, and then as many as the test names.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from hypothesis import HealthCheck, settings

__all__ = ["examples"]

_EVERY = 4
_FEW = 15


def examples(count: int, suppressed: Sequence[HealthCheck] = ()) -> settings:
    """As a decorator: `count` new examples, or a fourth of them that are the same every time."""
    if os.environ.get("KAFKALOG_EXAMPLES") != "new":
        count = max(-(-count // _EVERY), min(count, _FEW))
    return settings(max_examples=count, suppress_health_check=suppressed)
