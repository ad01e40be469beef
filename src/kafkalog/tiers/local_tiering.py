"""Local information about remote storage, read from the log directories of a broker."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping

from kafkalog.codec.common.errors import FormatError, KafkaLogError
from kafkalog.codec.common.limits import DEFAULT_LIMITS
from kafkalog.codec.files.text import decode_leader_epochs, decode_offset_checkpoint
from kafkalog.codec.names import (
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    REMOTE_LOG_METADATA_TOPIC,
    parse_segment_file,
)
from kafkalog.log.directories.lost_start import first_base
from kafkalog.log.directories.partition import Partition, open_live
from kafkalog.log.disk.files import NotRegularFileError, is_directory, read_small, scan_directory
from kafkalog.tiers.metadata import RemoteMetadata, read_remote_metadata
from kafkalog.tiers.tiering import REMOTE_STORAGE_ENABLE, SETTINGS_OF_TOPICS, Key, Tiering

__all__ = ["read_tiering", "remote_metadata_in"]


def read_tiering(roots: Iterable[str], configs: Mapping[str, Mapping[str, str | None]] | None) -> Tiering:
    """Collect the evidence of tiered storage in the log directories `roots` of one broker.

    `configs` are the settings of its topics in the cluster's metadata, by topic. If it is None, the topics that look
    tiered are found from leader epochs and the log start checkpoint instead (`seen`). Bad data and files that cannot be
    read count as missing and raise nothing.
    """
    found = [(root, _names(root)) for root in roots]
    remote = read_remote_metadata(_metadata_partitions(found), tolerant=True)
    if configs is None:
        seen = [_seen(root, Tiering(frozenset(names), _log_starts(root), remote=remote)) for root, names in found]
        return Tiering(remote=remote, seen=frozenset[str]().union(*seen))
    return Tiering(
        configured={
            topic: (values.get(REMOTE_STORAGE_ENABLE) or "").lower() == "true" for topic, values in configs.items()
        },
        settings={
            topic: {name: value for name, value in values.items() if name in SETTINGS_OF_TOPICS and value is not None}
            for topic, values in configs.items()
        },
        remote=remote,
    )


def remote_metadata_in(roots: Iterable[str]) -> RemoteMetadata:
    """Return the events in log directories of one broker or several. Raises `StorageError` if a log cannot be read."""
    return read_remote_metadata(_metadata_partitions([(root, _names(root)) for root in roots]))


def _names(root: str) -> list[str]:
    try:
        return [entry.name for entry in scan_directory(root)] if is_directory(root) else []
    except KafkaLogError:
        return []


def _metadata_partitions(names_by_root: Iterable[tuple[str, Iterable[str]]]) -> Iterator[Partition]:
    for root, names in names_by_root:
        yield from open_live(REMOTE_LOG_METADATA_TOPIC, root, names)


def _log_starts(root: str) -> dict[Key, int]:
    path = os.path.join(root, LOG_START_OFFSET_CHECKPOINT)
    try:
        entries = decode_offset_checkpoint(read_small(path, DEFAULT_LIMITS.checkpoint_bytes), source=path)
    except (FormatError, NotRegularFileError, OSError):
        return {}
    return {(topic, partition): offset for topic, partition, offset in entries}


def _seen(root: str, tiering: Tiering) -> set[str]:
    """Topics with a log that seems to begin below its first segment."""
    return {
        topic for topic, number in tiering.log_starts
        if f"{topic}-{number}" in tiering.directories and _looks_tiered(root, (topic, number), tiering)
    }  # fmt: skip


def _looks_tiered(root: str, key: Key, tiering: Tiering) -> bool:
    directory = os.path.join(root, f"{key[0]}-{key[1]}")
    parsed = {name: each for name in _names(directory) if (each := parse_segment_file(name)) is not None}
    begins = first_base(parsed)
    if begins is None:
        return False
    path = os.path.join(directory, LEADER_EPOCH_CHECKPOINT)
    try:
        epochs = decode_leader_epochs(read_small(path, DEFAULT_LIMITS.checkpoint_bytes), source=path)
    except (FormatError, NotRegularFileError, OSError):
        return False
    return bool(tiering.known_from(key, begins, [epoch.start_offset for epoch in epochs]))
