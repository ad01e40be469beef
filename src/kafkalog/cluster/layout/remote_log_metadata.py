"""Records of `__remote_log_metadata` (tiered storage). Before 3.6 they had no custom metadata, but the same version."""

from __future__ import annotations

from kafkalog.cluster.layout.record_types import framed_types
from kafkalog.codec.names import REMOTE_LOG_METADATA_TOPIC

__all__ = ["VALUES"]

VALUES = framed_types(REMOTE_LOG_METADATA_TOPIC)
"""Record type -> layouts from the newest to the oldest."""
