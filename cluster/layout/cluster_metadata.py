"""Records of `__cluster_metadata` and of its snapshots."""

from __future__ import annotations

from kafkalog.cluster.layout.record_types import framed_types

__all__ = ["FRAME_VERSION", "VALUES"]

FRAME_VERSION = 1
"""The only frame that Kafka reads; 0 was the preview's of 2.8."""

VALUES = framed_types("__cluster_metadata")
"""Record type -> layouts from the newest to the oldest."""
