"""Descriptors shared out before anybody connects: clients, open logs, and the files that walks over logs hold.

Whoever finds none left would be told that a partition is not there, which is wrong; so nobody is admitted for whom
there is none.
"""

from __future__ import annotations

import resource

from msgspec import Struct

from kafkalog.log.disk.held_files import keep_free

__all__ = ["Descriptors", "descriptors_for"]

_OWN = 64
"""For listing directories, for what listens, and for the process itself."""
_OF_A_LOG = 2
"""A log and its index."""
_OPEN_LOGS = 512
_FEWEST_LOGS = 16
_MANY = 1 << 20
"""Where the system sets no limit."""


class Descriptors(Struct, frozen=True):
    """How many there are of each."""

    limit: int
    connections: int
    open_logs: int


def descriptors_for(connections: int) -> Descriptors:
    """Raise the limit of open files as far as it goes, and share out what there is; fewer clients if that is little."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MANY if hard == resource.RLIM_INFINITY else min(hard, _MANY)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    left = most - _OWN
    logs = min(_OPEN_LOGS, max(_FEWEST_LOGS, left // 8))
    admitted = max(1, min(connections, (left - logs * _OF_A_LOG) * 3 // 4))
    keep_free(_OWN + logs * _OF_A_LOG + admitted)
    return Descriptors(most, admitted, logs)
