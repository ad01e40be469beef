"""Predict the first part of a start: `meta.properties` of all log directories are compared with each other and with the
node's properties.

Since 3.7 this is `MetaPropertiesEnsemble.verify` and `KafkaRaftServer.initializeLogDirs`; before,
`BrokerMetadataCheckpoint`, which has no directory ids.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping

from msgspec import Struct

from kafkalog.codec.common.errors import FormatError, StorageError, UsageError
from kafkalog.codec.common.limits import DEFAULT_LIMITS
from kafkalog.codec.files.text import MetaProperties
from kafkalog.codec.layout.text_values import uuid_bytes
from kafkalog.codec.names import CLUSTER_METADATA_DIRECTORY, META_PROPERTIES
from kafkalog.codec.parsing.properties import decode_properties
from kafkalog.log.disk.files import read_small
from kafkalog.log.storage.java import TooLargeError
from kafkalog.recovery.broker.node.answer import READ_ONLY, ConsequenceKind, Fault, Part, StartConsequence
from kafkalog.recovery.broker.node.ending import RUNTIME, StartEndsError, ends
from kafkalog.recovery.broker.node.node_files import NodeFiles, log_dirs_of
from kafkalog.recovery.broker.node.releases import Release

__all__ = ["Identity", "exchanged", "identity_of_start", "identity_with_zookeeper", "refuse_directory_twice"]

_KAFKA = "org.apache.kafka.common.KafkaException"
_UUID_BYTES, _RESERVED_IDS = 16, 100
_ADVICE = "(have you run `kafka-storage.sh` to format the directory?)"


class Identity(Struct, frozen=True, kw_only=True):
    """Result of the first part of a start."""

    online: tuple[str, ...]
    """log directories with which the start continues"""
    directory_ids: tuple[tuple[str, str | None], ...]
    """(log directory, its id); None: the start makes a new id"""
    consequences: tuple[StartConsequence, ...] = ()
    faults: tuple[Fault, ...] = ()

    def directory_id(self, root: str | None) -> str | None:
        """Id of a log directory; None if it has none."""
        return dict(self.directory_ids).get(root or "")


def identity_of_start(files: NodeFiles, release: Release) -> Identity:
    """Verify `meta.properties` of all log directories as a KRaft node of this release does; return the directories that
    stay online and their ids. Raises `StartEndsError` if the start ends because of these files.
    """
    return _ensemble(files, release) if release.at_least("3.7.0") else _checkpoints(files)


def identity_with_zookeeper(files: NodeFiles, release: Release, cluster: str | None) -> Identity:
    """Verify `meta.properties` of all log directories as a broker with ZooKeeper does (`KafkaServer`). Such a broker
    writes missing files again. Directories with an unreadable file go offline. Return the directories that stay online,
    their directory ids, and consequences for the others. `cluster` is the cluster id in ZooKeeper; None if unknown.

    Raises `StartEndsError` if all files are unreadable, if a directory id is reserved or used twice, or if ids
    contradict each other, `cluster` or the properties. Before 3.7 it is also raised if the files differ in a property;
    from 3.7 on, if a file has KRaft's version.
    """
    if not release.at_least("3.7.0"):
        _refuse_different_properties(files)
    known, errors = _read_files(files)
    for root, meta in known.items():
        if meta.version != 0 and release.at_least("3.7.0"):
            raise _end("mismatch", root, f"Found unexpected version in {_file(root)}. ZK-based brokers that are not")
    _verify(files, release, known, cluster)
    if len(errors) == len(files.roots):
        message = "Shutdown broker because none of the specified log dirs from"
        raise ends(Part.META_PROPERTIES, "unreadable", _file(files.roots[0]), "", message)
    return _identity([root for root in files.roots if root not in errors], known, errors)


def _read_files(files: NodeFiles) -> tuple[dict[str, MetaProperties], dict[str, str]]:
    """Return two dicts by log directory: the `meta.properties` that can be read, and the reason for each that cannot
    (unreadable file or invalid directory id). A directory without the file is in neither.
    """
    known: dict[str, MetaProperties] = {}
    errors: dict[str, str] = {}
    for root in sorted(files.roots):
        meta = files.meta[root]
        problem = meta if isinstance(meta, str) else _wrong_directory_id(meta)
        if problem is not None:
            errors[root] = problem
        elif isinstance(meta, MetaProperties):
            known[root] = meta
    return known, errors


def _file(root: str) -> str:
    return os.path.join(root, META_PROPERTIES)


def _end(kind: str, root: str, message: str, exception: str = RUNTIME, cure: str = "") -> StartEndsError:
    return ends(Part.META_PROPERTIES, kind, _file(root), exception, message, cure=cure)


def exchanged(root: str, whose: str, started: str) -> str:
    """Return advice for a log directory `root` whose `meta.properties` names another node or cluster, `whose`, than the
    one that is to start, `started`.
    """
    return (
        f"{root} is {whose}'s directory, or has its meta.properties: give {started} its own directory in this place "
        f"(the mount, or the entry of log.dirs in server.properties) and {whose} this one; if only the files were "
        "exchanged, exchange them back"
    )


def _ensemble(files: NodeFiles, release: Release) -> Identity:
    known, errors = _read_files(files)
    if not known:
        root = files.metadata_root or files.roots[0]
        kind = "unreadable" if errors else "missing"
        raise _end(kind, root, "No readable meta.properties files found.")
    _verify(files, release, known)
    if files.metadata_root in errors:
        root = files.metadata_root
        raise _end("unreadable", root, f"Encountered I/O error in metadata log directory {root}. Cannot continue.")
    _refuse_other_metadata(files, [*known])
    for root in sorted(files.roots):
        if root not in errors:
            _refuse_incomplete(root, known.get(root))
    for root, meta in known.items():
        if meta.directory_id is None and files.is_read_only(root):
            message = f"{_file(root)}.tmp (Read-only file system)"
            raise _end(READ_ONLY, root, message, "java.io.FileNotFoundException")
    return _identity([root for root in files.roots if root in known], known, errors)


def _identity(online: list[str], known: dict[str, MetaProperties], errors: dict[str, str]) -> Identity:
    offline = tuple(
        StartConsequence(kind=ConsequenceKind.DIRECTORY_OFFLINE, detail=f"{root} is left out: {why}", file=_file(root))
        for root, why in errors.items()
    )
    faults = [
        Fault(part=Part.META_PROPERTIES, kind="unreadable", file=_file(root), detail=why)
        for root, why in errors.items()
    ]
    ids = tuple((root, meta.directory_id) for root, meta in known.items())
    return Identity(online=tuple(online), directory_ids=ids, consequences=offline, faults=tuple(faults))


def _verify(files: NodeFiles, release: Release, known: dict[str, MetaProperties], cluster: str | None = None) -> None:
    """Raise `StartEndsError` if cluster ids or node ids differ between log directories, or from `cluster` and the node
    id in the properties. Also raise it if a directory id is reserved or used twice, as if `log.dirs` names a directory
    twice (`MetaPropertiesEnsemble.verify`). Missing ids are accepted. `known` has the files by log directory.
    """
    node = files.stated_node_id
    seen: dict[str, str] = {}
    for root, meta in known.items():
        if meta.cluster_id is not None:
            cluster = cluster or meta.cluster_id
            if meta.cluster_id != cluster:
                message = f"Invalid cluster.id in: {_file(root)}. Expected {cluster}, but read {meta.cluster_id}"
                cure = exchanged(root, f"a node of cluster {meta.cluster_id}", f"this node of cluster {cluster}")
                raise _end("mismatch", root, message, cure=cure)
        if meta.node_id is not None:
            node = meta.node_id if node is None else node
            if meta.node_id != node:
                message = f"Stored node id {meta.node_id} doesn't match previous node id {node} in {_file(root)}"
                cure = exchanged(root, f"node {meta.node_id}", f"node {node}")
                raise _end("mismatch", root, message, cure=cure)
        if meta.directory_id is None:
            continue
        if _is_reserved(meta.directory_id):
            word = "reserved" if release.at_least("4.0") else "resrved"
            raise _end("reserved", root, f"Invalid {word} directory ID {meta.directory_id} found in {root}")
        other = seen.setdefault(meta.directory_id, root)
        names, cure = files.names_of(root), "both are one directory: name it once in server.properties"
        if other != root:
            names = [other, root]
            cure = "one of the two is a copy of the other: leave it out of log.dirs in server.properties"
        if len(names) > 1:
            found = f"Duplicate directory ID Optional[{meta.directory_id}] found"
            message = f"{found}. It was the ID of {names[0]}, but also of {names[1]}"
            raise _end("duplicate", root, message, cure=cure)


def refuse_directory_twice(files: NodeFiles, online: Collection[str], release: Release) -> None:
    """Raise `StartEndsError` if `log.dirs` names one of the directories `online` twice, under the same name or another
    one (`LogManager.createAndValidateLogDirs`). From 4.2 on, the same name counts once (KIP-1161; a 4.3.0 broker
    started). Does nothing unless the properties name the node's directories (`NodeFiles.are_all`).
    """
    named = log_dirs_of(files.properties) if files.are_all else ()
    if release.at_least("4.2"):
        named = tuple(dict.fromkeys(named))
    places, known = [os.path.realpath(path) for path in named], {os.path.realpath(root): root for root in online}
    twice = next((known[place] for place in places if places.count(place) > 1 and place in known), None)
    if twice is not None:
        message = f"Duplicate log directory found: {', '.join(map(_java_path, named))}"
        raise ends(Part.PROPERTIES, "duplicate", twice, _KAFKA, message, cure="name it once in log.dirs")


def _java_path(path: str) -> str:
    """Return a path as `File.getAbsoluteFile` does: without repeated slashes and one at its end, but with dots."""
    return re.sub("/+", "/", os.path.join(os.getcwd(), path)).rstrip("/") or "/"


def _refuse_other_metadata(files: NodeFiles, roots: list[str]) -> None:
    for root in roots:
        path = os.path.join(root, CLUSTER_METADATA_DIRECTORY)
        if root != files.metadata_root and os.path.lexists(path):
            message = f"Found unexpected metadata location in data directory `{path}`"
            raise ends(Part.META_PROPERTIES, "second_metadata_log", path, _KAFKA, message, cure=_moved_log(files, root))


def _moved_log(files: NodeFiles, root: str) -> str:
    """Return advice for a metadata log in `root`, which the node does not read because it expects it elsewhere."""
    if files.metadata_directory is not None:
        return (
            f"{files.metadata_directory} is there too: if one of the two directories is another node's, put it into "
            "that node's log.dirs; else `kafkalog quorum show` of both tells which log is older, to be moved away"
        )
    return (
        f"the metadata log is looked for in {files.metadata_root}: if the mounts of the two directories were "
        f"exchanged, exchange them back; else set metadata.log.dir={root} in server.properties"
    )


def _refuse_incomplete(root: str, meta: MetaProperties | None) -> None:
    if meta is None:
        raise _end("missing", root, f"No `meta.properties` found in {root} {_ADVICE}")
    if meta.node_id is None:
        raise _end("no_node_id", root, f"Error: node ID not found in {root}")
    if meta.cluster_id is None:
        raise _end("no_cluster_id", root, f"Error: cluster ID not found in {root}")


def _checkpoints(files: NodeFiles) -> Identity:
    """Verify `meta.properties` of all log directories as a KRaft node before 3.7 does
    (`BrokerMetadataCheckpoint.getBrokerMetadataAndOfflineDirs`). Return all directories as online, with their directory
    ids, which are not compared. Raises `StartEndsError` if a file is missing or unreadable, or lacks a cluster id or
    node id. Also raises it if cluster ids or node ids differ between files, or if the node id differs from the
    properties. A metadata log in a directory other than the expected one raises it too.
    """
    known: dict[str, MetaProperties] = {}
    for root in files.roots:
        found = files.meta[root]
        if found is None:
            raise _end("missing", root, f"No `meta.properties` found in {root} {_ADVICE}", _KAFKA)
        if isinstance(found, str):
            raise _end("unreadable", root, "Failed to ")
        known[root] = found
    for root, meta in known.items():
        lacking = "cluster.id" if meta.cluster_id is None else ("broker.id" if meta.node_id is None else None)
        if lacking is not None:
            raise _end("incomplete", root, f"Failed to find required property {lacking}.")
    identities = {(meta.cluster_id, meta.node_id) for meta in known.values()}
    if len(identities) > 1:
        first, last = next(iter(known.values())), next(reversed(known))
        cure = exchanged(last, f"node {known[last].node_id}", f"node {first.node_id}")
        raise _inconsistent(last, cure if known[last].node_id != first.node_id else "")
    _refuse_other_metadata(files, [*known])
    root, meta = next(iter(known.items()))
    if files.stated_node_id is not None and meta.node_id != files.stated_node_id:
        exception = "kafka.common.InconsistentNodeIdException"
        message = f"Configured node.id `{files.stated_node_id}` doesn't match stored node.id `{meta.node_id}'"
        cure = exchanged(root, f"node {meta.node_id}", f"node {files.stated_node_id}")
        raise _end("mismatch", root, message, exception, cure)
    return Identity(online=tuple(known), directory_ids=tuple((root, meta.directory_id) for root, meta in known.items()))


def _refuse_different_properties(files: NodeFiles) -> None:
    """Raise `StartEndsError` if the `meta.properties` of two log directories differ in any property, as a broker with
    ZooKeeper does before 3.7 (`getBrokerMetadataAndOfflineDirs` of 2.8 to 3.6). Missing and unreadable files are
    ignored.
    """
    known: dict[str, Mapping[str, str]] = {}
    for root in sorted(files.roots):
        path, planned = os.path.realpath(_file(root)), files.planned.get(root)
        try:
            if planned is not None and META_PROPERTIES in planned.files:
                known[root] = decode_properties(planned.read(META_PROPERTIES))
            elif os.path.isfile(path):
                known[root] = decode_properties(read_small(path, DEFAULT_LIMITS.checkpoint_bytes))
        except (FormatError, StorageError, TooLargeError, UsageError):
            continue
    first = next(iter(known.values()), {})
    other = next((root for root, properties in known.items() if properties != first), None)
    if other is not None:
        raise _inconsistent(other)


def _inconsistent(root: str, cure: str = "") -> StartEndsError:
    message = "BrokerMetadata is not consistent across log.dirs."
    return _end("mismatch", root, message, "kafka.common.InconsistentBrokerMetadataException", cure)


def _wrong_directory_id(meta: MetaProperties | None) -> str | None:
    """Return the reason if the directory id is not a valid UUID, because then the whole file counts as unreadable. None
    if it is valid or missing.
    """
    if meta is None or meta.directory_id is None or _decoded(meta.directory_id) is not None:
        return None
    return f"Unable to read directory.id {meta.directory_id[:40]!r}"


def _decoded(text: str) -> bytes | None:
    try:
        return uuid_bytes(text)
    except ValueError:
        return None


def _is_reserved(text: str) -> bool:
    value = _decoded(text) or bytes([1] * _UUID_BYTES)
    return not int.from_bytes(value[:8]) and int.from_bytes(value[8:], signed=True) < _RESERVED_IDS
