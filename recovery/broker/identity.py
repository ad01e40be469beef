"""Predict how a broker treats `meta.properties` before it opens a log (`KafkaRaftServer.initializeLogDirs` of Kafka
4.1). A tree is a log directory in memory.
"""

from __future__ import annotations

import os

from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.files.text import MetaProperties, decode_meta_properties
from kafkalog.codec.names import CLUSTER_METADATA_DIRECTORY, META_PROPERTIES, PARTITION_METADATA, parse_java_long
from kafkalog.codec.parsing.properties import decode_properties
from kafkalog.log.directories.identities import meta_properties_of, refused_id
from kafkalog.log.storage.java import TooLargeError
from kafkalog.log.storage.tree import Tree
from kafkalog.recovery.broker.manager import BrokerResult, StartResult, is_kraft
from kafkalog.recovery.broker.node.node_files import read_identity
from kafkalog.recovery.facts.own_identity import directories_that_name
from kafkalog.recovery.facts.topic_facts import NO_FACTS, TopicFacts

__all__ = ["meta_properties_finding", "names_newer_version", "with_identity"]


def with_identity(result: BrokerResult, tree: Tree, root: str, facts: TopicFacts = NO_FACTS) -> BrokerResult:
    """Return the result of a start after `meta.properties` was checked. This is `result`, the result of loading the
    logs, unless the start ends earlier because of this file. `tree` is the log directory before the start, `root` its
    path. `result` is not changed.

    * The file is missing: a broker with ZooKeeper writes a new one, so `result` is returned; a KRaft broker does not
      start (`MetaPropertiesEnsemble.verify`). The broker is a KRaft one if the metadata log is in this directory, or in
      another directory that `facts` were read from.
    * The file cannot be parsed, or its directory id is not a UUID: the directory goes offline. If the metadata log is
      in the directory, the start fails.
    * The directory id is reserved, or the node id or cluster id is missing: the start fails. If no partition has a
      topic id, as with ZooKeeper, a missing cluster id is ignored. A missing node id is ignored then if the directory
      id is missing too.

    Raises `StorageError` if a file cannot be read.
    """
    meta = _read(tree, root)
    if meta is None:
        is_of_kraft = is_kraft(tree, has_metadata=facts.source is not None)
        return _without(result, root, facts) if is_of_kraft else result
    if isinstance(meta, str):
        unread: str | None = meta
    else:
        has_topic_ids = _has_topic_ids(tree)
        refused = refused_id(meta, root, has_topic_ids=has_topic_ids)
        if refused is None or (meta.directory_id is None and not has_topic_ids):
            return result
        unread = refused.message if refused.is_unread else None
        message = refused.message
    outcome = StartResult.START_FAILS
    if unread is not None:
        message = f"Error while reading meta.properties file: {unread}"
        if CLUSTER_METADATA_DIRECTORY not in tree.directories:
            outcome = StartResult.DIR_OFFLINE
    exception = "java.lang.RuntimeException"
    return BrokerResult(
        outcome=outcome, tree=result.tree, clean=result.clean, exception=exception, message=message, is_before_logs=True
    )


def _without(result: BrokerResult, root: str, facts: TopicFacts) -> BrokerResult:
    """Return the result of a KRaft start on a log directory without `meta.properties`: the start fails before a log is
    opened. If another directory in `facts.roots` has a readable file, the message names `root`. Otherwise it says that
    no directory has one. Reads the files of these directories.
    """
    message = "No readable meta.properties files found."
    if any(other != root and meta_properties_of(other) is not None for other in facts.roots):
        message = f"No `meta.properties` found in {root} (have you run `kafka-storage.sh` to format the directory?)"
    exception = "java.lang.RuntimeException"
    return BrokerResult(
        outcome=StartResult.START_FAILS,
        tree=result.tree,
        clean=result.clean,
        exception=exception,
        message=message,
        is_before_logs=True,
    )


def meta_properties_finding(tree: Tree, root: str, facts: TopicFacts) -> Finding | None:
    """Return the finding META_PROPERTIES_INVALID that `verify` reports; None if there is no fault. It is an error if
    `meta.properties` cannot be parsed, has an id that `refused_id` reports, or is missing although the node uses KRaft.
    It is a warning if only the directory id is missing and the metadata has one for this directory. Its path is
    relative to the log directory `root`. Raises `StorageError` if a file cannot be read.
    """
    meta = _read(tree, root)
    if isinstance(meta, MetaProperties):
        refused = refused_id(meta, root, has_topic_ids=_has_topic_ids(tree))
        if refused is None and meta.directory_id is None and directories_that_name(root, facts):
            has_voter = facts.voter_directory is not None and CLUSTER_METADATA_DIRECTORY in tree.directories
            then = ": the node does not vote then" if has_voter else ""
            detail = f"it has no directory.id, the metadata has one, and a start makes another{then}"
            return Finding(
                FindingCode.META_PROPERTIES_INVALID, Severity.WARNING, None, None, detail, META_PROPERTIES
            )
        meta = None if refused is None else refused.detail
    elif meta is None and is_kraft(tree, has_metadata=facts.source is not None):
        meta = "it is missing: a broker with KRaft does not start without it"
    if meta is None:
        return None
    return Finding.of(FindingCode.META_PROPERTIES_INVALID, None, None, meta, META_PROPERTIES)


def _read(tree: Tree, root: str) -> MetaProperties | str | None:
    """Return the parsed `meta.properties`; a text with the reason if it is a directory, too large or malformed; None if
    it is missing. A symbolic link is followed, as by a broker: the result is None if its target is missing, and the
    reason if the target cannot be read. Raises `StorageError` if a regular file cannot be read.
    """
    if META_PROPERTIES not in tree.files:
        is_other = META_PROPERTIES in tree.directories or os.path.islink(os.path.join(root, META_PROPERTIES))
        return read_identity(root) if is_other else None
    try:
        return decode_meta_properties(tree.read(META_PROPERTIES))
    except FormatError as error:
        return error.message
    except TooLargeError as error:
        return str(error)


def names_newer_version(tree: Tree) -> bool:
    """Whether `version` in `meta.properties` is a number other than 0 and 1: a newer Kafka wrote it, or it is damaged.
    False if the file is missing, too large, not parseable or has no numeric version. Raises `StorageError` if it cannot
    be read.
    """
    try:
        text = decode_properties(tree.read(META_PROPERTIES)).get("version") if META_PROPERTIES in tree.files else None
    except (FormatError, TooLargeError):
        return False
    return text is not None and parse_java_long(text.strip(), 32) not in (None, 0, 1)


def _has_topic_ids(tree: Tree) -> bool:
    return any(path.endswith(f"/{PARTITION_METADATA}") for path in tree.files)
