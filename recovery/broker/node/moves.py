"""Predict what a start does with `-future` directories: copies that a move between log directories has not finished.

Since 3.7.1 such a copy becomes the current log if the metadata assigns the partition to its log directory, whatever the
lengths of both (`LogManager.recoverAbandonedFutureLogs`). Otherwise the move continues: the copy is truncated to the
end of the current log (`ReplicaManager.maybeAddLogDirFetchers`, `ReplicaAlterLogDirsThread`). If there is no current
log, it is created again, empty, and the copy is truncated to offset 0. If both are in one log directory, the copy
cannot get the current log's name (`LogManager.replaceCurrentWithFutureLog`), and the directory goes offline.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from msgspec.structs import replace

from kafkalog.codec.common.errors import StorageError
from kafkalog.codec.names import DirectoryState
from kafkalog.log.directories.log_settings import LogSettings
from kafkalog.recovery.broker.manager import load_log_directory
from kafkalog.recovery.broker.node.answer import (
    ConsequenceKind,
    EmptiedConsequence,
    Part,
    ReplacedConsequence,
    StartConsequence,
)
from kafkalog.recovery.broker.node.ending import ends
from kafkalog.recovery.broker.node.node_files import NodeFiles
from kafkalog.recovery.broker.node.partition_directory import PartitionDirectory

__all__ = ["consequences_of_moves", "with_ends_of_moves"]

_STORAGE = "org.apache.kafka.common.errors.KafkaStorageException"
_KEEP = "set a copy aside before"


def with_ends_of_moves(
    files: NodeFiles, directories: Sequence[PartitionDirectory], now_ms: int
) -> list[PartitionDirectory]:
    """Return `directories` in their order, with missing log end offsets filled in for partitions that have a `-future`
    directory. For this, their logs are loaded in memory, with `now_ms` as the present time. The offset stays None if
    the log does not load, or if its partition directory or log directory cannot be listed. Raises `StorageError` if a
    file cannot be read.
    """
    moved = {directory.partition for directory in directories if directory.parsed.state is DirectoryState.FUTURE}
    return [
        replace(directory, end=_end(files, directory, now_ms))
        if directory.end is None and directory.partition in moved
        else directory
        for directory in directories
    ]


def _end(files: NodeFiles, directory: PartitionDirectory, now_ms: int) -> int | None:
    """Log end offset of a partition directory after it was loaded alone, in memory and with default settings. None if
    it or its log directory cannot be listed, or if it does not load. Raises `StorageError` if a file of it cannot be
    read.
    """
    try:
        tree = files.tree(directory.root).part(directory.name)
    except StorageError:
        return None
    result = load_log_directory(tree, settings=lambda topic: LogSettings.from_names({}), now_ms=now_ms)
    partition = result.partitions.get(directory.name)
    return None if partition is None else partition.log_end_offset


def consequences_of_moves(
    directories: Sequence[PartitionDirectory],
    is_promoted: Callable[[PartitionDirectory], bool | None],
    holders_of: Callable[[PartitionDirectory], Collection[int]] = lambda _future: (),
) -> Iterator[StartConsequence]:
    """Yield one consequence for each `-future` directory: it replaces the current log, the move continues, or its log
    directory goes offline. `is_promoted` is called with each of them. It returns True if the start makes the directory
    the current log, and False if the move continues. It returns None if the broker leaves the directory unchanged;
    nothing is then yielded. `holders_of` returns the ids of other brokers that have all records of the directory's
    partition, according to the metadata. If there are any, no records are lost: the broker fetches missing records from
    them.

    Raises `StartEndsError` if the start would make a directory the current log, and the current log is in the same log
    directory.
    """
    for future in directories:
        promoted = is_promoted(future) if future.parsed.state is DirectoryState.FUTURE else None
        if promoted is None:
            continue
        current = next((directory for directory in directories if directory.is_current_of(future)), None)
        if current is not None and current.root == future.root:
            if promoted:
                message = f"Error while renaming dir for {future.live_name} in log dir {future.root}"
                raise ends(Part.FUTURE, "same_directory", future.path, _STORAGE, message)
            detail = (
                f"{future.root} goes offline as soon as {future.path} has all of {current.path}, whose name it cannot "
                "take in the same directory (DirectoryNotEmptyException): move it away before"
            )
            yield StartConsequence(
                kind=ConsequenceKind.DIRECTORY_OFFLINE, detail=detail, file=future.root, names=(current.name,)
            )
        elif promoted:
            yield _promotion(future, current, holders_of(future))
        else:
            yield _going_on(future, current, holders_of(future))


def _promotion(
    future: PartitionDirectory, current: PartitionDirectory | None, holders: Collection[int]
) -> StartConsequence:
    detail = f"the start makes {future.path} the current log, without comparing lengths"
    if current is None:
        return StartConsequence(kind=ConsequenceKind.FUTURE_PROMOTED, detail=detail, file=future.path)
    is_longer = current.end is not None and future.end is not None and current.end > future.end
    detail += f" (it ends at {future.end}, the current log at {current.end})" if is_longer else ""
    detail += f", and removes {current.path}"
    if is_longer and holders:
        detail += _fetched(future, holders)
    is_lost = is_longer and not holders
    kind = ConsequenceKind.DELETED if is_lost else ConsequenceKind.FUTURE_PROMOTED
    lost = (future.live_name,) if is_lost else ()
    consequence = ReplacedConsequence if is_lost else StartConsequence
    return consequence(kind=kind, detail=detail, file=future.path, names=(current.name,), lost=lost)


def _fetched(future: PartitionDirectory, holders: Collection[int]) -> str:
    verb, named = ("has" if len(holders) == 1 else "have"), ", ".join(map(str, sorted(holders)))
    noun = "broker" if len(holders) == 1 else "brokers"
    return f"; {noun} {named} {verb} {future.live_name} in sync by the metadata, and this one fetches what it lacks"


def _going_on(
    future: PartitionDirectory, current: PartitionDirectory | None, holders: Collection[int]
) -> StartConsequence:
    is_cut = current is None or (current.end is not None and future.end is not None and future.end > current.end)
    if is_cut and holders:
        end = 0 if current is None else current.end
        detail = f"the start truncates {future.path} to offset {end}{_fetched(future, holders)}"
        return StartConsequence(kind=ConsequenceKind.FUTURE_RESUMED, detail=detail, file=future.path)
    if current is None:
        detail = (
            f"{future.path} is the only copy here, and the start makes {future.live_name} again, empty, and truncates "
            f"this copy to offset 0: {_KEEP}, or rename it to {future.live_name}, so that it is the log"
        )
        names = (future.live_name,)
        return EmptiedConsequence(
            kind=ConsequenceKind.FUTURE_TRUNCATED, detail=detail, file=future.path, names=names, lost=names
        )
    if is_cut:
        detail = (
            f"{future.path}, which ends at offset {future.end}, is truncated to offset {current.end}, where "
            f"{current.path} ends, and takes its place: {_KEEP}"
        )
        lost = (future.live_name,)
        return StartConsequence(kind=ConsequenceKind.FUTURE_TRUNCATED, detail=detail, file=future.path, lost=lost)
    detail = f"the move to {future.path} goes on"
    return StartConsequence(kind=ConsequenceKind.FUTURE_RESUMED, detail=detail, file=future.path)
