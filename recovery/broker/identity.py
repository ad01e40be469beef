"""Predict what a broker does with `meta.properties` before it opens a log (`KafkaRaftServer.initializeLogDirs` of Kafka
4.1).
"""

from __future__ import annotations

import os

from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.common.findings import Finding, FindingCode
from kafkalog.codec.files.text import MetaProperties, decode_meta_properties
from kafkalog.codec.names import CLUSTER_METADATA_DIRECTORY, META_PROPERTIES, PARTITION_METADATA, parse_java_long
from kafkalog.codec.parsing.properties import decode_properties
from kafkalog.log.directories.identities import meta_properties_of, refused_id
from kafkalog.log.storage.java import TooLargeError
from kafkalog.log.storage.tree import Tree
from kafkalog.recovery.broker.manager import BrokerResult, StartResult
from kafkalog.recovery.facts.topic_facts import NO_FACTS, TopicFacts

__all__ = ["meta_properties_finding", "names_newer_version", "with_identity"]


def with_identity(result: BrokerResult, tree: Tree, root: str, facts: TopicFacts = NO_FACTS) -> BrokerResult:
    """Return the result of loading the logs, or the one in which a start ends before; `tree` is the directory as it is,
    at `root`.

    Without the file a broker with ZooKeeper writes a new one, and a KRaft broker does not start
    (`MetaPropertiesEnsemble.verify`): it is one if the metadata log is here, or in another directory that `facts` are
    from. A file that cannot be parsed takes its log directory offline, and ends the start if the metadata log is in it.
    A wrong directory id ends the start. So does a missing id of version 0; in a directory without topic ids, as a
    broker with ZooKeeper leaves it, that is not judged here.
    """
    meta = _read(tree, root)
    if meta is None:
        return _without(result, root, facts) if _is_kraft(tree, facts) else result
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
    return BrokerResult(outcome, result.tree, result.clean, exception, message, is_before_logs=True)


def _without(result: BrokerResult, root: str, facts: TopicFacts) -> BrokerResult:
    """Result of a KRaft start without the file, which it needs in every directory; the message is another one if no
    directory has it.
    """
    message = "No readable meta.properties files found."
    if any(other != root and meta_properties_of(other) is not None for other in facts.roots):
        message = f"No `meta.properties` found in {root} (have you run `kafka-storage.sh` to format the directory?)"
    exception = "java.lang.RuntimeException"
    return BrokerResult(StartResult.START_FAILS, result.tree, result.clean, exception, message, is_before_logs=True)


def _is_kraft(tree: Tree, facts: TopicFacts) -> bool:
    return facts.source is not None or CLUSTER_METADATA_DIRECTORY in tree.directories


def meta_properties_finding(tree: Tree, root: str, facts: TopicFacts) -> Finding | None:
    """Return the finding about the file as in `verify`, with a path relative to `root`; None if there is none."""
    meta = _read(tree, root)
    if isinstance(meta, MetaProperties):
        refused = refused_id(meta, root, has_topic_ids=_has_topic_ids(tree))
        meta = None if refused is None else refused.detail
    elif meta is None and _is_kraft(tree, facts):
        meta = "it is missing: a broker with KRaft does not start without it"
    if meta is None:
        return None
    return Finding.of(FindingCode.META_PROPERTIES_INVALID, None, None, meta, META_PROPERTIES)


def _read(tree: Tree, root: str) -> MetaProperties | str | None:
    """Return the file, or why it cannot be parsed, or None if it is missing. A symbolic link is followed, as by a
    broker.
    """
    if META_PROPERTIES not in tree.files:
        path = os.path.join(root, META_PROPERTIES)
        return meta_properties_of(os.path.dirname(os.path.realpath(path))) if os.path.islink(path) else None
    try:
        return decode_meta_properties(tree.read(META_PROPERTIES))
    except FormatError as error:
        return error.message
    except TooLargeError as error:
        return str(error)


def names_newer_version(tree: Tree) -> bool:
    """Whether `meta.properties` has an unknown version: a newer Kafka's, or damaged."""
    try:
        text = decode_properties(tree.read(META_PROPERTIES)).get("version") if META_PROPERTIES in tree.files else None
    except (FormatError, TooLargeError):
        return False
    return text is not None and parse_java_long(text.strip(), 32) not in (None, 0, 1)


def _has_topic_ids(tree: Tree) -> bool:
    return any(path.endswith(f"/{PARTITION_METADATA}") for path in tree.files)
