"""Check whether log directories can belong to one broker, by their `meta.properties` (`MetaPropertiesEnsemble.verify`).
A broker starts only if all its directories have one cluster and one node id, and different directory ids. A user may
also name volumes of several brokers: volumes of one cluster hold replicas of the same partitions.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import Struct

from kafkalog.codec.common.errors import KafkaLogError
from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.common.limits import DEFAULT_LIMITS
from kafkalog.codec.files.text import MetaProperties, decode_meta_properties, meta_properties
from kafkalog.codec.layout.text_values import url_base64_bytes, uuid_text
from kafkalog.codec.names import (
    CLUSTER_METADATA_TOPIC,
    META_PROPERTIES,
    DirectoryState,
    PartitionName,
    parse_java_long,
)
from kafkalog.codec.parsing.properties import decode_properties
from kafkalog.log.directories.directory import LogDir
from kafkalog.log.directories.partition import Partition
from kafkalog.log.disk.files import absolute, read_small
from kafkalog.log.disk.remote_file import MissingFileError

__all__ = [
    "RefusedId", "are_copies_of_one", "identity_findings", "incomplete_meta_properties_of", "meta_properties_of",
    "read_meta_properties", "refused_id", "wrong_directory_id",
]  # fmt: skip

_CLUSTER_ID = re.compile(r"[A-Za-z0-9_-]{1,22}")
_UUID_BYTES, _LONGEST_UUID, _RESERVED_IDS = 16, 24, 100
_RESERVED = "which is reserved"
_VERSION, _NODE_ID, _CLUSTER_ID_LINE = "version", "node.id", "cluster.id"
_KRAFT = 1

_Known = tuple[LogDir, MetaProperties]


def read_meta_properties(root: str) -> MetaProperties | None:
    """Return the content of `meta.properties` in the log directory `root`; None if there is no such file. Raises
    `FormatError` if it is malformed or too large, `StorageError` if it cannot be read.
    """
    file = os.path.join(root, META_PROPERTIES)
    try:
        data = read_small(file, DEFAULT_LIMITS.checkpoint_bytes)
    except MissingFileError:
        return None
    return decode_meta_properties(data, source=file)


def meta_properties_of(root: str) -> MetaProperties | None:
    """Return the `meta.properties` of a log directory; None if it has none or it cannot be read."""
    try:
        return read_meta_properties(root)
    except KafkaLogError:
        return None


def incomplete_meta_properties_of(root: str) -> MetaProperties | None:
    """Return the content of a KRaft node's `meta.properties` that no broker accepts, because the line `version` is
    missing or the directory id is damaged. The result has no directory id if it is missing or Kafka would refuse it.
    Return None if the file is missing or unreadable, lacks a node id or cluster id, or has another version. A file that
    brokers accept is returned too.
    """
    try:
        lines = decode_properties(read_small(os.path.join(root, META_PROPERTIES), DEFAULT_LIMITS.checkpoint_bytes))
        node_id = parse_java_long(lines[_NODE_ID].strip(), 32)
        version = parse_java_long(lines.get(_VERSION, str(_KRAFT)).strip(), 32)
        cluster_id = lines[_CLUSTER_ID_LINE]
    except (KafkaLogError, KeyError):
        return None
    if node_id is None or version != _KRAFT:
        return None
    own = lines.get("directory.id")
    own = None if own is None or wrong_directory_id(own) is not None else own
    return meta_properties(version=_KRAFT, node_id=node_id, cluster_id=cluster_id, directory_id=own)


def identity_findings(log_dirs: Sequence[LogDir]) -> list[Finding]:
    """Check whether the ids of log directories fit together, as the `log.dirs` of one broker. Return the findings:
    first those about ids in `meta.properties`, then partitions of one topic that have different topic ids. If one has
    severity ERROR, that broker would not start. Each finding names a `meta.properties` or a partition directory. In a
    directory without a readable `meta.properties`, only topic ids are checked.
    """
    known = [(log_dir, log_dir.meta_properties) for log_dir in log_dirs if log_dir.meta_properties is not None]
    findings = [finding for log_dir, meta in known for finding in _syntax(log_dir, meta)]
    findings += _clusters(known)
    findings += _nodes(known)
    findings += _directory_ids(known)
    findings += [finding for log_dir in log_dirs for finding in _topic_ids(log_dir)]
    return findings


def _topic_ids(log_dir: LogDir) -> Iterator[Finding]:
    """Yield an IDENTITY_MISMATCH warning for each live partition with another topic id than the first partition of its
    topic in this log directory. Either the topic was deleted and created again, or the directory belongs to another
    topic. Partitions without a readable `partition.metadata` are skipped.
    """
    first: dict[str, Partition] = {}
    for partition in log_dir.partitions:
        if partition.name is None or partition.state is not DirectoryState.LIVE or partition.metadata is None:
            continue
        known = first.setdefault(partition.name.topic, partition).metadata
        if known is not None and known.topic_id != partition.metadata.topic_id:
            detail = (
                f"{partition.name} has topic id {partition.metadata.topic_id}, another partition here has "
                f"{known.topic_id}: "
                "a broker takes one of them for a topic that was deleted, or for another one and does not serve it"
            )
            yield Finding(FindingCode.IDENTITY_MISMATCH, Severity.WARNING, None, None, detail, partition.path)


def are_copies_of_one(log_dirs: Sequence[LogDir]) -> bool:
    """Return whether these are copies of one log directory, such as before and after a change. The result is True if
    all have the same directory id. If none has one, the smallest directory must have at least two live partitions, and
    all of these must be live in every other directory. Return False otherwise, for example for fewer than two
    directories, or if only some have a directory id.
    """
    ids = {None if log_dir.meta_properties is None else log_dir.meta_properties.directory_id for log_dir in log_dirs}
    if len(log_dirs) < 2 or len(ids) > 1:
        return False
    if ids != {None}:
        return True
    smallest, *others = sorted((set(log_dir) for log_dir in log_dirs), key=len)
    return len(smallest) > 1 and all(smallest <= other for other in others)


class RefusedId(Struct, frozen=True):
    """An id because of which, or without which, Kafka 4.1 does not start: its message, and a sentence for people."""

    message: str
    detail: str
    is_unread: bool = False
    """whether the file counts as unreadable, which takes its log directory offline"""


def refused_id(meta: MetaProperties, directory: str, *, has_topic_ids: bool) -> RefusedId | None:
    """Return the first id in a `meta.properties` that makes Kafka 4.1 refuse to start, with Kafka's error message and
    an explanation; None if none does. The ids are checked in Kafka's order: an invalid directory id
    (`MetaProperties.Builder`), a reserved one (`MetaPropertiesEnsemble.verify`), a missing node id, a missing cluster
    id (`KafkaRaftServer.initializeLogDirs`). A missing directory id is accepted.

    `directory` is the log directory named in the message. A missing cluster id only counts with `has_topic_ids`, which
    says that partitions have topic ids (since 2.8). Brokers before 0.10.1 had no cluster id.
    """
    if meta.directory_id is not None and (wrong := wrong_directory_id(meta.directory_id)) is not None:
        detail = f"directory.id is {meta.directory_id[:40]!r}, {wrong}: a broker does not start with it"
        if wrong is not _RESERVED:
            return RefusedId("Unable to read directory.id as a base64 UUID", detail, is_unread=True)
        as_printed = uuid_text(url_base64_bytes(meta.directory_id))
        return RefusedId(f"Invalid reserved directory ID {as_printed} found in {directory}", detail)
    if meta.node_id is None:
        if _VERSION not in meta.properties and _NODE_ID in meta.properties:
            detail = f"it has no line {_VERSION}, so that Kafka 4.1 looks for broker.id and does not start with it"
            return RefusedId("Error: node ID not found", detail)
        why = "a broker of ZooKeeper's time would write its own again"
        return RefusedId("Error: node ID not found", f"it names no broker: Kafka 4.1 does not start with it, {why}")
    if meta.cluster_id is None and has_topic_ids:
        return RefusedId("Error: cluster ID not found", "it names no cluster: Kafka 4.1 does not start with it")
    return None


def _finding(log_dir: LogDir, detail: str, severity: Severity, code: FindingCode) -> Finding:
    return Finding(code, severity, None, None, detail, os.path.join(log_dir.path, META_PROPERTIES))


def _syntax(log_dir: LogDir, meta: MetaProperties) -> Iterator[Finding]:
    code = FindingCode.META_PROPERTIES_INVALID
    has_topic_ids = any(partition.metadata is not None for partition in log_dir.partitions)
    refused = refused_id(meta, log_dir.path, has_topic_ids=has_topic_ids)
    if refused is not None:
        yield _finding(log_dir, refused.detail, Severity.ERROR, code)
    if meta.cluster_id is not None and _CLUSTER_ID.fullmatch(meta.cluster_id) is None:
        detail = (
            f"cluster.id is {meta.cluster_id[:40]!r}; Kafka's have up to 22 letters, digits, hyphens and underscores"
        )
        yield _finding(log_dir, detail, Severity.WARNING, code)


def wrong_directory_id(text: str) -> str | None:
    """Return a phrase that says why a broker rejects `text` as a directory id: too long, not base64, not 16 bytes, or
    reserved (`Uuid.fromString`, `DirectoryId.reserved`). Reserved are ids whose first 8 bytes are 0 and whose last 8
    bytes, as a signed number, are below 100. None if it is accepted.
    """
    if len(text) > _LONGEST_UUID:
        return f"longer than {_LONGEST_UUID} characters"
    try:
        value = url_base64_bytes(text)
    except ValueError:
        return "which is not base64 for URLs"
    if len(value) != _UUID_BYTES:
        return f"{len(value)} bytes instead of {_UUID_BYTES}"
    high, low = int.from_bytes(value[:8]), int.from_bytes(value[8:], signed=True)
    return _RESERVED if not high and low < _RESERVED_IDS else None


def _clusters(known: Sequence[_Known]) -> Iterator[Finding]:
    named = [(log_dir, meta.cluster_id) for log_dir, meta in known if meta.cluster_id is not None]
    for log_dir, cluster in named:
        if cluster != named[0][1]:
            detail = f"cluster.id is {cluster}, that of {named[0][0].path} is {named[0][1]}: not volumes of one cluster"
            yield _finding(log_dir, detail, Severity.ERROR, FindingCode.IDENTITY_MISMATCH)


def _nodes(known: Sequence[_Known]) -> Iterator[Finding]:
    named = [(log_dir, meta.node_id) for log_dir, meta in known if meta.node_id is not None]
    several = _are_replicas(named) or _are_of_several_nodes(named)
    for log_dir, node in named:
        if node != named[0][1]:
            detail = f"the node id is {node}, that of {named[0][0].path} is {named[0][1]}: " + (
                "volumes of several brokers"
                if several
                else f"a broker with both does not start; put this one into the log.dirs of node {node}; `kafkalog "
                "compare` is for volumes of several brokers"
            )
            yield _finding(
                log_dir, detail, Severity.INFO if several else Severity.WARNING, FindingCode.IDENTITY_MISMATCH
            )


def _are_replicas(named: Sequence[tuple[LogDir, int]]) -> bool:
    """Return whether log directories with different node ids have a live directory of the same partition. These are
    then replicas, so the directories belong to several brokers. `named` are pairs of a log directory and its node id.
    """
    holder: dict[PartitionName | None, int] = {}
    for log_dir, node in named:
        for partition in log_dir.partitions:
            is_live = partition.name is not None and partition.state is DirectoryState.LIVE
            if is_live and holder.setdefault(partition.name, node) != node:
                return True
    return False


def _are_of_several_nodes(named: Sequence[tuple[LogDir, int]]) -> bool:
    """Return whether log directories with different node ids are certainly not meant for one broker: there are at least
    two of each node, or the only partition that any of them has is the metadata log, as of controllers. `named` are
    pairs of a log directory and its node id.
    """
    topics = {partition.name.topic for log_dir, _node in named for partition in log_dir.partitions if partition.name}
    counts = Counter(node for _log_dir, node in named)
    return topics == {CLUSTER_METADATA_TOPIC} or (len(counts) > 1 and min(counts.values()) > 1)


def _directory_ids(known: Sequence[_Known]) -> Iterator[Finding]:
    first: dict[str, LogDir] = {}
    for log_dir, meta in known:
        if meta.directory_id is not None:
            other = first.setdefault(meta.directory_id, log_dir)
            if absolute(other.path) != absolute(log_dir.path):
                detail = f"directory.id {meta.directory_id} is that of {other.path} too: one of them is a copy"
                yield _finding(log_dir, detail, Severity.ERROR, FindingCode.IDENTITY_MISMATCH)
