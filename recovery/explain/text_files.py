"""Read text files as spans: every value with its bytes, as in `codec.parsing.text_layouts`."""

from __future__ import annotations

from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.layout.primitives import LayoutError
from kafkalog.codec.names import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_OFFSET_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    META_PROPERTIES,
    PARTITION_METADATA,
    QUORUM_STATE,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
)
from kafkalog.codec.parsing import text_layouts
from kafkalog.codec.parsing.trace import MOST_SPANS, FieldSpan, Traced, read_spans

__all__ = ["TEXT_FILES", "text_spans"]

_OFFSETS = "offset_checkpoint", text_layouts.OFFSET_CHECKPOINT, "offset-checkpoint"
TEXT_FILES: dict[str, tuple[str, Traced, str]] = {
    RECOVERY_POINT_CHECKPOINT: _OFFSETS,
    LOG_START_OFFSET_CHECKPOINT: _OFFSETS,
    REPLICATION_OFFSET_CHECKPOINT: _OFFSETS,
    CLEANER_OFFSET_CHECKPOINT: _OFFSETS,
    LEADER_EPOCH_CHECKPOINT: (
        "leader_epoch_checkpoint", text_layouts.LEADER_EPOCH_CHECKPOINT, "leader-epoch-checkpoint",
    ),
    PARTITION_METADATA: ("partition_metadata", text_layouts.PARTITION_METADATA, "partition-metadata"),
    META_PROPERTIES: ("meta_properties", text_layouts.META_PROPERTIES, "meta-properties"),
    CLEAN_SHUTDOWN_FILE: ("clean_shutdown", text_layouts.CLEAN_SHUTDOWN, "clean-shutdown"),
    QUORUM_STATE: ("quorum_state", text_layouts.QUORUM_STATE, "quorum-state"),
}  # fmt: skip
"""File name -> its name in `kafkalog.codec.parse`, its layout, and its page of docs/format."""


def text_spans(name: str, data: bytes, most: int = MOST_SPANS, limits: Limits = DEFAULT_LIMITS) -> FieldSpan:
    """Return the fields of a text file with their bytes and values, as the children of one span; `name`, which must be
    in `TEXT_FILES`, decides its format. If there are more than `most` fields, only the first `most` are returned. If
    these have no fault, the first fault in the rest of the file is added as one more child. Faults are marked in the
    spans; no exception is raised for them.
    """
    _what, layout, _page = TEXT_FILES[name]
    root = read_spans(layout, data, limits=limits, most=most)
    if root.note is not None and next(root.problems(), None) is None:
        try:
            layout.parse_whole(data, limits)
        except LayoutError as fault:
            position = fault.position
            problem = FieldSpan(fault.path or "", position, position, problem=fault.detail, code=fault.code)
            root.children.append(problem)
    return root
