"""Whether log directories can be those of one broker, by `meta.properties` of each (`MetaPropertiesEnsemble.verify`).

A broker starts only where all of its directories name one cluster and one node, and each of them another directory id.
Somebody may as well point at volumes of several brokers: those of one cluster hold replicas of the same partitions.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from kafkalog.codec.errors import KafkaLogError
from kafkalog.codec.findings import Finding, FindingCode, Severity
from kafkalog.codec.limits import DEFAULT_LIMITS
from kafkalog.codec.names import META_PROPERTIES, DirectoryState, PartitionName
from kafkalog.codec.text import MetaProperties, decode_meta_properties
from kafkalog.log.directories.directory import LogDir
from kafkalog.log.directories.partition import Partition
from kafkalog.log.disk.files import absolute, read_small
from kafkalog.log.disk.remote_file import MissingFileError

__all__ = [
    "RefusedId", "are_copies_of_one", "identity_findings", "meta_properties_of", "read_meta_properties", "refused_id",
]  # fmt: skip

_CLUSTER_ID = re.compile(r"[A-Za-z0-9_-]{1,22}")
_UUID_BYTES, _LONGEST_UUID, _RESERVED_IDS = 16, 24, 100
_RESERVED = "which is reserved"

_Known = tuple[LogDir, MetaProperties]


def read_meta_properties(root: str) -> MetaProperties | None:
    """The `meta.properties` of a log directory; None without one.  Raises `FormatError`, `StorageError`."""
    file = os.path.join(root, META_PROPERTIES)
    try:
        data = read_small(file, DEFAULT_LIMITS.checkpoint_bytes)
    except MissingFileError:
        return None
    return decode_meta_properties(data, source=file)


def meta_properties_of(root: str) -> MetaProperties | None:
    """The `meta.properties` of a log directory; None without one that can be read."""
    try:
        return read_meta_properties(root)
    except KafkaLogError:
        return None


def identity_findings(log_dirs: Sequence[LogDir]) -> list[Finding]:
    """What a broker with all of these as its `log.dirs` would refuse, and topics with several ids.

    Each finding names a `meta.properties` or a partition directory.
    """
    known = [(each, each.meta_properties) for each in log_dirs if each.meta_properties is not None]
    found = [finding for each in known for finding in _syntax(*each)]
    found += _clusters(known)
    found += _nodes(known)
    found += _directory_ids(known)
    found += [finding for each in log_dirs for finding in _topic_ids(each)]
    return found


def _topic_ids(log_dir: LogDir) -> Iterator[Finding]:
    """Partitions of one topic with several topic ids: of a topic that was deleted and made again, or of another one."""
    first: dict[str, Partition] = {}
    for each in log_dir.partitions:
        if each.name is None or each.state is not DirectoryState.LIVE or each.metadata is None:
            continue
        known = first.setdefault(each.name.topic, each).metadata
        if known is not None and known.topic_id != each.metadata.topic_id:
            detail = (
                f"{each.name} has topic id {each.metadata.topic_id}, another partition here has {known.topic_id}: "
                "a broker takes one of them for a topic that was deleted, or for another one and does not serve it"
            )
            yield Finding(FindingCode.IDENTITY_MISMATCH, Severity.WARNING, None, None, detail, each.path)


def are_copies_of_one(log_dirs: Sequence[LogDir]) -> bool:
    """Whether they are one log directory at several times, such as before and after: they share its id.

    Before there were such ids: all that is live in one of them is live in each other, and that is more than one.
    """
    ids = {None if each.meta_properties is None else each.meta_properties.directory_id for each in log_dirs}
    if len(log_dirs) < 2 or len(ids) > 1:
        return False
    if ids != {None}:
        return True
    smallest, *others = sorted((set(each) for each in log_dirs), key=len)
    return len(smallest) > 1 and all(smallest <= other for other in others)


class RefusedId(Struct, frozen=True):
    """An id without which, or with which, Kafka 4.1 does not start: its message, and a sentence for people."""

    message: str
    detail: str
    is_unread: bool = False
    """the file counts as one that cannot be read, which takes its log directory offline"""


def refused_id(meta: MetaProperties, directory: str, *, has_topic_ids: bool) -> RefusedId | None:
    """The id of a `meta.properties` because of which Kafka 4.1 does not start; None if it starts.

    A directory id is judged as the file is read (`MetaProperties.Builder`), and then as one of all that are there
    (`MetaPropertiesEnsemble.verify`); `directory` is the log directory, which the message names.  What version 0 may
    lack comes last (`KafkaRaftServer.initializeLogDirs`).  Every broker that wrote the file wrote its own id.  Of the
    cluster those before 0.10.1 knew none, so its absence counts only where partitions have topic ids, as they do
    since 2.8.
    """
    if meta.directory_id is not None and (wrong := _wrong_uuid(meta.directory_id)) is not None:
        detail = f"directory.id is {meta.directory_id[:40]!r}, {wrong}: a broker does not start with it"
        if wrong is not _RESERVED:
            return RefusedId("Unable to read directory.id as a base64 UUID", detail, is_unread=True)
        as_printed = base64.urlsafe_b64encode(_decoded(meta.directory_id)).decode().rstrip("=")
        return RefusedId(f"Invalid reserved directory ID {as_printed} found in {directory}", detail)
    if meta.node_id is None:
        why = "a broker of ZooKeeper's time would write its own again"
        return RefusedId("Error: node ID not found", f"it names no broker: Kafka 4.1 does not start with it, {why}")
    if meta.cluster_id is None and has_topic_ids:
        return RefusedId("Error: cluster ID not found", "it names no cluster: Kafka 4.1 does not start with it")
    return None


def _finding(log_dir: LogDir, detail: str, severity: Severity, code: FindingCode) -> Finding:
    return Finding(code, severity, None, None, detail, os.path.join(log_dir.path, META_PROPERTIES))


def _syntax(log_dir: LogDir, meta: MetaProperties) -> Iterator[Finding]:
    code = FindingCode.META_PROPERTIES_INVALID
    has_topic_ids = any(each.metadata is not None for each in log_dir.partitions)
    refused = refused_id(meta, log_dir.path, has_topic_ids=has_topic_ids)
    if refused is not None:
        yield _finding(log_dir, refused.detail, Severity.ERROR, code)
    if meta.cluster_id is not None and _CLUSTER_ID.fullmatch(meta.cluster_id) is None:
        detail = (
            f"cluster.id is {meta.cluster_id[:40]!r}; Kafka's have up to 22 letters, digits, hyphens and underscores"
        )
        yield _finding(log_dir, detail, Severity.WARNING, code)


def _wrong_uuid(text: str) -> str | None:
    """Why a broker does not take this as a directory's id (`Uuid.fromString`, `DirectoryId.reserved`)."""
    if len(text) > _LONGEST_UUID:
        return f"longer than {_LONGEST_UUID} characters"
    try:
        value = _decoded(text)
    except (binascii.Error, ValueError):
        return "which is not base64 for URLs"
    if len(value) != _UUID_BYTES:
        return f"{len(value)} bytes instead of {_UUID_BYTES}"
    high, low = int.from_bytes(value[:8]), int.from_bytes(value[8:], signed=True)
    return _RESERVED if not high and low < _RESERVED_IDS else None


def _decoded(text: str) -> bytes:
    unpadded = text.rstrip("=")
    return base64.b64decode(unpadded + "=" * (-len(unpadded) % 4), altchars=b"-_", validate=True)


def _clusters(known: Sequence[_Known]) -> Iterator[Finding]:
    named = [(log_dir, meta.cluster_id) for log_dir, meta in known if meta.cluster_id is not None]
    for log_dir, cluster in named:
        if cluster != named[0][1]:
            detail = f"cluster.id is {cluster}, that of {named[0][0].path} is {named[0][1]}: not volumes of one cluster"
            yield _finding(log_dir, detail, Severity.ERROR, FindingCode.IDENTITY_MISMATCH)


def _nodes(known: Sequence[_Known]) -> Iterator[Finding]:
    named = [(log_dir, meta.node_id) for log_dir, meta in known if meta.node_id is not None]
    several = _are_replicas(named)
    for log_dir, node in named:
        if node != named[0][1]:
            detail = f"the node id is {node}, that of {named[0][0].path} is {named[0][1]}: " + (
                "volumes of several brokers"
                if several
                else "a broker with both does not start; use `kafkalog compare` for volumes of several brokers"
            )
            yield _finding(
                log_dir, detail, Severity.INFO if several else Severity.WARNING, FindingCode.IDENTITY_MISMATCH
            )


def _are_replicas(named: Sequence[tuple[LogDir, int]]) -> bool:
    """Whether directories of different nodes hold the same partition, which the directories of one broker do not."""
    holder: dict[PartitionName | None, int] = {}
    for log_dir, node in named:
        for partition in log_dir.partitions:
            is_live = partition.name is not None and partition.state is DirectoryState.LIVE
            if is_live and holder.setdefault(partition.name, node) != node:
                return True
    return False


def _directory_ids(known: Sequence[_Known]) -> Iterator[Finding]:
    first: dict[str, LogDir] = {}
    for log_dir, meta in known:
        if meta.directory_id is not None:
            other = first.setdefault(meta.directory_id, log_dir)
            if absolute(other.path) != absolute(log_dir.path):
                detail = f"directory.id {meta.directory_id} is that of {other.path} too: one of them is a copy"
                yield _finding(log_dir, detail, Severity.ERROR, FindingCode.IDENTITY_MISMATCH)
