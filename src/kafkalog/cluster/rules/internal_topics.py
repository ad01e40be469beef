"""Settings that a broker gives to internal topics."""

from __future__ import annotations

from collections.abc import Mapping

from kafkalog.codec.names import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC

__all__ = ["COMPACT", "COMPACTED_BY_KAFKA", "INTERNAL_TOPIC_SETTINGS"]

COMPACT = "compact"
"""The value `compact` of a topic's `cleanup.policy`."""
INTERNAL_TOPIC_SETTINGS: Mapping[str, Mapping[str, str]] = {
    topic: {"cleanup.policy": COMPACT, "segment.bytes": str(100 * 1024 * 1024)}
    for topic in (CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC)
}
"""Settings by topic (`GroupCoordinator.groupMetadataTopicConfigs`, `TransactionCoordinator.transactionTopicConfigs`).

The topic of share group state is not compacted: its coordinator deletes the beginning instead.
"""
COMPACTED_BY_KAFKA = frozenset(INTERNAL_TOPIC_SETTINGS)
