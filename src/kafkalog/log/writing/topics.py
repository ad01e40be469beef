"""Check names of topics and partition directories, and topic ids, for writers."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable

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

__all__ = ["check_topic", "first_topic_id", "id_of_topic", "partition_name", "topic_id_beside"]

_TOPIC_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
_LONGEST_TOPIC = 249


def check_topic(name: str) -> None:
    """Raise `UsageError` for an invalid topic name (`Topic.validate`), such as one that leads to another directory."""
    if not 0 < len(name) <= _LONGEST_TOPIC or not _TOPIC_CHARACTERS.issuperset(name) or name in (".", ".."):
        raise UsageError(f"{name[:_LONGEST_TOPIC]!r} is not the name of a topic")


def partition_name(path: str) -> PartitionName:
    """Return topic and partition from the last component of `path`. Raises `UsageError` unless it is exactly
    `<topic>-<partition>` with a valid topic name and no leading zeros; names of deleted, future or stray partitions are
    refused too. The directory need not exist.
    """
    name = parse_partition_directory(os.path.basename(path))
    if name is None or name.state is not DirectoryState.LIVE or name.partition < 0:
        raise UsageError(f"{path} is not named like a partition directory (<topic>-<partition>)")
    check_topic(name.topic)
    if os.path.basename(path) != str(name):
        raise UsageError(f"{path} should end in {name}: a broker would not find it")
    return name


def topic_id_beside(root: str, topic: str) -> str | None:
    """Return the topic id of `topic` from the `partition.metadata` of one of its live partitions in `root`; None if
    there is no readable one. The file of the lowest partition number counts. Missing, malformed and special files are
    skipped. Raises `StorageError` if `root` cannot be listed, or a file cannot be read for another reason.
    """
    partitions = []
    for entry in scan_directory(root):
        name = parse_partition_directory(entry.name)
        if name is not None and name.topic == topic and name.state is DirectoryState.LIVE and entry.is_dir():
            partitions.append((name.partition, entry.path))
    return first_topic_id(path for _, path in sorted(partitions))


def first_topic_id(directories: Iterable[str]) -> str | None:
    """Return the topic id from the first readable `partition.metadata` of partition directories of one topic; None if
    there is none. Missing, malformed and special files are skipped. Raises `StorageError` if a file cannot be read for
    another reason.
    """
    for directory in directories:
        file = os.path.join(directory, PARTITION_METADATA)
        try:
            return decode_partition_metadata(read_small(file, DEFAULT_LIMITS.checkpoint_bytes), source=file).topic_id
        except (MissingFileError, NotRegularFileError, FormatError):  # opening that partition reports its fault
            continue
    return None


def id_of_topic(topic_id: str | None) -> str:
    """Return `topic_id` if it is valid; for None, a new random id. Raises `UsageError` if `topic_id` is not the base64
    form of a UUID, or is zero.
    """
    if topic_id is None:
        while True:
            text = encode_uuid(uuid.uuid4().bytes)
            if not text.startswith("-"):  # Kafka avoids ids that look like an option, too
                return text
    try:
        value = decode_uuid(topic_id)
    except FormatError as error:
        raise UsageError(f"topic_id: {error.message}") from None
    if not any(value):
        raise UsageError("topic_id is zero")
    return topic_id
