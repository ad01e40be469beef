"""Data that was deleted and still is on the disk: where it is, what it holds, and whether it can be put back.

A broker deletes late: a partition's directory becomes `<topic>-<partition>.<id>-delete`, a segment's files get the
suffix `.deleted`, and go `file.delete.delay.ms` later (`LogManager.asyncDelete`, `LocalLog.deleteSegmentFiles`).  A
start takes `.deleted` files at once (`LogLoader.removeTempFilesAndCollectSwapFiles`).  Directories that a broker did
not know for its own end in `-stray`.  What a recovery took is in its quarantine.  Only examined here.
"""

from __future__ import annotations

import enum
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack

from msgspec import Struct
from msgspec.structs import replace

from kafkalog.codec.common.advice import Advice, Ask, Sentence
from kafkalog.codec.errors import FormatError, StorageError
from kafkalog.codec.findings import StopReason
from kafkalog.codec.model import BatchHeader, Codec, RecordBatch
from kafkalog.codec.names import (
    CLUSTER_METADATA_TOPIC,
    DELETED,
    DirectoryState,
    FileKind,
    PartitionName,
    may_be_cut,
    parse_partition_directory,
    parse_segment_file,
    segment_file,
)
from kafkalog.codec.records import decode_batch
from kafkalog.codec.scanner import Scanner
from kafkalog.log.disk.files import PathLike
from kafkalog.log.walk.cursor import Cursor
from kafkalog.recovery.act.history import RunState, list_runs, root_of_runs
from kafkalog.recovery.act.operations import FILES
from kafkalog.recovery.act.quarantine import Runs
from kafkalog.recovery.broker.manager import topic_id_or_none
from kafkalog.recovery.damage.soundness import with_next
from kafkalog.recovery.facts.survey import Survey, survey

__all__ = [
    "OnUnreadable",
    "Remains",
    "RemainsKind",
    "RemainsSegment",
    "each_place",
    "files_by_directory",
    "first_live_base",
    "fitting_segments",
    "is_empty_log",
    "records_in",
    "remains_in",
    "status_in",
    "why_not_fitting",
]

OnUnreadable = Callable[[str, StorageError], None]
"""Told of a directory that cannot be read, and why."""

_UNWANTED = (DirectoryState.DELETE, DirectoryState.STRAY)
_NS_IN_MS = 1_000_000


class RemainsKind(enum.StrEnum):
    """The form in which it still exists."""

    DIRECTORY = "deleted partition"
    """a `-delete` directory"""
    STRAY = "stray partition"
    """a `-stray` directory"""
    SEGMENTS = "deleted segments"
    """`.deleted` files in a live partition"""
    QUARANTINE = "kept by a recovery"
    """in the quarantine of a run"""
    BELOW_START = "deleted records"
    """records in live segments, below the log start offset; only listed"""


class RemainsSegment(Struct, frozen=True):
    """One log file with what is beside it."""

    base_offset: int
    path: str
    """of the log, below the place where it was found"""
    bytes: int
    first_offset: int | None
    last_offset: int | None
    """of what is sound; None if that is nothing"""
    records: int
    """in what is sound, control records apart"""
    highest_epoch: int
    """the highest leader epoch of a batch; -1 if none has one"""
    modified_ms: int
    """when the log was written last"""
    changed_ms: int
    """when the file system changed the file's name or attributes: when it was deleted, unless it was copied since"""
    damage: str | None = None
    """the first damage in the log; what is sound behind it counts"""


class Remains(Struct, frozen=True):
    """What is left of one partition in one directory."""

    topic: str
    partition: int
    kind: RemainsKind
    place: str
    """the log directory, or the quarantine's copy of it"""
    directory: str
    """the name of the directory in it"""
    segments: tuple[RemainsSegment, ...]
    topic_id: str | None = None
    run_id: str | None = None
    """the run that keeps it"""
    deleted_ms: int | None = None
    """when it was deleted, as far as the file system tells: when its name changed; a copy has the time of copying"""
    outcome: str = ""
    """what putting it back would do"""
    why_not: str | None = None
    """why it cannot be put back where it was"""

    @property
    def path(self) -> str:
        """The whole path of the directory."""
        return os.path.join(self.place, self.directory)

    @property
    def name_is_cut(self) -> bool:
        """Whether `topic` may be only the beginning of the topic's name; its id tells it from others."""
        return may_be_cut(os.path.basename(self.directory))

    @property
    def first_offset(self) -> int | None:
        """The offset of the first record that can be read."""
        return next((each.first_offset for each in self.segments if each.first_offset is not None), None)

    @property
    def last_offset(self) -> int | None:
        """The offset of the last record that can be read."""
        return max((each.last_offset for each in self.segments if each.last_offset is not None), default=None)

    @property
    def modified_ms(self) -> int | None:
        """When a log of it was last written to, in ms since 1970; None without logs."""
        return max((each.modified_ms for each in self.segments), default=None)

    @property
    def records(self) -> int:
        """How many records can be read."""
        return sum(each.records for each in self.segments)

    @property
    def bytes(self) -> int:
        """Size of all its logs."""
        return sum(each.bytes for each in self.segments)


def each_place(
    stack: ExitStack, path: PathLike, quarantine: PathLike | None, on_unreadable: OnUnreadable | None = None
) -> Iterator[tuple[Survey, str | None]]:
    """The log directory, and below each run that has ended what it keeps; the run's id with the latter."""
    root = root_of_runs(path)
    yield stack.enter_context(survey(root, tolerant=True)), None
    for run in list_runs(Runs(root, None if quarantine is None else os.fspath(quarantine))):
        if run.state in (RunState.FINISHED, RunState.SUPERSEDED):
            kept = os.path.join(run.directory, FILES)
            try:
                found = survey(kept, tolerant=True) if _is_directory(kept) else None
            except StorageError as error:
                if on_unreadable is None:
                    raise
                on_unreadable(kept, error)
                continue
            if found is not None:
                yield stack.enter_context(found), run.run_id


def _is_directory(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise StorageError.wrap(error, "cannot examine the directory") from error


def remains_in(
    found: Survey,
    run_id: str | None,
    topic: str | None = None,
    partitions: Sequence[int] = (),
    on_unreadable: OnUnreadable | None = None,
) -> list[Remains]:
    """What is left in one place; `run_id` says that it is a quarantine.

    Raises `StorageError` for a directory that cannot be read, unless `on_unreadable` is there to be told of it.
    """
    files = files_by_directory(found)
    tree = found.tree()
    remains = []
    for directory in sorted(path for path in (*found.directories, *found.unreadable) if "/" not in path):
        name = parse_partition_directory(directory)
        if name is None or name.topic == CLUSTER_METADATA_TOPIC:
            continue
        if (topic is not None and name.topic != topic) or (partitions and name.partition not in partitions):
            continue
        try:
            if directory in found.unreadable:
                raise found.unreadable[directory]
            logs = _logs(files.get(directory, ()), run_id is not None, name.state in _UNWANTED)
            segments = tuple(_segment(found, f"{directory}/{log}", base, after) for base, log, after in with_next(logs))
            if segments:
                judged = _judged(found, files, directory, name, run_id, segments)
                deleted_ms = _deleted_ms(found, directory, segments)
                remains.append(replace(judged, topic_id=topic_id_or_none(tree, directory), deleted_ms=deleted_ms))
        except StorageError as error:
            if on_unreadable is None:
                raise
            on_unreadable(os.path.join(found.root, directory), error)
    return remains


def _deleted_ms(found: Survey, directory: str, segments: Sequence[RemainsSegment]) -> int:
    """When it was deleted: a renamed directory's own time, the time of files."""
    name = parse_partition_directory(directory)
    if name is None or name.state not in _UNWANTED:
        return max(each.changed_ms for each in segments)
    return status_in(found, directory).st_ctime_ns // _NS_IN_MS


def status_in(found: Survey, path: str) -> os.stat_result:
    """The status of a file or directory below a log directory; raises `StorageError`."""
    try:
        return os.lstat(os.path.join(found.root, path))
    except OSError as error:
        raise StorageError.wrap(error, "cannot examine the file") from error


def files_by_directory(found: Survey) -> dict[str, list[str]]:
    """Names of the files directly in each directory of a log directory."""
    files: dict[str, list[str]] = {}
    for path in found.files:
        directory, _, name = path.partition("/")
        if name and "/" not in name:
            files.setdefault(directory, []).append(name)
    return files


def _logs(names: Sequence[str], is_kept: bool, is_whole: bool) -> list[tuple[int, str]]:
    """Base offset and name of the logs that count, in order: all of a quarantine, and those that do not live."""
    logs = []
    for name in names:
        parsed = parse_segment_file(name)
        if parsed is None or parsed.kind is not FileKind.LOG:
            continue
        if segment_file(parsed.base_offset, FileKind.LOG) + parsed.pending != name:
            continue
        if parsed.pending in ("", DELETED) and (is_kept or is_whole is (parsed.pending == "")):
            logs.append((parsed.base_offset, name))
    return sorted(logs)


def _segment(found: Survey, path: str, base_offset: int, next_base: int | None) -> RemainsSegment:
    """What is sound in a log, also behind damage, as mode salvage keeps it."""
    first = last = damage = None
    records, epoch = 0, -1
    source = found.source(path)
    cursor, position = Cursor(source, base_offset, next_base), 0
    while True:
        scanner = Scanner(source, position=position)
        for batch in scanner:
            header = batch.header
            if first is None:
                first = header.first_offset
            last = header.last_offset if last is None else max(last, header.last_offset)
            records += records_in(batch)
            epoch = max(epoch, header.partition_leader_epoch)
        if scanner.stop is StopReason.END:
            break
        damage = damage or f"{scanner.stop} at byte {scanner.valid_bytes}"
        cursor.took(base_offset if last is None else last + 1)
        resumed = cursor.ended(scanner, through_damage=True).resumed
        if resumed is None:
            break
        position = resumed
    status = status_in(found, path)
    return RemainsSegment(
        base_offset=base_offset,
        path=path,
        bytes=found.files[path].size,
        first_offset=first,
        last_offset=last,
        records=records,
        highest_epoch=epoch,
        modified_ms=status.st_mtime_ns // _NS_IN_MS,
        changed_ms=status.st_ctime_ns // _NS_IN_MS,
        damage=damage,
    )


def records_in(batch: RecordBatch) -> int:
    """How many records a batch holds, control records apart; 1 for a wrapper that cannot be opened."""
    header = batch.header
    if isinstance(header, BatchHeader):
        return 0 if header.is_control else max(header.records_count, 0)
    if header.codec == Codec.NONE:
        return 1
    try:
        return len(decode_batch(batch).records)
    except FormatError:
        return 1


def _judged(
    found: Survey,
    files: Mapping[str, Sequence[str]],
    directory: str,
    name: PartitionName,
    run_id: str | None,
    segments: tuple[RemainsSegment, ...],
) -> Remains:
    """With what putting it back would do, or why that cannot be."""
    outcome: str
    why_not: str | None
    if run_id is not None:
        kind = RemainsKind.QUARANTINE
        outcome = Sentence("can only be extracted, with ", Ask.INTO)
        undone = Advice("{} restores the whole run, if that is possible", Ask.UNDO, {"run": run_id})
        why_not = Sentence(undone)
    elif name.state in _UNWANTED:
        kind = RemainsKind.DIRECTORY if name.state is DirectoryState.DELETE else RemainsKind.STRAY
        outcome, why_not = _of_directory(found, files, str(name))
    else:
        kind = RemainsKind.SEGMENTS
        outcome, why_not = _of_segments(files[directory], segments)
    return Remains(
        name.topic,
        name.partition,
        kind,
        found.root,
        directory,
        segments,
        run_id=run_id,
        outcome=outcome,
        why_not=why_not,
    )


def is_empty_log(found: Survey, directory: str, names: Sequence[str]) -> bool:
    """A partition directory holds no byte of a log, and nothing that was one."""
    logs = [name for name in names if FileKind.LOG.value in name]
    return all(name.endswith(FileKind.LOG.value) and found.files[f"{directory}/{name}"].size == 0 for name in logs)


def _of_directory(found: Survey, files: Mapping[str, Sequence[str]], live: str) -> tuple[str, str | None]:
    if live in found.files or live in found.special or live in found.dangling:
        return "", f"{live} is there and is not a directory"
    if live not in found.directories:
        return f"becomes {live} again", None
    if is_empty_log(found, live, files.get(live, ())):
        return f"takes the place of {live}, which is empty", None
    own_data = f"{live} exists and holds its own data: extract it with "
    return "", Sentence(own_data, Ask.INTO, ", or name another topic with ", Ask.AS_TOPIC)


def _of_segments(names: Sequence[str], segments: Sequence[RemainsSegment]) -> tuple[str, str | None]:
    """What fits below the first live segment; the rest stays deleted."""
    first = first_live_base(names)
    fitting = fitting_segments(first, segments)
    if not fitting:
        return "", why_not_fitting(first, segments[0])
    return f"the log begins at {fitting[0].base_offset} again", None


def first_live_base(names: Sequence[str]) -> int | None:
    """Base offset of the first live segment, of the files of a directory; None if there is none."""
    parsed = [parse_segment_file(name) for name in names]
    logs = [each for each in parsed if each is not None and each.is_live_log]
    return min((each.base_offset for each in logs), default=None)


def fitting_segments(first_live: int | None, segments: Sequence[RemainsSegment]) -> list[RemainsSegment]:
    """The segments that can be put back: sound, not empty, and wholly below live data, each after the one before it."""
    fitting: list[RemainsSegment] = []
    for each in segments:
        if why_not_fitting(first_live, each) is not None:
            continue
        before = fitting[-1].last_offset if fitting else None
        if before is None or before < each.base_offset:
            fitting.append(each)
    return fitting


def why_not_fitting(first_live: int | None, segment: RemainsSegment) -> str | None:
    """Why a deleted segment cannot be put back into a log that begins at `first_live`; None if it fits."""
    if segment.damage is not None:
        return Sentence(f"{segment.path} is damaged ({segment.damage}): extract what is sound with ", Ask.INTO)
    if segment.last_offset is None:
        return f"{segment.path} holds no record"
    if first_live is not None and segment.last_offset >= first_live:
        return Sentence(
            f"{segment.path} holds offsets {segment.first_offset} to {segment.last_offset}, and the log begins at "
            f"{first_live}: there are other records of these offsets, or compaction or a truncation removed them; "
            "extract it with ",
            Ask.INTO,
        )
    return None
