"""Ports that are named before anybody listens on them.

Who asks the system for any port gets one of a range of its own. A node that is gone must not have had one of those: its
peers go on asking at its port, and whoever gets that next would be sent their requests. (Spark takes the first bytes
that come for a worker's secret, and ends the query: "Authentication failed".)
"""

from __future__ import annotations

import random
import socket
from pathlib import Path

LENT = Path("/proc/sys/net/ipv4/ip_local_port_range")
FIRST, LAST = 10_240, 65_535
_named: set[int] = set()
_chance = random.SystemRandom()


def named_ports() -> list[int]:
    """Ports that the system lends to nobody; all of them where it lends all."""
    first, last = (int(number) for number in LENT.read_text(encoding="ascii").split())
    return [*range(FIRST, first), *range(last + 1, LAST + 1)] or list(range(FIRST, LAST + 1))


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on, that the system lends to nobody, and that was not given before."""
    while True:
        port: int = _chance.choice(named_ports())
        if port not in _named and _is_free(port):
            _named.add(port)
            return port


def _is_free(port: int) -> bool:
    with socket.socket() as s:
        try:
            s.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
