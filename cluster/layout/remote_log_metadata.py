"""Records of `__remote_log_metadata` (tiered storage); before 3.6 without custom metadata, under the same version."""

from __future__ import annotations

from kafkalog.cluster.layout.record_types import framed_types

__all__ = ["REMOTE_LOG_METADATA_TOPIC", "VALUES"]

REMOTE_LOG_METADATA_TOPIC = "__remote_log_metadata"

VALUES = framed_types(REMOTE_LOG_METADATA_TOPIC)
"""Record type -> layouts from the newest to the oldest."""
