"""Names of topics and partition directories, and topic ids, as a writer accepts them."""

from __future__ import annotations

import os
import uuid

from kafkalog.codec.common.errors import FormatError, UsageError
from kafkalog.codec.common.limits import DEFAULT_LIMITS
from kafkalog.codec.files.text import decode_partition_metadata, decode_uuid, encode_uuid
from kafkalog.codec.names import (
    PARTITION_METADATA,
    DirectoryState,
    PartitionName,
    parse_partition_directory,
)
from kafkalog.log.disk.files import NotRegularFileError, read_small, scan_directory
from kafkalog.log.disk.remote_file import MissingFileError

__all__ = ["check_topic", "id_of_topic", "partition_name", "topic_id_beside"]

_TOPIC_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
_LONGEST_TOPIC = 249


def check_topic(name: str) -> None:
    """Raise `UsageError` for an invalid topic name (`Topic.validate`), such as one that leads to another directory."""
    if not 0 < len(name) <= _LONGEST_TOPIC or not _TOPIC_CHARACTERS.issuperset(name) or name in (".", ".."):
        raise UsageError(f"{name[:_LONGEST_TOPIC]!r} is not the name of a topic")


def partition_name(path: str) -> PartitionName:
    """Return the name parsed from the end of `path`. Raises `UsageError` unless it is exactly a live partition's
    `<topic>-<partition>`: no deleted, future or stray one, valid topic, no leading zeros.
    """
    name = parse_partition_directory(os.path.basename(path))
    if name is None or name.state is not DirectoryState.LIVE or name.partition < 0:
        raise UsageError(f"{path} is not named like a partition directory (<topic>-<partition>)")
    check_topic(name.topic)
    if os.path.basename(path) != str(name):
        raise UsageError(f"{path} should end in {name}: a broker would not find it")
    return name


def topic_id_beside(root: str, topic: str) -> str | None:
    """Return the topic id from the live partition of `topic` with the lowest number in `root` whose metadata file can
    be decoded; None if there is none. A missing or malformed file is skipped; other storage errors are raised.
    """
    partitions = []
    for entry in scan_directory(root):
        name = parse_partition_directory(entry.name)
        if name is not None and name.topic == topic and name.state is DirectoryState.LIVE:
            partitions.append((name.partition, entry.path))
    for _, path in sorted(partitions):
        file = os.path.join(path, PARTITION_METADATA)
        try:
            return decode_partition_metadata(read_small(file, DEFAULT_LIMITS.checkpoint_bytes), source=file).topic_id
        except (MissingFileError, NotRegularFileError, FormatError):
            continue
    return None


def id_of_topic(topic_id: str | None) -> str:
    """Return the given topic id, or a new one for None. Raises `UsageError` if it is not a topic id."""
    if topic_id is None:
        while True:
            text = encode_uuid(uuid.uuid4().bytes)
            if not text.startswith("-"):  # as Kafka's own, which must not look like an option
                return text
    try:
        value = decode_uuid(topic_id)
    except FormatError as error:
        raise UsageError(f"topic_id: {error.message}") from None
    if not any(value):
        raise UsageError("topic_id is zero")
    return topic_id
