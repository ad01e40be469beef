"""Numbers that stand for "none" or "no end" in Kafka's formats."""

from __future__ import annotations

__all__ = [
    "MICROSECONDS", "NO_END", "NO_OFFSET", "NO_PARTITION_LEADER_EPOCH", "NO_PRODUCER_EPOCH", "NO_PRODUCER_ID",
    "NO_SEQUENCE", "NO_TIMESTAMP",
]  # fmt: skip

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1
MICROSECONDS = 1000
"""Microseconds in a millisecond: Kafka's timestamps are milliseconds, those of columns microseconds."""
NO_PARTITION_LEADER_EPOCH = -1
NO_OFFSET = -1
NO_END = 2**63 - 1
"""End offset above all others."""
