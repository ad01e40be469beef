"""JSON lines of `kafkalog quorum show`."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, field

from kafkalog.cluster.kraft.quorum import KnownVoter, Quorum, QuorumSurvivor
from kafkalog.codec.common.findings import FindingJson
from kafkalog.codec.common.shapes import shaped
from kafkalog.codec.files.kraft import VoterNode
from kafkalog.codec.files.text import encode_uuid

__all__ = ["LeftOutLine", "Line", "quorum_lines"]


class EndpointLine(Struct, frozen=True, kw_only=True):
    """Listener of a KRaft voter."""

    name: str
    """name of the listener"""
    host: str
    """host name or address of the listener"""
    port: int
    """port of the listener"""


class VoterLine(Struct, frozen=True, kw_only=True):
    """Voter in the voter set of a metadata log (dynamic quorum)."""

    node: int
    """node id of the voter"""
    directory_id: str
    """directory id of the voter's metadata log directory"""
    endpoints: list[EndpointLine]
    """listeners of the voter"""


class KnownVoterLine(Struct, frozen=True, kw_only=True):
    """Voter that is named in at least one of the examined copies."""

    node: int
    """node id of the voter"""
    directory_id: str | None
    """directory id of the voter's metadata log directory; null with static voters"""
    endpoints: list[EndpointLine]
    """listeners of the voter; empty with static voters"""
    in_force: bool
    """whether the voter is in the voter set of the best copy"""
    given: bool
    """whether the voter's own copy of the metadata log is among the examined ones"""


class QuorumStateLine(Struct, frozen=True, kw_only=True):
    """Election state of a node, from its `quorum-state` file."""

    leader: int
    """node id of the leader that the node follows; -1 if it follows none"""
    epoch: int
    """latest leader epoch that the node knows"""
    voted: int
    """node id of the candidate that the node voted for in this epoch; -1 if it has not voted"""
    voted_directory_id: str
    """directory id of the candidate that the node voted for; `AAAAAAAAAAAAAAAAAAAAAA` if none is recorded"""


class SnapshotLine(Struct, frozen=True, kw_only=True):
    """Snapshot of the cluster's metadata (`.checkpoint` file)."""

    file: str
    """file name of the snapshot"""
    end: int
    """end offset of the snapshot (exclusive): it replaces all log records below this offset"""
    epoch: int
    """leader epoch of the last record in the snapshot, from its file name"""
    whole: bool
    """whether the snapshot is complete and undamaged; if false, a node that reads it does not start"""


class SurvivorLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="survivor"):
    """One copy of the cluster's metadata log, compared with the best copy; the best copy comes first."""

    rank: int
    """position in the order in which an election prefers the copies; 1 for the best copy"""
    node: int | None
    """node id from `meta.properties`; null if it is missing or unreadable"""
    epoch: int
    """leader epoch of the last record in the log or in the newest snapshot; -1 if there is none"""
    end: int
    """log end offset: offset of the next record; if the log has damage or a gap, the offset at which the first one
    begins
    """
    path: str
    """path of the log directory that holds the copy"""
    cluster_id: str | None
    """cluster id from `meta.properties`; null if it is missing or unreadable"""
    directory_id: str | None
    """directory id from `meta.properties`; null if it is missing, unreadable or invalid"""
    voter: bool
    """whether the copy's node is in the copy's own current voter set; false for brokers"""
    kraft_version: int
    """`kraft.version` of the copy: 0 with static voters, 1 with dynamic voters"""
    static_voters: tuple[int, ...]
    """node ids of the static voters that the node last knew; empty with dynamic voters or if unknown"""
    voters: list[VoterLine]
    """current voter set, from the end of the log or else from the newest snapshot; empty with static voters"""
    start: int
    """log start offset: first offset of the log"""
    last_time: int
    """largest timestamp of the log's last batch, in ms since 1970, or timestamp of the newest snapshot's last record if
    the log ends before that snapshot; -1 if unknown
    """
    committed_at_least: int
    """offset below which all records are known to be committed, because a snapshot includes them; 0 without a valid
    snapshot; later records may be committed too
    """
    state: QuorumStateLine | None
    """contents of the node's `quorum-state` file; null if it is missing or unreadable"""
    snapshots: list[SnapshotLine]
    """snapshots in the order of their epochs, then of their end offsets; without snapshots that end before the log
    starts
    """
    torn: bool
    """whether the log ends in an incomplete write that the node truncates when it starts"""
    damaged: bool
    """whether the log or a snapshot has an error other than a torn end or an identity mismatch"""
    records_behind_damage: int
    """number of records in undamaged batches after the first damage; the node truncates them when it starts"""
    refusal: str | None
    """reason why no node can start on this copy; null if a node can"""
    common_end: int | None
    """first offset that differs from the best copy, or at which the shorter of the two logs ends; null if the logs do
    not overlap
    """
    lacks: dict[str, int] | None
    """number of records that only the best copy has, from `common_end` on, by record type; empty if none; null if
    unknown
    """
    has_more: dict[str, int]
    """number of records that only this copy has, from `common_end` on, by record type; the node truncates them when it
    follows the best copy; empty if none or if unknown
    """
    only_no_ops: bool | None
    """whether the records that only the best copy has are all no-op and leader-change records, or none; null if unknown
    """
    findings: list[FindingJson]
    """problems found in this copy"""


class QuorumLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="quorum"):
    """Summary of all examined copies of one cluster's metadata log."""

    cluster_id: str | None
    """cluster id from the best copy's `meta.properties`; null if unknown"""
    static: bool
    """whether the voters are static (`controller.quorum.voters`)"""
    best: str
    """path of the log directory with the best copy, which wins an election: highest last leader epoch, then largest log
    end offset
    """
    epoch: int
    """leader epoch of the best copy's last record; -1 if it has none"""
    end: int
    """log end offset of the best copy: offset of the next record"""
    voters: list[KnownVoterLine]
    """all voters that any examined copy names; first the voters in the best copy's voter set"""
    missing: list[int]
    """node ids of known voters whose copies are not among the examined ones"""
    majority: int
    """number of voters in the best copy's voter set that an election needs"""
    has_majority: bool
    """whether the voters with an undamaged copy among the examined ones are a majority of the best copy's voter set;
    false if two copies contradict each other
    """
    committed_at_least: int
    """offset below which all metadata records are known to be committed, because a snapshot includes them; 0 without a
    valid snapshot; later records may be committed too
    """
    later_epoch: int | None
    """latest leader epoch in any examined log or `quorum-state` file, if it is later than the best copy's last record;
    else null
    """
    loss: str
    """description of the committed metadata that may be missing from the best copy, as one sentence"""


class LeftOutLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="left_out"):
    """Path that could not be compared."""

    path: str
    """path as on the command line"""
    why: str
    """reason why the path could not be compared, as a sentence"""
    is_unreadable: bool = field(name="unreadable")
    """whether the path could not be read from disk (for example I/O error or missing permission); false if it has no
    usable metadata log
    """


Line = SurvivorLine | QuorumLine | LeftOutLine
"""For each cluster one line per copy, best copy first, then one summary line; at the end one line per path that could
not be compared.
"""


def _known_voter(voter: KnownVoter) -> KnownVoterLine:
    return KnownVoterLine(
        node=voter.node,
        directory_id=voter.directory_id,
        endpoints=[EndpointLine(name=name, host=host, port=port) for name, host, port in voter.endpoints],
        in_force=voter.is_in_force,
        given=voter.is_given,
    )


def _voter(voter: VoterNode) -> VoterLine:
    return VoterLine(
        node=voter.voter_id,
        directory_id=encode_uuid(voter.directory_id),
        endpoints=[EndpointLine(name=each.name, host=each.host, port=each.port) for each in voter.endpoints],
    )


def _survivor(survivor: QuorumSurvivor, rank: int) -> SurvivorLine:
    log, state = survivor.log, survivor.log.state
    started_over = log.finding_of_starting_over
    findings = log.findings if started_over is None else [*log.findings, started_over]
    return SurvivorLine(
        rank=rank,
        node=log.node,
        epoch=log.epoch,
        end=log.end,
        path=log.root,
        cluster_id=log.cluster_id,
        directory_id=log.directory_id,
        voter=log.is_voter,
        kraft_version=log.kraft_version,
        static_voters=log.static_voters,
        voters=list(map(_voter, log.voters)),
        start=log.start,
        last_time=log.last_time,
        committed_at_least=min(log.committed_at_least, log.end),
        state=None
        if state is None
        else QuorumStateLine(
            leader=state.leader_id,
            epoch=state.leader_epoch,
            voted=state.voted_id,
            voted_directory_id=state.voted_directory_id,
        ),
        snapshots=[
            SnapshotLine(file=snapshot.file, end=snapshot.end, epoch=snapshot.epoch, whole=snapshot.is_whole)
            for snapshot in log.snapshots
        ],
        torn=log.is_torn,
        damaged=log.is_damaged,
        records_behind_damage=log.records_behind_damage,
        refusal=log.refusal,
        common_end=survivor.common_end,
        lacks=None if survivor.lacks is None else dict(survivor.lacks),
        has_more=dict(survivor.has_more),
        only_no_ops=survivor.only_no_ops,
        findings=shaped(findings, list[FindingJson]),
    )


def quorum_lines(quorum: Quorum) -> Iterator[SurvivorLine | QuorumLine]:
    """Yield the `--json` lines of a quorum: one per copy, best copy first, then the summary."""
    for rank, survivor in enumerate(quorum.survivors, 1):
        yield _survivor(survivor, rank)
    yield QuorumLine(
        cluster_id=quorum.cluster_id,
        static=quorum.best.is_static,
        best=quorum.best.root,
        epoch=quorum.best.epoch,
        end=quorum.best.end,
        voters=list(map(_known_voter, quorum.voters)),
        missing=[known_voter.node for known_voter in quorum.missing],
        majority=quorum.majority,
        has_majority=quorum.has_majority,
        committed_at_least=quorum.committed_at_least,
        later_epoch=quorum.later_epoch,
        loss=quorum.loss(),
    )
