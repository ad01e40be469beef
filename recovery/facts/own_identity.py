"""Reconstruct the lost `meta.properties` of a log directory from the broker's other directories and its metadata log.

All directories of a broker name one cluster and one node (`MetaPropertiesEnsemble.verify`). Each has an id of its own,
under which the metadata log has its replicas; a broker gives a directory without one a new id
(`KafkaRaftServer.initializeLogDirs`) and tells the controller where its replicas are.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Final

from kafkalog.codec.common.errors import LimitExceeded, RecoveryRefused, StorageError
from kafkalog.codec.common.limits import DEFAULT_LIMITS
from kafkalog.codec.files.text import MetaProperties, encode_meta_properties, meta_properties
from kafkalog.codec.names import CLUSTER_METADATA_DIRECTORY, META_PROPERTIES, DirectoryState, parse_partition_directory
from kafkalog.log.directories.identities import incomplete_meta_properties_of, meta_properties_of, refused_id
from kafkalog.log.disk.files import read_small, scan_directory
from kafkalog.recovery.facts.brokers import brothers_of
from kafkalog.recovery.facts.topic_facts import TopicFacts

_DIRECTORY_ID = re.compile(rb"^directory\.id=([A-Za-z0-9_-]{22})$", re.MULTILINE)

__all__ = ["BY_HAND", "directories_that_name", "lost_identity"]

BY_HAND: Final = (
    "or write the lines version=1, cluster.id and node.id by hand (with ZooKeeper version=0, cluster.id and broker.id; "
    "runbook: meta-properties), and ask again: directory.id is added then"
)


def lost_identity(root: str, roots: Sequence[str], facts: TopicFacts) -> bytes | None:
    """Return the content of a new `meta.properties` for the log directory `root`, or None if the present file can stay.
    Writes nothing. `roots` are all log directories that the caller has; other brokers' directories are ignored.

    A present file that names the node is replaced in two cases. Kafka refuses its directory id, or it has version 1 and
    lacks a directory id that is certain. The new file has the same cluster and node id. Any other file is replaced, and
    a missing one is written. Its cluster and node id come from the broker's other directories. If these name none, they
    are what `incomplete_meta_properties_of` finds in the present file.

    The directory id comes from the metadata (`facts`) or the damaged file. It is left out if it is not certain or Kafka
    would refuse it; the broker then makes a new one. Raises `RecoveryRefused` if nothing identifies the broker,
    `StorageError` if `root` cannot be listed.
    """
    others = [other for other in brothers_of(root, roots) if other != root]
    known = [meta for other in others if (meta := meta_properties_of(other)) is not None and meta.node_id is not None]
    taken, is_last = {meta.directory_id for meta in known}, len(known) == len(others)
    standing = meta_properties_of(root)
    if standing is not None and standing.node_id is not None:
        is_refused = standing.directory_id is not None and refused_id(standing, root, has_topic_ids=False) is not None
        if not is_refused and (standing.directory_id is not None or not standing.version):
            return None
        own = _directory_id(root, facts, taken, is_last=is_last)
        return None if own is None and not is_refused else _encoded(root, standing, own)
    own_file = incomplete_meta_properties_of(root)
    first = known[0] if known else own_file
    if first is None:
        raise RecoveryRefused(
            f"whose log directory {root} is cannot be told: give the broker's other log directories too, which name "
            f"the cluster and the node in their {META_PROPERTIES}; {BY_HAND}",
            reason="identity",
        )
    own = _directory_id(root, facts, taken, is_last=is_last) if first.version else None
    return _encoded(root, first, own if own is not None or own_file is None else own_file.directory_id)


def _encoded(root: str, meta: MetaProperties, own: str | None) -> bytes:
    """Return the content of `meta.properties` with the ids of `meta` and the directory id `own`. The directory id is
    omitted if it is None or Kafka would refuse it.
    """
    identity = meta_properties(
        version=meta.version, node_id=meta.node_id, cluster_id=meta.cluster_id, directory_id=own
    )
    if own is not None and refused_id(identity, root, has_topic_ids=True) is not None:
        identity = meta_properties(version=meta.version, node_id=meta.node_id, cluster_id=meta.cluster_id)
    return encode_meta_properties(identity)


def directories_that_name(root: str, facts: TopicFacts) -> tuple[str, ...]:
    """Return the sorted log directories of the broker, `root` included, if `lost_identity` returns a new
    `meta.properties` for `root` from them; an empty tuple if the present file can stay or nothing identifies the
    broker. Raises `StorageError` if `root` cannot be listed.
    """
    roots = brothers_of(root, facts.roots)
    try:
        return tuple(sorted(roots)) if lost_identity(root, roots, facts) is not None else ()
    except RecoveryRefused:
        return ()


def _directory_id(root: str, facts: TopicFacts, taken: set[str | None], *, is_last: bool) -> str | None:
    """Return the directory id that `root` had; None if it is not certain. Ids in `taken` belong to other directories
    and do not count. If the metadata log is in `root` and the voter set names an id, only this id counts. Otherwise the
    first of these sources with an id decides, and the result is None if it has several:

    * The ids to which the metadata assigns the live partitions here.
    * The damaged `meta.properties`.
    * The ids that the broker registered, only if `is_last`: all its other directories are known.

    Raises `StorageError` if `root` cannot be listed.
    """
    if facts.voter_directory is not None and os.path.isdir(os.path.join(root, CLUSTER_METADATA_DIRECTORY)):
        return None if facts.voter_directory in taken else facts.voter_directory
    names = [parse_partition_directory(entry.name) for entry in scan_directory(root)]
    live = [name for name in names if name is not None and name.state is DirectoryState.LIVE]
    assigned = {facts.assigned.get((name.topic, name.partition)) for name in live} - taken - {None}
    left = facts.registered if is_last else frozenset()
    ids = assigned or _in_damaged_file(root) - taken or left - taken
    return next(iter(ids)) if len(ids) == 1 else None


def _in_damaged_file(root: str) -> frozenset[str]:
    """Return the directory ids in complete lines of `meta.properties`, whose other content may be damaged; empty if
    there are none, or the file is missing, unreadable or too large.
    """
    try:
        data = read_small(os.path.join(root, META_PROPERTIES), DEFAULT_LIMITS.checkpoint_bytes)
    except (StorageError, LimitExceeded):
        return frozenset()
    return frozenset(directory_id.decode() for directory_id in _DIRECTORY_ID.findall(data))
