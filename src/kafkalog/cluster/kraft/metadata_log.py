"""Snapshots and log of `__cluster_metadata-0`, and the metadata image that results from them (`KafkaMetadataLog`,
`MetadataLoader`).

A snapshot has all metadata below its offset and numbers its own records from 0. Only a snapshot with a footer is
complete; the newest complete one is used. The end of the log may be uncommitted: the files of one node do not show
that.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from kafkalog.cluster.kraft.metadata_image import MetadataImage
from kafkalog.cluster.records.framed_records import FramedRecord, decode_control, decode_metadata
from kafkalog.codec.common.errors import FormatError, StorageError, UsageError
from kafkalog.codec.common.finding_codes import Trait, codes_with
from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.model import BatchHeader, ControlType, Record, RecordBatch
from kafkalog.codec.names import QUORUM_STATE, kraft_snapshot_file, parse_kraft_snapshot_file
from kafkalog.codec.plain.control import parse_control_key
from kafkalog.codec.plain.records import decode_batch
from kafkalog.log.directories.partition import Partition, open_segment
from kafkalog.log.disk.files import read_small
from kafkalog.log.reading.record_filter import RecordFilter
from kafkalog.log.walk.on_damage import SKIP, STOP
from kafkalog.log.walk.segment import Segment

__all__ = [
    "UNCOMMITTED_TAILS", "FromDisplaced", "MetadataEvent", "MetadataLog", "MetadataState", "QuorumTerm", "displaced_of",
]  # fmt: skip

UNCOMMITTED_TAILS = codes_with(Trait.TAIL)
"""Findings about an unfinished end of the log; nothing in it was committed."""
_ENDING = codes_with(Trait.NO_BATCH | Trait.ENDS_READING) - {FindingCode.OFFSET_DISPLACED}


class MetadataEvent(Struct, frozen=True):
    """A record of the log or of a snapshot."""

    offset: int
    timestamp: int
    epoch: int
    record: FramedRecord
    is_control: bool

    def says(self, kind: ControlType) -> dict[str, Any] | None:
        """Return the fields if this is a control record of type `kind`; None for any other record, and if it cannot be
        parsed.
        """
        decoded = self.record.decoded if self.is_control and self.record.type == kind else None
        return None if decoded is None else decoded.fields


class QuorumTerm(Struct, frozen=True, kw_only=True, tag_field="kind", tag="controller"):
    """One term of an active controller in a KRaft quorum."""

    leader: int
    """node id of the active controller; -1 if none"""
    epoch: int
    """epoch of the quorum"""
    from_offset: int
    """offset of the LeaderChange record that began the term, in the metadata log (inclusive)"""
    from_time: int
    """timestamp of the LeaderChange record that began the term, in ms since 1970"""
    to_offset: int | None = None
    """offset at which the next term begins, in the metadata log (exclusive end); null for the last term"""
    to_time: int | None = None
    """start of the next term, in ms since 1970; null for the last term"""
    voters: tuple[int, ...]
    """node ids of the quorum's voters"""
    granting_voters: tuple[int, ...]
    """node ids of the voters that voted for the active controller"""


class MetadataState(Struct, kw_only=True):
    """A metadata image, and the position in the log up to which it was read. `snapshot` is the path of the snapshot
    that was read first, None if there was none.
    """

    image: MetadataImage
    snapshot: str | None
    next_offset: int = 0
    epoch: int = -1
    timestamp: int = -1
    kraft_version: int = 0
    voters: list[dict[str, Any]] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    @property
    def damage(self) -> Finding | None:
        """The first error that may hide committed metadata; None if there is none.

        A torn or zeroed end does not count: a crash leaves it, and nothing in it was committed.
        """
        errors = (finding for finding in self.findings if finding.severity is Severity.ERROR)
        return next((finding for finding in errors if finding.code not in UNCOMMITTED_TAILS), None)


class MetadataLog:
    """The snapshots and the log of a metadata partition."""

    def __init__(self, partition: Partition, limits: Limits = DEFAULT_LIMITS) -> None:
        self.partition = partition
        self.limits = limits
        named = [(parse_kraft_snapshot_file(os.path.basename(path)), path) for path in partition.kraft_snapshots]
        self.snapshots = tuple(
            sorted(
                (name.end_offset, name.epoch, path)
                for name, path in named
                if name is not None and kraft_snapshot_file(name.end_offset, name.epoch) == os.path.basename(path)
            )
        )
        """(end offset, epoch, path) in ascending order"""

    def removed_topics(self) -> frozenset[str]:
        """Return the ids of the topics whose removal the log records before any damage. Raises `StorageError` if a file
        cannot be read.
        """
        decoded = [event.record.decoded for event in self.events([]) if event.record.name == "RemoveTopicRecord"]
        return frozenset(record.fields["topic_id"] for record in decoded if record is not None)

    def events(self, findings: list[Finding], start_offset: int | None = None) -> Iterator[MetadataEvent]:
        """Yield all records of the log from `start_offset` on, control records included. Reading stops at damage, and
        findings about it are then appended to `findings`; a batch with only a wrong base offset is read. Raises
        `StorageError` if a file cannot be read.
        """
        reader = self.partition.records(
            RecordFilter(start_offset=start_offset), include_control=True, on_damage=STOP, limits=self.limits
        )
        yield from _events(reader, findings)
        displaced = displaced_of(reader.findings)
        if displaced is not None:
            for event in _events(FromDisplaced(self.partition, displaced, self.limits), findings):
                if start_offset is None or event.offset >= start_offset:
                    yield event

    def snapshot_events(self, path: str, findings: list[Finding]) -> list[MetadataEvent]:
        """Return the records of the snapshot at `path` up to the first damage, control records included. Findings about
        damage are appended to `findings`. Raises `StorageError` if the file cannot be read.
        """
        return list(
            _events(open_segment(path).records(include_control=True, on_damage=STOP, limits=self.limits), findings)
        )

    def _newest_snapshot(
        self, until: int | None, findings: list[Finding]
    ) -> tuple[int, str, list[MetadataEvent]] | None:
        for end, _epoch, path in reversed(self.snapshots):
            if until is not None and end > until:
                continue
            snapshot_findings: list[Finding] = []
            events = self.snapshot_events(path, snapshot_findings)
            findings.extend(snapshot_findings)
            if events and events[-1].says(ControlType.SNAPSHOT_FOOTER) is not None:
                return end, path, events
            detail = "the snapshot has no footer: it is incomplete"
            findings.append(Finding.of(FindingCode.METADATA_GAP, None, None, detail, path))
        return None

    def state(self, until: int | None = None, *, use_snapshot: bool = True) -> MetadataState:
        """Read the metadata image of all records below offset `until`, or of the whole log if it is None. The newest
        complete snapshot in this range is read, and then the log after it. Without `use_snapshot`, only the log is
        read; the image is then complete only if nothing was ever deleted from the log.

        Reading stops at damage. Damage, missing offsets, records that cannot be decoded, incomplete snapshots and
        contradictions become findings of the result. Raises `StorageError` if files cannot be read.
        """
        findings: list[Finding] = []
        chosen = self._newest_snapshot(until, findings) if use_snapshot else None
        state = MetadataState(
            image=MetadataImage(), snapshot=chosen[1] if chosen is not None else None, findings=findings
        )
        if chosen is not None:
            for event in chosen[2]:
                _apply(state, event)
            state.next_offset = chosen[0]
        expected = state.next_offset
        for event in self.events(findings, expected):
            if event.offset < expected:
                continue
            if until is not None and event.offset >= until:
                break
            if event.offset > expected:
                findings.append(gap(expected, event.offset, self.partition.path))
            _apply(state, event)
            state.next_offset = expected = event.offset + 1
        for problem in state.image.problems:
            path = self.partition.path
            findings.append(Finding(FindingCode.METADATA_INCONSISTENT, Severity.ERROR, None, None, problem, path))
        return state

    def offset_at(self, time: int) -> int | None:
        """Return the offset of the first record in the log that is later than `time` (ms since 1970); None if there is
        none before the first damage. Raises `UsageError` if even the first record of the log is later and its offset is
        not 0, because earlier records are unknown. Raises `StorageError` if files cannot be read.
        """
        first = True
        for event in self.events([]):
            if event.timestamp > time:
                if first and event.offset > 0:
                    begins = f"the metadata log begins after that time, at {event.timestamp}"
                    raise UsageError(f"{self.partition.path}: {begins} (offset {event.offset})")
                return event.offset
            first = False
        return None

    def terms(self, findings: list[Finding]) -> list[QuorumTerm]:
        """Return the terms of all leaders whose `LeaderChange` record is still in the log, in offset order. `to_offset`
        and `to_time` of a term are offset and time of the next `LeaderChange` record, or None for the last term.
        Reading stops at damage, and findings about it are appended to `findings`. Raises `StorageError` if files cannot
        be read.
        """
        quorum_terms: list[QuorumTerm] = []
        for event in self.events(findings):
            fields = event.says(ControlType.LEADER_CHANGE)
            if fields is None:
                continue
            if quorum_terms:
                quorum_terms[-1] = replace(quorum_terms[-1], to_offset=event.offset, to_time=event.timestamp)
            voters, granting = (
                tuple(field["voter_id"] for field in fields[name]) for name in ("voters", "granting_voters")
            )
            leader = fields["leader_id"]
            quorum_terms.append(
                QuorumTerm(
                    leader=leader,
                    epoch=event.epoch,
                    from_offset=event.offset,
                    from_time=event.timestamp,
                    voters=voters,
                    granting_voters=granting,
                )
            )
        return quorum_terms

    def quorum_state(self, findings: list[Finding]) -> dict[str, Any] | None:
        """Read the file `quorum-state` as a dict of its JSON fields; None if it is missing. If it cannot be read, or is
        not a JSON object, append a warning to `findings` and return None.
        """
        path = os.path.join(self.partition.path, QUORUM_STATE)
        try:
            fields = json.loads(read_small(path, self.limits.checkpoint_bytes))
            if not isinstance(fields, dict):
                raise FormatError("it is not a JSON object")
        except FileNotFoundError:
            return None
        except (ValueError, RecursionError, FormatError, StorageError) as error:
            detail = f"quorum-state cannot be read: {error}"
            findings.append(Finding(FindingCode.CHECKPOINT_INVALID, Severity.WARNING, None, None, detail, path))
            return None
        return fields


def gap(expected: int, offset: int, path: str) -> Finding:
    """Finding that the offsets from `expected` up to, not including, `offset` are missing in a metadata log."""
    detail = f"offset {expected} is followed by {offset}: what lies between is lost"
    return Finding.of(FindingCode.METADATA_GAP, None, expected, detail, path)


def _events(reader: Any, findings: list[Finding]) -> Iterator[MetadataEvent]:
    for batch, records in reader.by_batch():
        header = batch.header
        for record in records:
            if header.is_control:
                try:
                    decoded = decode_control(parse_control_key(record.key).type, record.value)
                except FormatError as error:
                    bad = Finding.of(FindingCode.CONTROL_RECORD_INVALID, None, None, error.message)
                    decoded = FramedRecord(None, None, record.value, findings=(bad,))
            else:
                decoded = decode_metadata(record.value)
            file = reader.segment.path if reader.segment is not None else None
            findings.extend(
                replace(finding, file=file, offset=record.offset, position=batch.position)
                for finding in decoded.findings
            )
            yield MetadataEvent(
                record.offset, record.timestamp, header.partition_leader_epoch, decoded, header.is_control
            )
    findings.extend(reader.findings)


def _apply(state: MetadataState, event: MetadataEvent) -> None:
    state.epoch, state.timestamp = event.epoch, event.timestamp
    if not event.is_control:
        state.image.apply(event.record)
    elif (version := event.says(ControlType.KRAFT_VERSION)) is not None:
        state.kraft_version = version["k_raft_version"]
    elif (voters := event.says(ControlType.KRAFT_VOTERS)) is not None:
        state.voters = voters["voters"]


def displaced_of(findings: Sequence[Finding]) -> Finding | None:
    """First finding that a batch has a wrong base offset, and the only fault that ended a reading; else None."""
    if any(finding.code in _ENDING for finding in findings):
        return None
    displaced = FindingCode.OFFSET_DISPLACED
    return next((each for each in findings if each.code is displaced and each.severity is Severity.ERROR), None)


class FromDisplaced:
    """The batches from a displaced one on, up to other damage. Each displaced batch has the base offset that it should
    have. Kafka's readers take batches in the order of the file, so all records are read (`RecordsIterator`).
    """

    def __init__(self, partition: Partition, first: Finding, limits: Limits) -> None:
        self._reader = partition.batches(on_damage=SKIP, limits=limits)
        self._first = first
        self._limits = limits

    @property
    def segment(self) -> Segment | None:
        """The segment of the last batch."""
        return self._reader.segment

    @property
    def findings(self) -> list[Finding]:
        """Faults behind the first displaced batch, up to the one that ends the reading."""
        place = self._first.file, self._first.position
        behind = [each for each in self._reader.findings if (each.file, each.position) != place]
        end = next((number for number, each in enumerate(behind, 1) if each.code in _ENDING), len(behind))
        return behind[:end]

    def by_batch(self) -> Iterator[tuple[RecordBatch, Sequence[Record]]]:
        """Yield each batch with its records. Raises `StorageError` if a file cannot be read."""
        for batch in self:
            yield batch, decode_batch(batch, limits=self._limits).records

    def __iter__(self) -> Iterator[RecordBatch]:
        """Yield the batches. Raises `StorageError` if a file cannot be read."""
        place = self._first.file or "", self._first.position
        offsets: dict[tuple[str, int | None], int | None] = {}
        is_reached, judged = False, 0
        for batch in self._reader:
            findings = self._reader.findings[judged:]
            judged += len(findings)
            own = "" if self._reader.segment is None else self._reader.segment.path, batch.position
            is_reached = is_reached or own == place
            if any(each.code in _ENDING for each in findings):
                return
            for each in findings:
                if each.code is FindingCode.OFFSET_DISPLACED:
                    offsets.setdefault((each.file or "", each.position), each.offset)
            if not is_reached:
                continue
            offset = offsets.pop(own, None)
            if offset is not None and isinstance(batch.header, BatchHeader):
                yield RecordBatch(replace(batch.header, base_offset=offset), batch.position, batch.data)
            else:
                yield batch
