"""The type of each group, tracked record by record as by a coordinator that loads a partition of
`__consumer_offsets`.
"""

from __future__ import annotations

from kafkalog.cluster.records.coordinator_records import CoordinatorRecord

__all__ = [
    "CLASSIC", "CONSUMER", "DEFAULT_OFFSETS_RETENTION", "GROUP_METADATA", "NEW_PROTOCOLS", "OFFSETS_RETENTION",
    "RESET_SHARE_OFFSETS", "SHARE", "STREAMS", "GroupTypes",
]  # fmt: skip

OFFSETS_RETENTION = "offsets.retention.minutes"
DEFAULT_OFFSETS_RETENTION = 7 * 24 * 60
"""minutes"""

RESET_SHARE_OFFSETS = "the group's offsets are reset (`kafka-share-groups.sh --reset-offsets`)"
"""Kafka 4.1.1 and 4.3.0 declined to read state that was not there, until `Admin.alterShareGroupOffsets`."""

CLASSIC, CONSUMER, SHARE, STREAMS = "Classic", "Consumer", "Share", "Streams"
_SIMPLE = "simple"
"""a classic group with commits and nothing else"""
_COMMITS = (0, 1)
GROUP_METADATA = 2
"""key type of a classic group"""

NEW_PROTOCOLS = {
    3: (CONSUMER, "metadata"), 5: (CONSUMER, "member"), 6: (CONSUMER, "target_epoch"), 7: (CONSUMER, "target"),
    8: (CONSUMER, "current"), 4: (CONSUMER, "topics"), 16: (CONSUMER, "expression"),
    11: (SHARE, "metadata"), 10: (SHARE, "member"), 12: (SHARE, "target_epoch"), 13: (SHARE, "target"),
    14: (SHARE, "current"), 9: (SHARE, "topics"), 15: (SHARE, "initialized"),
    17: (STREAMS, "metadata"), 19: (STREAMS, "member"), 20: (STREAMS, "target_epoch"), 21: (STREAMS, "target"),
    22: (STREAMS, "current"), 23: (STREAMS, "topology"), 24: (STREAMS, "resolved"),
}  # fmt: skip
"""key type -> type of group, and what the record describes"""


class GroupTypes:
    """Types of the groups in one partition of `__consumer_offsets`; its records must be passed in offset order."""

    def __init__(self) -> None:
        self._kinds: dict[str, str] = {}

    def conflict(self, record: CoordinatorRecord) -> str | None:
        """Apply the next record; return the reason why a coordinator of 4.0 or later cannot load it, or None if it can.

        Changes the known types of groups. Records that could not be decoded, and record types that do not belong to a
        group, are ignored and return None.
        """
        if not record.understood or record.type is None:
            return None
        if record.type in _COMMITS:
            if record.value is not None:
                self._kinds.setdefault(record.key_field("group"), _SIMPLE)
        elif record.type == GROUP_METADATA:
            if record.value is None:
                self._kinds.pop(record.key_field("group"), None)
            else:
                self._kinds[record.key_field("group")] = CLASSIC
        elif record.type in NEW_PROTOCOLS:
            return self._of_new_protocol(record, *NEW_PROTOCOLS[record.type])
        return None

    def _of_new_protocol(self, record: CoordinatorRecord, kind: str, what: str) -> str | None:
        group = record.key_field("group_id")
        known = self._kinds.get(group)
        if known is None and record.value is None:
            return None
        if known not in (None, kind) and (known != _SIMPLE or kind == SHARE):
            other = CLASSIC if known == _SIMPLE else str(known)
            return f"{record.name} for group {group}, which is a {other.lower()} group there"
        self._kinds[group] = kind
        if what == "metadata" and record.value is None:
            del self._kinds[group]
        return None
