"""Execution of a replay, which can be killed at any moment and started again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct

from kafkalog.cluster.groups.offsets import CommittedOffset
from kafkalog.cluster.transactions.undecided import DecidedPartition
from kafkalog.codec.common.arguments import Count
from kafkalog.codec.common.errors import FormatError, RecoveryRefused, UsageError
from kafkalog.codec.common.findings import Finding, Severity
from kafkalog.codec.model import Record
from kafkalog.log.directories.outside import require_outside
from kafkalog.log.disk import fs
from kafkalog.log.disk.files import PathLike, exists
from kafkalog.log.reading.consumer_view import READ_COMMITTED
from kafkalog.log.reading.record_filter import RecordFilter
from kafkalog.log.reading.records import RecordReader
from kafkalog.log.walk.on_damage import STOP
from kafkalog.replay.groups import Moved, moved_offsets
from kafkalog.replay.journal import Journal
from kafkalog.replay.offset_map import OffsetMap, read_parquet, runs_of, write_parquet
from kafkalog.replay.planning import ReplayPlan, plan_replay
from kafkalog.replay.request import Replay
from kafkalog.replay.target import (
    CHECKED_SECONDS,
    PROGRESS_SETTINGS,
    AbortedError,
    Target,
)

__all__ = ["ReplayResult", "check_target", "replay"]

_CHUNK_RECORDS = 100_000
"""Records per transaction; every commit takes a fixed time."""
_CHUNK_BYTES = 16 << 20
_ATTEMPTS = 5
_RECORD_OVERHEAD = 70
_LARGEST_BATCH = 1_000_000
_BATCH_ROOM = 1024
JOURNAL_SUFFIX, UNFINISHED_SUFFIX = ".journal", ".unfinished"


class ReplayResult(Struct, frozen=True, kw_only=True):
    """Result of a replay; `maps` cover whole partitions, including what earlier runs replayed."""

    records: int
    bytes: int
    made: tuple[str, ...]
    maps: Mapping[tuple[str, int], OffsetMap]
    without_time: Mapping[tuple[str, int], int]
    """records by partition without a timestamp above 0, which get the time of the replay"""
    moved: tuple[Moved, ...]
    left: tuple[Moved, ...]
    """offsets that were not committed, because the target's group already has a different one"""
    findings: tuple[Finding, ...]
    map_path: str
    map_is_new: bool

    @property
    def changed(self) -> bool:
        """Whether anything was written to the target or to the map."""
        return bool(self.records or self.made or self.moved or self.map_is_new)


def replay(
    request: Replay | PathLike,
    *paths: PathLike,
    target: str,
    map_path: str | None = None,
    plan: ReplayPlan | None = None,
    jobs: Count = 1,
    on_bytes: Callable[[int], None] = lambda _: None,
    check: Callable[[], None] = lambda: None,
) -> ReplayResult:
    """Write records into a live cluster; a killed replay of the same identity is continued where it stopped. Return
    what was written: the number of records and bytes, topics created, and the offset map of each partition, from its
    start. The result also has the group offsets that were committed, and those left out because the target has
    different ones.

    * `request`: which records, and how; a path is the first of `paths`, and then all options have their defaults
    * `target`: `HOST:PORT` of one of the cluster's brokers
    * `map_path`: Parquet file for the offset maps, see `write_parquet`; by default `replay-ID.parquet` in the current
      directory. It must not exist, or be the map of this replay, which is replaced if there is more to replay. A
      journal is kept beside it until the replay has finished
    * `plan`: the result of `plan_replay` for the same request and paths; by default it is planned now, with `jobs`
      processes
    * `on_bytes`: called with the size in bytes of each batch, or run of batches, that was read
    * `check`: called often; an error that it raises aborts the open transaction and ends the replay

    Creates missing topics and a topic for the progress, writes in transactions, and commits the offsets of groups that
    have none in the target. If a finished replay has nothing new, only missing group offsets are committed, and `maps`
    and `left` of the result are empty. Raises `RecoveryRefused` if records would be lost (`ReplayPlan.refuse`), or if
    another process continues this replay. Raises it also if the target's topics have records of others or too few
    partitions. Raises `ClusterError` if the cluster fails. Raises `FormatError` if a transaction is aborted five times,
    and `UsageError` and `StorageError` as `plan_replay`, `read_parquet` and `write_parquet` do. Raises `UsageError`
    also if `map_path` or its journal belongs to another replay, or if confluent-kafka is not installed or refuses the
    settings.
    """
    options = request if isinstance(request, Replay) else Replay()
    plan = plan or plan_replay(request, *paths, jobs=jobs)
    map_path = map_path or f"replay-{plan.identity}.parquet"
    plan.refuse(options)
    require_outside(map_path, plan.paths)
    sizes = [int(topic.settings.written.get("max.message.bytes", _LARGEST_BATCH)) for topic in plan.topics]
    with Target(
        target, plan.identity, options.client, compression=options.compression,
        batch_bytes=min([_LARGEST_BATCH, *sizes]) - _BATCH_ROOM, check=check,
    ) as cluster:  # fmt: skip
        return _Replay(plan, cluster, map_path, options, on_bytes, check).run()


class _Replay:
    def __init__(
        self, plan: ReplayPlan, target: Target, map_path: str, options: Replay, on_bytes: Callable[[int], None],
        check: Callable[[], None],
    ) -> None:  # fmt: skip
        self._plan = plan
        self._target = target
        self._map_path = map_path
        self._options = options
        self._on_bytes = on_bytes
        self._pace = _Pace(options.bytes_per_second, check)
        self._records = self._bytes = 0
        self._without_time: dict[tuple[str, int], int] = {}
        self._findings: list[Finding] = []

    def run(self) -> ReplayResult:
        plan, target = self._plan, self._target
        cluster = target.cluster_id()
        identity = f"{plan.identity} to {cluster}"
        existing = target.topics()
        if target.progress_topic not in existing:
            _refuse_foreign(plan, target, existing, {}, options=self._options)  # while nothing at all was changed
        target.begin()
        keys = {(topic.target, number): partition
                for topic in plan.topics for number, partition in topic.partitions.items()}  # fmt: skip
        known = target.progress() if target.progress_topic in existing else {}
        progress = {key: known[key] for key in keys if key in known and key[0] in existing}
        _refuse_foreign(plan, target, existing, progress, options=self._options)
        is_over = exists(self._map_path) and not exists(self._map_path + JOURNAL_SUFFIX)
        if is_over and not self._is_left(progress):
            return self._nothing_left()
        if target.progress_topic not in existing:
            target.create(target.progress_topic, 1, self._options.replication, PROGRESS_SETTINGS)
        made = self._make(existing)
        target.note({key: partition.log_start_offset for key, partition in keys.items() if key not in progress})
        maps: dict[tuple[str, int], OffsetMap] = {}
        with Journal(self._map_path + JOURNAL_SUFFIX, identity) as journal:
            if exists(self._map_path):
                self._take_over_map(progress, journal)
            for topic in plan.topics:
                for number, partition in sorted(topic.partitions.items()):
                    begin = partition.log_start_offset
                    reached = progress.get((topic.target, number), begin)
                    reached = self._partition(topic.target, number, partition, reached, journal)
                    maps[topic.name, number] = journal.map_of(topic.target, number, begin, reached)
            renamed = {topic.name: topic.target for topic in plan.topics}
            moved, left = self._groups(maps, renamed)
            unfinished = self._map_path + UNFINISHED_SUFFIX
            fs.remove(unfinished)
            write_parquet(unfinished, maps, renamed)
            fs.rename(unfinished, self._map_path)
            journal.remove()
        return ReplayResult(
            records=self._records,
            bytes=self._bytes,
            made=tuple(made),
            maps=maps,
            without_time=self._without_time,
            moved=tuple(moved),
            left=tuple(left),
            findings=tuple(self._findings),
            map_path=self._map_path,
            map_is_new=True,
        )  # fmt: skip

    def _is_left(self, progress: Mapping[tuple[str, int], int]) -> bool:
        """Return whether the directories have records to replay that are not in the existing map. `progress` has the
        next source offset by (target topic, partition). The logs are read from these offsets. Raises `UsageError` if a
        planned partition has no progress, because the map then belongs to another replay. Raises `StorageError` if a
        file cannot be read.
        """
        is_left = False
        for topic in self._plan.topics:
            for number, partition in topic.partitions.items():
                reached = progress.get((topic.target, number))
                if reached is None:
                    raise UsageError(f"{self._map_path} already exists; only a new file can be written")
                is_left = is_left or _has_more(partition, reached, self._options)
        return is_left

    def _take_over_map(self, progress: Mapping[tuple[str, int], int], journal: Journal) -> None:
        """Copy the offset map of a finished replay (a Parquet file) to the journal, so that the replay can be
        continued. Each partition becomes one transaction. `progress` has the next source offset by (target topic,
        partition). A partition is skipped if it has no progress, or none beyond its log start offset. It is skipped
        also if its progress is already in the journal.

        Raises `UsageError` if the file is not a map of a replay. Raises `StorageError` if it cannot be read or the
        journal cannot be written.
        """
        missing = {}
        for topic in self._plan.topics:
            for number, partition in topic.partitions.items():
                reached = progress.get((topic.target, number))
                if reached is not None and not journal.knows(topic.target, number, reached):
                    missing[topic.name, number] = topic.target, partition.log_start_offset, reached
        for (name, number), offset_map in read_parquet(self._map_path, missing.keys()).items():
            target, begin, reached = missing[name, number]
            if reached > begin:
                journal.add(target, number, begin, reached, list(offset_map.runs))

    def _nothing_left(self) -> ReplayResult:
        moved = self._groups_left_out()
        return ReplayResult(
            records=0,
            bytes=0,
            made=(),
            maps={},
            without_time={},
            moved=tuple(moved),
            left=(),
            findings=(),
            map_path=self._map_path,
            map_is_new=False,
        )

    def _groups_left_out(self) -> list[Moved]:
        """Commit the group offsets of replayed partitions that the target does not have yet; return them. They are
        translated with the map file of the finished replay. If the target has them all, no file is read, nothing is
        changed, and the list is empty.

        Raises `ClusterError` if the cluster fails. Raises `UsageError` if the file is not a map of a replay. Raises
        `StorageError` if it cannot be read.
        """
        renamed = {topic.name: topic.target for topic in self._plan.topics}
        replayed = {(topic.name, number) for topic in self._plan.topics for number in topic.partitions}
        by_group: dict[str, list[CommittedOffset]] = {}
        for commit in self._plan.commits:
            if (commit.key.topic, commit.key.partition) in replayed:
                by_group.setdefault(commit.key.group, []).append(commit)
        missing: list[CommittedOffset] = []
        for group, commits in by_group.items():
            places = {(renamed[each.key.topic], each.key.partition): each for each in commits}
            there = self._target.group_offsets(group, list(places))
            missing += [committed_offset for place, committed_offset in places.items() if place not in there]
        if not missing:
            return []
        maps = read_parquet(self._map_path, {(offset.key.topic, offset.key.partition) for offset in missing})
        moved = moved_offsets(missing, maps, renamed)
        for group in dict.fromkeys(each.group for each in moved):
            self._target.set_group_offsets(group, [each for each in moved if each.group == group])
        return moved

    def _make(self, existing: Mapping[str, int]) -> list[str]:
        created = []
        for topic in self._plan.topics:
            if topic.target not in existing:
                written = topic.settings.written
                self._target.create(topic.target, topic.partition_count, self._options.replication, written)
                created.append(topic.target)
        return created

    def _partition(self, target: str, number: int, partition: DecidedPartition, reached: int, journal: Journal) -> int:
        for chunk, size in self._chunks(partition, reached):
            for attempt in range(_ATTEMPTS):
                try:
                    written = self._target.write(target, number, chunk)
                    next_offset = chunk[-1].offset + 1
                    offsets = zip((record.offset for record in chunk), written.offsets, strict=True)
                    journal.add(target, number, reached, next_offset, runs_of(offsets))
                    written.commit(next_offset)
                    break
                except AbortedError as error:
                    if attempt + 1 == _ATTEMPTS:
                        raise FormatError(f"the transaction was aborted {_ATTEMPTS} times: {error}") from None
            reached = next_offset
            self._records += len(chunk)
            self._bytes += size
            without = sum(record.timestamp <= 0 for record in chunk)
            if without:
                key = target, number
                self._without_time[key] = self._without_time.get(key, 0) + without
            self._pace.after(size)
        return reached

    def _chunks(self, partition: DecidedPartition, start: int) -> Iterator[tuple[list[Record], int]]:
        reader = _reader(partition, start, on_bytes=self._on_bytes)
        most = min(_CHUNK_BYTES, self._options.bytes_per_second or _CHUNK_BYTES)
        chunk: list[Record] = []
        size = 0
        for record in reader:
            if not _is_wanted(record, self._options):
                continue
            chunk.append(record)
            size += len(record.key or b"") + len(record.value or b"") + _RECORD_OVERHEAD
            if record.headers:
                size += sum(len(header.key) + len(header.value or b"") for header in record.headers)
            if len(chunk) >= _CHUNK_RECORDS or size >= most:
                yield chunk, size
                chunk, size = [], 0
        if chunk:
            yield chunk, size
        self._findings += [finding for finding in reader.findings if finding.severity is Severity.ERROR]

    def _groups(
        self, maps: Mapping[tuple[str, int], OffsetMap], renamed: Mapping[str, str]
    ) -> tuple[list[Moved], list[Moved]]:
        moved: list[Moved] = []
        left: list[Moved] = []
        by_group: dict[str, list[Moved]] = {}
        for moved_offset in moved_offsets(self._plan.commits, maps, renamed):
            by_group.setdefault(moved_offset.group, []).append(moved_offset)
        for group, wanted in by_group.items():
            there = self._target.group_offsets(group, [(each.topic, each.partition) for each in wanted])
            new = [each for each in wanted if (each.topic, each.partition) not in there]
            left += [each for each in wanted if there.get((each.topic, each.partition), each.offset) != each.offset]
            if new:
                self._target.set_group_offsets(group, new)
                moved += new
        return moved, left


def check_target(plan: ReplayPlan, bootstrap: str, options: Replay) -> tuple[str, ...]:
    """Return the planned topics that already exist in the target, by their names there, in the order of the plan.
    Changes nothing. `bootstrap` is `HOST:PORT` of a broker.

    A replay that was begun in this cluster may go on. For any other, raises `RecoveryRefused` if an existing topic has
    too few partitions or, unless `options.append` is set, if a planned partition ever had records. Raises
    `ClusterError` if the cluster cannot be reached. Raises `UsageError` if librdkafka is missing or refuses the
    settings.
    """
    with Target(bootstrap, plan.identity, options.client, compression=options.compression, batch_bytes=0) as target:
        existing = target.topics()
        if target.progress_topic not in existing:
            _refuse_foreign(plan, target, existing, {}, options=options)
    return tuple(topic.target for topic in plan.topics if topic.target in existing)


def _refuse_foreign(
    plan: ReplayPlan,
    target: Target,
    existing: Mapping[str, int],
    progress: Mapping[tuple[str, int], int],
    *,
    options: Replay,
) -> None:
    for topic in plan.topics:
        if topic.target not in existing:
            continue
        count = existing[topic.target]
        if count < topic.partition_count:
            raise RecoveryRefused(
                f"the target's {topic.target} has {count} partition(s), and the source's {topic.partition_count}; "
                "nothing was changed. Give the topic another name with --rename.",
                reason="partitions",
            )
        for number in () if options.append else topic.partitions:
            if (topic.target, number) not in progress and not target.is_empty(topic.target, number):
                raise RecoveryRefused(
                    f"the target's {topic.target}-{number} has records that this replay did not write; nothing was "
                    "changed. Give the topic another name with --rename, or write behind them with --append; a replay "
                    f"that goes on needs {target.progress_topic}, in which the target has its progress.",
                    reason="not_empty",
                )


def _reader(partition: DecidedPartition, start: int, *, on_bytes: Callable[[int], None] | None = None) -> RecordReader:
    wanted = RecordFilter(start_offset=start, end_offset=partition.end_offset, isolation_level=READ_COMMITTED)
    return RecordReader(partition, wanted, on_damage=STOP, on_bytes=on_bytes)


def _is_wanted(record: Record, options: Replay) -> bool:
    """Whether the record's time is within the requested bounds."""
    start, end = options.start_time, options.end_time
    return (start is None or record.timestamp >= start) and (end is None or record.timestamp < end)


def _has_more(partition: DecidedPartition, reached: int, options: Replay) -> bool:
    """Whether the partition has records at or above offset `reached` that are to be replayed."""
    return any(_is_wanted(record, options) for record in _reader(partition, reached))


class _Pace:
    """Limit the bytes written per second."""

    def __init__(self, bytes_per_second: int | None, check: Callable[[], None]) -> None:
        self._rate = bytes_per_second
        self._check = check
        self._begun = time.monotonic()
        self._bytes = 0

    def after(self, size: int) -> None:
        self._check()
        if self._rate is None:
            return
        self._bytes += size
        until = self._begun + self._bytes / self._rate
        while (wait := until - time.monotonic()) > 0:
            time.sleep(min(wait, CHECKED_SECONDS))
            self._check()
