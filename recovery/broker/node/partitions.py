"""Predict the part of a start that opens partitions: logs, strays, future copies, partitions in two directories.

A broker opens its logs when it gets the metadata for the first time (`BrokerMetadataPublisher.initializeManagers`). A
directory whose topic id and number the metadata does not place on this broker is a stray: 3.3 to 3.6 remove it, later
releases rename it. Without `partition.metadata` 3.7.0 does not start, later releases rename the directory, earlier ones
write the file again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeGuard

from msgspec import Struct, field, structs

from kafkalog.cluster.kraft.metadata_image import MetadataImage, PartitionImage
from kafkalog.codec.common.errors import StorageError
from kafkalog.codec.common.wording import counted, first_of
from kafkalog.codec.names import (
    CLEAN_SHUTDOWN_FILE,
    CLUSTER_METADATA_TOPIC,
    PARTITION_METADATA,
    REPLICATION_OFFSET_CHECKPOINT,
    DirectoryState,
    parse_partition_directory,
)
from kafkalog.log.directories.log_settings import LogSettings
from kafkalog.log.storage.checkpoint_file import read_offset_checkpoint
from kafkalog.log.storage.java import JavaError, JavaIOError, TooLargeError
from kafkalog.log.storage.tree import Tree
from kafkalog.recovery.broker.manager import BrokerResult, StartResult, load_log_directory, topic_id_or_none
from kafkalog.recovery.broker.node.answer import (
    ID_OF_ANOTHER_TOPIC,
    OTHER_TOPIC_ID,
    READ_ONLY,
    ConsequenceKind,
    EmptiedConsequence,
    Fault,
    LedShortConsequence,
    LostDirectoryConsequence,
    Part,
    PerhapsEmptiedConsequence,
    StartConsequence,
)
from kafkalog.recovery.broker.node.ending import ends, without_cause
from kafkalog.recovery.broker.node.moves import consequences_of_moves
from kafkalog.recovery.broker.node.node_files import NodeFiles
from kafkalog.recovery.broker.node.partition_directory import PartitionDirectory
from kafkalog.recovery.broker.node.releases import Release
from kafkalog.recovery.broker.node.replay import replicas_of
from kafkalog.recovery.facts.owners import ClosedFiles

__all__ = [
    "Explained",
    "assigned_to",
    "list_partitions",
    "loaded_logs",
    "made_again",
    "of_lost_directories",
    "open_partitions",
    "partition_consequences",
    "refuse_twice",
]

_NO_TOPIC_ID = "which is not allowed when running in KRaft mode."
_WITH_ASSIGNMENTS = 17
"""the `metadata.version` 3.7-IV2, since which partitions are assigned to directories"""
_READ_LATER = (REPLICATION_OFFSET_CHECKPOINT, "cleaner-offset-checkpoint")
_NAMED = 6
"""most partition directories that a sentence names"""
_PUT_AWAY = (
    (DirectoryState.DELETE, ConsequenceKind.DELETED, "and deletes their -delete directories, a minute later"),
    (DirectoryState.STRAY, ConsequenceKind.STRAY, "and leaves their -stray directories"),
)
_MADE_ELSEWHERE = (
    "; Kafka 4.1 and later can make its partitions again, empty, in another log directory, and a start after that ends "
    "until those are moved away"
)
"""of a directory that goes offline while its logs are recovered after a stop that was not clean"""
_OF_A_LOST_DIRECTORY = "partitions are assigned to a log directory that is gone"
_LEADS_EMPTY = (
    "if this node is started before those brokers, it can lead such a partition empty, and they cut their logs to "
    "nothing: first ask `kafkalog triage` with the directories of all brokers"
)
_RUNTIME = "java.lang.RuntimeException"
_IO = "java.io.IOException"
"""exception that a node prints when its last directory fails, before it ends itself"""


class Explained(Struct, frozen=True, kw_only=True):
    """Changes that the metadata itself shows. `removed` has ids of deleted topics, `moved` (topic id, partition)
    reassigned from this broker to others. `added` has (topic id, partition) placed on this broker by records that it
    gets from its leader: it has not made them yet. A replica that held all records is not added if the broker has
    registered since: it ran, so its own files are older. With `by_itself` the node is the only controller, so that
    nothing has changed its metadata since it stopped.
    """

    removed: set[str] = field(default_factory=set)
    moved: set[tuple[str, int]] = field(default_factory=set)
    added: set[tuple[str, int]] = field(default_factory=set)
    by_itself: bool = False

    def compare(self, before: MetadataImage, after: MetadataImage, node_id: int | None) -> None:
        """Add the changes from the node's own metadata `before` to its leader's, `after`, which continues it."""
        for topic in before.topics.values():
            if topic.id not in after.topic_names:
                self.removed.add(topic.id)
                continue
            for number, partition in topic.partitions.items():
                now = replicas_of(after, topic.id, number)
                if now is not None and node_id in partition.replicas and node_id not in now.replicas:
                    self.moved.add((topic.id, number))
        has_run = _broker_epoch(after, node_id) > _broker_epoch(before, node_id)
        for topic in after.topics.values():
            for number, replica in topic.partitions.items():
                known = replicas_of(before, topic.id, number)
                is_new = node_id in replica.replicas and (known is None or node_id not in known.replicas)
                if is_new and not (has_run and node_id is not None and _was_here(replica, node_id)):
                    self.added.add((topic.id, number))

    def shows(self, directory: PartitionDirectory) -> bool:
        """Whether the metadata explains why the directory is a stray. False without a topic id."""
        topic_id = directory.topic_id
        if topic_id is None:
            return False
        return topic_id in self.removed or (topic_id, directory.parsed.partition) in self.moved


def list_partitions(
    files: NodeFiles,
    roots: Iterable[str],
    results: Mapping[str, BrokerResult] | None = None,
    states: Collection[DirectoryState] = (DirectoryState.LIVE, DirectoryState.FUTURE),
) -> list[PartitionDirectory]:
    """List the partition directories of `roots` whose state is in `states`, in the order of the log directories,
    without the metadata log. `results` (log directory -> result of loading its logs) gives the log end offsets. The
    offset is None for a directory without a result. `topic_id` is None without `partition.metadata`, and '' if this
    file is invalid. Log directories that cannot be listed are skipped. Raises `StorageError` if a `partition.metadata`
    cannot be read.
    """
    ends_of_logs = {(root, loaded.name): loaded.log_end_offset for root, result in (results or {}).items()
                    for loaded in result.partitions.values()}  # fmt: skip
    directories = []
    for root in roots:
        try:
            tree = files.tree(root)
        except StorageError:
            continue
        for name in tree.subdirectories():
            parsed = parse_partition_directory(name)
            if parsed is None or parsed.topic == CLUSTER_METADATA_TOPIC:
                continue
            if parsed.state in states:
                end = ends_of_logs.get((root, name))
                directories.append(
                    PartitionDirectory(root=root, name=name, parsed=parsed, topic_id=_topic_id(tree, name), end=end)
                )
    return directories


def _topic_id(tree: Tree, name: str) -> str | None:
    """Topic id in `partition.metadata`; empty if the file is invalid, None if there is no file. Raises `StorageError`
    if it cannot be read.
    """
    known = topic_id_or_none(tree, name)
    return "" if known is None and f"{name}/{PARTITION_METADATA}" in tree.files else known


def loaded_logs(files: NodeFiles, root: str, now_ms: int, *, is_outline: bool = False) -> BrokerResult:
    """Return the result of loading the logs of one log directory, with default settings. With `is_outline` no segment
    is read: only names, and files beside the segments, can end the start, and the result has no partitions. Nothing on
    disk is changed. Raises `StorageError` if a file cannot be read.
    """
    tree = files.outline(root) if is_outline else files.tree(root)
    result = load_log_directory(tree, settings=lambda topic: LogSettings.from_names({}), now_ms=now_ms)
    return structs.replace(result, partitions={}) if is_outline else result


def open_partitions(
    files: NodeFiles, results: Mapping[str, BrokerResult], *, is_kraft: bool = True
) -> tuple[list[StartConsequence], list[Fault]]:
    """Return consequences and faults for log directories that go offline during the start (DIRECTORY_OFFLINE), or
    later, when an index is first read (NOT_SERVING). Both lists are empty if all stay online. A directory goes offline
    if the broker's reading of a log or checkpoint ends with an IOException. It also does if the broker's user may not
    open the files, or the file system is mounted read-only. `results` are the results of loading logs, by log
    directory.

    Raises `StartEndsError` if a log ends the start, or if all directories go offline during the start. With `is_kraft`,
    it is enough that the directory of the metadata log does. Raises `StorageError` if this process cannot read a
    directory or a checkpoint.
    """
    offline: list[StartConsequence] = []
    faults: list[Fault] = []
    messages: list[str] = []
    late: list[StartConsequence] = []
    for root, result in results.items():  # all logs are loaded before a checkpoint of `_READ_LATER` is read
        if result.outcome == StartResult.START_FAILS:
            raise ends(Part.LOGS, "unreadable", root, result.exception or "", result.message_in(root))
    for root, result in results.items():
        message = result.message_in(root)
        closed = files.closed(root)
        if closed is not None:
            user, path = closed.user[0], closed.emptied or closed.paths[0]
            message = f"the broker's user, {user}, may not open or change {path}: give it all of {root}{closed.warning}"
        is_read_only = files.is_read_only(root)
        if is_read_only:  # `LogManager.lockLogDirs`
            closed, message = None, f"Disk error while locking directory {root}: its file system is mounted read-only"
        is_loaded = result.outcome == StartResult.LOADED and not is_read_only
        unread = _unread_checkpoint(files, root) if is_loaded else None
        is_last = len(results) == 1 or (is_kraft and root == files.metadata_root)
        if closed is not None and closed.is_late and unread is None and is_loaded:
            late.append(_read_later(root, closed, is_last=is_last))
            continue
        if result.outcome != StartResult.DIR_OFFLINE and unread is None and closed is None and not is_read_only:
            continue
        message = unread or message
        if is_last:
            if closed is not None:
                raise ends(Part.LOGS, "owner", root, _IO, message)
            kind = READ_ONLY if is_read_only else "offline"
            raise ends(Part.LOGS, kind, root, _IO, without_cause(message), detail=message)
        detail = f"{root} goes offline: {message}"
        if is_kraft and unread is None and not _is_clean(root) and not (closed and closed.is_root):
            detail += _MADE_ELSEWHERE
        offline.append(StartConsequence(kind=ConsequenceKind.DIRECTORY_OFFLINE, detail=detail, file=root))
        kind = "offline" if closed is None else "owner"
        faults.append(Fault(part=Part.LOGS, kind=READ_ONLY if is_read_only else kind, file=root, detail=detail))
        messages.append(message)
    faults += [Fault(part=Part.LOGS, kind="owner", file=each.file or "", detail=each.detail) for each in late]
    if offline and len(offline) == len(results):
        raise ends(Part.LOGS, faults[0].kind, faults[0].file, _IO, without_cause(messages[0]), detail=messages[0])
    return [*offline, *late], faults


def _read_later(root: str, closed: ClosedFiles, *, is_last: bool) -> StartConsequence:
    """Return the consequence that a log directory goes offline after the start, when an index that the broker's user
    may not open is first read (`LazyIndex.get`). With `is_last` the node ends then.
    """
    detail = (
        f"{root} goes offline{', and the node ends,' if is_last else ''} at the first read of {closed.paths[0]}, which "
        f"the broker's user, {closed.user[0]}, may not open or change: give it all of {root}"
    )
    return StartConsequence(kind=ConsequenceKind.NOT_SERVING, detail=detail, file=root)


def _is_clean(root: str) -> bool:
    return os.path.exists(os.path.join(root, CLEAN_SHUTDOWN_FILE))


def _unread_checkpoint(files: NodeFiles, root: str) -> str | None:
    """Read the checkpoint files that a broker reads after the logs (`replication-offset-checkpoint`,
    `cleaner-offset-checkpoint`). Return the broker's message for the first one that ends with an IOException; None if
    there is none. Other damage is ignored, because it does not take the directory offline. Raises `StorageError` if the
    directory or a file cannot be read.
    """
    tree = files.tree(root)
    for name in _READ_LATER:
        if name in tree.files:
            try:
                read_offset_checkpoint(os.path.join(root, name), tree.read(name))
            except JavaIOError as error:
                return f"Error while reading checkpoint file {os.path.join(root, name)}: {error}"
            except (JavaError, TooLargeError):
                continue
    return None


def partition_consequences(
    files: NodeFiles,
    directories: list[PartitionDirectory],
    image: MetadataImage | None,
    node_id: int,
    release: Release,
    explained: Explained,
    directory_ids: Mapping[str, str | None],
    put_away: Sequence[PartitionDirectory] = (),
    all_online: bool | None = None,
) -> tuple[list[StartConsequence], list[Fault]]:
    """Predict what the start of a KRaft broker does with partition directories after comparing them with the metadata:
    strays, partitions created again, partitions without a leader, directories of another topic, moves, and a log
    directory inside another one. Return consequences and faults; both are empty if the start does none of this.

    Raises `StartEndsError` in four cases. A partition is in two log directories (from 3.7.1 on, strays do not count).
    3.7.0 finds a directory without a topic id. The new name of a moved partition is not free. Files have the names of
    partitions that are created again, in every log directory or in the one of the metadata log. Raises `StorageError`
    if a log directory or a file cannot be read.

    * `image`: the metadata; None if it is unknown. Then only directories without a topic id are strays (from 3.7.1
      on), and nothing is returned about new partitions, other topics and moves
    * `explained`: partitions that the metadata shows as deleted or moved; their strays are expected
    * `directory_ids`: log directory -> its id, for directories that are online
    * `put_away`: `-delete` and `-stray` directories
    * `all_online`: whether `directory_ids` has all log directories of the node; None if unknown. If the metadata has
      the broker's registered directories, these decide instead
    """
    stray_paths = {directory.path for directory in directories if _is_stray(directory, image, node_id, release)}
    renamed_first = stray_paths if release.at_least("3.7.1") else set()
    refuse_twice(directory for directory in directories if directory.path not in renamed_first)
    nameless = [directory for directory in directories if directory.topic_id is None]
    if nameless and release.at_least("3.7.0") and not release.at_least("3.7.1"):
        path = os.path.join(nameless[0].path, PARTITION_METADATA)
        raise ends(Part.PARTITION_METADATA, "missing", path, _RUNTIME, _NO_TOPIC_ID)
    inside = [directory for directory in directories if directory.path in directory_ids]
    directories = [directory for directory in directories if directory.path not in directory_ids]
    strays = [directory for directory in directories if directory.path in stray_paths]
    there = [directory for directory in directories if directory.path not in stray_paths]
    consequences, faults = _strays(strays, image, node_id, release, explained, has_nameless=bool(nameless))
    for directory in inside if release.at_least("3.7.1") else ():
        consequences.append(
            StartConsequence(kind=ConsequenceKind.DIRECTORY_OFFLINE, detail=_of_inside(directory), file=directory.path)
        )
        faults.append(
            Fault(
                part=Part.LOGS,
                kind="inside",
                file=directory.path,
                detail=f"{directory.path} is a log directory inside another",
            )
        )
    if image is None:
        return consequences, faults
    placed = {directory.partition for directory in there}
    known, nowhere = set(directory_ids.values()), _nowhere(image, node_id, placed)
    are_all_known = all_online is True
    registered = image.brokers.get(node_id)
    if registered is not None and registered.directories:
        all_online = set(registered.directories) <= known
    if all_online is True:
        offline, wrong = _in_the_way(files, image, node_id, nowhere, directory_ids)
        consequences += offline
        faults += wrong
    if registered is not None and all_online is not False:
        known_here = {key: partition for key, partition in nowhere.items()
                      if (image.topics[key[0]].id, key[1]) not in explained.added}  # fmt: skip
        consequences += made_again(image, node_id, known_here, put_away, is_certain=all_online is True)
    consequences += _of_lost_id(
        there, image, node_id, release, known, nowhere, are_all_known=are_all_known, is_only_voter=explained.by_itself
    )
    for others, wrong in (_of_another_topic(there, image, node_id), _under_another_name(there, image)):
        consequences += others
        faults += wrong

    def holders_of(future: PartitionDirectory) -> set[int]:
        replica = replicas_of(image, future.topic_id or "", future.parsed.partition)
        return set() if replica is None else _holders(replica, node_id)

    is_promoted = _is_promoted(there, image, node_id, release, directory_ids)
    consequences += consequences_of_moves(there, is_promoted, holders_of)
    return consequences, faults


def refuse_twice(directories: Iterable[PartitionDirectory]) -> None:
    """Raise `StartEndsError` if two directories have one topic, partition number and state (current log or future
    copy). `directories` are without those that the start renames to strays before it compares.
    """
    seen: dict[tuple[str, int, DirectoryState], PartitionDirectory] = {}
    for directory in directories:
        key = directory.parsed.topic, directory.parsed.partition, directory.parsed.state
        other = seen.setdefault(key, directory)
        if other is not directory:
            name = f"{directory.parsed.topic}-{directory.parsed.partition}"
            first, second = sorted((other.path, directory.path))
            message = f"Duplicate log directories for {name} are found in both {first} and {second}"
            if directory.parsed.state is DirectoryState.FUTURE:
                message = f"Duplicate log directories found: {first}, {second}"
            raise ends(
                Part.LOGS, "duplicate", directory.path, "java.lang.IllegalStateException", message,
                detail=f"{name} is in {other.root} and in {directory.root}",
            )  # fmt: skip


def _is_stray(directory: PartitionDirectory, image: MetadataImage | None, node_id: int, release: Release) -> bool:
    if directory.topic_id is None:
        return release.at_least("3.7.1")
    if image is None:
        return False
    if directory.parsed.state is DirectoryState.FUTURE and not release.at_least("3.7.1"):
        return False
    replica = replicas_of(image, directory.topic_id, directory.parsed.partition)
    return replica is None or node_id not in replica.replicas


def _of_inside(directory: PartitionDirectory) -> str:
    return (
        f"{directory.path}, a log directory that lies inside {directory.root}, is taken for a partition and renamed "
        "-stray: it goes offline with all that is in it; move it out before"
    )


def _strays(
    strays: list[PartitionDirectory],
    image: MetadataImage | None,
    node_id: int,
    release: Release,
    explained: Explained,
    *,
    has_nameless: bool,
) -> tuple[list[StartConsequence], list[Fault]]:
    deletes = not release.at_least("3.7.0")
    if deletes and has_nameless:  # `findStrayPartitions` throws, and nothing is removed
        return [], []
    verb = "removes" if deletes else "renames -stray"
    expected = [stray for stray in strays if explained.shows(stray)]
    lost = [stray for stray in strays if stray not in expected]
    start_consequences, faults = [], []
    if expected:
        detail = f"the start {verb} what the metadata shows as deleted or moved"
        names = tuple(stray.name for stray in expected)
        start_consequences.append(StartConsequence(kind=ConsequenceKind.EXPECTED_STRAY, detail=detail, names=names))
    without = [stray for stray in lost if stray.topic_id is None]
    unknown = [stray for stray in lost if stray not in without]
    kind = ConsequenceKind.DELETED if deletes else ConsequenceKind.STRAY
    if without:
        detail = f"the start {verb} partitions whose {PARTITION_METADATA} is missing"
        names = tuple(stray.name for stray in without)
        start_consequences.append(
            StartConsequence(kind=kind, detail=detail, names=names, lost=names if deletes else ())
        )
    if unknown:
        detail = f"the start {verb} partitions that the metadata does not place on broker {node_id}"
        names = tuple(stray.name for stray in unknown)
        start_consequences.append(
            StartConsequence(kind=kind, detail=detail, names=names, lost=names if deletes else ())
        )
    for directory in without:
        path = os.path.join(directory.path, PARTITION_METADATA)
        faults.append(
            Fault(
                part=Part.PARTITION_METADATA,
                kind="missing",
                file=path,
                detail=f"{directory.name} has no readable topic id",
            )
        )
    for directory in unknown:
        path = os.path.join(directory.path, PARTITION_METADATA)
        right_id = None if image is None else _id_of_name(directory, image, node_id)
        why = f"topic id {directory.topic_id} of {directory.name} is not placed on broker {node_id} by the metadata"
        if right_id is not None:
            why = f"{directory.name} has topic id {directory.topic_id}, and the metadata {right_id}"
        fault_kind = "not_placed" if right_id is None else OTHER_TOPIC_ID
        faults.append(Fault(part=Part.PARTITION_METADATA, kind=fault_kind, file=path, detail=why))
    return start_consequences, faults


def _id_of_name(directory: PartitionDirectory, image: MetadataImage, node_id: int) -> str | None:
    """Return the topic id in the metadata for the topic in a partition directory's name. None if the metadata does not
    place that partition on broker `node_id`, or knows a topic with the id that the directory has.
    """
    topic = image.topics.get(directory.parsed.topic)
    partition = None if topic is None else topic.partitions.get(directory.parsed.partition)
    if topic is None or partition is None or directory.topic_id in image.topic_names:
        return None
    return topic.id if node_id in partition.replicas else None


def _nowhere(image: MetadataImage, node_id: int, placed: set[tuple[str, int]]) -> dict[tuple[str, int], PartitionImage]:
    """Return the partitions that the metadata places on broker `node_id` and that are not in `placed`, as (topic,
    partition number) -> partition, sorted by these.
    """
    return {
        (name, number): partition
        for name, topic in sorted(image.topics.items())
        for number, partition in sorted(topic.partitions.items())
        if node_id in partition.replicas and (name, number) not in placed
    }


def _in_the_way(
    files: NodeFiles,
    image: MetadataImage,
    node_id: int,
    nowhere: dict[tuple[str, int], PartitionImage],
    directory_ids: Mapping[str, str | None],
) -> tuple[list[StartConsequence], list[Fault]]:
    """Return one consequence and one fault for each log directory that goes offline because a partition of `nowhere`
    cannot be created in it (`LogManager.createLogDirectory`): a file, a special file or a dangling link has its name.
    Remove these partitions from `nowhere`. If there is only one log directory, all partitions belong to it. Of several,
    a partition belongs to the one to which it is assigned; an unassigned one is left out, because it is not known in
    which a broker makes it.

    Raises `StartEndsError` if all directories go offline, or the one of the metadata log. Raises `StorageError` if a
    directory cannot be listed.
    """
    offline: dict[str, str] = {}
    for root, identifier in directory_ids.items():
        surveyed = files.surveyed(root)
        taken = {*files.tree(root).files, *surveyed.special, *surveyed.dangling}
        for (topic, number), partition in list(nowhere.items()):
            is_here = len(directory_ids) == 1 or _directory_of(partition, node_id) == identifier
            if is_here and f"{topic}-{number}" in taken:
                offline.setdefault(root, os.path.join(root, f"{topic}-{number}"))
                del nowhere[topic, number]
    for root, path in offline.items():
        if len(offline) == len(directory_ids) or root == files.metadata_root:
            raise ends(Part.LOGS, "not_a_directory", path, "java.nio.file.FileAlreadyExistsException", path)
    details = {path: f"{root} goes offline: {path} is not a directory" for root, path in offline.items()}
    kind = ConsequenceKind.DIRECTORY_OFFLINE
    return (
        [StartConsequence(kind=kind, detail=detail, file=path) for path, detail in details.items()],
        [Fault(part=Part.LOGS, kind="not_a_directory", file=path, detail=detail) for path, detail in details.items()],
    )


def made_again(
    image: MetadataImage | None,
    node_id: int,
    nowhere: Mapping[tuple[str, int], PartitionImage],
    put_away: Sequence[PartitionDirectory],
    *,
    is_certain: bool,
) -> list[StartConsequence]:
    """Return consequences for the partitions `nowhere`, which the metadata places on this broker and which no log
    directory has: the start creates them empty (`LogManager.getOrCreateLog`). Unless `is_certain`, the sentences say
    that another log directory may have them. Empty if `nowhere` is.

    There are at most four consequences, in this order. The first is about partitions with a `-delete` directory, which
    a broker deletes after `file.delete.delay.ms` (`LogManager.deleteLogs`). The second is about partitions with a
    `-stray` directory, the third about all others. The fourth is about partitions of the third that this broker had,
    and other brokers have completely. This broker can be elected for them, and the others cut their logs to nothing. A
    directory in `put_away` counts only if `image` has its topic with its topic id, and this replica had all records. It
    had them if it is the only one, or in the ISR, the ELR or the last known ELR.
    """
    again = dict(nowhere)
    consequences: list[StartConsequence] = []
    unless = "" if is_certain else " (unless a log directory that was not given has them)"
    for state, kind, then in _PUT_AWAY:
        lost = [
            directory for directory in put_away
            if directory.parsed.state is state and directory.partition in again
            and _counts(again[directory.partition], node_id)
            and image is not None
            and directory.topic_id == image.topics[directory.parsed.topic].id
        ]  # fmt: skip
        for directory in lost:
            again.pop(directory.partition, None)
        if lost:
            names = tuple(directory.live_name for directory in lost)
            detail = (
                f"the start makes {_some(names)} again, empty, as the metadata places them here, {then}{unless}: if "
                f"that is wrong, rename {lost[0].path} to {lost[0].live_name}"
                f"{' and so on' if len(lost) > 1 else ''} before"
            )
            deleted = _alone({directory.partition: nowhere[directory.partition] for directory in lost}, node_id)
            is_deleted = state is DirectoryState.DELETE
            consequences.append(
                EmptiedConsequence(
                    kind=kind, detail=detail, file=lost[0].path, names=names, lost=deleted if is_deleted else ()
                )
            )
    if again:
        detail = f"partitions that the metadata places here are made again, empty{unless}"
        consequences.append(
            StartConsequence(
                kind=ConsequenceKind.EMPTY_AGAIN, detail=detail, names=_names(again), lost=_alone(again, node_id)
            )
        )
    had = {key: image for key, image in again.items() if _was_here(image, node_id) and _holders(image, node_id)}
    if had:
        holders = set().union(*(_holders(each, node_id) for each in had.values()))
        brokers = ", ".join(map(str, sorted(holders)))
        detail = (
            f"{_some(_names(had))} were in sync here, and are with other brokers ({brokers}), by the metadata; "
            f"{_LEADS_EMPTY}{unless}"
        )
        consequences.append(LedShortConsequence(kind=ConsequenceKind.OTHER, detail=detail, names=_names(had)))
    return consequences


def _some(names: Sequence[str]) -> str:
    return f"{counted(len(names), 'partition')} ({first_of(names, _NAMED)})"


def _names(partitions: Iterable[tuple[str, int]]) -> tuple[str, ...]:
    return tuple(f"{topic}-{number}" for topic, number in partitions)


def _alone(partitions: Mapping[tuple[str, int], PartitionImage], node_id: int) -> tuple[str, ...]:
    """Names of the partitions of which, according to the metadata, no other broker has all records."""
    return _names(key for key, image in partitions.items() if not _holders(image, node_id))


def _holders(partition: PartitionImage, node_id: int) -> set[int]:
    """Ids of the other brokers that have all records according to the metadata: those in the ISR, the ELR or the last
    known ELR.
    """
    return {*partition.isr, *partition.elr, *partition.last_known_elr} - {node_id}


def _counts(replica: PartitionImage, node_id: int) -> bool:
    """Whether the broker's replica had everything according to the metadata, so that its loss counts."""
    return replica.replicas == (node_id,) or _was_here(replica, node_id)


def _broker_epoch(image: MetadataImage, node_id: int | None) -> int:
    """Epoch of the broker's last registration; -1 without one."""
    broker = None if node_id is None else image.brokers.get(node_id)
    return -1 if broker is None else broker.epoch


def _was_here(replica: PartitionImage, node_id: int) -> bool:
    """Whether the broker ran while it had the replica: a controller puts no other broker into these sets."""
    return node_id in (*replica.isr, *replica.elr, *replica.last_known_elr)


def _of_lost_id(
    directories: list[PartitionDirectory],
    image: MetadataImage,
    node_id: int,
    release: Release,
    known: set[str | None],
    nowhere: Mapping[tuple[str, int], PartitionImage],
    *,
    are_all_known: bool,
    is_only_voter: bool,
) -> list[StartConsequence]:
    """Return consequences for partitions assigned to a directory id that the broker registered, and that no log
    directory has any more. There is one for the partitions that other brokers hold completely, at most two for the rest
    in `nowhere`, and one for the rest in `directories`.

    Empty if there are no such partitions or the broker is not registered, and before `metadata.version` 3.7-IV2 or
    release 3.7.0. Empty also if the broker has registered another number of directories than are online, unless
    `are_all_known`.

    Other brokers can lead the partitions that they hold completely. For the rest, controllers elect this replica only
    after the broker has assigned it to another directory. Up to 3.9 it never does this, later not always. It does not
    assign a partition in `nowhere` in this start: 4.1.1 leads such partitions, empty, from its second start on.

    If the node was not stopped in order, `image` may still have it as leader. The only voter (`is_only_voter`) then
    stays the leader. Another node does so (3.9.1 and 4.1.1 did) if it is back before the controllers fence it. Else the
    partition has no leader, or since 4.0 is led if the broker assigns it before it is unfenced (4.1.1 did both). The
    leader creates the log of a partition in `nowhere` again, empty, at this start; a partition in `directories` keeps
    its records.

    * `known`: ids of the online log directories
    * `nowhere`: partitions that the metadata places here and no directory has
    * `are_all_known`: whether the node certainly has no other log directories, so that a registered directory that is
      not among `known` was taken out of its properties
    """
    registered = image.brokers.get(node_id)
    has_ids = image.features.get("metadata.version", 0) >= _WITH_ASSIGNMENTS and release.at_least("3.7.0")
    if registered is None or not has_ids or not (are_all_known or len(registered.directories) == len(known)):
        return []

    def is_lost(replica: PartitionImage | None) -> TypeGuard[PartitionImage]:
        assigned = None if replica is None else _directory_of(replica, node_id)
        return assigned is not None and assigned in registered.directories and assigned not in known

    here = {each.name: replicas_of(image, each.topic_id or "", each.parsed.partition) for each in directories}
    lost_here = {name: replica for name, replica in here.items() if is_lost(replica)}
    lost = {name: each for name, each in zip(_names(nowhere), nowhere.values(), strict=True) if is_lost(each)}
    all_lost = {**lost_here, **lost}
    held = {name: holders for name, replica in all_lost.items() if (holders := _holders(replica, node_id))}
    may_lead = any(name in held and _was_here(replica, node_id) for name, replica in lost.items())
    led = {name for name, replica in all_lost.items() if replica.leader == node_id}
    names = tuple(name for name in lost_here if name not in held)
    alone = [name for name in lost if name not in held]
    gone, still_led = tuple(name for name in alone if name not in led), tuple(name for name in alone if name in led)
    emptied, may_be_emptied = (still_led, ()) if is_only_voter else ((), still_led)
    consequences: list[StartConsequence] = []
    if held:
        brokers = ", ".join(map(str, sorted(set().union(*held.values()))))
        detail = (
            f"{_OF_A_LOST_DIRECTORY}, and other brokers ({brokers}) have them in sync by the metadata: "
            f"{first_of(list(held), 1)}"
        )
        if may_lead:
            detail += f"; {_LEADS_EMPTY}"
        kind_of_held = LedShortConsequence if may_lead else StartConsequence
        consequences.append(kind_of_held(kind=ConsequenceKind.OTHER, detail=detail, names=tuple(held)))
    if emptied:
        detail = f"{_OF_A_LOST_DIRECTORY}, and are served empty from this start on"
        kind = ConsequenceKind.EMPTY_AGAIN
        consequences.append(LostDirectoryConsequence(kind=kind, detail=detail, names=emptied, lost=emptied))
    if may_be_emptied:
        late = "have no leader or are served empty" if release.at_least("4.0") else "have no leader"
        detail = (
            f"{_OF_A_LOST_DIRECTORY}, have no log here, and are served empty if this node is back before the "
            f"controllers fence it, else {late}: {first_of(may_be_emptied, 1)}"
        )
        kind = ConsequenceKind.NOT_SERVING
        consequences.append(
            PerhapsEmptiedConsequence(kind=kind, detail=detail, names=may_be_emptied, lost=may_be_emptied)
        )
    if gone:
        detail = f"{_OF_A_LOST_DIRECTORY}, have no log here, and no leader: {first_of(gone, 1)}"
        consequences.append(
            LostDirectoryConsequence(kind=ConsequenceKind.NOT_SERVING, detail=detail, names=gone, lost=gone)
        )
    if names:
        is_unsure = release.at_least("4.0") or not led.isdisjoint(names)
        kind = ConsequenceKind.UNFORESEEN if is_unsure else ConsequenceKind.NOT_SERVING
        may = "may have" if is_unsure else "have"
        detail = f"{_OF_A_LOST_DIRECTORY}, and {may} no leader: {first_of(names, 1)}"
        consequences.append(LostDirectoryConsequence(kind=kind, detail=detail, names=names))
    return consequences


def assigned_to(
    image: MetadataImage, node_id: int, directory_ids: Collection[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the partitions that the metadata assigns to these log directories of broker `node_id`, sorted
    by topic and number, and then those of them of which no other broker has all records, according to the metadata.
    """
    replicas = _nowhere(image, node_id, set())
    assigned = {key: replica for key, replica in replicas.items() if _directory_of(replica, node_id) in directory_ids}
    return _names(assigned), _alone(assigned, node_id)


def of_lost_directories(
    image: MetadataImage, node_id: int, there: Sequence[PartitionDirectory], ids: Collection[str], lost: Sequence[str]
) -> LostDirectoryConsequence | None:  # fmt: skip
    """Return the consequence for partitions that were in the log directories `lost` (at least one), which are missing
    or empty. These are the partitions that the metadata places on this broker, without those in `there` and those
    assigned to one of the directory ids `ids`. None if there are no such partitions.
    """
    nowhere = _nowhere(image, node_id, {directory.partition for directory in there})
    gone = {key: replica for key, replica in nowhere.items() if _directory_of(replica, node_id) not in ids}
    if not gone:
        return None
    where = f"{first_of(lost, 1)}, of which nothing is left here"
    return LostDirectoryConsequence(
        kind=ConsequenceKind.NOT_SERVING,
        detail=f"the metadata places {counted(len(gone), 'partition')} in {where}: {first_of(_names(gone), 1)}",
        names=_names(gone),
        lost=_alone(gone, node_id),
    )  # fmt: skip


def _of_another_topic(
    directories: list[PartitionDirectory], image: MetadataImage, node_id: int
) -> tuple[list[StartConsequence], list[Fault]]:
    """Find live directories whose `partition.metadata` has another topic id than the topic in their name. Only
    partitions that the metadata places on the broker count. Return one consequence for all of them and one fault for
    each; both lists are empty if there are none.

    The broker throws InconsistentTopicIdException for each (`LogManager.getOrCreateLog`), and at the first also gives
    up other partitions that it was about to lead. They are not strays, because strays are identified by topic id and
    partition number alone.
    """
    wrong = []
    for directory in directories:
        topic = image.topics.get(directory.parsed.topic)
        if directory.parsed.state is not DirectoryState.LIVE or topic is None or directory.topic_id == topic.id:
            continue
        partition = topic.partitions.get(directory.parsed.partition)
        if directory.topic_id is not None and partition is not None and node_id in partition.replicas:
            wrong.append((directory, topic.id))
    if not wrong:
        return [], []
    names = tuple(directory.name for directory, _id in wrong)
    listed = first_of(names, _NAMED)
    detail = (
        f"partitions whose {PARTITION_METADATA} names another topic are not served, nor are others that the broker "
        f"would lead (InconsistentTopicIdException; without that file `recover` writes the right one): {listed}"
    )
    faults = []
    for directory, known in wrong:
        other = image.topic_names.get(directory.topic_id or "")
        why = f"{directory.name} has the topic id of {other}, {directory.topic_id}; by the metadata its own is {known}"
        faults.append(
            Fault(
                part=Part.PARTITION_METADATA,
                kind=ID_OF_ANOTHER_TOPIC,
                file=os.path.join(directory.path, PARTITION_METADATA),
                detail=why,
            )
        )
    return [StartConsequence(kind=ConsequenceKind.NOT_SERVING, detail=detail, file=faults[0].file, names=names)], faults


def _under_another_name(
    directories: list[PartitionDirectory], image: MetadataImage
) -> tuple[list[StartConsequence], list[Fault]]:
    """Find live directories whose topic does not exist in the metadata although their topic id does, as the id of
    another topic. Return one consequence for all of them and one fault for each; both lists are empty if there are
    none. The broker loads such a log under a name that no client asks for. It is not a stray, because its topic id and
    number are placed here.
    """
    wrong = [
        (directory, topic)
        for directory in directories
        if directory.parsed.state is DirectoryState.LIVE and directory.parsed.topic not in image.topics
        and (topic := image.topic_names.get(directory.topic_id or "")) is not None
    ]  # fmt: skip
    if not wrong:
        return [], []
    names = tuple(directory.name for directory, _topic in wrong)
    live = {directory.name for directory in directories}
    faults = []
    for directory, topic in wrong:
        own = f"{topic}-{directory.parsed.partition}"
        more = f"which {own} has too: compare them first" if own in live else f"so rename it to {own}"
        why = f"{directory.name} has the topic id of {topic}, {directory.topic_id}, {more}"
        faults.append(Fault(part=Part.PARTITION_METADATA, kind="other_name", file=directory.path, detail=why))
    first = faults[0].detail + (f"; so has {counted(len(wrong) - 1, 'more directory')}" if wrong[1:] else "")
    detail = f"partitions that lie under another name than their topic's are not served: {first}"
    return [StartConsequence(kind=ConsequenceKind.NOT_SERVING, detail=detail, file=faults[0].file, names=names)], faults


def _is_promoted(
    directories: Sequence[PartitionDirectory],
    image: MetadataImage,
    node_id: int,
    release: Release,
    directory_ids: Mapping[str, str | None],
) -> Callable[[PartitionDirectory], bool | None]:
    """Return a function for `consequences_of_moves`. For a future copy it returns True if a start of `release` makes it
    the current log. From 3.7.1 on this is so if the metadata assigns the partition to the directory id of its log
    directory. It returns None if the partition has no topic id, is not in `directories`, or is not placed on this
    broker. In all other cases it returns False.
    """

    def is_promoted(future: PartitionDirectory) -> bool | None:
        if future not in directories or future.topic_id is None:
            return None
        replica = replicas_of(image, future.topic_id, future.parsed.partition)
        if replica is None or node_id not in replica.replicas:
            return None
        return release.at_least("3.7.1") and _directory_of(replica, node_id) == directory_ids.get(future.root)

    return is_promoted


def _directory_of(replica: PartitionImage, node_id: int) -> str | None:
    if len(replica.directories) != len(replica.replicas):
        return None
    return replica.directories[replica.replicas.index(node_id)]
