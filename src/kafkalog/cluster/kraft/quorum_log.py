"""One node's copy of the metadata log: its end, the voters, and the node's own vote."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from kafkalog.cluster.kraft.batch_columns import BatchColumns
from kafkalog.cluster.kraft.metadata_log import UNCOMMITTED_TAILS, FromDisplaced, displaced_of, gap
from kafkalog.cluster.kraft.quorum_snapshots import (
    LogEnd,
    MetadataSnapshot,
    control_records,
    latest,
    read_snapshots,
    why_impossible,
)
from kafkalog.cluster.kraft.started_over import FirstBatches, StartedOver, metadata_before
from kafkalog.cluster.records.framed_records import decode_metadata
from kafkalog.codec.common.errors import FormatError, KafkaLogError, StorageError, UsageError
from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.files.kraft import KRaftRecord, KRaftVersion, KRaftVoters, LeaderChange, VoterNode, kraft_record
from kafkalog.codec.files.quorum_state import QuorumState, decode_quorum_state
from kafkalog.codec.files.text import MetaProperties, decode_meta_properties, encode_uuid
from kafkalog.codec.model import BatchHeader, Record, RecordBatch
from kafkalog.codec.names import (
    CLUSTER_METADATA_DIRECTORY,
    CLUSTER_METADATA_TOPIC_ID,
    META_PROPERTIES,
    QUORUM_STATE,
    FileKind,
)
from kafkalog.codec.plain.records import decode_batch
from kafkalog.log.directories.identities import refused_id
from kafkalog.log.directories.partition import Partition, open_partition
from kafkalog.log.disk.files import PathLike, exists, read_small, scan_directory
from kafkalog.log.disk.pointer import findings_of_half_done
from kafkalog.log.walk.batches import BatchReader
from kafkalog.log.walk.behind_damage import tell_what_is_behind
from kafkalog.log.walk.on_damage import STOP

__all__ = ["MetadataSnapshot", "QuorumLog", "Term", "read_quorum_log", "root_of_metadata"]

_NO_DAMAGE = {*UNCOMMITTED_TAILS, FindingCode.IDENTITY_MISMATCH}
_FEW = 3
_WANTED = "a controller's or broker's log directory (metadata.log.dir, or else the first of log.dirs)"


class Term(Struct, frozen=True, kw_only=True):
    """The time during which one node led the quorum, as far as its record is still in the log."""

    leader: int
    epoch: int
    from_offset: int
    voters: tuple[int, ...]
    granting: tuple[int, ...]


@dataclass(slots=True)
class QuorumLog:
    """Contents of one node's metadata log, snapshots, `quorum-state` and `meta.properties`."""

    root: str
    """the log directory"""
    directory: str
    """path of its `__cluster_metadata-0`"""
    cluster_id: str | None
    node: int | None
    directory_id: str | None
    state: QuorumState | None
    snapshots: tuple[MetadataSnapshot, ...] = ()
    """in the order of a start: by epoch, then by end offset"""
    start: int = 0
    end: int = 0
    """log end offset, before the first damage"""
    epoch: int = -1
    """leader epoch of the last batch, or of the snapshot that the log begins with"""
    last_time: int = -1
    kraft_version: int = 0
    voters: tuple[VoterNode, ...] = ()
    """voters in force; empty with static voters"""
    voters_offset: int | None = None
    """offset of the record with the voters; None if they are in a snapshot"""
    known: dict[tuple[int, bytes], VoterNode] = field(default_factory=dict)
    """every voter of every voter set, by id and directory id, as last named"""
    terms: list[Term] = field(default_factory=list)
    batches: BatchColumns = field(default_factory=BatchColumns, repr=False)
    findings: list[Finding] = field(default_factory=list)
    records_behind_damage: int = 0
    """records of sound batches after the first damage; a start truncates them"""
    hole: tuple[int, int] | None = None
    """first offset that is missing in log and snapshots, and the next one that exists: the log ends before the gap;
    None without a gap
    """
    log_end: tuple[int, int] = (-1, 0)
    """epoch and end offset of the log without the snapshots"""
    drops_log: bool = False
    """a start deletes the log, because the newest snapshot ends after it"""
    first_batches: FirstBatches = field(default_factory=FirstBatches, repr=False, compare=False)
    known_as: int | None = None
    """node id that the voter set has for this directory, if `meta.properties` has another; else None"""
    refusal: str | None = None
    """reason why no node would start on it, whatever the other voters have; None if there is none"""
    started_over: StartedOver | None = None
    """place at which a controller took the metadata for empty and began it again; None if that did not happen"""

    @property
    def newest_snapshot(self) -> MetadataSnapshot | None:
        """The snapshot that replaces the beginning of the log; None if there is none."""
        return latest(snapshot for snapshot in self.snapshots if snapshot.counts)

    @property
    def is_static(self) -> bool:
        """Whether the voters come from the configuration (`controller.quorum.voters`)."""
        return self.kraft_version == 0

    @property
    def static_voters(self) -> tuple[int, ...]:
        """Sorted ids of the static voters, from `quorum-state`, or if that has none, from the last election in the log.

        Empty if the voters are dynamic or unknown. The node's configuration may list other voters.
        """
        if not self.is_static:
            return ()
        if self.state is not None and self.state.current_voters:
            return tuple(sorted(self.state.current_voters))
        return tuple(sorted(self.terms[-1].voters)) if self.terms else ()

    @property
    def voter_ids(self) -> tuple[int, ...]:
        """Ids of the voters in force."""
        return self.static_voters if self.is_static else tuple(voter.voter_id for voter in self.voters)

    @property
    def is_damaged(self) -> bool:
        """Whether there is damage other than a torn end."""
        return any(finding.severity is Severity.ERROR and finding.code not in _NO_DAMAGE for finding in self.findings)

    @property
    def ends_in_damage(self) -> bool:
        """Return whether a segment of the log is damaged and no valid record follows. Neither a torn end nor a wrong
        base offset counts as damage.
        """
        is_hurt = any(
            finding.severity is Severity.ERROR and finding.code not in {*_NO_DAMAGE, FindingCode.OFFSET_DISPLACED}
            and (finding.file or "").endswith(FileKind.LOG.value)
            for finding in self.findings
        )  # fmt: skip
        return is_hurt and not self.records_behind_damage

    @property
    def is_displaced(self) -> bool:
        """Whether a batch of the log has a wrong base offset; its records are read."""
        return any(
            finding.code is FindingCode.OFFSET_DISPLACED and finding.severity is Severity.ERROR
            for finding in self.findings
        )

    @property
    def why_empty(self) -> str:
        """Clause that says why the log ends at offset 0: it has no record, or damage at its beginning."""
        if self.is_damaged or self.is_torn:
            return "its metadata log is damaged at its beginning, so that none of its records can be used"
        return "its metadata log holds no record"

    @property
    def is_torn(self) -> bool:
        """Whether the log ends in bytes that a start truncates (a torn or zeroed end)."""
        return any(finding.code in UNCOMMITTED_TAILS for finding in self.findings)

    @property
    def is_voter(self) -> bool:
        """Whether the node is one of the voters in force; dynamic voters are compared by directory id too."""
        if self.is_static:
            return self.node in self.static_voters
        ids = {(voter.voter_id, encode_uuid(voter.directory_id)) for voter in self.voters}
        return (self.node, self.directory_id) in ids

    @property
    def finding_of_starting_over(self) -> Finding | None:
        """Finding that a controller took the metadata for empty and began it again, which is not damage; None if that
        did not happen.
        """
        if self.started_over is None:
            return None
        code = FindingCode.METADATA_INCONSISTENT
        return Finding(code, Severity.ERROR, None, None, str(self.started_over), self.directory)

    @property
    def latest_epoch(self) -> int:
        """Latest epoch that the node knows: the epoch at the log's end, or a later one in `quorum-state`."""
        return max(self.epoch, -1 if self.state is None else self.state.leader_epoch)

    @property
    def elected_epoch(self) -> int:
        """Latest epoch in which the node had records, knew a leader, or voted. A `quorum-state` without leader and
        vote, as a recovery of the quorum writes it, does not count.
        """
        state = self.state
        has_taken_part = state is not None and (state.leader_id >= 0 or state.voted_id >= 0)
        return self.latest_epoch if has_taken_part else self.epoch

    @property
    def position(self) -> tuple[int, int]:
        """Epoch and end offset, which an election compares (`OffsetAndEpoch`)."""
        return self.epoch, self.end

    @property
    def committed_at_least(self) -> int:
        """Largest end offset of a valid snapshot, because snapshots hold only committed records; 0 without one."""
        return max((snapshot.end for snapshot in self.snapshots if snapshot.counts), default=0)

    def records_between(self, start: int, end: int, limits: Limits = DEFAULT_LIMITS) -> Counter[str]:
        """Count the records at offsets from `start` up to, not including, `end`, by the name of their type.

        Control records are counted by the name of their class. Records that cannot be decoded or have an unknown type
        are counted as `UNKNOWN`. Reads from disk and stops at the first damage other than a wrong base offset. Raises
        `StorageError` if files cannot be read.
        """
        counts: Counter[str] = Counter()
        partition = open_partition(self.directory, limits=limits)
        reader = partition.batches(start_offset=start, on_damage=STOP, limits=limits)
        for batch in _past_displaced(reader, partition, [], limits):
            for record in decode_batch(batch, limits=limits).records:
                if record.offset >= end:
                    return counts
                if record.offset < start:
                    continue
                if isinstance(batch.header, BatchHeader) and batch.header.is_control:
                    value = _control(record)
                    counts["UNKNOWN" if value is None else type(value).__name__] += 1
                else:
                    counts[decode_metadata(record.value).name] += 1
        return counts


def root_of_metadata(path: PathLike) -> tuple[str, str]:
    """Return (log directory, its `__cluster_metadata-0`), both as real paths; `path` may be either of them.

    Raises `UsageError` if the path is empty, has a NUL character, does not exist or is not a directory. If `path` is
    the log directory, it is raised too if the metadata directory is missing, is a symbolic link or is not a directory.
    A link that is passed itself is followed. Raises `StorageError` if a path cannot be examined or listed.
    """
    path_text = os.fspath(path)
    if not path_text:
        raise UsageError("an empty path names no log directory")
    if "\0" in path_text:
        raise UsageError("a path cannot hold a NUL")
    if not exists(path_text):
        raise UsageError(f"{path_text} does not exist")
    real = os.path.realpath(path_text)
    if not os.path.isdir(real):
        raise UsageError(f"{path_text} is not a directory: give {_WANTED}")
    if os.path.basename(real) == CLUSTER_METADATA_DIRECTORY:
        return os.path.dirname(real), real
    inside = os.path.join(real, CLUSTER_METADATA_DIRECTORY)
    if os.path.islink(inside):
        raise UsageError(
            f"{inside} is a symbolic link, which a recovery never follows: put a directory in its place, with what is "
            f"in {os.path.realpath(inside)}"
        )
    if exists(inside):
        if os.path.isdir(inside):
            return real, inside
        raise UsageError(f"{inside} is not a directory: it holds no metadata log")
    inner = _log_dirs_in(real)
    hint = f"; of what is in it, {', '.join(inner)} {'hold' if len(inner) > 1 else 'holds'} one" if inner else ""
    raise UsageError(f"{path_text} holds no {CLUSTER_METADATA_DIRECTORY}: give {_WANTED}{hint}")


def _log_dirs_in(path: str) -> list[str]:
    """Return the names of subdirectories of `path` that contain a `__cluster_metadata-0`: the first three, sorted.
    Raises `StorageError` if `path` cannot be listed.
    """
    names = (
        entry.name
        for entry in sorted(scan_directory(path), key=lambda each: each.name)
        if os.path.isdir(os.path.join(entry.path, CLUSTER_METADATA_DIRECTORY))
    )
    return list(islice(names, _FEW))


def read_quorum_log(path: PathLike, limits: Limits = DEFAULT_LIMITS) -> QuorumLog:
    """Read one node's metadata log, snapshots, `quorum-state` and `meta.properties`. Damage becomes findings of the
    result.

    `refusal` of the result says why no node would start on the files. `path` is a log directory or its metadata
    directory. Raises `UsageError` if it has no metadata log, or if the partition of that name is another topic's;
    `StorageError` for I/O errors.
    """
    root, directory = root_of_metadata(path)
    findings = findings_of_half_done(root)
    meta = _meta_properties(root, limits, findings)
    quorum_log = QuorumLog(
        root,
        directory,
        None if meta is None else meta.cluster_id,
        None if meta is None else meta.node_id,
        None if meta is None else meta.directory_id,
        _quorum_state(directory, limits, findings),
        findings=findings,
    )
    partition = open_partition(directory, limits=limits)
    _refuse_other_topic(partition)
    quorum_log.snapshots = read_snapshots(partition, limits, findings)
    _read_log(quorum_log, partition, limits)
    _judge_identity(quorum_log)
    _judge(quorum_log)
    whole = [snapshot for snapshot in quorum_log.snapshots if snapshot.counts]
    quorum_log.started_over = metadata_before(partition, quorum_log.first_batches.found, whole)
    return quorum_log


def _meta_properties(root: str, limits: Limits, findings: list[Finding]) -> MetaProperties | None:
    path = os.path.join(root, META_PROPERTIES)
    try:
        properties = decode_meta_properties(read_small(path, limits.checkpoint_bytes))
        refused = None if properties.directory_id is None else refused_id(properties, root, has_topic_ids=False)
        if refused is None:
            return properties
        findings.append(Finding.of(FindingCode.META_PROPERTIES_INVALID, None, None, refused.detail, path))
        return replace(properties, directory_id=None)  # whose it is and of which cluster can still be true
    except FileNotFoundError:
        detail = "there is none: no controller starts without it"
    except StorageError:
        raise
    except KafkaLogError as error:
        detail = str(error)
    findings.append(Finding.of(FindingCode.META_PROPERTIES_INVALID, None, None, detail, path))
    return None


def _quorum_state(directory: str, limits: Limits, findings: list[Finding]) -> QuorumState | None:
    path = os.path.join(directory, QUORUM_STATE)
    try:
        return decode_quorum_state(read_small(path, limits.checkpoint_bytes))
    except FileNotFoundError:
        return None
    except FormatError as error:
        detail = f"{error.message}: no node starts with it, and elections that only it knows of are not known"
        findings.append(Finding(FindingCode.CHECKPOINT_INVALID, Severity.WARNING, None, None, detail, path))
        return None


def _control(record: Record) -> KRaftRecord | None:
    try:
        return kraft_record(record)
    except FormatError:
        return None


def _read_log(quorum_log: QuorumLog, partition: Partition, limits: Limits) -> None:
    """Read the log on top of the newest snapshot that fits it, and set the fields of `quorum_log`. Whether a snapshot
    fits is only known after reading. Snapshots that do not fit become findings, and the log is then read again without
    them.

    If the log has no gap and ends before the newest fitting snapshot, its batches are dropped from `quorum_log`,
    because a start would delete them. Raises `UsageError` if the first records are not metadata, `StorageError` if a
    file cannot be read.
    """
    before = list(quorum_log.findings)
    while True:
        quorum_log.findings = list(before)
        _walk(quorum_log, partition, limits)
        log = LogEnd(
            start=quorum_log.start,
            end=quorum_log.log_end[1] if quorum_log.hole is None else quorum_log.hole[1],
            epoch=quorum_log.log_end[0],
            last_time=quorum_log.last_time,
            bases=quorum_log.batches.base,
            ends=quorum_log.batches.end,
            epochs=quorum_log.batches.epoch,
            latest_election=None if quorum_log.state is None else quorum_log.state.leader_epoch,
        )
        judged = tuple(
            snapshot if snapshot.problem else replace(snapshot, problem=why_impossible(snapshot, log))
            for snapshot in quorum_log.snapshots
        )
        if judged == quorum_log.snapshots:
            break
        quorum_log.snapshots = judged
    newest, believed = quorum_log.newest_snapshot, latest(quorum_log.snapshots)
    for unfit in quorum_log.snapshots:
        if unfit.problem is not None:
            detail = f"this cannot be a snapshot of the log beside it: {unfit.problem}"
            severity = Severity.WARNING
            if unfit is believed:
                detail, severity = f"{detail}; a start would believe it all the same", Severity.ERROR
            path = os.path.join(quorum_log.directory, unfit.file)
            quorum_log.findings.append(Finding(FindingCode.METADATA_INCONSISTENT, severity, None, None, detail, path))
    if newest is not None and newest.position > quorum_log.log_end and quorum_log.hole is None:
        _drop_log(quorum_log, newest)


def _drop_log(quorum_log: QuorumLog, newest: MetadataSnapshot) -> None:
    """Set the fields of `quorum_log` so that the log begins and ends at the snapshot `newest` and has its voters. A
    start leaves this, because it deletes a log that ends before its newest snapshot (the caller has checked that). If
    the log had batches, also set `drops_log` and add a finding. No file is changed.
    """
    if len(quorum_log.batches):
        epoch, end = quorum_log.log_end
        quorum_log.drops_log = True
        detail = (
            f"the snapshot goes on to offset {newest.end} of epoch {newest.epoch}, and the log ends at offset {end} of "
            f"epoch {epoch}: a start deletes the log and begins a new one after the snapshot"
        )
        path = os.path.join(quorum_log.directory, newest.file)
        quorum_log.findings.append(Finding.of(FindingCode.METADATA_INCONSISTENT, None, None, detail, path))
    quorum_log.batches, quorum_log.terms, quorum_log.hole = BatchColumns(), [], None
    quorum_log.start = quorum_log.end = newest.end
    quorum_log.epoch, quorum_log.last_time = newest.epoch, newest.last_time
    quorum_log.kraft_version, quorum_log.voters, quorum_log.voters_offset = (
        newest.kraft_version or 0,
        newest.voters or (),
        None,
    )


def _walk(quorum_log: QuorumLog, partition: Partition, limits: Limits) -> None:
    """Read the batches and set the fields of `quorum_log` from them. The state begins with the newest valid snapshot.
    Batches of old formats are skipped. Reading stops at the first damage or gap, which is added to
    `quorum_log.findings`; a wrong base offset alone does not stop it. Records behind damage are counted. A log that
    begins above the snapshot's end is not searched for gaps. Raises `UsageError` if the first records are not metadata,
    `StorageError` if a file cannot be read.
    """
    newest = quorum_log.newest_snapshot
    quorum_log.batches, quorum_log.terms, quorum_log.known, quorum_log.hole = BatchColumns(), [], {}, None
    quorum_log.first_batches = FirstBatches()
    quorum_log.voters_offset, quorum_log.last_time, quorum_log.records_behind_damage = None, -1, 0
    quorum_log.kraft_version, quorum_log.voters, quorum_log.epoch, quorum_log.end = 0, (), -1, 0
    for snapshot in quorum_log.snapshots:
        if snapshot.problem is None:
            _note_voters(quorum_log, snapshot.voters or ())
    if newest is not None:
        quorum_log.kraft_version = newest.kraft_version or 0
        quorum_log.voters = newest.voters or ()
        quorum_log.epoch, quorum_log.end = newest.epoch, newest.end
    quorum_log.start = partition.log_start_offset
    in_snapshot = 0 if newest is None else newest.end
    reader = partition.batches(on_damage=STOP, limits=limits)
    faults: list[Finding] = []
    is_known = False
    for batch in _past_displaced(reader, partition, faults, limits):
        if not isinstance(batch.header, BatchHeader):
            continue
        if not is_known:
            is_known = _is_of_metadata(batch, partition, limits)
        expected = max(quorum_log.end, in_snapshot)
        if quorum_log.start <= in_snapshot and batch.header.base_offset > expected:
            quorum_log.hole = expected, batch.header.base_offset
            quorum_log.findings.append(gap(expected, batch.header.base_offset, partition.path))
            break
        quorum_log.batches.add(batch.header)
        quorum_log.epoch, quorum_log.last_time = batch.header.partition_leader_epoch, batch.header.max_timestamp
        quorum_log.end = batch.header.next_offset
        controls = list(control_records(batch, limits))
        for offset, value in controls:
            _note_control(quorum_log, offset, batch.header, value, in_snapshot)
        is_change = any(isinstance(value, LeaderChange) for _offset, value in controls)
        quorum_log.first_batches.note(batch, is_change_of_leader=is_change, limits=limits)
    quorum_log.log_end = (quorum_log.epoch, quorum_log.end) if len(quorum_log.batches) else (0, quorum_log.start)
    quorum_log.end = max(quorum_log.end, in_snapshot)
    findings = [*reader.findings, *faults]
    behind = tell_what_is_behind(findings, partition.segments, limits=limits, more=": a start would cut it off")
    if behind is not None:
        quorum_log.records_behind_damage = behind.records
    quorum_log.findings += [*partition.findings, *findings]


def _past_displaced(
    reader: BatchReader, partition: Partition, findings: list[Finding], limits: Limits
) -> Iterator[RecordBatch]:
    """Yield the batches of `reader`. If a wrong base offset ended it, also yield the batches from there up to other
    damage, with the base offsets that they should have. Later faults are appended to `findings`. Raises `StorageError`
    if a file cannot be read.
    """
    yield from reader
    displaced = displaced_of(reader.findings)
    if displaced is not None:
        rest = FromDisplaced(partition, displaced, limits)
        yield from rest
        findings += rest.findings


def _is_of_metadata(batch: RecordBatch, partition: Partition, limits: Limits) -> bool:
    """Return whether a batch has metadata records; False for control batches, batches of old formats and batches
    without a record that can be decoded. Raises `UsageError` if the batch cannot be of the metadata topic. This is so
    if it has a producer id (also a control batch), or if a record has a key. It is also so if the batch has records and
    none of them has a framed value.
    """
    header = batch.header
    if not isinstance(header, BatchHeader):
        return False
    records = [] if header.is_control else decode_batch(batch, limits=limits).records
    is_foreign = header.producer_id >= 0 or any(record.key is not None for record in records)
    frames = [decode_metadata(record.value).type for record in records]
    if is_foreign or (frames and all(frame is None for frame in frames)):
        raise UsageError(
            f"{partition.path} holds other records than those of the cluster's metadata at offset "
            f"{header.base_offset}: it is another partition under that name"
        )
    return bool(frames)


def _refuse_other_topic(partition: Partition) -> None:
    """Raise `UsageError` if `partition.metadata` has another topic id than the metadata topic.

    A start compares them too (`UnifiedLog`, `InconsistentTopicIdException`). A missing or malformed file is
    accepted here.
    """
    if partition.metadata is not None and partition.metadata.topic_id != CLUSTER_METADATA_TOPIC_ID:
        raise UsageError(
            f"{partition.path} is a partition of another topic under that name: its partition.metadata has topic id "
            f"{partition.metadata.topic_id}, and the cluster's metadata has {CLUSTER_METADATA_TOPIC_ID}"
        )


def _note_control(
    quorum_log: QuorumLog, offset: int, header: BatchHeader, value: KRaftRecord, in_snapshot: int
) -> None:
    match value:
        case LeaderChange():
            voters = tuple(voter.voter_id for voter in value.voters)
            granting = tuple(granting_voter.voter_id for granting_voter in value.granting_voters)
            quorum_log.terms.append(
                Term(
                    leader=value.leader_id,
                    epoch=header.partition_leader_epoch,
                    from_offset=offset,
                    voters=voters,
                    granting=granting,
                )
            )
        case KRaftVersion() if offset >= in_snapshot:
            quorum_log.kraft_version = value.kraft_version
        case KRaftVoters():
            _note_voters(quorum_log, value.voters)
            if offset >= in_snapshot:
                quorum_log.voters, quorum_log.voters_offset = value.voters, offset


def _note_voters(quorum_log: QuorumLog, voters: tuple[VoterNode, ...]) -> None:
    for voter in voters:
        quorum_log.known[voter.voter_id, voter.directory_id] = voter


def _judge_identity(log: QuorumLog) -> None:
    """Add a finding if node id and directory id of `meta.properties` contradict the voter set (`VoterSet.isVoter`). If
    the voter set has another node id for this directory, set `log.known_as` to that id. Does nothing if the voters are
    static or the directory id is unknown.
    """
    if log.is_static or log.directory_id is None:
        return
    path = os.path.join(log.root, META_PROPERTIES)
    here = [voter for voter in log.voters if encode_uuid(voter.directory_id) == log.directory_id]
    others = [encode_uuid(voter.directory_id) for voter in log.voters if voter.voter_id == log.node]
    if here and here[0].voter_id != log.node:
        log.known_as = here[0].voter_id
        detail = (
            f"node.id is {log.node}, and the voter set knows this directory, by its directory.id, as node "
            f"{log.known_as}: one of the two ids is wrong"
        )
    elif others and not here:
        detail = (
            f"directory.id is {log.directory_id}, and the voter set has node {log.node} with {others[0]}: as it "
            f"is, this node does not vote; if the disk is that voter's own, put directory.id={others[0]} back"
        )
    else:
        return
    log.findings.append(Finding.of(FindingCode.IDENTITY_MISMATCH, None, None, detail, path))


def _judge(log: QuorumLog) -> None:
    """Set `log.refusal` if no node would start on the copy (`KafkaRaftLog.recoverSnapshots`, `UnifiedLog`); otherwise
    it is unchanged.

    The first of these reasons that applies counts: offsets are missing; the newest snapshot is damaged or does not fit
    the log; records before the log's beginning are in no snapshot; there are no records. If there is no error among the
    findings, the refusal is added as one.
    """
    believed = latest(log.snapshots)
    if log.hole is not None:
        first, next_offset = log.hole
        log.refusal = (
            f"offsets {first} to {next_offset - 1} are missing inside its metadata log, so that what comes after them "
            "means nothing certain: use another copy"
        )
    elif believed is not None and not believed.is_whole:
        log.refusal = f"its newest snapshot {believed.file} is damaged, and a controller stops when it reads that"
        if believed.position > log.log_end:
            log.refusal += ", after it has deleted the log, which ends before it"
    elif believed is not None and believed.problem is not None:
        log.refusal = f"its newest snapshot {believed.file} cannot be of this log, and a start would believe it"
        if believed.position > log.log_end:
            log.refusal += " and delete the log, which ends before it"
    elif log.start > max((snapshot.end for snapshot in log.snapshots), default=0):
        log.refusal = (
            f"its log begins at offset {log.start} and no snapshot reaches there: what came before is lost, and a "
            "controller does not start"
        )
    elif log.end == 0:
        log.refusal = log.why_empty
    if log.refusal is not None and not any(finding.severity is Severity.ERROR for finding in log.findings):
        log.findings.append(Finding.of(FindingCode.METADATA_GAP, None, None, log.refusal, log.directory))
