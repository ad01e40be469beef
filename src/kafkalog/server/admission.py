"""Limit the number of client connections; choose the connection to close when the limit is reached.

The address with the most connections loses its longest idle one, but never in favour of an address with more. An
authenticated connection is never closed in favour of an unauthenticated one. So idle connections cannot keep clients
out, however many they are.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable

from kafkalog.server.connection import Connection
from kafkalog.server.limits import NetworkLimits

__all__ = ["Admission"]

_UNKNOWN_SHARE = 4
"""Unauthenticated connections may be one of this many of all, where authentication is required."""


class Admission:
    """All open connections, counted by client address. Safe for several threads."""

    def __init__(self, limits: NetworkLimits) -> None:
        self._limits = limits
        self._asks_who = limits.first_bytes is not None
        self._drop: dict[Connection, Callable[[Connection], None]] = {}
        self._of_host: Counter[str] = Counter()
        self._lock = threading.Lock()

    @property
    def count(self) -> int:
        """Number of connections."""
        return len(self._drop)

    def add(self, connection: Connection, drop: Callable[[Connection], None]) -> None:
        """Count another connection. `drop` closes it."""
        with self._lock:
            self._drop[connection] = drop
            self._of_host[connection.host] += 1

    def gone(self, connection: Connection) -> None:
        """Remove a connection that has ended."""
        with self._lock:
            self._forget(connection)

    def _forget(self, connection: Connection) -> Callable[[Connection], None] | None:
        drop = self._drop.pop(connection, None)
        if drop is not None:
            self._of_host[connection.host] -= 1
            if not self._of_host[connection.host]:
                del self._of_host[connection.host]
        return drop

    def make_room(self, host: str) -> str | None:
        """Make room for one more client at address `host`. Return None if there is room now, else the reason, as text
        for a message. The new client itself is not counted here.

        If the limit is reached, one connection is closed: an idle connection of this address or of an address with more
        connections. If there is none, the address with the most connections loses its oldest one. This happens only if
        it is another address and has more than half of the limit. If authentication is required, an unauthenticated
        connection is closed instead of these, even below the limit once a quarter of the limit is unauthenticated.
        """
        with self._lock:
            most = self._limits.connections
            unknown = [client for client in self._drop if not client.authenticated] if self._asks_who else []
            if len(unknown) >= max(1, most // _UNKNOWN_SHARE):
                victim = self._of_heaviest(unknown)
            elif len(self._drop) < most:
                return None
            else:
                victim = self._of_heaviest(unknown) or self._that_makes_way(host)
            drop = None if victim is None else self._forget(victim)
        if victim is None or drop is None:
            return f"{most} clients are connected, which is the most (--max-connections), and none of them is idle"
        drop(victim)
        return None

    def _of_heaviest(self, connections: Iterable[Connection]) -> Connection | None:
        """Return the oldest of these connections from the address with the most connections; None if there are none."""
        return min(connections, key=lambda each: (-self._of_host[each.host], each.opened), default=None)

    def _that_makes_way(self, host: str) -> Connection | None:
        own = self._of_host[host]
        idle = [each for each in self._drop if each.is_idle and (each.host == host or self._of_host[each.host] > own)]
        found = min(idle, key=lambda each: (-self._of_host[each.host], each.requests > 0, each.progress), default=None)
        if found is not None:
            return found
        heaviest, count = self._of_host.most_common(1)[0]
        if heaviest == host or count <= self._limits.connections // 2:
            return None
        return self._of_heaviest(connection for connection in self._drop if connection.host == heaviest)
