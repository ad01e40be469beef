"""The names of topics and partition directories, and topic ids, as a writer accepts them."""

from __future__ import annotations

import os
import uuid

from kafkalog.codec.errors import FormatError, UsageError
from kafkalog.codec.names import (
    DirectoryState,
    PartitionName,
    parse_partition_directory,
)
from kafkalog.codec.text import decode_uuid, encode_uuid

__all__ = ["check_topic", "id_of_topic", "partition_name"]

_TOPIC_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
_LONGEST_TOPIC = 249


def check_topic(name: str) -> None:
    """`UsageError` for what is not the name of a topic (`Topic.validate`), such as one that leads to another place."""
    if not 0 < len(name) <= _LONGEST_TOPIC or not _TOPIC_CHARACTERS.issuperset(name) or name in (".", ".."):
        raise UsageError(f"{name[:_LONGEST_TOPIC]!r} is not the name of a topic")


def partition_name(path: str) -> PartitionName:
    """The name of a partition directory that a broker would find; `UsageError` for any other."""
    name = parse_partition_directory(os.path.basename(path))
    if name is None or name.state is not DirectoryState.LIVE or name.partition < 0:
        raise UsageError(f"{path} is not named like a partition directory (<topic>-<partition>)")
    check_topic(name.topic)
    if os.path.basename(path) != str(name):
        raise UsageError(f"{path} should end in {name}: a broker would not find it")
    return name


def id_of_topic(topic_id: str | None) -> str:
    """A topic id as it was given, or a new one; `UsageError` for what is none."""
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
