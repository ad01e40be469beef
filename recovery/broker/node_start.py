"""Predict what a node does when it is started on its log directories; every command uses this one model.

A start is a sequence: `meta.properties`, `bootstrap.checkpoint`, the metadata log with its snapshots, voters and
`quorum-state`, the replay of the metadata, and then the partitions. The first part that fails decides. Each release is
computed separately; releases with equal answers form a group.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from msgspec import Struct, field, structs

from kafkalog.cluster.kraft.metadata_image import MetadataImage, PartitionImage, TopicImage
from kafkalog.codec.common.errors import KafkaLogError, StorageError
from kafkalog.codec.common.shell import shell_word
from kafkalog.codec.common.wording import counted, moment_text
from kafkalog.codec.files.text import MetaProperties
from kafkalog.codec.model import ProducerEntry
from kafkalog.codec.names import (
    CLUSTER_METADATA_DIRECTORY,
    LOCK_FILE,
    META_PROPERTIES,
    PARTITION_METADATA,
    DirectoryState,
)
from kafkalog.log.directories.zookeeper_directories import is_zookeeper_directory
from kafkalog.log.storage.producers.snapshots import newest_entries
from kafkalog.log.storage.tree import Tree
from kafkalog.recovery.broker.manager import BrokerResult
from kafkalog.recovery.broker.node.answer import (
    DISPLACED,
    NEWER_FILES,
    NO_VERSION,
    OLD_VERSION,
    READ_ONLY,
    ConsequenceKind,
    EmptyVoters,
    Fault,
    NodeAnswer,
    NodeStart,
    OlderCopyConsequence,
    Part,
    Role,
    StartConsequence,
    StartOutcome,
)
from kafkalog.recovery.broker.node.bootstrap import Bootstrap, bootstrap_of_start
from kafkalog.recovery.broker.node.ending import RUNTIME, StartEndsError, ends
from kafkalog.recovery.broker.node.ensemble import (
    Identity,
    exchanged,
    identity_of_start,
    identity_with_zookeeper,
    refuse_directory_twice,
)
from kafkalog.recovery.broker.node.internal_topics import (
    InternalTopics,
    consequences_of_misplaced,
    consequences_of_unserved,
    internal_topics,
)
from kafkalog.recovery.broker.node.leader import Leaders, continues, empty_majority, followed
from kafkalog.recovery.broker.node.metadata_log import Displaced, LoadedMetadata, Snapshot, load_metadata_log
from kafkalog.recovery.broker.node.moves import consequences_of_moves, with_ends_of_moves
from kafkalog.recovery.broker.node.node_files import NodeFiles, log_dirs_of, node_files
from kafkalog.recovery.broker.node.older_copies import (
    KRAFT_PAGE,
    ZOOKEEPER_PAGE,
    consequences_of_older_logs,
    consequences_of_older_metadata,
    live_entries,
    live_producer_ids,
)
from kafkalog.recovery.broker.node.partition_directory import PartitionDirectory
from kafkalog.recovery.broker.node.partitions import (
    Explained,
    assigned_to,
    list_partitions,
    loaded_logs,
    of_lost_directories,
    open_partitions,
    partition_consequences,
    refuse_twice,
)
from kafkalog.recovery.broker.node.quorum import (
    StateFile,
    Voters,
    read_control_records,
    refuse_state,
    refuse_voters,
    state_of_start,
    static_voters,
)
from kafkalog.recovery.broker.node.reading import MetaBatch, ReaderError
from kafkalog.recovery.broker.node.releases import NEWEST, Release, asked_release, groups_from, release_of
from kafkalog.recovery.broker.node.replay import (
    Contradiction,
    Replay,
    newest_metadata_version,
    oldest_with_metadata_version,
    replicas_of,
)
from kafkalog.recovery.broker.node.sentences import if_not_elected, voters_named
from kafkalog.recovery.broker.node.settings_of_start import (
    accepts_unreleased,
    condition_of_classes,
    condition_of_migration,
    consequences_of_migration,
    consequences_without_tier,
    refuse_incomplete_properties,
    refuse_migration_without_zookeeper,
    refuse_small_segments,
)
from kafkalog.recovery.broker.node.with_zookeeper import (
    consequences_of_topic_ids,
    consequences_of_unknown,
    consequences_without_directory,
    zookeeper_facts,
)
from kafkalog.recovery.facts.coordinators import Coordinators

__all__ = ["node_start"]

_INVALID_REGISTRATION = "org.apache.kafka.common.errors.InvalidRegistrationException"
_METADATA_VERSION = "metadata.version"
_NO_ELEMENT = "java.util.NoSuchElementException"


def node_start(
    roots: Sequence[str],
    *,
    properties: Mapping[str, str] | None = None,
    release: str | None = None,
    loaded: Mapping[str, BrokerResult] | None = None,
    loads_others: bool = True,
    controllers: Sequence[str] = (),
    now_ms: int | None = None,
    planned: Mapping[str, Tree] | None = None,
) -> NodeStart:
    """Predict what a node does when it is started on these log directories, which all belong to one node. Return one
    answer for each release asked about. Reads only. If a start fails, the answer says so; nothing is raised for that.

    If `release` is None and the metadata was written by a release that is not known yet, the only answer is UNKNOWN. If
    all releases give a broker with ZooKeeper the same answer, it is returned once, for the newest of them. Raises
    `UsageError` if `release` is not a version number or not a known release. Raises `StorageError` if the metadata log,
    a snapshot of it or `quorum-state` cannot be read; without a known role also for a `partition.metadata`. If other
    files cannot be read, the answers are UNKNOWN.

    * `properties`: the node's server properties
    * `release`: ask about this release only; by default, every group of releases from the lowest that can have written
      the files (for a broker with ZooKeeper: 2.8 and 3.9)
    * `loaded`: known results of loading logs, by log directory
    * `loads_others`: whether the logs of the other directories are loaded; if False, their segments are not read
    * `controllers`: log directories of other nodes of its cluster. It follows the metadata of the voters among them if
      they are a majority. If it has no metadata itself, it is taken to get the furthest of these. Or data directories
      of its ZooKeeper
    * `now_ms`: time to treat as now, in ms since 1970; by default the clock's
    * `planned`: trees that recoveries would leave, by log directory; they count in place of the files, except for the
      metadata log. `loaded` must have the results of loading them
    """
    files = node_files(roots, properties, planned)
    now = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    leaders = Leaders(directories=controllers, now_ms=now)
    try:
        results = {os.path.abspath(root): result for root, result in (loaded or {}).items()}
        context = _Context(files=files, results=results, now_ms=now, loads_others=loads_others, leaders=leaders)
        role = _role(context)
        if release is not None:
            releases: Sequence[Release] = (asked_release(release),)
        elif role is Role.ZOOKEEPER_BROKER:
            releases = tuple(map(release_of, _WITH_ZOOKEEPER))
        else:
            releases = groups_from(_floor(context))
        newer = None if release is not None else _newer_than_known(context)
        not_given = _not_given(context, role)
        elsewhere = _assigned_elsewhere(context, not_given)
        answers = (newer,) if newer is not None else tuple(_answer(context, role, release) for release in releases)
        if release is not None and role is not Role.ZOOKEEPER_BROKER:
            answers = (_with_newer_files(context, role, releases[0], answers[0]),)
        if role is Role.ZOOKEEPER_BROKER and len(set(answers)) == 1:
            releases, answers = releases[-1:], answers[-1:]
        answers = tuple(_if_named(files, role, answer) for answer in answers)
    finally:
        files.close()
        leaders.close()
    return NodeStart(
        roots=files.roots,
        role=role,
        node_id=files.node_id,
        releases=tuple(releases),
        answers=answers,
        fetches_metadata=_fetches_metadata(context, role),
        not_given=None if not_given is None else len(not_given),
        in_not_given=elsewhere[0],
        only_in_not_given=elsewhere[1],
        empty_voters=context.empty_voters(),
    )


class _Context(Struct, kw_only=True):
    """Data that is read once for all releases. Methods raise `StorageError` if a file cannot be read."""

    files: NodeFiles
    results: Mapping[str, BrokerResult]
    now_ms: int
    loads_others: bool
    leaders: Leaders
    """the other voters whose directories were given"""
    _metadata: LoadedMetadata | StartEndsError | None = None
    _best: Replay | None = None
    _copied: MetadataImage | None = None
    _empty: tuple[EmptyVoters | None] | None = None
    _voters: set[int] | None = None
    explained: Explained = field(default_factory=Explained)
    replays: list[Replay] = field(default_factory=list)
    """complete replays of the newest snapshot and the log, without a contradiction"""
    _loaded: dict[str, BrokerResult] = field(default_factory=dict)
    _internal: dict[str, InternalTopics] = field(default_factory=dict)
    _producers: dict[str, Sequence[ProducerEntry]] = field(default_factory=dict)
    _coordinators: Coordinators | None = None
    _displaced: dict[tuple[str, Snapshot | None, int], Displaced | None] = field(default_factory=dict)

    def logs(self, roots: Sequence[str]) -> dict[str, BrokerResult]:
        """Return the results of loading the logs of these log directories, by directory. Results that the caller gave
        are used, other directories are loaded once and then cached. Without `loads_others` their segments are not read,
        and their results have no partitions. Raises `StorageError` if a directory, or one in it, cannot be read.
        """
        results = {}
        for root in roots:
            for error in self.files.surveyed(root).unreadable.values():
                raise error  # else what is in it counts as missing
            result = self.results.get(root) or self._loaded.get(root)
            if result is None:
                result = loaded_logs(self.files, root, self.now_ms, is_outline=not self.loads_others)
                self._loaded[root] = result
            results[root] = result
        return results

    def internal(self, root: str, result: BrokerResult) -> InternalTopics:
        """What the coordinators meet in one log directory; `result` is the result of loading its logs. Cached."""
        if root not in self._internal:
            self._internal[root] = internal_topics(root, result)
        return self._internal[root]

    def producers(self, directory: PartitionDirectory) -> Sequence[ProducerEntry]:
        """Return the entries of the newest producer snapshot of a live log after its loading. If the logs are not
        loaded, they are those of the snapshot on disk. Empty for other logs, and if there is no snapshot or it is
        damaged. Cached.
        """
        if directory.path not in self._producers:
            is_live = directory.parsed.state is DirectoryState.LIVE
            loaded = self.logs([directory.root])[directory.root]
            tree = loaded.tree if loaded.partitions else self.files.tree(directory.root)
            self._producers[directory.path] = newest_entries(tree, directory.name) or () if is_live else ()
        return self._producers[directory.path]

    def coordinators(self) -> Coordinators:
        """Return the coordinators' topics in the node's log directories. Cached."""
        self._coordinators = self._coordinators or Coordinators(self.files.roots)
        return self._coordinators

    def displaced(self, loaded: LoadedMetadata) -> Displaced | None:
        """Return `loaded.displaced()`. Cached."""
        key = loaded.directory, loaded.snapshot, loaded.end
        if key not in self._displaced:
            self._displaced[key] = loaded.displaced()
        return self._displaced[key]

    def metadata(self) -> LoadedMetadata:
        """Return the node's own metadata log, loaded once. Raises `StartEndsError` at every call if loading it ends the
        start, `StorageError` if it cannot be read.
        """
        if self._metadata is None:
            try:
                self._metadata = load_metadata_log(self.files, self.now_ms)
            except StartEndsError as error:
                self._metadata = error
        if isinstance(self._metadata, StartEndsError):
            raise StartEndsError(self._metadata.answer)
        return self._metadata

    def best(self) -> Replay:
        """Return a replay of the node's own metadata as far as it can be read, in the newest release's format; it is
        empty if loading the metadata log ends the start. Also fills `explained` with the partitions that the metadata
        shows as removed or moved. Cached. Raises `StorageError` if the log cannot be read.
        """
        if self._best is None:
            self._best = self._replayed()
        return self._best

    def copied(self) -> MetadataImage:
        """Return the metadata of the furthest copy that other nodes have, as far as it can be read, in the newest
        release's format; empty if none was given. Cached. Raises `StorageError` if the copy cannot be read.
        """
        if self._copied is None:
            replay = Replay(release=release_of(NEWEST), is_controller=False)
            leader = self.leaders.metadata()
            with suppress(ReaderError):
                if leader is not None:
                    replay.take(() if leader.snapshot is None else leader.snapshot.batches())
                    replay.take(leader.batches(0 if leader.snapshot is None else leader.snapshot.end))
            self._copied = replay.image
        return self._copied

    def known_image(self) -> MetadataImage:
        """Return the node's own metadata if it has any, else that of the furthest copy of other nodes; empty if there
        is none. Raises `StorageError` if a file cannot be read.
        """
        return self.copied() if self.has_none() else self.best().image

    def has_none(self) -> bool:
        """Whether the given directories have no metadata. False if loading the metadata log ends the start. Raises
        `StorageError` if it cannot be read.
        """
        try:
            return not self.metadata().has_any
        except StartEndsError:
            return False

    def empty_voters(self) -> EmptyVoters | None:
        """Return the voters, this node and others that were given, that have no metadata and are a majority; None if
        they are none, or if no node that was given has metadata. None also if the voter set names directory ids: a
        directory that was reformatted has another one, and does not vote. Cached. Raises `StorageError` if a file
        cannot be read.
        """
        if self._empty is None:
            self._empty = (self._empty_voters(),)
        return self._empty[0]

    def _empty_voters(self) -> EmptyVoters | None:
        held = [(number, loaded) for number, loaded in self.leaders.held]
        if not self.has_none():
            with suppress(StartEndsError):
                held.append((self.files.node_id, self.metadata()))
        held.sort(key=lambda each: (each[1].last_epoch, each[1].end), reverse=True)
        without = dict(self.leaders.without)
        if self.has_none() and self.files.node_id is not None:
            without[self.files.node_id] = [meta.directory_id if isinstance(meta, MetaProperties) else None
                                           for meta in self.files.meta.values()]  # fmt: skip
        if not held or self._has_dynamic_voters(held[0][1]):
            return None
        voters = set(static_voters(self.files.properties)) or _voters_of(held[0][1])
        roots = [(number, os.path.dirname(loaded.directory)) for number, loaded in held]
        return empty_majority(roots, without, voters, self._registered)

    @staticmethod
    def _has_dynamic_voters(loaded: LoadedMetadata) -> bool:
        try:
            voters = read_control_records(loaded, release_of(NEWEST))
        except StartEndsError:
            return False
        return bool(voters.kraft_version or voters.dynamic)

    def _registered(self, node: int) -> Sequence[str]:
        """Ids of the log directories with which a broker has registered; empty if unknown."""
        broker = self.known_image().brokers.get(node)
        return () if broker is None else broker.directories or ()

    def voters(self) -> set[int]:
        """Return the node ids of the voters named in the node's own metadata and `quorum-state`; empty if there are
        none. If these files end a start, the voters that can still be read from them are returned. The result is
        cached. Raises `StorageError` if a file cannot be read.
        """
        if self._voters is None:
            try:
                loaded = self.metadata()
                dynamic = read_control_records(loaded, release_of(NEWEST)).dynamic
                state = state_of_start(loaded, release_of("3.7.0"))
                self._voters = {number for number, _directory in dynamic} | set(state.voters)
            except StartEndsError:
                self._voters = self._voters_despite_damage()
        return self._voters

    def _voters_despite_damage(self) -> set[int]:
        from kafkalog.cluster.kraft.quorum_log import read_quorum_log  # few nodes need it

        directory = self.files.metadata_directory
        if directory is None:
            return set()
        try:
            return set(read_quorum_log(directory).voter_ids)
        except KafkaLogError:
            return set()

    def _replayed(self) -> Replay:
        best = Replay(release=release_of(NEWEST), is_controller=False)
        node = self.files.node_id
        explained = self.explained

        def note(topic: TopicImage, number: int, before: PartitionImage | None, after: PartitionImage | None) -> None:
            if after is None:
                explained.removed.add(topic.id)
            elif before is not None and node in before.replicas and node not in after.replicas:
                explained.moved.add((topic.id, number))
            elif node in after.replicas:
                explained.moved.discard((topic.id, number))

        best.image.on_change = note
        try:
            loaded = self.metadata()
        except StartEndsError:
            return best
        first = loaded.older[0] if loaded.older else loaded.snapshot
        try:
            if loaded.start == 0 and loaded.tree is not None:
                best.take(loaded.batches(0))
            elif first is not None:
                best.take(first.batches())
                best.take(loaded.batches(first.end))
        except ReaderError:
            pass
        return best


def _floor(context: _Context) -> Release:
    """Return the lowest release that can have written the node's files. It must know the highest `metadata.version`; if
    no release does, the newest is returned. It is at least 3.7.0 if a `meta.properties` has a directory id, and at
    least 3.9 if the metadata has a KRaft version above 0. The KRaft version is ignored if the metadata ends a start.
    Raises `StorageError` if a file cannot be read.
    """
    level = _level(context)
    release = oldest_with_metadata_version(level)
    has_ids = any(
        isinstance(meta, MetaProperties) and meta.directory_id is not None for meta in context.files.meta.values()
    )
    if has_ids and not release.at_least("3.7.0"):
        release = release_of("3.7.0")
    try:
        voters = read_control_records(context.metadata(), release_of(NEWEST))
    except StartEndsError:
        return release
    return release_of("3.9") if voters.kraft_version and not release.at_least("3.9") else release


def _level(context: _Context) -> int:
    """Return the highest `metadata.version`, as a number, in the node's metadata, its `bootstrap.checkpoint` and the
    metadata of the controllers that were given; 0 if none has one. Damaged metadata counts up to the damage. Raises
    `StorageError` if a file cannot be read.
    """
    images = context.best().image, context.copied()
    levels = (image.features.get(_METADATA_VERSION, 0) for image in images)
    return max(*levels, _level_of_bootstrap(context.files))


def _level_of_bootstrap(files: NodeFiles) -> int:
    """Return the `metadata.version` in `bootstrap.checkpoint`; 0 if it is missing or cannot be read."""
    try:
        return bootstrap_of_start(files, release_of(NEWEST)).level
    except (StartEndsError, StorageError):
        return 0


def _newer_than_known(context: _Context) -> NodeAnswer | None:
    """Return an answer with the outcome UNKNOWN if the `metadata.version` is higher than the newest known release
    supports; else None. Raises `StorageError` if a file cannot be read.
    """
    level = _level(context)
    if level <= newest_metadata_version(release_of(NEWEST)):
        return None
    message = f"metadata.version is {level}, which a release after {NEWEST} has set"
    return NodeAnswer(outcome=StartOutcome.UNKNOWN, message=message)


def _role(context: _Context) -> Role:
    """Return the role in the properties; without one, a role inferred from the files. With a metadata log, a voter or
    registered controller is COMBINED if it also is a registered broker or has partitions, and else CONTROLLER; any
    other node is BROKER. Without a metadata log, copies of other nodes are asked instead. If none was given, the role
    is BROKER if a `meta.properties` is KRaft's, and else ZOOKEEPER_BROKER. Raises `StorageError` if a file cannot be
    read.
    """
    files = context.files
    if files.stated_role is not None:
        return files.stated_role
    is_kraft = any(isinstance(meta, MetaProperties) and meta.version == 1 for meta in files.meta.values())
    leader = context.leaders.metadata()
    if files.metadata_directory is None and (leader is None or not is_kraft):
        return Role.BROKER if is_kraft else Role.ZOOKEEPER_BROKER
    node, image = files.node_id, context.known_image()
    voters = context.voters() or (_voters_of(leader) if leader is not None and context.has_none() else set())
    if node in voters or node in image.controllers:
        is_broker = node in image.brokers or bool(list_partitions(files, _readable(files)))
        return Role.COMBINED if is_broker else Role.CONTROLLER
    return Role.BROKER


def _fetches_metadata(context: _Context, role: Role) -> bool:
    """Whether the node is certainly no voter: it is a broker, and its files name voters but not this node, or name no
    voters and its properties say that it is only a broker.
    """
    voters = context.voters()
    is_stated = context.files.stated_role is Role.BROKER
    return role is Role.BROKER and context.files.node_id not in voters and (is_stated or bool(voters))


def _not_given(context: _Context, role: Role) -> set[str] | None:
    """Return the ids of the log directories that the broker has registered, by the metadata, and that were not given.
    Empty if the properties name the given ones. None if they are unknown, because the broker uses ZooKeeper or has no
    known node id, or a given directory has no id. None also if the metadata has no registration of the broker with
    directories.
    """
    if context.files.are_all:
        return set()
    image = None if role is Role.ZOOKEEPER_BROKER else context.known_image()
    broker = None if image is None or context.files.node_id is None else image.brokers.get(context.files.node_id)
    given = {meta.directory_id if isinstance(meta, MetaProperties) else None for meta in context.files.meta.values()}
    if broker is None or not broker.directories or None in given:
        return None
    return set(broker.directories) - given


def _assigned_elsewhere(context: _Context, not_given: set[str] | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the result of `assigned_to` for the directories `not_given`; two empty tuples if this is None or empty."""
    node_id = context.files.node_id
    return assigned_to(context.known_image(), node_id, not_given) if not_given and node_id is not None else ((), ())


def _readable(files: NodeFiles) -> list[str]:
    return [root for root in files.roots if root not in files.unreadable and root not in files.missing]


def _answer(context: _Context, role: Role, release: Release) -> NodeAnswer:
    try:
        return _known_answer(context, role, release)
    except StorageError as error:
        return NodeAnswer(outcome=StartOutcome.UNKNOWN, message=f"not everything can be read: {error.strerror}")


def _known_answer(context: _Context, role: Role, release: Release) -> NodeAnswer:
    """Return the answer for one release. Raises `StorageError` if a file cannot be read."""
    try:
        if role is Role.ZOOKEEPER_BROKER:
            return _with_zookeeper(context, release)
        return _Start(context, role, release).run()
    except StartEndsError as error:
        if role is Role.ZOOKEEPER_BROKER:
            return error.answer
        return _with_lost_directories(context, _with_nameless(context, role, release, error.answer))


def _if_named(files: NodeFiles, role: Role, answer: NodeAnswer) -> NodeAnswer:
    """Return `answer` with the condition that `log.dirs` names the directories, if the properties name only others: the
    files may be a copy, or have moved. A condition about classes that the properties name follows. Unchanged if the
    start fails or is unknown.
    """
    if answer.outcome in (StartOutcome.FAILS, StartOutcome.UNKNOWN):
        return answer
    others = ", ".join(files.paths_elsewhere)
    elsewhere = f"if log.dirs names what is here; it names {others}" if others else None
    conditions = (answer.condition, elsewhere, condition_of_classes(files, role))
    return structs.replace(answer, condition="; ".join(filter(None, conditions)) or None)


def _with_newer_files(context: _Context, role: Role, release: Release, answer: NodeAnswer) -> NodeAnswer:
    """Return `answer`, unchanged unless the start fails only because a later release has written the files: then its
    condition names that release, and its faults are of kind NEWER_FILES. Raises `StorageError` if a file cannot be
    read.
    """
    floor = _floor(context)
    if answer.outcome is not StartOutcome.FAILS or release.padded >= floor.padded:
        return answer
    if _answer(context, role, floor).outcome is StartOutcome.FAILS:
        return answer
    faults = tuple(structs.replace(fault, kind=NEWER_FILES) for fault in answer.faults)
    return structs.replace(answer, condition=f"Kafka {floor} or later has written the files: start that", faults=faults)


def _with_nameless(context: _Context, role: Role, release: Release, answer: NodeAnswer) -> NodeAnswer:
    """Return `answer`, which is about a start that fails, with an added consequence STRAY_ONCE_STARTED. It names the
    partitions of a broker that have no topic id and that the answer does not mention. Without such partitions, for a
    controller, and before 3.7.1, the answer is unchanged. Raises `StorageError` if a file cannot be read.
    """
    if role is Role.CONTROLLER or not release.at_least("3.7.1"):
        return answer
    known = {name for consequence in answer.consequences for name in consequence.names}
    directories = list_partitions(context.files, _readable(context.files))
    nameless = [directory for directory in directories if directory.topic_id is None]
    names = tuple(directory.name for directory in nameless if directory.name not in known)
    if not names:
        return answer
    detail = f"once it starts, it renames -stray partitions whose {PARTITION_METADATA} is missing"
    consequence = StartConsequence(kind=ConsequenceKind.STRAY_ONCE_STARTED, detail=detail, names=names)
    return structs.replace(answer, consequences=(*answer.consequences, consequence))


def _with_lost_directories(context: _Context, answer: NodeAnswer) -> NodeAnswer:
    """Return `answer`, which is about a start that fails, with an added consequence about the partitions that the
    metadata places in lost log directories: those that are missing, or have neither `meta.properties` nor partitions.
    The answer is unchanged if there are none, or if the node id is unknown. Raises `StorageError` if a file cannot be
    read.
    """
    files, node = context.files, context.files.node_id
    listable = [root for root in files.roots if files.meta[root] is None and root not in files.unreadable]
    lost = [root for root in listable if root in files.missing or not list_partitions(files, [root])]
    if not lost or node is None:
        return answer
    properties = (meta for meta in files.meta.values() if isinstance(meta, MetaProperties))
    ids = {meta.directory_id for meta in properties if meta.directory_id is not None}
    there = list_partitions(files, _readable(files))
    consequence = of_lost_directories(context.best().image, node, there, ids, lost)
    return answer if consequence is None else structs.replace(answer, consequences=(*answer.consequences, consequence))


def _with_zookeeper(context: _Context, release: Release) -> NodeAnswer:
    files = context.files
    if release.at_least("4.0"):
        raise ends(
            Part.ZOOKEEPER, "no_kraft", files.roots[0], "org.apache.kafka.common.config.ConfigException",
            'Missing required configuration "process.roles" which has no default value.',
        )  # fmt: skip
    given = [directory for directory in context.leaders.directories if is_zookeeper_directory(directory)]
    facts = zookeeper_facts(given)
    identity = identity_with_zookeeper(files, release, facts.cluster_id)
    refuse_directory_twice(files, identity.online, release)
    online = [root for root in identity.online if root in _readable(files)]
    results = context.logs(online)
    offline, faults = open_partitions(files, results, is_kraft=False)
    gone = _offline(offline)
    online = [root for root in online if root not in gone]
    directories = with_ends_of_moves(files, list_partitions(files, online, results), context.now_ms)
    refuse_twice(directories)
    other, wrong = consequences_of_topic_ids(directories, facts)
    moves = consequences_of_moves(
        directories, lambda directory: False if facts.may_have(directory.parsed.topic) else None
    )
    unknown = consequences_of_unknown(directories, facts)
    unserved_names = {name for consequence in (*other, *unknown) for name in consequence.names}
    served = [directory for directory in directories if directory.name not in unserved_names]
    ids = live_producer_ids(files, served, context.producers, release, context.now_ms)
    older = consequences_of_older_metadata(
        files, served, lambda each: facts.partitions.get(each.partition), ids, facts.next_producer_id,
        page=ZOOKEEPER_PAGE,
    )  # fmt: skip
    consequences = [*identity.consequences, *offline, *older, *other, *unknown, *moves]
    if files.node_id is not None and len(online) == len(files.roots):
        consequences += consequences_without_directory(directories, facts, files.node_id, is_certain=files.are_all)
    faults = [*identity.faults, *faults, *wrong]
    for root in results.keys() & set(online):
        unserved, unread = consequences_of_unserved(context.internal(root, results[root]).unserved, release)
        consequences += unserved
        faults += unread
    condition = _UNREAD_ZOOKEEPER if given else _OF_ZOOKEEPER
    return _answer_of(consequences, faults, None if facts.is_known else condition)


def _answer_of(consequences: Sequence[StartConsequence], faults: Sequence[Fault], condition: str | None) -> NodeAnswer:
    """Return the answer about a start that does not fail. The most serious consequence determines the outcome; it is
    STARTS if none is in `_OUTCOMES`. Duplicates are dropped. `message` is set only if the outcome is UNKNOWN.
    `condition` says on what the answer depends; None if on nothing.
    """
    kinds = {consequence.kind for consequence in consequences}
    outcome = next((start_outcome for kind, start_outcome in _OUTCOMES if kind in kinds), StartOutcome.STARTS)
    unforeseen = (consequence.detail for consequence in consequences if consequence.kind is ConsequenceKind.UNFORESEEN)
    return NodeAnswer(
        outcome=outcome,
        message=next(unforeseen, None) if outcome is StartOutcome.UNKNOWN else None,
        consequences=tuple(dict.fromkeys(consequences)),
        condition=condition,
        faults=tuple(dict.fromkeys(faults)),
    )


class _Start:
    """One start of one KRaft node with one release. Methods raise `StorageError` if a file cannot be read."""

    def __init__(self, context: _Context, role: Role, release: Release) -> None:
        self.context = context
        self.files = context.files
        self.role = role
        self.release = release
        self.consequences: list[StartConsequence] = []
        self.faults: list[Fault] = []
        self.condition: str | None = None

    def run(self) -> NodeAnswer:
        """Simulate the parts of the start in Kafka's order, and return the answer. A node that waits for a leader
        forever gets an answer too. Called once. Raises `StartEndsError` if a part ends the start, with the failing
        answer and the consequences and faults before it. Raises `StorageError` if a file cannot be read.
        """
        try:
            return self._run()
        except StartEndsError as error:
            answer = error.answer
            happened = dict.fromkeys((*self.consequences, *answer.consequences))
            faults = dict.fromkeys((*self.faults, *answer.faults))
            answer = structs.replace(answer, consequences=tuple(happened), faults=tuple(faults))
            raise StartEndsError(answer) from error

    def _run(self) -> NodeAnswer:
        refuse_incomplete_properties(self.files, self.role, self.release)
        refuse_migration_without_zookeeper(self.files, self.role, self.release)
        refuse_voters(self.files, self.role)
        identity = identity_of_start(self.files, self.release)
        self._note(identity.consequences, identity.faults)
        bootstrap = bootstrap_of_start(self.files, self.release)
        self._refuse_read_only_metadata()
        loaded = self.context.metadata()
        if self._is_without_metadata() and self.context.leaders.metadata() is None:
            self._open(identity, None)
            return self._done()
        self._note(loaded.consequences, loaded.faults)
        voters = read_control_records(loaded, self.release)
        state = state_of_start(loaded, self.release)
        if self.files.metadata_directory is not None or self.context.leaders.metadata() is None:
            self._note(state.consequences, state.faults)  # else there was no vote, as far as is known
        if voters.stuck_at is not None:
            return self._stuck(loaded, voters.stuck_at)
        waits = self._election(identity, voters, state)
        if waits is not None:
            return waits
        if self._leads:
            self._note_undone(loaded)
        leader = self._leader(loaded, voters, state)
        if self._is_without_leader(loaded, leader):
            return self._done()
        replay = self._replay(loaded, leader)
        if replay.is_without_version:
            raise self._without_version(loaded)
        if self._publishes_nothing(replay):
            return self._done()
        if self._leads:
            replay = self._led(replay, loaded, bootstrap, state)
        if self.role is not Role.CONTROLLER:
            has_rest = self._leads or self._is_led  # else the controllers send what is missing
            is_partial = not has_rest and (bool(loaded.consequences) or replay.is_empty or self._names_no_voters)
            if is_partial and self.role is not Role.BROKER and list_partitions(self.files, _readable(self.files)):
                self.condition = (
                    f"{self.condition}; what is missing here of the metadata comes from them, and partitions that they "
                    "do not know become -stray"
                )
            self._open(identity, None if is_partial else replay.image)
            self._note(consequences_without_tier(self.files, replay.image), [])
            self._refuse_registration(identity, replay.image)
        elif self.files.stated_role is Role.CONTROLLER:
            self._serves_no_partition()
        if self.role is not Role.BROKER:
            self._refuse_displaced(loaded)
            conditions = (self.condition, condition_of_migration(self.files, replay.image, self.release))
            self.condition = "; ".join(filter(None, conditions)) or None
        return self._done()

    def _refuse_read_only_metadata(self) -> None:
        """Raise `StartEndsError` if the directory of the metadata log is mounted read-only. Opening its first segment
        fails (`KafkaMetadataLog`). Opening its lock file fails before that (`KafkaRaftManager`) if the node is no
        broker, or if `log.dirs` does not name the directory.
        """
        root = self.files.metadata_root
        if root is None or not self.files.is_read_only(root):
            return
        tree = self.files.surveyed(root).tree()
        logs = [path for _base, path in tree.logs(CLUSTER_METADATA_DIRECTORY)]
        has_logs = self.role is not Role.CONTROLLER and root in map(os.path.abspath, log_dirs_of(self.files.properties))
        file = os.path.join(root, logs[0] if logs and has_logs else LOCK_FILE)
        raise ends(
            Part.METADATA_LOG, READ_ONLY, root, "java.nio.file.FileSystemException", f"{file}: Read-only file system"
        )

    def _refuse_displaced(self, loaded: LoadedMetadata) -> None:
        """Raise `StartEndsError` if a base offset in the metadata log is so high that the controller gives up its
        leadership. Raise it also if the node reads records again because of it and cannot apply them. If this node does
        not lead by itself, losing the leadership is only a consequence that is added: it can follow.
        """
        batch = self.context.displaced(loaded)
        if batch is None:
            return
        what = (
            f"a batch at offset {batch.expected} of its metadata log claims offset {batch.claimed}, and the log ends "
            f"at {loaded.end}"
        )
        refused = self._read_again(loaded)
        elections = batch.claimed - loaded.end - 1
        if refused is not None:
            detail = f"it ends as it reads the records from offset {batch.expected} on again, because {what}"
            raise ends(
                Part.METADATA_LOG, DISPLACED, loaded.directory, refused.exception, refused.message, detail=detail
            )
        if elections <= 0:
            return
        if not self._leads:
            detail = f"its controller can follow and not lead, because {what}"
            self._note([StartConsequence(kind=ConsequenceKind.OTHER, detail=detail, file=loaded.directory)], [])
            return
        often = f"again and again, {elections} times," if elections > 1 else "once"
        detail = (
            f"its controller gives up its leadership {often} and forgets the metadata after offset {batch.expected}, "
            f"because {what}"
        )
        message = (
            f"Can't create a new in-memory snapshot at epoch {loaded.end + 1} because there is already a snapshot with "
            f"epoch {batch.claimed}"
        )
        raise ends(Part.METADATA_LOG, DISPLACED, loaded.directory, RUNTIME, message, detail=detail)

    def _read_again(self, loaded: LoadedMetadata) -> Contradiction | None:
        """A reader that looks for the end of the log may find the displaced batch there, and read on from it
        (`MetadataLoader`). Return the first record that then cannot be applied a second time; None if there is none.
        """
        again = list(loaded.batches(loaded.end))
        if not again:
            return None
        replay = Replay(release=self.release, is_controller=False)
        replay.take(() if loaded.snapshot is None else loaded.snapshot.batches())
        replay.take(loaded.batches(0 if loaded.snapshot is None else loaded.snapshot.end))
        known = len(replay.skipped)
        replay.take(again)
        return next(iter(replay.skipped[known:]), None)

    def _led(self, replay: Replay, loaded: LoadedMetadata, bootstrap: Bootstrap, state: StateFile) -> Replay:
        """Return the metadata of a node that leads by itself: `replay`, or the result of `_begun_anew` if it is empty.
        Adds a consequence if the metadata log was dropped, or ends below its earlier end. Adds it also if the log ends
        in an epoch before the last one that the node led. If `replay` is not empty, adds one if the snapshot is cut,
        and consequences and faults of a migration from ZooKeeper. Raises `StartEndsError` if the migration ends the
        start.
        """
        is_dropped = any(
            consequence.kind is ConsequenceKind.METADATA_LOG_DROPPED for consequence in loaded.consequences
        )
        goes_back = f"the only voter's metadata goes back to offset {loaded.end}"
        if is_dropped:
            self._goes_back(loaded.directory, f"{goes_back}; what came after it, if anything, is lost")
        elif loaded.end < loaded.written_end:
            what = f"it went to {loaded.written_end}: look for a newer copy of it before"
            self._goes_back(loaded.directory, f"{goes_back}; {what}", OlderCopyConsequence)
        elif state.leader == self.files.node_id and state.epoch > (ended := loaded.last_epoch):
            what = f"quorum-state says that it led in epoch {state.epoch}, and the metadata ends in epoch {ended}"
            newer = "look for a newer copy of it before"
            goes_on = f"the only voter's metadata may have gone on after offset {loaded.end}"
            self._goes_back(loaded.directory, f"{goes_on}: {what}; {newer}", OlderCopyConsequence)
        if replay.is_empty:
            return self._begun_anew(replay, bootstrap)
        cut = self._damaged_snapshot()
        if cut is not None:
            what = "topics, access control entries and settings behind its end, if any, are gone"
            self._goes_back(cut, f"the only voter takes its cut snapshot for the whole; {what}")
        self._note(*consequences_of_migration(self.files, replay.image, loaded, self.release))
        return replay

    def _refuse_registration(self, identity: Identity, image: MetadataImage) -> None:
        """Raise `StartEndsError` if another broker has registered with the id of one of the node's directories: the
        controllers refuse this one (`ClusterControlManager.registerBroker`), and it gives up. Does nothing if the node
        id is unknown.
        """
        for root, identifier in identity.directory_ids:
            for broker, registered in sorted(image.brokers.items()):
                is_other = self.files.node_id not in {None, broker}
                if is_other and identifier is not None and identifier in (registered.directories or ()):
                    path = os.path.join(root, META_PROPERTIES)
                    message = f"Broker {broker} is already registered with directory {identifier}"
                    cure = exchanged(root, f"node {broker}", f"node {self.files.node_id}")
                    raise ends(Part.META_PROPERTIES, "mismatch", path, _INVALID_REGISTRATION, message, cure=cure)

    def _serves_no_partition(self) -> None:
        """Add a NOT_SERVING consequence if the directories have partitions. Called for a node whose properties make it
        no broker.
        """
        names = tuple(list_partition.name for list_partition in list_partitions(self.files, _readable(self.files)))
        if names:
            detail = f"process.roles makes it no broker: nobody serves {names[0]} and {len(names) - 1} more"
            self.consequences.append(StartConsequence(kind=ConsequenceKind.NOT_SERVING, detail=detail, names=names))

    def _note(self, consequences: Sequence[StartConsequence], faults: Sequence[Fault]) -> None:
        self.consequences += consequences
        self.faults += faults

    def _note_undone(self, loaded: LoadedMetadata) -> None:
        """Extend the consequence METADATA_LOG_CUT, if there is one, with the time since which changes may be undone,
        because no other controller has them: the timestamp of the last batch that is left. Do nothing if no batch is
        left or the last one has no timestamp.
        """
        kept: list[MetaBatch] = []
        with suppress(ReaderError):
            kept += loaded.batches(0)
        if not kept or kept[-1].timestamp < 0:
            return
        since = moment_text(kept[-1].timestamp)
        path = shell_word(os.path.dirname(loaded.directory))
        undone = (
            f"what was created, changed or deleted since {since} may be undone; before the start, check the settings "
            f"that are left (`kafkalog metadata {path}`)"
        )
        for number, consequence in enumerate(self.consequences):
            if consequence.kind is ConsequenceKind.METADATA_LOG_CUT:
                self.consequences[number] = structs.replace(consequence, detail=f"{consequence.detail}: {undone}")

    def _is_without_metadata(self) -> bool:
        """Whether the metadata log may be outside the given directories. True if its directory is missing, and the node
        is a broker or has no role in the properties, or these name only other directories. If True, also sets
        `condition` to a sentence about it.
        """
        if self.files.metadata_directory is not None:
            return False
        has_role = self.role is not Role.BROKER and self.files.stated_role is not None
        if has_role and not self.files.paths_elsewhere:
            return False
        self.condition = (
            "if the metadata log, which is not in these directories, agrees; a controller that has lost it makes every "
            "partition -stray"
        )
        return True

    def _stuck(self, loaded: LoadedMetadata, offset: int) -> NodeAnswer:
        detail = (
            f"the metadata log ends at offset {loaded.end}, and nothing is in it from offset {offset} on: the node "
            "reads there forever, and serves nothing"
        )
        self.consequences.append(
            StartConsequence(kind=ConsequenceKind.NOT_SERVING, detail=detail, file=loaded.directory)
        )
        self.faults.append(Fault(part=Part.METADATA_LOG, kind="empty", file=loaded.directory, detail=detail))
        return self._done()

    # voters

    _leads = False
    _votes = False

    def _election(self, identity: Identity, voters: Voters, state: StateFile) -> NodeAnswer | None:
        """Decide whether the node is a voter, and whether it becomes leader by itself, as the only voter; set `_votes`
        and `_leads`. If the start depends on other voters, set `condition`. Return None, or an answer if the node waits
        forever because no leader can be elected. With an answer, a consequence and a fault are added. Raises
        `StartEndsError` if the only voter cannot be elected (`refuse_state`) or has another node id now
        (`_renumbered`). Before 3.8 it is also raised if `quorum-state` has other voters than the properties.

        A voter whose entry in the voter set has another directory id does not vote; this adds a fault.
        """
        node = self.files.node_id
        if voters.kraft_version or voters.dynamic:
            members = {number for number, _directory in voters.dynamic}
            own = dict(voters.dynamic).get(node) if node is not None else None
            here = identity.directory_id(self.files.metadata_root)
            is_voter = own is not None and own == here
            if self.role is not Role.BROKER and own is not None and not is_voter:
                return self._observes(own, here, members, identity)
            former = next((number for number, directory in voters.dynamic if directory == here), None)
            if self.role is not Role.BROKER and own is None and former is not None and len(members) == 1:
                return self._renumbered(former)
        else:
            stated = static_voters(self.files.properties)
            if not stated and (servers := self.files.properties.get("controller.quorum.bootstrap.servers")):
                return self._asks_others(servers, state)
            members = set(stated or state.voters or self._registered_controllers()) or self._voters_of_copies()
            if stated and state.voters and set(stated) != set(state.voters) and not self.release.at_least("3.8"):
                raise _other_voters(stated, state)
            is_voter = node in members
        self._votes = is_voter and self.role is not Role.BROKER
        self._leads = self._votes and len(members) == 1
        if self._leads:
            refuse_state(state, node, self.release)
        if self.role is Role.BROKER:
            self.condition = self._if_controllers_agree()
        elif not self._leads and members:
            self.condition = self._if_a_majority_runs(members)
        elif not members:
            return self._without_voters(state)
        return None

    def _voters_of_copies(self) -> set[int]:
        """Voters that the furthest copy of other nodes names, if this node has no metadata; else empty."""
        leader = self.context.leaders.metadata() if self.context.has_none() else None
        return set() if leader is None else _voters_of(leader)

    def _if_controllers_agree(self) -> str:
        """The condition of a broker, whose controllers may have other metadata than those that are foreseen."""
        if (empty := self.context.empty_voters()) is not None:
            return if_not_elected(empty)
        if self.context.has_none() and (copy := self.context.leaders.metadata()) is not None:
            return f"if its controllers have the metadata of {os.path.dirname(copy.directory)}"
        return "from this broker's own copy of the metadata, if its controllers have the same"

    def _if_a_majority_runs(self, members: set[int]) -> str:
        """The condition of one of several voters, `members`."""
        if (empty := self.context.empty_voters()) is not None:
            return if_not_elected(empty)
        runs = f"as soon as a majority of the voters {_listed(members)} runs"
        if self.context.has_none():
            return f"{runs}, one of them with the cluster's metadata, as here is none; else they elect an empty cluster"
        return f"{runs}, with the same metadata as here"

    _names_no_voters = False
    """whether its own files name no voters, so that it fetches all its metadata"""

    def _asks_others(self, servers: str, state: StateFile) -> NodeAnswer | None:
        """Decide how a node starts whose properties and voter set name no voters, so that it asks the controllers at
        `servers` who leads. Return the answer of `_without_voters` if it is a controller (or combined), `servers` is
        one address, which can be its own, and no controllers were given. Otherwise set `condition` and
        `_names_no_voters`, and return None.
        """
        if self.role is not Role.BROKER and "," not in servers and self.context.leaders.metadata() is None:
            return self._without_voters(state)
        self._names_no_voters = True
        self.condition = "if controllers that controller.quorum.bootstrap.servers names have a leader without it"
        return None

    def _registered_controllers(self) -> list[int]:
        return sorted(self.context.best().image.controllers)

    def _observes(self, own: str, here: str | None, members: set[int], identity: Identity) -> NodeAnswer | None:
        node = self.files.node_id
        detail = (
            f"the voter set has node {node} with directory id {own}, and the metadata directory "
            f"{'has none and gets a new one' if here is None else f'has {here}'}: the node does not vote"
        )
        other = next((root for root, identifier in identity.directory_ids if identifier == own), None)
        if other is not None:
            detail += f" (the file of {other} has that id: put it into the metadata directory, and its own back there)"
        path = f"{self.files.metadata_root}/meta.properties"
        self.faults.append(Fault(part=Part.VOTERS, kind="directory_id", file=path, detail=detail))
        if len(members) > 1:
            self.condition = f"if a majority of the other voters of {_listed(members)} is there; {detail}"
            return None
        self.consequences.append(
            StartConsequence(kind=ConsequenceKind.NOT_SERVING, detail=f"{detail}; no leader is elected", file=path)
        )
        return self._done()

    def _renumbered(self, former: int) -> NodeAnswer:
        """Return the answer of a controller that has the metadata directory of the only voter, `former`, but another
        node id. Add a consequence and a fault. Raises `StartEndsError` if the node is a broker too: such a node gives
        up after a minute (4.1.1).
        """
        path = f"{self.files.metadata_root}/meta.properties"
        detail = (
            f"node {self.files.node_id} is not in the voter set, and the only voter {former} has the directory id of "
            "this metadata directory: no leader is elected"
        )
        cure = f"set node.id={former} again in server.properties and in every meta.properties of the node"
        if self.role is Role.COMBINED:
            message = "Received a fatal error while waiting for the controller to acknowledge that we are caught up"
            raise ends(Part.VOTERS, "node_id", path, RUNTIME, message, detail=detail, cure=f"{detail}; {cure}")
        self.faults.append(Fault(part=Part.VOTERS, kind="node_id", file=path, detail=detail, cure=cure))
        detail = f"{detail}; {cure}"
        self.consequences.append(StartConsequence(kind=ConsequenceKind.NOT_SERVING, detail=detail, file=path))
        return self._done()

    def _without_voters(self, state: StateFile) -> NodeAnswer:
        detail = "its files name no voters, so that no leader is elected and the node waits forever"
        self.consequences.append(StartConsequence(kind=ConsequenceKind.NOT_SERVING, detail=detail, file=state.path))
        self.faults.append(Fault(part=Part.VOTERS, kind="missing", file=state.path, detail=detail))
        return self._done()

    _is_led = False
    """whether a majority of the voters was given, so that their metadata decides"""

    def _leader(self, loaded: LoadedMetadata, voters: Voters, state: StateFile) -> LoadedMetadata | None:
        """Return the metadata of the leader that the node follows, from the directories that the caller gave for its
        controllers. Set `_is_led` and `condition` if these controllers are a majority of its voters, with or without
        the node itself. In this case, also add a consequence if the node's own copy comes from an older one. If they
        are no majority, or none has readable metadata, a node without metadata gets the furthest copy of all nodes.
        Another node gets None. Return None also if the node leads, alone or because its metadata `loaded` goes
        furthest. Raises `StorageError` if a file of the node, or of the controller whose voters count because its own
        files name none, cannot be read.
        """
        if self._leads:
            return None
        static = static_voters(self.files.properties) or state.voters or tuple(self._registered_controllers())
        members = {number for number, _directory in voters.dynamic} or set(static)
        known = self.context.leaders.metadata()
        if known is not None and not members:  # its own files name nobody
            members = _voters_of(known)
        leader = self.context.leaders.metadata(members)
        own = self.files.node_id if self._votes else None
        if leader is None or not self.context.leaders.decides(members, own):
            return known if self.context.has_none() else None
        self._is_led = True
        is_ahead = (leader.epoch or 0, leader.end) > (loaded.epoch or 0, loaded.end)
        if own is not None and is_ahead and loaded.directory:  # a node without metadata has no older copy
            self._note_older_copy(own, loaded, leader, members)
        if self.context.leaders.decides(members):
            empty = self.context.empty_voters()
            self.condition = "if it follows the controllers that were given" if empty is None else if_not_elected(empty)
            return leader
        self.condition = f"if of the voters {_listed(members)} only the given ones start"
        return leader if is_ahead else None

    def _note_older_copy(self, own: int, loaded: LoadedMetadata, leader: LoadedMetadata, members: set[int]) -> None:
        why = self.context.leaders.why_older(own, loaded.directory, leader, members)
        if why is not None:
            detail = (
                f"its copy of the metadata is older than it was ({why}): what the voters {_listed(members)} committed "
                f"since may be lost; look for a newer copy of it before (runbook: {KRAFT_PAGE})"
            )
            kind = ConsequenceKind.METADATA_MAY_GO_BACK
            self._note([OlderCopyConsequence(kind=kind, detail=detail, file=loaded.directory)], [])

    def _is_of_another_cluster(self) -> bool:
        """Whether the given controllers have another cluster id than the node, so that they refuse it
        (`INCONSISTENT_CLUSTER_ID`). If so, adds a consequence and a fault. False if one of the ids is unknown or the
        controllers have several.
        """
        own, theirs = self.files.cluster_id, self.context.leaders.cluster_id
        if own is None or theirs is None or own == theirs:
            return False
        path = f"{self.files.metadata_root}/meta.properties"
        detail = f"its cluster id is {own}, and the controllers are of cluster {theirs}: they refuse it, and it waits"
        self.consequences.append(StartConsequence(kind=ConsequenceKind.NOT_SERVING, detail=detail, file=path))
        self.faults.append(Fault(part=Part.META_PROPERTIES, kind="mismatch", file=path, detail=detail))
        return True

    def _is_without_leader(self, loaded: LoadedMetadata, leader: LoadedMetadata | None) -> bool:
        """Whether the node does not get to follow the metadata `leader`, or its own if that is None. If so, adds a
        consequence, and a fault of its files.
        """
        if self._elects_an_empty_cluster():
            return True
        return leader is not None and (self._is_of_another_cluster() or self._is_begun_anew(loaded, leader))

    def _elects_an_empty_cluster(self) -> bool:
        """Whether this node is one of the voters without metadata that are a majority. If so, adds a consequence."""
        empty = self.context.empty_voters()
        if empty is None or self.files.node_id not in empty.nodes:
            return False
        image = self.context.copied()
        detail = (
            f"{voters_named(empty)} {'elect' if empty.nodes[1:] else 'elects'} an empty cluster: "
            f"{counted(len(image.topics), 'topic')} and {counted(len(image.acls), 'access control entry')} are gone, "
            "and brokers rename their partitions -stray"
        )
        self.consequences.append(StartConsequence(kind=ConsequenceKind.METADATA_OVERWRITTEN, detail=detail))
        self.condition = "unless a voter that has metadata leads before"
        return True

    def _is_begun_anew(self, loaded: LoadedMetadata, leader: LoadedMetadata) -> bool:
        """Whether this is a broker, and no controller, with metadata, and the given controllers have none, for example
        after reformatting. If so, adds a consequence and a fault.

        A broker does not follow a leader with an older epoch than its own (`KafkaRaftClient`). Once elections bring the
        leader to a later epoch, the broker truncates all its metadata.
        """
        if self.role is not Role.BROKER or leader.end or not loaded.end:
            return False
        detail = (
            f"the controllers that were given hold no record, as if reformatted, and this broker's metadata goes to "
            f"offset {loaded.end}: it waits for them, until they have started often enough for it to take their empty "
            "metadata, by which every partition is a stray"
        )
        self.consequences.append(
            StartConsequence(kind=ConsequenceKind.NOT_SERVING, detail=detail, file=loaded.directory)
        )
        self.faults.append(Fault(part=Part.VOTERS, kind="begun_anew", file=loaded.directory, detail=detail))
        return True

    # metadata

    def _replay(self, loaded: LoadedMetadata, leader: LoadedMetadata | None) -> Replay:
        known = next((replay for replay in self.context.replays if replay.is_that_of(self.release)), None)
        if known is not None:
            return known.as_of(self.release)
        replay = Replay(
            release=self.release,
            is_controller=self.role is not Role.BROKER,
            accepts_unreleased=accepts_unreleased(self.files.properties),
        )
        faults = len(self.faults)
        try:
            snapshot, batches = (loaded.snapshot, None) if leader is None else followed(loaded, leader)
            if snapshot is not None:
                self._replay_snapshot(replay, snapshot)
            replay.take(batches if batches is not None else loaded.batches(0 if snapshot is None else snapshot.end))
        except ReaderError as error:
            damaged = loaded if leader is None or leader.contents.error is None else leader
            raise ends(Part.METADATA_LOG, "corrupt", damaged.directory, error.exception, error.message) from error
        self._refuse(replay, loaded.directory)
        for skipped in replay.skipped:
            detail = f"the broker goes on without the {skipped.record} at offset {skipped.offset}: {skipped.message}"
            self.faults.append(
                Fault(part=Part.METADATA_REPLAY, kind="contradiction", file=loaded.directory, detail=detail)
            )
        if leader is not None and continues(loaded, leader):
            self.context.explained.compare(self.context.best().image, replay.image, self.files.node_id)
        if len(self.faults) == faults:
            self.context.replays.append(replay)
        return replay

    def _replay_snapshot(self, replay: Replay, snapshot: Snapshot) -> None:
        problem: tuple[str, str] | None = None
        count = 0
        has_footer = False
        try:
            for batch in snapshot.batches():
                count += 1
                has_footer = batch.is_control and any(record.type == _FOOTER for record in batch.records)
                replay.take([batch])
        except ReaderError as error:
            problem = error.exception, error.message
        if problem is None and not count:
            problem = _NO_ELEMENT, "No value present"
        if not has_footer:
            detail = "the snapshot has no footer: it is cut, and what was behind the cut is not in the metadata"
            self.faults.append(
                Fault(part=Part.METADATA_SNAPSHOT, kind="cut" if count else "empty", file=snapshot.path, detail=detail)
            )
        self._refuse(replay, snapshot.path)
        if problem is not None and self.role is not Role.BROKER:
            raise ends(Part.METADATA_SNAPSHOT, "empty" if not count else "corrupt", snapshot.path, *problem)

    def _refuse(self, replay: Replay, file: str) -> None:
        contradiction = replay.contradiction
        if contradiction is None:
            return
        exception, message = contradiction.exception, contradiction.message
        detail = f"the {contradiction.record} at offset {contradiction.offset} cannot be applied: {message}"
        kind = OLD_VERSION if replay.ends_at_old_version else "contradiction"
        raise ends(Part.METADATA_REPLAY, kind, file, exception, message, detail=detail)

    def _without_version(self, loaded: LoadedMetadata) -> StartEndsError:
        """Return the error for a start on metadata that has records and no `metadata.version`; the caller raises it.
        Its file is the damaged snapshot if a fault names one, else the metadata log directory.
        """
        cut = self._damaged_snapshot() or loaded.directory
        message = "Unknown metadata version for FeaturesImage: metadataVersion(Optional.empty)"
        detail = f"the metadata that is read has records and no {_METADATA_VERSION}"
        exception = "java.lang.IllegalStateException"
        return ends(Part.METADATA_REPLAY, NO_VERSION, cut, exception, message, detail=detail)

    def _publishes_nothing(self, replay: Replay) -> bool:
        """Whether this is a broker, and no controller, whose damaged snapshot leaves its metadata without
        `metadata.version`, so that it publishes no metadata (`MetadataLoader.initializeNewPublishers`) and serves
        nothing. If so, adds a consequence. False before 3.7, which takes a missing version for the lowest.
        """
        damaged = self._damaged_snapshot()
        if self.role is not Role.BROKER or damaged is None or replay.has_version or not self.release.at_least("3.7.0"):
            return False
        detail = f"its metadata has no {_METADATA_VERSION}: it logs 'metadata loading fault' and serves nothing"
        if not self.release.at_least("4.1"):
            detail += ", and it may rename all its partitions -stray before"
        names = tuple(directory.name for directory in list_partitions(self.files, _readable(self.files)))
        self.consequences.append(
            StartConsequence(kind=ConsequenceKind.NOT_SERVING, detail=detail, file=damaged, names=names)
        )
        return True

    def _damaged_snapshot(self) -> str | None:
        """Path of the snapshot that was used, if it is cut, empty or damaged; else None. Known after the replay."""
        return next((fault.file for fault in self.faults if fault.part is Part.METADATA_SNAPSHOT), None)

    def _goes_back(self, file: str, detail: str, of_class: type[StartConsequence] = StartConsequence) -> None:
        """Add the consequence, of class `of_class`, that the only voter starts with less metadata than it had, with the
        sentence `detail`.

        On a node that is a broker too, the partitions show whether something is lost. On a controller alone nothing
        shows it.
        """
        is_alone = self.role is Role.CONTROLLER
        kind = ConsequenceKind.METADATA_GOES_BACK if is_alone else ConsequenceKind.METADATA_MAY_GO_BACK
        self.consequences.append(of_class(kind=kind, detail=detail, file=file))

    def _begun_anew(self, replay: Replay, bootstrap: Bootstrap) -> Replay:
        """Return the metadata that a leading controller has after it took its metadata for empty and appended its
        bootstrap records, and add the consequence METADATA_OVERWRITTEN. If the node has no partitions, and no topics or
        brokers in its metadata, it was never used: return `replay`, and add nothing.
        """
        known = self.context.best().image
        directories = [] if self.role is Role.CONTROLLER else list_partitions(self.files, _readable(self.files))
        if not known.topics and not known.brokers and not directories:
            return replay  # it was formatted and never used
        detail = (
            "the controller takes the metadata for empty and appends its bootstrap records over it: "
            f"{self._what_is_gone(known, directories)}"
        )
        self.consequences.append(StartConsequence(kind=ConsequenceKind.METADATA_OVERWRITTEN, detail=detail))
        anew = Replay(release=self.release, is_controller=True)
        anew.image = MetadataImage()
        for record in bootstrap.records:
            anew.image.apply(record)
        return anew

    def _what_is_gone(self, known: MetadataImage, directories: Sequence[PartitionDirectory]) -> str:
        """Return a clause about the topics and access control entries that are lost with the metadata. If `known` is
        complete, it has the exact numbers. `known` is complete if the metadata log was neither cut nor dropped, and no
        live partition directory has another topic. Otherwise the clause has the least possible number of topics, from
        `known` and the partition directories.
        """
        live = [directory.parsed for directory in directories if directory.parsed.state is DirectoryState.LIVE]
        names = {name.topic for name in live}
        is_whole = not any(consequence.kind in _METADATA_CHANGES for consequence in self.consequences)
        if is_whole and names <= known.topics.keys():
            return f"{len(known.topics)} topics and {len(known.acls)} access control entries are gone"
        count = len(names | known.topics.keys())
        return f"all topics (at least {count}) and all access control entries are gone"

    # partitions

    def _open(self, identity: Identity, image: MetadataImage | None) -> None:
        """Simulate opening the partitions in the online log directories, and add the consequences and faults. `image`
        is the metadata; None if it is unknown. If the node id is unknown, only the loading of the logs is simulated.
        Raises `StartEndsError` if the start ends, and `StorageError` if a file cannot be read.
        """
        node = self.files.node_id
        if self.role is not Role.CONTROLLER:
            refuse_directory_twice(self.files, identity.online, self.release)
        online = [root for root in identity.online if root in _readable(self.files)]
        if image is not None:
            refuse_small_segments(self.files, image, self.release)
        results = self.context.logs(online)
        try:
            offline, faults = open_partitions(self.files, results)
        except StartEndsError:
            self._note(self._strays_before(identity, online, image), [])
            raise
        self._note(offline, faults)
        if node is None:
            return
        gone = _offline(offline)
        online = [root for root in online if root not in gone]
        directories = list_partitions(self.files, online, results)
        directories = with_ends_of_moves(self.files, directories, self.context.now_ms)
        start_consequences, faults = self._of_partitions(identity, online, image, directories)
        self._note(start_consequences, faults)
        strays = {
            name
            for consequence in start_consequences
            for name in consequence.names
            if consequence.kind is ConsequenceKind.STRAY
        }
        if image is not None:
            self._compare_ages(directories, image, node, strays)
        for root in online:
            internal = self.context.internal(root, results[root])
            unserved = (entry for entry in internal.unserved if entry.name not in strays)
            self._note(*consequences_of_unserved(unserved, self.release))
            if image is not None:
                counts = {name: len(topic.partitions) for name, topic in image.topics.items()}
                kept = (names for names in internal.kept if names.name not in strays)
                self._note(consequences_of_misplaced(kept, counts, self.release), [])

    def _compare_ages(
        self,
        directories: Sequence[PartitionDirectory],
        image: MetadataImage,
        node: int,
        strays: set[str],
    ) -> None:
        """Add the consequences of metadata that is older than the logs of `directories`, if the node leads or follows
        controllers that were given; the producer ids of directories whose name is in `strays` do not count for this.
        Add the consequences and faults of logs that are older than the metadata `image`. Raises `StorageError` if a
        file cannot be read.
        """

        def replica_of(directory: PartitionDirectory) -> PartitionImage | None:
            return replicas_of(image, directory.topic_id or "", directory.parsed.partition)

        if self._leads or self._is_led:
            served = [directory for directory in directories if directory.name not in strays]
            ids = live_producer_ids(self.files, served, self.context.producers, self.release, self.context.now_ms)
            next_id = image.next_producer_id
            self._note(consequences_of_older_metadata(self.files, directories, replica_of, ids, next_id), [])
        def producers_of(directory: PartitionDirectory) -> list[ProducerEntry]:
            entries, properties = self.context.producers(directory), self.files.properties
            return [*live_entries(entries, properties, self.context.now_ms, self.release)]

        coordinators = self.context.coordinators()
        self._note(
            *consequences_of_older_logs(self.files, directories, producers_of, replica_of, node, coordinators)
        )

    def _of_partitions(
        self,
        identity: Identity,
        online: Sequence[str],
        image: MetadataImage | None,
        directories: list[PartitionDirectory],
    ) -> tuple[list[StartConsequence], list[Fault]]:
        """Compare the partition directories of the log directories `online` with the metadata; return consequences and
        faults (`partition_consequences`). If `image` is None, only the directories themselves are judged, such as those
        without a topic id. The node id must be known. Raises `StartEndsError` if the start ends.
        """
        self.context.best()
        return partition_consequences(
            self.files, directories, image, self.files.node_id or 0, self.release,
            structs.replace(self.context.explained, by_itself=self._leads),
            {root: identifier for root, identifier in identity.directory_ids if root in online},
            list_partitions(self.files, online, states=(DirectoryState.DELETE, DirectoryState.STRAY)),
            False if len(online) < len(self.files.roots) else True if self.files.are_all else None,
        )  # fmt: skip

    def _strays_before(
        self, identity: Identity, online: Sequence[str], image: MetadataImage | None
    ) -> list[StartConsequence]:
        """Return the STRAY consequences of a start that ends while logs are loaded. A log is renamed when it is loaded,
        so the sentences say that some or all strays are renamed. Directories with an invalid `partition.metadata` are
        left out, because they are not loaded. Empty before 3.7.1, if the node id is unknown, or if comparing the
        partitions with the metadata would end the start. Raises `StorageError` if a file cannot be read.
        """
        if self.files.node_id is None or not self.release.at_least("3.7.1"):
            return []
        directories = [
            directory
            for directory in list_partitions(self.files, online)
            if directory.topic_id != ""  # not loaded: its partition.metadata cannot be read
        ]
        try:
            consequences, _faults = self._of_partitions(identity, online, image, directories)
        except StartEndsError:
            return []
        strays = [consequence for consequence in consequences if consequence.kind is ConsequenceKind.STRAY]
        return [structs.replace(stray, detail=f"{stray.detail}, some or all") for stray in strays]

    def _done(self) -> NodeAnswer:
        return _answer_of(self.consequences, self.faults, self.condition)


_FOOTER = 4
_METADATA_CHANGES = (ConsequenceKind.METADATA_LOG_CUT, ConsequenceKind.METADATA_LOG_DROPPED)
_WITH_ZOOKEEPER = ("2.8", "3.9")
"""recorded releases: the last that compares whole `meta.properties`, and the last that supports ZooKeeper"""
_OF_ZOOKEEPER = "if its ZooKeeper is the one of this cluster; what ZooKeeper says is not in these directories"
_UNREAD_ZOOKEEPER = "if its ZooKeeper is the one of this cluster; the data of ZooKeeper that were given cannot be read"
_OUTCOMES = (
    (ConsequenceKind.METADATA_OVERWRITTEN, StartOutcome.OVERWRITES_METADATA),
    (ConsequenceKind.PRODUCER_IDS_REUSED, StartOutcome.OVERWRITES_METADATA),
    (ConsequenceKind.DELETED, StartOutcome.DELETES),
    (ConsequenceKind.FUTURE_TRUNCATED, StartOutcome.DELETES),
    (ConsequenceKind.STRAY, StartOutcome.STRAYS),
    (ConsequenceKind.METADATA_GOES_BACK, StartOutcome.OVERWRITES_METADATA),
    (ConsequenceKind.DIRECTORY_OFFLINE, StartOutcome.DIRECTORY_OFFLINE),
    (ConsequenceKind.NOT_SERVING, StartOutcome.NOT_SERVING),
    (ConsequenceKind.UNFORESEEN, StartOutcome.UNKNOWN),
)
"""outcome of each kind of consequence, the gravest first"""


def _voters_of(leader: LoadedMetadata) -> set[int]:
    """Return the node ids of the voters named in a controller's own snapshot and log, else in its `quorum-state`; empty
    if these name none or end a start. Raises `StorageError` if a file cannot be read.
    """
    newest = release_of(NEWEST)
    try:
        dynamic = {number for number, _directory in read_control_records(leader, newest).dynamic}
        return dynamic or set(state_of_start(leader, newest).voters)
    except StartEndsError:
        return set()


def _offline(consequences: Sequence[StartConsequence]) -> set[str | None]:
    """Files of the consequences DIRECTORY_OFFLINE."""
    return {
        consequence.file for consequence in consequences if consequence.kind is ConsequenceKind.DIRECTORY_OFFLINE
    }


def _listed(numbers: set[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))


def _other_voters(stated: tuple[int, ...], state: StateFile) -> StartEndsError:
    message = f"Configured voter set: [{_listed(set(stated))}] is different from the voter set read from the state file"
    return ends(Part.VOTERS, "mismatch", state.path, "java.lang.IllegalStateException", message)
