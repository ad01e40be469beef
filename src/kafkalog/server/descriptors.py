"""File descriptors reserved for clients, open logs and walks before anyone connects.

Without a free descriptor a client would wrongly be told that a partition does not exist. So no more clients are
admitted than there are descriptors for.
"""

from __future__ import annotations

import resource

from msgspec import Struct

from kafkalog.log.disk.held_files import keep_free

__all__ = ["Descriptors", "descriptors_for"]

_OWN = 64
"""For listing directories, listening, and the process itself."""
_OF_A_LOG = 2
"""A log and its index."""
_OPEN_LOGS = 512
_FEWEST_LOGS = 16
_MANY = 1 << 20
"""Used if the system sets no limit."""


class Descriptors(Struct, frozen=True):
    """Number of descriptors of each kind."""

    limit: int
    connections: int
    open_logs: int


def descriptors_for(connections: int) -> Descriptors:
    """Raise this process's limit of open files to the hard limit (at most 1,048,576), and divide it. Return the limit,
    the number of clients to admit, and the number of logs kept open. The number of clients is `connections`; if the
    limit is low, it is lower, but at least one. The descriptors are reserved: other reads in this process may not use
    them. Raises `ValueError` or `OSError` if the limit cannot be set.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MANY if hard == resource.RLIM_INFINITY else min(hard, _MANY)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    left = most - _OWN
    logs = min(_OPEN_LOGS, max(_FEWEST_LOGS, left // 8))
    admitted = max(1, min(connections, (left - logs * _OF_A_LOG) * 3 // 4))
    keep_free(_OWN + logs * _OF_A_LOG + admitted)
    return Descriptors(most, admitted, logs)
