"""Find deleted data that is still on disk: its place, its records, and whether it can be restored. Changes nothing."""

from __future__ import annotations

import enum
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack

from msgspec import Struct
from msgspec.structs import replace

from kafkalog.codec.common.advice import Ask, Sentence
from kafkalog.codec.common.errors import StorageError
from kafkalog.codec.common.findings import StopReason
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
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.log.directories.deleted import first_base_after_swaps
from kafkalog.log.disk.files import PathLike
from kafkalog.log.walk.cursor import Cursor
from kafkalog.recovery.act.history import RunState, list_runs, root_of_runs
from kafkalog.recovery.act.operations import FILES
from kafkalog.recovery.act.quarantine import Runs
from kafkalog.recovery.broker.manager import topic_id_or_none
from kafkalog.recovery.checks.deleted_beyond_end import log_end_in, records_in
from kafkalog.recovery.damage.soundness import with_next
from kafkalog.recovery.facts.survey import Survey, survey
from kafkalog.recovery.facts.topic_facts import TopicFacts

__all__ = [
    "LiveLog",
    "OnUnreadable",
    "Remains",
    "RemainsKind",
    "RemainsSegment",
    "each_place",
    "files_by_directory",
    "fitting_segments",
    "is_empty_log",
    "live_log",
    "remains_in",
    "status_in",
    "why_elsewhere",
    "why_not_fitting",
]

OnUnreadable = Callable[[str, StorageError], None]
"""Called with the path of a directory that cannot be read, and the error."""

_UNWANTED = (DirectoryState.DELETE, DirectoryState.STRAY)
_NS_IN_MS = 1_000_000


class RemainsKind(enum.StrEnum):
    """Form in which deleted data still exists."""

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


class RemainsSegment(Struct, frozen=True, kw_only=True):
    """One deleted log file, and when it was changed."""

    base_offset: int
    path: str
    """path of the log, relative to `Remains.place`"""
    bytes: int
    first_offset: int | None
    last_offset: int | None
    """last offset that can be read; None if no batch is sound"""
    records: int
    """number of readable records, without control records"""
    highest_epoch: int
    """highest leader epoch of a batch; -1 if no batch has one"""
    modified_ms: int
    """last modification of the log, ms since 1970"""
    changed_ms: int
    """last change of the file's name or attributes (ctime), ms since 1970: the time of deletion, unless it was copied
    since
    """
    damage: str | None = None
    """kind and position of the first damage in the log; None if there is none. Sound batches after it are counted"""


class Remains(Struct, frozen=True, kw_only=True):
    """Deleted data of one partition in one directory."""

    topic: str
    partition: int
    kind: RemainsKind
    place: str
    """the log directory, or the copy of it in a quarantine"""
    directory: str
    """name of the partition directory in `place`"""
    segments: tuple[RemainsSegment, ...]
    topic_id: str | None = None
    run_id: str | None = None
    """execution in whose quarantine the data is; None if it is in the log directory"""
    deleted_ms: int | None = None
    """time of deletion, ms since 1970: when the name changed according to the file system; for a copied directory, the
    time of copying
    """
    outcome: str = ""
    """what restoring it in place would do; empty if it is impossible"""
    why_not: str | None = None
    """why it cannot be restored in place; None if it can"""

    @property
    def path(self) -> str:
        """Absolute path of the directory."""
        return os.path.join(self.place, self.directory)

    @property
    def source(self) -> str:
        """Name of its place in a request: id of the execution that keeps it, else name of the directory."""
        return self.run_id or self.directory

    @property
    def name_is_cut(self) -> bool:
        """Whether `topic` may be truncated, because the directory's name was too long; the topic id is unambiguous."""
        return may_be_cut(os.path.basename(self.directory))

    @property
    def first_offset(self) -> int | None:
        """First offset that can be read; None if there is none."""
        return next((segment.first_offset for segment in self.segments if segment.first_offset is not None), None)

    @property
    def last_offset(self) -> int | None:
        """Highest offset that can be read; None if there is none."""
        return max((segment.last_offset for segment in self.segments if segment.last_offset is not None), default=None)

    @property
    def modified_ms(self) -> int | None:
        """Last modification of any of its logs, in ms since 1970; None without logs."""
        return max((segment.modified_ms for segment in self.segments), default=None)

    @property
    def records(self) -> int:
        """Number of records that can be read."""
        return sum(segment.records for segment in self.segments)

    @property
    def bytes(self) -> int:
        """Size of all its logs in bytes."""
        return sum(segment.bytes for segment in self.segments)


def each_place(
    stack: ExitStack, path: PathLike, quarantine: PathLike | None, on_unreadable: OnUnreadable | None = None
) -> Iterator[tuple[Survey, str | None]]:
    """Yield (survey, None) for the log directory. Then yield (survey of its kept files, execution id) for each finished
    or superseded execution that keeps files, oldest first. An execution is one run of kafkalog that changed the
    directory. `quarantine` is the directory of executions, if it is not the usual one. `stack` closes the surveys.

    The log directory is the one that `root_of_runs` returns for `path`. While iterating, raises the errors of
    `root_of_runs`, and `StorageError` if the log directory, a quarantine or an execution's files cannot be read. If
    `on_unreadable` is given, it is called for an execution's unreadable files with their path and the error instead.
    """
    root = root_of_runs(path)
    yield stack.enter_context(survey(root, tolerant=True)), None
    for run in list_runs(Runs(root, None if quarantine is None else os.fspath(quarantine))):
        if run.state in (RunState.FINISHED, RunState.SUPERSEDED):
            kept = os.path.join(run.directory, FILES)
            try:
                kept_survey = survey(kept, tolerant=True) if _is_directory(kept) else None
            except StorageError as error:
                if on_unreadable is None:
                    raise
                on_unreadable(kept, error)
                continue
            if kept_survey is not None:
                yield stack.enter_context(kept_survey), run.run_id


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
    """List the deleted data in one surveyed place, sorted by directory; directories without a deleted log file, and the
    metadata log, are omitted. Every batch of the deleted logs is read.

    `run_id` is the execution's id if the place is a quarantine, else None. `topic` (None: all) and `partitions` (empty:
    all) select partitions. Raises `StorageError` if a directory cannot be read; `on_unreadable`, if given, is called
    with its path and the error instead, and the directory is omitted.
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


def _deleted_ms(surveyed: Survey, directory: str, segments: Sequence[RemainsSegment]) -> int:
    """Return the time of deletion in ms since 1970: the ctime of a renamed directory; in a live directory the latest
    ctime of the segments. Raises `StorageError` if the directory cannot be examined.
    """
    name = parse_partition_directory(directory)
    if name is None or name.state not in _UNWANTED:
        return max(segment.changed_ms for segment in segments)
    return status_in(surveyed, directory).st_ctime_ns // _NS_IN_MS


def status_in(found: Survey, path: str) -> os.stat_result:
    """Return the lstat of a file or directory of the surveyed log directory. Raises `StorageError`."""
    try:
        return os.lstat(os.path.join(found.root, path))
    except OSError as error:
        raise StorageError.wrap(error, "cannot examine the file") from error


def files_by_directory(found: Survey) -> dict[str, list[str]]:
    """Return the names of the files in each top-level directory of the survey, by directory. Directories without files
    and deeper files are left out.
    """
    files: dict[str, list[str]] = {}
    for path in found.files:
        directory, _, name = path.partition("/")
        if name and "/" not in name:
            files.setdefault(directory, []).append(name)
    return files


def _logs(names: Sequence[str], is_kept: bool, is_whole: bool) -> list[tuple[int, str]]:
    """Return base offset and name of each log file that counts as deleted, sorted by base offset.

    In a quarantine (`is_kept`) every log file counts, with or without the suffix `.deleted`. In a renamed directory
    (`is_whole`) files without a suffix count, in a live directory those with `.deleted`.
    """
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


def _segment(surveyed: Survey, path: str, base_offset: int, next_base: int | None) -> RemainsSegment:
    """Count the valid records in a deleted log file, also those after damage, as mode salvage keeps them.

    `next_base` is the base offset of the next segment, None for the last; it helps to recognize the batches that belong
    to the segment after damage. In the result, `damage` is the first damage, None if there is none; without a valid
    batch the offsets are None and the epoch is -1. Raises `StorageError` if the file cannot be read.
    """
    first = last = damage = None
    records, epoch = 0, -1
    source = surveyed.source(path)
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
    status = status_in(surveyed, path)
    return RemainsSegment(
        base_offset=base_offset,
        path=path,
        bytes=surveyed.files[path].size,
        first_offset=first,
        last_offset=last,
        records=records,
        highest_epoch=epoch,
        modified_ms=status.st_mtime_ns // _NS_IN_MS,
        changed_ms=status.st_ctime_ns // _NS_IN_MS,
        damage=damage,
    )


def _judged(
    found: Survey,
    files: Mapping[str, Sequence[str]],
    directory: str,
    name: PartitionName,
    run_id: str | None,
    segments: tuple[RemainsSegment, ...],
) -> Remains:
    """Return the `Remains` of a directory: kind, the effect of restoring it, and the reason if it cannot be restored.
    With `run_id` it is in the quarantine of that run, and can only be extracted. Otherwise it is a `-delete` or
    `-stray` directory, or has deleted `segments` of a live partition. `files` are the names of files by directory.
    Raises `StorageError` if a log cannot be read.
    """
    outcome: str
    why_not: str | None
    if run_id is not None:
        kind = RemainsKind.QUARANTINE
        outcome = Sentence("can only be extracted, with ", Ask.UNDELETE_INTO)
        why_not = f"undoing run {run_id} restores all that it removed, if that is possible"
    elif name.state in _UNWANTED:
        kind = RemainsKind.DIRECTORY if name.state is DirectoryState.DELETE else RemainsKind.STRAY
        outcome, why_not = _of_directory(found, files, str(name))
    else:
        kind = RemainsKind.SEGMENTS
        outcome, why_not = _of_segments(live_log(found, directory, files[directory]), segments)
    return Remains(
        topic=name.topic,
        partition=name.partition,
        kind=kind,
        place=found.root,
        directory=directory,
        segments=segments,
        run_id=run_id,
        outcome=outcome,
        why_not=why_not,
    )


def is_empty_log(found: Survey, directory: str, names: Sequence[str]) -> bool:
    """Whether a partition directory has only empty logs, and no log with a suffix such as `.deleted`. `names` are its
    files; True without logs.
    """
    logs = [name for name in names if FileKind.LOG.value in name]
    return all(name.endswith(FileKind.LOG.value) and found.files[f"{directory}/{name}"].size == 0 for name in logs)


def _of_directory(surveyed: Survey, files: Mapping[str, Sequence[str]], live: str) -> tuple[str, str | None]:
    if live in surveyed.files or live in surveyed.special or live in surveyed.dangling:
        return "", f"{live} is there and is not a directory"
    if live not in surveyed.directories:
        return f"becomes {live} again", None
    if is_empty_log(surveyed, live, files.get(live, ())):
        return f"takes the place of {live}, which is empty", None
    own_data = f"{live} exists and holds its own data: extract it with "
    return "", Sentence(own_data, Ask.UNDELETE_INTO, ", or name another topic with ", Ask.AS_TOPIC)


class LiveLog(Struct, frozen=True):
    """Offsets of the live segments of a partition; None if there is no live segment."""

    first: int | None
    """base offset of the first segment, as a start leaves it"""
    end: int | None
    """log end offset, up to the first damage of the last segment"""


def live_log(found: Survey, directory: str, names: Sequence[str]) -> LiveLog:
    """Return the offsets of the live segments in a directory of the survey. `names` are its files. Reads the headers of
    the last segment; raises `StorageError` if it cannot.
    """
    return LiveLog(first_base_after_swaps(names), log_end_in(found.tree(), directory))


def _of_segments(live: LiveLog, segments: Sequence[RemainsSegment]) -> tuple[str, str | None]:
    """Return the effect of restoring deleted segments of a live log, as (description, None). If no segment fits, return
    ("", reason). Segments fit if they end below the first live segment and are sound (`fitting_segments`).
    """
    fitting = fitting_segments(live, segments)
    if not fitting:
        return "", why_not_fitting(live, segments[0])
    return f"the log begins at {fitting[0].base_offset} again", None


def fitting_segments(live: LiveLog, segments: Sequence[RemainsSegment]) -> list[RemainsSegment]:
    """Return the segments that can be restored, in the given order. They are undamaged, not empty and completely below
    the first live segment, and each begins after the last offset of the one before it.
    """
    fitting: list[RemainsSegment] = []
    for segment in segments:
        if why_not_fitting(live, segment) is not None:
            continue
        before = fitting[-1].last_offset if fitting else None
        if before is None or before < segment.base_offset:
            fitting.append(segment)
    return fitting


def why_not_fitting(live: LiveLog, segment: RemainsSegment) -> str | None:
    """Return the reason why a deleted segment cannot be restored, as a sentence; None if it can. The reasons: it is
    damaged, it is empty, or it reaches the first live segment.
    """
    if segment.damage is not None:
        return Sentence(f"{segment.path} is damaged ({segment.damage}): extract what is sound with ", Ask.UNDELETE_INTO)
    if segment.last_offset is None or segment.first_offset is None:
        return f"{segment.path} holds no record"
    if live.first is None or segment.last_offset < live.first:
        return None
    holds = f"{segment.path} holds offsets {segment.first_offset} to {segment.last_offset}"
    if live.end is not None and segment.last_offset >= live.end:
        rest = "" if segment.first_offset >= live.end else ", and the log has other records of those below"
        return Sentence(
            f"{holds}, and the log ends at {live.end}: a truncation removed them{rest}; extract it with ",
            Ask.UNDELETE_INTO,
        )
    return Sentence(
        f"{holds}, and the log begins at {live.first}: there are other records of these offsets, or compaction "
        "removed them; extract it with ",
        Ask.UNDELETE_INTO,
    )


def why_elsewhere(remains: Remains, facts: TopicFacts) -> str | None:
    """Return why a deleted directory is not restored: the metadata places its log, under its topic id, in
    another log directory of this broker that was not given. Return None if it does not.
    """
    name = PartitionName(remains.topic, remains.partition)
    directory_id = facts.directory_not_given(name)
    if directory_id is None or remains.topic_id != facts.topic_ids.get(remains.topic):
        return None
    return Sentence(
        f"the metadata places {name} in another log directory of this broker, with the directory id {directory_id}, so "
        f"{remains.directory} is probably an old copy left by a finished move: give all log directories of the broker, "
        "or extract it with ",
        Ask.UNDELETE_INTO,
    )
