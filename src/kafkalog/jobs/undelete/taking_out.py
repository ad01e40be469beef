"""Write deleted data as partition directories of a new log directory; the sources are only read.

This is for a cluster that no longer knows the topic, for damaged logs, for logs with newer records at the same offsets,
and for data that a recovery removed and `undo` can no longer restore. All sound batches are kept, as in mode salvage.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from msgspec import Struct

from kafkalog.codec.common.advice import Ask, Sentence
from kafkalog.codec.common.errors import RecoveryRefused, StorageError
from kafkalog.codec.common.source import Source
from kafkalog.codec.files.text import PartitionMetadata, encode_partition_metadata
from kafkalog.codec.names import (
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    FileKind,
    segment_file,
)
from kafkalog.jobs.undelete.remains import Remains, each_place, remains_in
from kafkalog.jobs.undelete.request import Undelete
from kafkalog.jobs.undelete.results import PutBack
from kafkalog.log.directories.directory import new_directory
from kafkalog.log.disk.files import PathLike
from kafkalog.log.storage.content import Content, ContentSource, Slice, join
from kafkalog.log.storage.tree import Tree
from kafkalog.recovery.act.fs import PIECE, FileSystem
from kafkalog.recovery.act.working_copy import new_tree
from kafkalog.recovery.damage.census import census
from kafkalog.recovery.facts.places import log_directories
from kafkalog.recovery.facts.recovery_request import Rules, settled
from kafkalog.recovery.facts.survey import Survey
from kafkalog.recovery.facts.topic_facts import NO_FACTS, identity_of
from kafkalog.recovery.modes.table import Mode
from kafkalog.recovery.safe.recovery import recover_safely
from kafkalog.recovery.safe.result import SafeResult

__all__ = ["TakenOut", "undelete_into"]


class TakenOut(Struct, frozen=True, kw_only=True):
    """Result of `undelete_into`: logs that were written, and their origin."""

    target: str
    put_back: tuple[PutBack, ...]
    lost: Mapping[str, Sequence[tuple[int, int]]]
    """first and last offset of ranges lost to damage, by directory"""
    left: tuple[str, ...] = ()
    """sentences about what was not included, and why"""
    unreadable: tuple[tuple[str, str], ...] = ()
    """directories that could not be read, and why"""


def undelete_into(request: Undelete, *paths: PathLike, target: PathLike) -> TakenOut:
    """Write deleted data of a topic into `target`, which must be new or empty; `paths` are only read. Return which
    partitions were written, which offsets were lost and which segments were left out. Partitions that cannot be read
    are named in `unreadable` of the result.

    Raises `UsageError` if `target` cannot be used, a path is of another kind than `paths` allows, or a name, topic id
    or setting is impossible. Raises `StorageError` if nothing can be read or `target` cannot be written. Raises
    `RecoveryRefused` if nothing usable is found, or for a pointer file that kafkalog did not write. Raises it also if a
    partition was deleted several times or on several brokers and the request chooses none.

    * `request`: which topic is written, and under which name
    * `paths`: log directories, their parents, or partition directories, which stand for their log directories
    * `target`: the new log directory
    """
    wanted = request.checked()
    roots = log_directories(paths)
    for root in roots:
        destination = new_directory(target, beside=os.path.realpath(root))
    salvage = Rules(mode=Mode.SALVAGE, looks_inside=False, config=wanted.config, at=wanted.at, topics=NO_FACTS)
    rules = settled(salvage, ())
    with ExitStack() as stack:
        unreadable: dict[str, StorageError] = {}
        note = unreadable.__setitem__
        places = [place for root in roots for place in each_place(stack, root, wanted.quarantine, note)]
        chosen = _chosen(places, wanted, unreadable)
        assembled = _Assembled(wanted)
        for survey, remains in chosen:
            assembled.take(survey, remains)
        result = recover_safely(assembled.tree(), rules)
        if result.refusals:
            raise RecoveryRefused(next(iter(result.refusals.values())), reason="mode")
        put_back = tuple(
            _put_back(result, directory, remains, wanted.topic_id or remains.topic_id)
            for directory, remains in assembled.taken.items()
        )
        _write(destination, result.tree, assembled, os.stat(places[0][0].root))
        reasons = tuple((place, str(error)) for place, error in sorted(unreadable.items()))
        return TakenOut(
            target=destination, put_back=put_back, lost=result.lost, left=tuple(assembled.left), unreadable=reasons
        )


def _chosen(
    places: Sequence[tuple[Survey, str | None]], wanted: Undelete, unreadable: dict[str, StorageError]
) -> list[tuple[Survey, Remains]]:
    by_partition: dict[int, list[tuple[Survey, Remains]]] = {}
    for survey, run_id in places:
        for remains in remains_in(survey, run_id, wanted.topic, wanted.partitions, unreadable.__setitem__):
            if wanted.is_source(remains.directory, remains.run_id):
                by_partition.setdefault(remains.partition, []).append((survey, remains))
    if not by_partition:
        for error in unreadable.values():
            raise error
        raise wanted.nothing_in(f"{places[0][0].root} or in a quarantine of its runs")
    for number, several in sorted(by_partition.items()):
        named = [each for each in several if wanted.source is not None and wanted.is_source(each[1].source)]
        several[:] = named or several  # the name of a live directory is also that of its copy in a quarantine
        _refuse_several_brokers(wanted, number, [survey.root for survey, _remains in several])
        wanted.refuse_several(number, [remains.source for _survey, remains in several])
    return [several[0] for _number, several in sorted(by_partition.items())]


def _refuse_several_brokers(wanted: Undelete, number: int, roots: Sequence[str]) -> None:
    """Raise `RecoveryRefused` if `roots`, the log directories with data of partition `number`, are of several brokers,
    because nothing shows which replica is best. Directories without a broker id are ignored.
    """
    owners = {owner: root for root in roots if (owner := identity_of(root)) is not None}
    if len(owners) > 1:
        raise RecoveryRefused(
            Sentence(
                f"{wanted.topic}-{number} was deleted on {len(owners)} brokers, from {', '.join(owners.values())}: "
                "write each broker's copy into a directory of its own and merge those, or choose one with ",
                Ask.SOURCE,
            ),
            reason="several",
        )


class _Assembled:
    """The new directories before they are repaired. All bytes come from surveyed files, which are only read. `taken`
    has the source by new directory, `left` sentences about segments that are left out.
    """

    def __init__(self, wanted: Undelete) -> None:
        self.wanted = wanted
        self.taken: dict[str, Remains] = {}
        self.left: list[str] = []
        self._surveys: list[Survey] = []
        self._logs: dict[str, tuple[str, int]] = {}
        """path in the new directory -> key of the source file (survey number and path), and its size in bytes"""
        self._metadata: dict[str, bytes] = {}

    def take(self, found: Survey, remains: Remains) -> None:
        """Add the segments of one partition, with its topic id if known. Segments without a sound batch, and segments
        whose base offset is already present, are named in `left`. Raises `RecoveryRefused` if the partition then has no
        segment.
        """
        directory = f"{self.wanted.target_topic}-{remains.partition}"
        number = len(self._surveys)
        self._surveys.append(found)
        for segment in remains.segments:
            path = f"{directory}/{segment_file(segment.base_offset, FileKind.LOG)}"
            if path in self._logs:
                self.left.append(f"{segment.path} begins at the same offset as {self._logs[path][0].partition(':')[2]}")
            elif segment.last_offset is None:
                self.left.append(f"{segment.path} holds no sound record")
            else:
                self._logs[path] = f"{number}:{segment.path}", segment.bytes
        topic_id = self.wanted.topic_id or remains.topic_id
        if topic_id is not None:
            self._metadata[f"{directory}/{PARTITION_METADATA}"] = encode_partition_metadata(
                PartitionMetadata(0, topic_id)
            )
        if not any(path.startswith(directory + "/") for path in self._logs):
            raise RecoveryRefused(f"nothing of {remains.path} is sound", reason="nothing")
        self.taken[directory] = remains

    def modified_ns(self, content: Content) -> int | None:
        """Modification time (ns since 1970) of the first source file of `content`; None if no bytes come from a
        file.
        """
        keys = [part.origin for part in content.parts if isinstance(part, Slice)]
        number, _, path = keys[0].partition(":") if keys else ("", "", "")
        return self._surveys[int(number)].files[path].mtime_ns if keys else None

    def origin(self, key: str) -> Source:
        """Return the source for reading the file with this key (survey number and path)."""
        number, _, path = key.partition(":")
        return self._surveys[int(number)].source(path)

    def tree(self) -> Tree:
        """Return a new in-memory tree of the collected segments and `partition.metadata` files, to be repaired."""
        tree = Tree({}, self.taken, self.origin)
        for path, (key, size) in self._logs.items():
            tree.files[path] = join([Slice(key, 0, size)])
        for path, data in self._metadata.items():
            tree.write(path, data)
        return tree


def _put_back(result: SafeResult, directory: str, remains: Remains, topic_id: str | None) -> PutBack:
    partition = result.partitions.get(directory)
    if partition is None:
        raise RecoveryRefused(f"a broker would not load what is left of {remains.path}", reason="mode")
    return PutBack(
        directory=directory,
        source=remains.path,
        log_start_offset=partition.log_start_offset,
        log_end_offset=partition.log_end_offset,
        records=census(result.tree, [directory], 0).records,
        topic_id=topic_id,
    )


def _write(destination: str, tree: Tree, assembled: _Assembled, owner: os.stat_result) -> None:
    """Write all directories of `tree` that `assembled` lists into `destination`, each under a temporary name that
    brokers ignore until all are complete. Files get user and group of `owner`. The checkpoint of recovery points is
    written if the tree has one. Raises `StorageError` if reading or writing fails. On any error, the files written so
    far are removed.
    """
    with new_tree(destination) as fs:
        for directory in assembled.taken:
            unfinished = f".{directory}.kafkalog-tmp"
            fs.make_directory(unfinished, 0o755)
            for name in tree.names(directory):
                _copy(fs, tree, assembled, f"{directory}/{name}", f"{unfinished}/{name}", owner)
            fs.give(unfinished, owner.st_uid, owner.st_gid)
            fs.sync_directory(unfinished)
        if RECOVERY_POINT_CHECKPOINT in tree.files:
            _copy(fs, tree, assembled, RECOVERY_POINT_CHECKPOINT, RECOVERY_POINT_CHECKPOINT, owner)
        for directory in assembled.taken:
            fs.rename(f".{directory}.kafkalog-tmp", directory)
        fs.sync_directory("")


def _copy(fs: FileSystem, tree: Tree, assembled: _Assembled, path: str, target: str, owner: os.stat_result) -> None:
    source = ContentSource(tree.files[path], assembled.origin)
    pieces = ((start, bytes(source.read(start, PIECE))) for start in range(0, source.size, PIECE))
    fs.write_new(target, pieces, source.size, (0o644, owner.st_uid, owner.st_gid))
    modified_ns = assembled.modified_ns(tree.files[path])
    if modified_ns is not None:
        fs.set_mtime(target, modified_ns)
