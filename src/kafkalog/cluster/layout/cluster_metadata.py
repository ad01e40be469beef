"""Records of `__cluster_metadata` and of its snapshots."""

from __future__ import annotations

from kafkalog.cluster.layout.record_types import framed_types
from kafkalog.codec.names import CLUSTER_METADATA_TOPIC

__all__ = ["FRAME_VERSION", "VALUES"]

FRAME_VERSION = 1
"""The only frame version that Kafka reads; the preview of 2.8 wrote 0."""

VALUES = framed_types(CLUSTER_METADATA_TOPIC)
"""Record type -> layouts from the newest to the oldest."""
