"""Derive the consequences of the offset at which a log ends: groups beyond it, transactions without end marker, older
values in compacted topics.

A log may end too early without a trace in its own files: if it was restored from an older copy, or truncated between
two batches. What coordinators know about it shows this.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from msgspec import Struct

from kafkalog.cluster.groups.group_types import DEFAULT_OFFSETS_RETENTION, OFFSETS_RETENTION, RESET_SHARE_OFFSETS
from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.common.shell import shell_word
from kafkalog.codec.common.source import Source
from kafkalog.codec.common.wording import counted, first_of, moment_text
from kafkalog.codec.model import ProducerEntry, TransactionState
from kafkalog.codec.names import (
    CLUSTER_METADATA_TOPIC,
    CONSUMER_OFFSETS_TOPIC,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    SHARE_GROUP_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
    DirectoryState,
    FileKind,
    PartitionName,
    parse_java_long,
    parse_partition_directory,
    parse_segment_file,
    segment_file,
)
from kafkalog.log.directories.returning_records import records_are_back, returning_records
from kafkalog.log.storage import retention
from kafkalog.log.storage.java import JavaError
from kafkalog.log.storage.log_file import LogFile
from kafkalog.log.storage.producers.snapshots import snapshot_entries, snapshot_offsets
from kafkalog.log.storage.tree import Tree
from kafkalog.log.walk.lookup import start_position
from kafkalog.recovery.broker.manager import LoadedPartition
from kafkalog.recovery.broker.node.older_copies import epochs_lost
from kafkalog.recovery.damage.other_segment import OTHER_SEGMENT
from kafkalog.recovery.decide.ways import LostRange, Measured
from kafkalog.recovery.decide.written_end import epochs_of, start_of_empty_log
from kafkalog.recovery.facts.cleaner_settings import known_settings
from kafkalog.recovery.facts.coordinators import Coordinators
from kafkalog.recovery.facts.recovery_request import Rules
from kafkalog.recovery.safe.normalize import Checkpoints, read_high_watermarks

__all__ = [
    "BY_AGE", "GETS_ITS_NAME", "KNOWN_BY_COORDINATORS", "LossConsequence", "consequences", "ends_going_back",
    "held_back", "of_earlier_ends", "of_log_starts", "of_look_ups", "of_missing", "of_overlaps",
    "of_transaction_indexes", "of_wrong_names", "transactions_staying_open",
]  # fmt: skip

KNOWN_BY_COORDINATORS = frozenset({"groups_beyond_end", "later_marker", "marker_lost"})
"""kinds of consequences that logs of coordinators tell of a log that is sound in itself"""
BY_AGE = frozenset({"retention", "commits_expire"})
"""kinds of consequences that retention has"""

"""numbers of states of a coordinator's transaction (`TransactionState`)"""
GETS_ITS_NAME = "gets its right name (segment_misnamed)"
"""end of the sentence about records that are skipped because of the name of a segment"""
_NAMED = 3
"""Most groups or partitions that a sentence names."""
_GROUPS = 8
"""most groups that a sentence about lost commits names"""
_STATE_LOST = {
    CONSUMER_OFFSETS_TOPIC: "groups whose commits were in {} have none left: their members start by auto.offset.reset, "
    "those of share groups by share.auto.offset.reset",
    SHARE_GROUP_STATE_TOPIC: "share groups whose state was in {} have none left: their members get no record until "
    f"{RESET_SHARE_OFFSETS}",
}
"""consequence of an internal topic's partition that loses all its records; `{}` is for its directory"""


class LossConsequence(Struct, frozen=True, kw_only=True):
    """A consequence of the offset at which one partition's log ends, or of the records that it loses."""

    kind: Literal["groups_beyond_end", "marker_lost", "older_values_return", "retention", "end_goes_back",
                  "transaction_stays_open", "aborted_records", "deleted_records_return", "records_skipped",
                  "wrong_times", "wrong_log_start", "copy_has_more", "later_marker", "from_copies",
                  "commits_expire"]  # fmt: skip
    """`groups_beyond_end`: groups have offsets beyond the log's end; `marker_lost`: the marker of a transaction that
    has ended is lost; `later_marker`: so it is, and the marker of a later transaction will end it, which may commit
    aborted records or hide committed ones, or its coordinator has lost its decision and will abort it;
    `older_values_return`: a compacted topic has lost records; `retention`: retention deletes segments soon after the
    start, by a known limit; `end_goes_back`: a log without records will end below the offset at which it began;
    `transaction_stays_open`: the coordinator of an open transaction has lost its log, or its record of the transaction;
    `aborted_records`: readers of committed data get aborted records from an overlapping segment, or by a transaction
    index that differs from the log, which may also hide committed ones; `deleted_records_return`: consumers get deleted
    records again, because the log start offset was not in its checkpoint before a kill; `records_skipped`: consumers
    may skip records, by an offset index that differs from the log or by the name of a segment; `wrong_times`: look-ups
    and retention by time go wrong, by a time index that differs from the log; `wrong_log_start`: the log start offset
    in its checkpoint is beyond the log's end, and other files contradict it; `copy_has_more`: another copy has offsets
    beyond the end of this one, and no recommended way merges them; `from_copies`: records of the merged log come from
    other copies; `commits_expire`: a start removes commits of groups without members, by their age"""
    partition: str
    """the partition directory"""
    detail: str
    """one sentence"""
    way: str | None = None
    """the recommended way that has this consequence; null: the plan itself has it"""


def consequences(
    before: Tree,
    after: Tree,
    results: Collection[LoadedPartition],
    measured: Mapping[str, Measured],
    rules: Rules,
    coordinators: Coordinators,
) -> Iterator[LossConsequence]:
    """Yield the consequences of a plan for others, partition by partition in the order of `results`. The plan leaves
    the tree `after` of the tree `before`. Raises `StorageError` if a file in `before` or `after` cannot be read,
    `UsageError` as `_of_retention` does. The consequences are about:

    * consumer groups beyond the log's end, and transactions that stay open
    * lost state or older values
    * segments that retention deletes soon, and deleted records that return
    * commits that expire, at the end

    Groups are examined only if the partition loses something, or if `__consumer_offsets` is small. State is lost if a
    partition of `__consumer_offsets` or `__share_group_state` loses something and keeps no record. Older values return
    if a partition of a compacted topic or of `__share_group_state` loses something, unless it keeps no record. An
    unknown number counts as records kept.

    `results` are the partition directories as a start loads them; directories that are not live or become stray are
    skipped. `measured` are the losses by partition directory. `coordinators` know the committed offsets and the
    transactions.
    """
    topics = rules.facts
    for result in results:
        counts = measured.get(result.name)
        name = parse_partition_directory(result.name)
        if name is None or name.state is not DirectoryState.LIVE or result.stray is not None:
            continue
        is_hurt = counts is not None and bool(counts.lost or counts.markers_out_of_reach)
        if is_hurt or coordinators.has_few_commits:
            yield from _of_groups(result.name, result.log_end_offset, name, coordinators)
        yield from _of_transactions(before, after, result, name, coordinators, rules, is_hurt=is_hurt)
        if is_hurt and counts is not None:
            has_state = name.topic == SHARE_GROUP_STATE_TOPIC or topics.is_compacted(name.topic)
            if counts.records_kept == 0 and name.topic in _STATE_LOST:
                yield _of_lost_state(name.topic, [result.name], coordinators)
            elif counts.records_kept != 0 and has_state:
                detail = _older_values(result.name, name, result.log_start_offset, counts.lost, coordinators)
                yield LossConsequence(kind="older_values_return", partition=result.name, detail=detail)
        yield from _of_retention(after, result, name, rules)
        yield from _of_deleted_records(before, result)
    yield from _of_old_commits(results, coordinators, rules)


def _older_values(
    directory: str, name: PartitionName, log_start: int, lost: Sequence[LostRange], coordinators: Coordinators
) -> str:
    """Return a sentence about the effect of losing records in a partition that is compacted, or of
    `__share_group_state`; never empty. `log_start` is the log start offset after the plan.
    """
    if name.topic == CONSUMER_OFFSETS_TOPIC:
        commits = coordinators.commits_in(name.partition)
        groups, after = _groups_of(lost, commits)
        left = max((offset for offset, _group, _time in commits if not _is_lost(offset, lost)), default=-1)
        if lost and all(each.last is not None and each.last < left for each in lost):
            where = "at the beginning" if lost[0].first <= log_start else "in the middle"
            return (
                f"{groups} read records again where they have no later commit, or start by auto.offset.reset if none "
                f"is left: records {where} of {directory} are lost, and commits after them are left"
            )
        return (
            f"{groups} read records again, or start by auto.offset.reset if no commit is left: the newest commits in "
            f"{directory} are lost{after}"
        )
    if name.topic == TRANSACTION_STATE_TOPIC:
        ids = _ids_of(lost, coordinators.epochs_in(name.partition))
        return f"records of {directory} are lost: transactional ids may go back to used epochs {epochs_lost(ids)}"
    if name.topic == SHARE_GROUP_STATE_TOPIC:
        return (
            f"share groups whose newest state is among what is lost of {directory} go back to the state before: "
            f"their members get records again, or none if no state is left, until {RESET_SHARE_OFFSETS}"
        )
    return (
        f"{name.topic} is compacted: of a key whose newest record is among what is lost, readers get the "
        "record before it, and a key that was deleted may come back"
    )


def _of_deleted_records(before: Tree, result: LoadedPartition) -> Iterator[LossConsequence]:
    """Yield a `deleted_records_return` consequence if deleted records are in the log again after the start
    (`returning_records`). Yields nothing if `leader-epoch-checkpoint` is missing or invalid. Raises `StorageError` if a
    file cannot be read.
    """
    logs = dict(before.logs(result.name))

    def log_at(base: int, offset: int) -> tuple[Source, int]:
        log = before.source(logs[base])
        index = f"{result.name}/{segment_file(base, FileKind.OFFSET_INDEX)}"
        index_source = before.source(index) if index in before.files else None
        return log, start_position(log, index_source, base_offset=base, target=offset)

    back = returning_records(epochs_of(before, result.name), result.log_start_offset, logs, log_at)
    if back is not None:
        yield LossConsequence(
            kind="deleted_records_return", partition=result.name, detail=f"{result.name}: {records_are_back(*back)}"
        )


def of_overlaps(findings: Iterable[Finding], changed: Container[str]) -> Iterator[LossConsequence]:
    """Yield an `aborted_records` consequence for each SEGMENT_OVERLAP finding without a position, the kind that
    `aborted_in_overlaps` returns, unless its file is in `changed`. The paths in both are relative to the log directory.
    """
    for finding in findings:
        path = finding.file or ""
        if finding.code is FindingCode.SEGMENT_OVERLAP and finding.position is None and path not in changed:
            partition, _, name = path.partition("/")
            yield LossConsequence(
                kind="aborted_records", partition=partition, detail=f"{partition}, {name}: {finding.detail}"
            )


def of_wrong_names(findings: Iterable[Finding], tree: Tree) -> Iterator[LossConsequence]:
    """Yield a `records_skipped` consequence for each SEGMENT_MISNAMED finding about a segment whose name is too low and
    that has it from no other segment: a fetch of offsets at the end of the segment before leads to it. `tree` are the
    files after the plan; the paths of the findings are relative to the log directory.
    """
    for finding in findings:
        partition, _, name = (finding.file or "").partition("/")
        parsed, first = parse_segment_file(name), finding.offset
        if finding.code is not FindingCode.SEGMENT_MISNAMED or parsed is None or first is None:
            continue
        bases = {base for base, _log in tree.logs(partition)}
        if parsed.base_offset in bases and first not in bases and parsed.base_offset < first:
            detail = (
                f"{partition}: consumers whose fetch begins at an offset from {parsed.base_offset} to {first - 1} skip "
                f"the records up to there, without an error, until {name} {GETS_ITS_NAME}"
            )
            yield LossConsequence(kind="records_skipped", partition=partition, detail=detail)


def of_transaction_indexes(findings: Iterable[Finding], changed: Container[str]) -> Iterator[LossConsequence]:
    """Yield one `aborted_records` consequence for each partition with a TXN_INDEX_MISMATCH finding about an index that
    is not in `changed`. The file of a finding is the index or its log. Paths are relative to the log directory.
    """
    wrong: dict[str, list[str]] = {}
    for finding in findings:
        index = os.path.splitext(finding.file or "")[0] + FileKind.TRANSACTION_INDEX
        if finding.code is FindingCode.TXN_INDEX_MISMATCH and index not in changed:
            partition, _, name = index.partition("/")
            wrong.setdefault(partition, []).append(name)
    for partition, names in wrong.items():
        detail = (
            f"{partition}: consumers of committed data get records of aborted transactions, or skip committed ones, "
            f"until {_rebuilt(names)}"
        )
        yield LossConsequence(kind="aborted_records", partition=partition, detail=detail)


def of_look_ups(
    findings: Iterable[Finding],
    changed: Container[str],
    tree: Tree,
    results: Mapping[str, LoadedPartition],
    rules: Rules,
) -> Iterator[LossConsequence]:
    """Yield the consequences of INDEX_ENTRY_MISMATCH findings with severity error. First, in the order of `findings`:
    `records_skipped` for each finding about an offset index, and `wrong_times` for each one of `other_segment`. Then
    one `wrong_times` for each partition with findings about time indexes; it says if retention deletes another number
    of segments once they are rebuilt. Findings without offset or about an index in `changed` are left out, except those
    of `other_segment`.

    Paths are relative to the log directory. `tree` are its files after the plan, `results` its partitions then, by
    directory. Raises `StorageError` if a file cannot be read, `UsageError` for a setting of retention or of the cleaner
    that Kafka would refuse.
    """
    of_times: dict[str, list[str]] = {}
    for finding in findings:
        path, first = finding.file or "", finding.offset
        is_wrong = finding.code is FindingCode.INDEX_ENTRY_MISMATCH and finding.severity is Severity.ERROR
        partition, _, name = path.partition("/")
        if is_wrong and OTHER_SEGMENT in finding.detail:
            log = f"{os.path.splitext(name)[0]}{FileKind.LOG}"
            detail = (
                f"{partition}: {log} is {OTHER_SEGMENT}: look for another copy of it before they are made again"
            )
            yield LossConsequence(kind="wrong_times", partition=partition, detail=detail)
        if not is_wrong or first is None or path in changed:
            continue
        if name.endswith(FileKind.TIME_INDEX.value):
            of_times.setdefault(partition, []).append(name)
            continue
        bases = [base for base, _log in tree.logs(partition)]
        result = results.get(partition)
        end = min((base for base in bases if base > first), default=None if result is None else result.log_end_offset)
        many = f"up to {counted(end - first, 'record')}" if end is not None and end > first else "records"
        detail = (
            f"{partition}: consumers whose fetch begins at offset {first} or after it may skip {many}, without an "
            f"error, until {_rebuilt([name])}"
        )
        yield LossConsequence(kind="records_skipped", partition=partition, detail=detail)
    for partition, names in of_times.items():
        detail = f"{partition}: look-ups by time and retention by time go wrong until {_rebuilt(names)}"
        detail += _deleted_after_full(tree, results.get(partition), names, rules)
        yield LossConsequence(kind="wrong_times", partition=partition, detail=detail)


def _deleted_after_full(tree: Tree, result: LoadedPartition | None, names: Sequence[str], rules: Rules) -> str:
    """Return the end of the sentence about the wrong time indexes `names` (file names) of a partition: how many
    segments retention deletes before and after they are rebuilt. Empty if both numbers are equal, or if the log of one
    of these indexes is damaged before its end. Empty also if `result` or the result of `_limits` is None. Raises
    `StorageError` if a file cannot be read, `UsageError` as `_limits` does.
    """
    name = None if result is None else parse_partition_directory(result.name)
    limits = None if name is None else _limits(name.topic, rules)
    if result is None or limits is None:
        return ""
    segments = list(_segments(tree, result.name))
    rebuilt = []
    for segment, (base, log) in zip(segments, tree.logs(result.name), strict=True):
        newest = segment.largest_timestamp
        if segment_file(base, FileKind.TIME_INDEX) in names:
            try:
                newest = LogFile(tree.source(log), tree.headers(log)).largest_timestamp_after(0)[0]
            except JavaError:
                return ""
        rebuilt.append(segment._replace(largest_timestamp=newest if newest >= 0 else tree.modified_ms(log)))
    count, then = (limits.deleted(each, result.log_start_offset, rules.now_ms) for each in (segments, rebuilt))
    return "" if count == then else f": retention deletes {counted(count, 'segment')} before that, {then} after it"


def _rebuilt(names: Sequence[str]) -> str:
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{names[0]}{more} {'are' if more else 'is'} rebuilt, which a full recovery does"


def of_log_starts(root: str, before: Tree, results: Iterable[LoadedPartition]) -> Iterator[LossConsequence]:
    """Yield a `wrong_log_start` consequence for each live partition whose log start offset in the checkpoint
    contradicts its other files. It is above the log end offset and the high watermark, although leader epochs begin
    below it. A broker never sets a log start offset above the high watermark, and leaves no leader epoch that begins
    below it. Partitions that become stray are skipped. `root` is the log directory, `before` its tree. Raises
    `StorageError` if a file cannot be read.
    """
    starts, high_watermarks = Checkpoints.read(before).log_starts, read_high_watermarks(before)
    for result in results:
        name = parse_partition_directory(result.name)
        if name is None or name.state is not DirectoryState.LIVE or result.stray is not None:
            continue
        key = (name.topic, name.partition)
        start, watermark, end = starts.get(key, 0), high_watermarks.get(key), result.log_end_offset
        if start <= max(end, watermark or 0):
            continue
        entries = epochs_of(before, result.name)
        if not entries or entries[0].start_offset >= start:
            continue
        path = shell_word(os.path.join(root, LOG_START_OFFSET_CHECKPOINT))
        known = "" if watermark is None else f", its high watermark was {watermark}"
        detail = (
            f"{result.name} cannot begin at {start}, where a start would begin it: it ends at {end}{known} and "
            f"{LEADER_EPOCH_CHECKPOINT} begins at {entries[0].start_offset}; to keep all of it, remove the line "
            f"`{name.topic} {name.partition} {start}` of {path} and lower the number in its second line by 1"
        )
        yield LossConsequence(kind="wrong_log_start", partition=result.name, detail=detail)


def ends_going_back(
    root: str, before: Tree, results: Iterable[LoadedPartition], measured: Mapping[str, Measured]
) -> Iterator[LossConsequence]:
    """Yield an `end_goes_back` consequence for each live partition whose logs are missing or empty. It is yielded only
    if the partition's log will end below the start of its first leader epoch. A broker would give the offsets in
    between again. Partitions that lose records, or that the start makes stray, are skipped.

    `root` is the log directory, and `before` its tree now. `results` and `measured` are as in `consequences`. Raises
    `StorageError` while iterating if a file cannot be read.
    """
    for result in results:
        name, loss = parse_partition_directory(result.name), measured.get(result.name)
        is_live = name is not None and name.state is DirectoryState.LIVE and result.stray is None
        began = start_of_empty_log(before, result.name) if is_live else 0
        if began <= result.log_end_offset or (loss is not None and loss.lost):
            continue
        path = os.path.join(root, result.name, segment_file(began, FileKind.LOG))
        detail = (
            f"no record of {result.name} is lost, but it began at {began}, without records, and will end at "
            f"{result.log_end_offset}: if it leads, offsets from there on are given again, and consumers at {began} "
            f"are beyond the end; an empty file keeps the end, if it is made before any start: touch {shell_word(path)}"
        )
        yield LossConsequence(kind="end_goes_back", partition=result.name, detail=detail)


def transactions_staying_open(
    after: Tree, results: Iterable[LoadedPartition], coordinators: Coordinators, rules: Rules
) -> Iterator[LossConsequence]:
    """Yield a `transaction_stays_open` consequence for each transaction that is open at the end of a live log, if
    nothing ends it when a partition of `__transaction_state` is lost. The producers of these transactions are unknown
    to the partitions of that topic in the broker's log directories. If no such partition can be read, all producers are
    unknown. Transactions for which `consequences` yields a `transaction_stays_open` are left out. `after`, `results`
    and `rules` are as in `consequences`. Raises `StorageError` if a file cannot be read.
    """
    for result in results:
        name = parse_partition_directory(result.name)
        if name is None or name.state is not DirectoryState.LIVE or result.stray is not None:
            continue
        path = f"{result.name}/{segment_file(result.log_end_offset, FileKind.PRODUCER_SNAPSHOT)}"
        opened = _open_at_end(after, path)
        if not opened:
            continue
        known = coordinators.transactions
        ids = {transactional_id.producer_id for transactional_id in known.ids} if known is not None else set()
        for entry in opened:
            if entry.producer_id not in ids and _forgotten_of(entry, name, coordinators, rules) is None:
                yield _staying_open(result.name, name, entry, "")


class _Segment(NamedTuple):
    base_offset: int
    size: int
    largest_timestamp: int


class _Limits(NamedTuple):
    """Limits of retention by age (ms) and by size; -1 for one that is not known."""

    ms: int
    bytes: int

    def deleted(self, segments: Sequence[_Segment], start: int, now_ms: int) -> int:
        """Return how many of the oldest segments of a log that starts at offset `start` a broker deletes."""
        count = retention.below_start(segments, start)
        count += retention.beyond_size(segments[count:], self.bytes)
        return count + retention.too_old(segments[count:], self.ms, now_ms)


def _limits(topic: str, rules: Rules) -> _Limits | None:
    """Return the limits of a topic that are known, as `_of_retention` describes; None if none is known and set, or if
    the topic is not deleted by retention. Raises `UsageError` for a setting that Kafka would refuse.
    """
    known = known_settings({**rules.server, **rules.config})
    is_set = {*known, *rules.facts.cleaner_broker_configs, *rules.facts.cleaner_configs.get(topic, {})}
    is_set |= {"retention.ms"} if rules.server else set()  # the default of `log.retention.hours` is the broker's then
    settings = rules.facts.cleaner_config(topic, known)
    limits = _Limits(
        settings.retention_ms if "retention.ms" in is_set else -1,
        settings.retention_bytes if "retention.bytes" in is_set else -1,
    )
    is_deleted = topic != CLUSTER_METADATA_TOPIC and settings.deletes_old and max(limits) >= 0
    return limits if is_deleted else None


def _of_retention(after: Tree, result: LoadedPartition, name: PartitionName, rules: Rules) -> Iterator[LossConsequence]:
    """Yield one `retention` consequence if a broker deletes segments soon after its start. It deletes segments below
    the log start offset, and segments beyond the limits for size or age. A limit is known if it is set explicitly, or
    is the default of a broker whose properties are given. Yields nothing for the metadata log, or if no limit is known
    and set (-1 sets none). Yields nothing either if the topic is not deleted by retention, or if all segments to
    delete are empty.

    A broker takes the time of the newest record from the last entry of the time index. Without an entry, it takes the
    modification time of the log (`LogSegment.largestTimestamp`). Age is counted up to `rules.now_ms`. Raises
    `StorageError` if a time index cannot be read. Raises `UsageError` for a setting of retention or of the cleaner that
    Kafka would refuse.
    """
    limits = _limits(name.topic, rules)
    if limits is None:
        return
    segments = list(_segments(after, result.name))
    count = limits.deleted(segments, result.log_start_offset, rules.now_ms)
    if count and any(segment.size for segment in segments[:count]):
        end = segments[count].base_offset if count < len(segments) else result.log_end_offset
        detail = (
            f"retention deletes {count} of {counted(len(segments), 'segment')} of {result.name}, up to offset {end}, "
            f"soon after the start (retention.ms={limits.ms}, retention.bytes={limits.bytes}): `kafkalog retention` "
            "lists all"
        )
        yield LossConsequence(kind="retention", partition=result.name, detail=detail)


def _of_old_commits(
    results: Iterable[LoadedPartition], coordinators: Coordinators, rules: Rules
) -> Iterator[LossConsequence]:
    """Yield one `commits_expire` consequence if a coordinator soon removes commits in one of the live partitions of
    `__consumer_offsets` in `results`. Yields nothing if the topic is large, or if the limit is unknown: it is known if
    it is set, or if the broker's properties are given.
    """
    settings = {**rules.server, **rules.config}
    minutes = parse_java_long(settings.get(OFFSETS_RETENTION, str(DEFAULT_OFFSETS_RETENTION)).strip(), 32)
    names = [result.name for result in results if result.stray is None]
    parsed = {name: found.partition for name in names if (found := parse_partition_directory(name)) is not None
              and found.topic == CONSUMER_OFFSETS_TOPIC and found.state is DirectoryState.LIVE}  # fmt: skip
    if not (parsed and minutes and coordinators.has_few_commits and (rules.server or OFFSETS_RETENTION in settings)):
        return
    before = rules.now_ms - minutes * 60_000
    groups = coordinators.groups_with_old_commits({*parsed.values()}, before, rules.now_ms)
    if groups:
        detail = (
            f"a start removes commits of {counted(len(groups), 'group')} without members ({first_of(groups, _NAMED)}): "
            f"older than {OFFSETS_RETENTION}={minutes}; to keep them, raise it before the start"
        )
        yield LossConsequence(kind="commits_expire", partition=next(iter(parsed)), detail=detail)


def _segments(after: Tree, directory: str) -> Iterator[_Segment]:
    """Yield the segments of a partition directory with base offset, size in bytes and largest timestamp (ms), by base
    offset. If the time index of a segment is missing or has no last timestamp (`last_indexed_timestamp`), the
    modification time of the log is its timestamp. Raises `StorageError` if a time index cannot be read.
    """
    for base, log in after.logs(directory):
        index = f"{directory}/{segment_file(base, FileKind.TIME_INDEX)}"
        newest = retention.last_indexed_timestamp(after.source(index)) if index in after.files else None
        yield _Segment(base, after.source(log).size, after.modified_ms(log) if newest is None else newest)


def of_missing(names: Iterable[str], coordinators: Coordinators) -> Iterator[LossConsequence]:
    """Yield the consequences for consumer groups and share groups if a start makes partitions again, empty:
    `groups_beyond_end` for each partition on which groups have committed offsets above 0, and `older_values_return` for
    each of `__consumer_offsets` and `__share_group_state` that loses a partition. `names` are the partitions'
    directories. `coordinators` know the committed offsets that are left.
    """
    emptied: dict[str, list[str]] = {topic: [] for topic in _STATE_LOST}
    for directory in names:
        name = parse_partition_directory(directory)
        if name is not None:
            yield from _of_groups(directory, 0, name, coordinators)
            if name.topic in emptied:
                emptied[name.topic].append(directory)
    for topic, directories in emptied.items():
        if directories:
            yield _of_lost_state(topic, directories, coordinators)


def of_earlier_ends(ends: Mapping[str, int], coordinators: Coordinators) -> Iterator[LossConsequence]:
    """Yield `groups_beyond_end` for each partition on which groups have committed offsets above the end that its log
    has after a start. `ends` are these ends by partition directory.
    """
    for directory, end in ends.items():
        name = parse_partition_directory(directory)
        if name is not None:
            yield from _of_groups(directory, end, name, coordinators)


def _of_lost_state(topic: str, directories: Sequence[str], coordinators: Coordinators) -> LossConsequence:
    """Return the consequence of partitions of an internal topic, one of `_STATE_LOST`, of which no record is left."""
    groups = coordinators.share_groups_in(directories) if topic == SHARE_GROUP_STATE_TOPIC else []
    whose = f" ({first_of(groups, _NAMED)})" if groups else ""
    detail = _STATE_LOST[topic].format(first_of(directories, _NAMED) + whose)
    return LossConsequence(kind="older_values_return", partition=directories[0], detail=detail)


def _groups_of(lost: Sequence[LostRange], commits: Sequence[tuple[int, str, int]]) -> tuple[str, str]:
    """Return the subject and a clause of a sentence about commits that a partition of `__consumer_offsets` loses. The
    subject names the groups with a commit that can still be read in `lost`, and the groups that may have later commits
    there. It is "groups", without a clause, if `lost` or `commits` is empty. The clause in parentheses has the time of
    the newest commit below `lost`; it is empty if there is none, or if all groups are of the first kind. `commits` are
    (offset, group, timestamp in ms) of all commits in the partition that can be read.
    """
    if not lost or not commits:
        return "groups", ""
    sure = {group for offset, group, _time in commits if _is_lost(offset, lost)}
    perhaps = {group for _offset, group, _time in commits} - sure
    words = [f"groups {first_of(sorted(sure), _GROUPS)}"] if sure else []
    if not perhaps:
        return words[0], ""
    words.append(f"perhaps {first_of(sorted(perhaps), _GROUPS)} and groups of which nothing is left")
    when = max((time for offset, _group, time in commits if offset < lost[0].first), default=None)
    return " and ".join(words), "" if when is None else f" (those after {moment_text(when)})"


def _ids_of(
    lost: Sequence[LostRange], epochs: Sequence[tuple[int, str, tuple[int, int]]]
) -> list[tuple[str, int | None]]:
    """Return (transactional id, number of epochs) for each id whose newest epoch can still be read in `lost`, and that
    has an earlier epoch elsewhere; sorted by id. The number is the difference of the two epochs; None if the earlier
    one is of another producer. `epochs` are as `Coordinators.epochs_in` returns them.
    """
    newest = {name: epoch for _offset, name, epoch in epochs}
    left = {name: epoch for offset, name, epoch in epochs if not _is_lost(offset, lost)}
    return [(name, newest[name][1] - epoch[1] if epoch[0] == newest[name][0] else None)
            for name, epoch in sorted(left.items()) if epoch != newest[name]]  # fmt: skip


def _is_lost(offset: int, lost: Sequence[LostRange]) -> bool:
    return any(each.first <= offset and (each.last is None or offset <= each.last) for each in lost)


def _of_groups(
    directory: str, end: int, name: PartitionName, coordinators: Coordinators
) -> Iterator[LossConsequence]:
    commits = coordinators.commits.get((name.topic, name.partition), ())
    beyond = sorted((commit for commit in commits if commit.offset > end), key=lambda commit: -commit.offset)
    if not beyond:
        return
    names = first_of([f"{commit.key.group} at {commit.offset}" for commit in beyond], _NAMED)
    least, but = ("at least ", "; commits behind damage are not counted") if coordinators.are_commits_cut else ("", "")
    detail = (
        f"{least}{counted(len(beyond), 'group')} stand{'s' if len(beyond) == 1 else ''} beyond the end {end} of "
        f"{directory} ({names}{but}): consumers there reset by auto.offset.reset, or skip the records that get "
        "these offsets next"
    )
    yield LossConsequence(kind="groups_beyond_end", partition=directory, detail=detail)


class _Stop(Struct, frozen=True, kw_only=True):
    """A transaction that is open at the end of a log although its coordinator has ended it."""

    offset: int
    """of its first record, at which consumers of committed data stop"""
    producer_id: int
    whose: str = ""
    """its transactional id in parentheses, after a space; empty if unknown"""
    transactional_id: str | None = None
    ended: str
    """how it ended, to follow "the transaction"
    """
    is_committed: bool | None = None
    """whether it was committed, else aborted; None if that is unknown"""
    later_state: int | None = None
    """state of a later transaction whose marker will end this one; None if there is none, so that consumers stop"""
    forgotten_by: str = ""
    """where the marker is that shows the decision of a transaction that its coordinator has as ongoing; else empty"""


def _of_transactions(
    before: Tree,
    after: Tree,
    result: LoadedPartition,
    name: PartitionName,
    coordinators: Coordinators,
    rules: Rules,
    *,
    is_hurt: bool,
) -> Iterator[LossConsequence]:
    """Yield a `marker_lost` or `later_marker` consequence for each transaction that `_stops` finds. The arguments are
    as in `consequences` and `_stops`. Then yield a `transaction_stays_open` consequence for each other open transaction
    that its coordinator does not know (`Coordinators.id_without_transaction`). Raises `StorageError` if a file cannot
    be read.
    """
    ended = set()
    for stop in _stops(before, after, result, coordinators, is_hurt=is_hurt):
        ended.add(stop.producer_id)
        where = "lost" if is_hurt else "missing"
        if stop.later_state is not None:
            detail = _ended_by_later(stop, stop.later_state, result.name, where)
            yield LossConsequence(kind="later_marker", partition=result.name, detail=detail)
            continue
        detail = (
            f"read_committed consumers stop at offset {stop.offset} of {result.name}: the transaction of producer "
            f"{stop.producer_id}{stop.whose} {stop.ended} end marker is {where}{_way_out(stop)}"
        )
        yield LossConsequence(kind="marker_lost", partition=result.name, detail=detail)
    path = f"{result.name}/{segment_file(result.log_end_offset, FileKind.PRODUCER_SNAPSHOT)}"
    for entry in _open_at_end(after, path):
        owner = None if entry.producer_id in ended else _forgotten_of(entry, name, coordinators, rules)
        if owner is not None:
            yield _staying_open(result.name, name, entry, owner)


def _ended_by_later(stop: _Stop, state: int, directory: str, where: str) -> str:
    """Return a sentence about a transaction whose own marker is gone. The end marker of a later one will end it, or its
    coordinator, which has lost the decision, will abort it. `state` is the `TransactionState` of the later one. `where`
    is "lost" or "missing": what happened to the transaction's own marker.
    """
    whose, from_on = f"producer {stop.producer_id}{stop.whose}", f"from offset {stop.offset} of {directory} on"
    if stop.forgotten_by:
        return (
            f"soon after a start the coordinator aborts the transaction of {whose} {from_on}, which was committed "
            f"({stop.forgotten_by}): its log has lost that; read_committed consumers never get these records, so copy "
            "them first (runbook: lost-marker)"
        )
    marker = f"its end marker is {where}, and its coordinator"
    if state == TransactionState.ONGOING:
        own = {True: "committed", False: "aborted", None: "committed or aborted"}[stop.is_committed]
        return (
            f"the next end marker of {whose} counts for its records {from_on} too, whose transaction was {own}: "
            f"{marker} has a later one ongoing (runbook: lost-marker)"
        )
    hides = state == TransactionState.PREPARE_ABORT
    own, verb, name = ("committed", "hides", "ABORT") if hides else ("aborted", "commits", "COMMIT")
    perhaps = "perhaps " if stop.is_committed is None else ""
    return (
        f"a start {verb} the records of {whose} {from_on}, whose transaction was {perhaps}{own}: {marker} writes the "
        f"{name} marker of a later one (runbook: lost-marker)"
    )


def _forgotten_of(opened: ProducerEntry, name: PartitionName, coordinators: Coordinators, rules: Rules) -> str | None:
    number, epoch = opened.producer_id, opened.producer_epoch
    return coordinators.id_without_transaction(number, epoch, name, rules.facts, resumes=rules.resumes)


def _staying_open(directory: str, name: PartitionName, opened: ProducerEntry, owner: str) -> LossConsequence:
    """Return the `transaction_stays_open` consequence of an open transaction. `owner` is the transactional id whose
    next commit ends it; empty if there is none.
    """
    first = opened.current_txn_first_offset
    if owner:
        what = (
            f"keep the producer of {owner} stopped: its next commit there commits the records of an open transaction "
            "that its coordinator has lost; after the start abort it with what `kafkalog transactions` prints, if it "
            "was not committed (runbook: lost-marker)"
        )
    else:
        from kafkalog.cluster.transactions.abort_command import abort_command_at  # most logs have nothing open

        what = (
            f"nothing ends the transaction of producer {opened.producer_id}; if it was not committed (runbook: "
            f"lost-marker), abort it after the start: {abort_command_at(name.topic, name.partition, first)}"
        )
    detail = f"read_committed consumers stop at offset {first} of {directory}: {what}"
    return LossConsequence(kind="transaction_stays_open", partition=directory, detail=detail)


def _way_out(stop: _Stop) -> str:
    """Return what ends a transaction without its marker, to follow the sentence about it; empty if it was aborted, for
    which `kafkalog transactions` prints the command.
    """
    if stop.is_committed is False:
        return ""
    way_out = f"; the next commit of {stop.transactional_id or 'its id'} there ends it, an abort hides its records"
    return f"{way_out if stop.is_committed else ''} (runbook: lost-marker)"


def held_back(
    before: Tree,
    after: Tree,
    results: Iterable[LoadedPartition],
    measured: Mapping[str, Measured],
    coordinators: Coordinators,
) -> dict[str, int]:
    """Return, by partition directory, the number of offsets that `read_committed` consumers do not get because they
    stop at a transaction whose end marker is lost. A transaction that a later marker ends (`later_marker`) does not
    count. Partitions in which they do not stop are omitted. The arguments are as in `consequences`; only live
    partitions in `measured` that do not become stray are examined. Raises `StorageError` if a file cannot be read.
    """
    counts = {}
    for result in results:
        counts_of_partition, name = measured.get(result.name), parse_partition_directory(result.name)
        if counts_of_partition is None or name is None:
            continue
        if name.state is not DirectoryState.LIVE or result.stray is not None:
            continue
        is_hurt = bool(counts_of_partition.lost or counts_of_partition.markers_out_of_reach)
        stops = [stop.offset for stop in _stops(before, after, result, coordinators, is_hurt=is_hurt)
                 if stop.later_state is None]  # fmt: skip
        if stops:
            counts[result.name] = max(result.log_end_offset - min(stops), 0)
    return counts


def _stops(
    before: Tree,
    after: Tree,
    result: LoadedPartition,
    coordinators: Coordinators,
    *,
    is_hurt: bool,
) -> Iterator[_Stop]:
    """Yield transactions that are open in the producer snapshot of `after` at the log end offset, although they have or
    may have ended. First those that their coordinator has or may have ended (`_decided`). Then, if the log loses
    something (`is_hurt`), each other one that begins below the last producer snapshot of `before` and is not open in
    it. Yields nothing if the snapshot at the log end offset is missing or cannot be parsed. Raises `StorageError` if a
    file cannot be read.
    """
    path = f"{result.name}/{segment_file(result.log_end_offset, FileKind.PRODUCER_SNAPSHOT)}"
    opened = _open_at_end(after, path)
    decided: set[int] = set()
    for stop in _decided(opened, result.name, coordinators, is_hurt=is_hurt):
        decided.add(stop.producer_id)
        yield stop
    snapshot = _last_snapshot(before, result.name) if opened and is_hurt else None
    if snapshot is None:
        return
    open_before = {(each.producer_id, each.current_txn_first_offset) for each in _open_at_end(before, snapshot.path)}
    for entry in opened:
        first = entry.current_txn_first_offset
        was_open = (entry.producer_id, first) in open_before or first >= snapshot.offset
        if not was_open and entry.producer_id not in decided:
            file = os.path.basename(snapshot.path)
            yield _Stop(offset=first, producer_id=entry.producer_id, ended=f"had ended by {file}, but its")


class _Snapshot(NamedTuple):
    offset: int
    path: str


def _last_snapshot(tree: Tree, directory: str) -> _Snapshot | None:
    """Return the producer snapshot of a partition directory with the highest offset, if it can be parsed; else None.
    Raises `StorageError` if a file cannot be read.
    """
    offset = max(snapshot_offsets(tree.names(directory)), default=None)
    if offset is None:
        return None
    path = f"{directory}/{segment_file(offset, FileKind.PRODUCER_SNAPSHOT)}"
    return _Snapshot(offset, path) if snapshot_entries(tree, path) is not None else None


def _decided(
    opened: Sequence[ProducerEntry], directory: str, coordinators: Coordinators, *, is_hurt: bool
) -> Iterator[_Stop]:
    """Yield each of the `opened` transactions that its coordinator has or may have committed or aborted. One that may
    be the coordinator's last one, which it will end, counts only if the log loses something (`is_hurt`). Yields nothing
    if the coordinators' transactions are unknown.
    """
    known = coordinators.transactions if opened else None
    if known is None:
        return
    endings = coordinators.endings(directory, {each.producer_id: each.current_txn_first_offset for each in opened})
    for entry in opened:
        hanging, decision = endings.get(entry.producer_id, (None, None))
        if decision is None or (decision.decided is None and hanging is None) or (decision.is_pending and not is_hurt):
            continue
        owner = known.by_producer.get(entry.producer_id)
        how = None if decision.decided is None else decision.decided.word
        yield _Stop(
            offset=entry.current_txn_first_offset,
            producer_id=entry.producer_id,
            whose="" if owner is None else f" ({owner.transactional_id})",
            transactional_id=None if owner is None else owner.transactional_id,
            ended=f"was {how}, but its" if how else "was committed or aborted, which nothing here tells, and its",
            is_committed=None if how is None else how == "committed",
            later_state=None if owner is None or hanging is not False else owner.status,
            forgotten_by=decision.source if decision.is_forgotten else "",
        )


def _open_at_end(after: Tree, path: str) -> Sequence[ProducerEntry]:
    """Return the producers with an open transaction according to the producer snapshot at `path`, in its order; empty
    if it is missing, too large or cannot be parsed. Raises `StorageError` if it cannot be read.
    """
    return [entry for entry in snapshot_entries(after, path) or () if entry.current_txn_first_offset >= 0]
