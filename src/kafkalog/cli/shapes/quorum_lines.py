"""Lines of `kafkalog quorum show`."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, field

from kafkalog.cluster.kraft.quorum import KnownVoter, Quorum, QuorumSurvivor
from kafkalog.codec.common.shapes import shaped
from kafkalog.codec.findings import FindingJson
from kafkalog.codec.kraft import VoterNode
from kafkalog.codec.text import encode_uuid

__all__ = ["LeftOutLine", "Line", "quorum_lines"]


class EndpointLine(Struct, frozen=True, kw_only=True):
    """Where a voter listens."""

    name: str
    """listener"""
    host: str
    """host"""
    port: int
    """port"""


class VoterLine(Struct, frozen=True, kw_only=True):
    """A voter in a voter set."""

    node: int
    """node id"""
    directory_id: str
    """id of its log directory"""
    endpoints: list[EndpointLine]
    """where it listens; empty with static voters"""


class KnownVoterLine(Struct, frozen=True, kw_only=True):
    """A voter that some file names."""

    node: int
    """node id"""
    directory_id: str | None
    """id of its log directory; null with static voters"""
    endpoints: list[EndpointLine]
    """where it listens; empty with static voters"""
    in_force: bool
    """in the voter set of the best copy"""
    given: bool
    """its directory is among the given"""


class QuorumStateLine(Struct, frozen=True, kw_only=True):
    """An election state."""

    leader: int
    """whom the node follows; -1 for nobody"""
    epoch: int
    """the latest it knows of"""
    voted: int
    """whom it voted for in that epoch; -1 for nobody"""
    voted_directory_id: str
    """the directory of that"""


class SnapshotLine(Struct, frozen=True, kw_only=True):
    """A snapshot of the metadata."""

    file: str
    """name"""
    end: int
    """it holds everything below this offset"""
    epoch: int
    """of the last record in it"""
    whole: bool
    """whether a node could read it"""


class SurvivorLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="survivor"):
    """One copy of the metadata log; the best one comes first."""

    rank: int
    """1 for the copy that an election would prefer"""
    node: int | None
    """node id; null without meta.properties"""
    epoch: int
    """of the last batch of its log, or of the snapshot that it begins with"""
    end: int
    """log end offset, before any damage"""
    path: str
    """the log directory"""
    cluster_id: str | None
    """of meta.properties"""
    directory_id: str | None
    """of meta.properties"""
    voter: bool
    """whether it is one of the voters in force; brokers are not"""
    kraft_version: int
    """0 with static voters, 1 with dynamic ones"""
    static_voters: tuple[int, ...]
    """ids, with static voters"""
    voters: list[VoterLine]
    """the voter set in force, with dynamic voters"""
    start: int
    """first offset of its log"""
    last_time: int
    """time of the last batch, in ms since 1970; -1 if there is none"""
    committed_at_least: int
    """below this offset everything was committed: a snapshot reaches to it"""
    state: QuorumStateLine | None
    """what `quorum-state` says; null without one"""
    snapshots: list[SnapshotLine]
    """by end offset"""
    torn: bool
    """the log ends in bytes that a start cuts off"""
    damaged: bool
    """something other than a torn end is wrong"""
    records_behind_damage: int
    """records of sound batches after the first damage, which a start cuts off"""
    refusal: str | None
    """why no node would start on it; null if one would"""
    common_end: int | None
    """up to this offset it is the same as the best copy; null if their logs do not meet"""
    lacks: dict[str, int] | None
    """records of the best copy that it does not have, by kind; null if not known"""
    has_more: dict[str, int]
    """records of its own that the best copy does not have, by kind"""
    only_no_ops: bool | None
    """what it lacks are no-op records and elections alone; null if not known"""
    findings: list[FindingJson]
    """what is wrong with it"""


class QuorumLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="quorum"):
    """What the copies of one cluster add up to."""

    cluster_id: str | None
    """of meta.properties"""
    static: bool
    """whether the voters are those in the configuration"""
    best: str
    """the log directory of the best copy"""
    epoch: int
    """of its last batch"""
    end: int
    """its log end offset"""
    voters: list[KnownVoterLine]
    """every voter that some file names"""
    missing: list[int]
    """those of them that are not among the given"""
    majority: int
    """how many of the voters in force an election takes"""
    has_majority: bool
    """whether as many are here, undamaged"""
    committed_at_least: int
    """below this offset everything was committed"""
    later_epoch: int | None
    """an election later than the best copy's last record, of which somebody knows; null if nobody does"""
    loss: str
    """what may be lost if the best copy is not the best that ever was; one sentence"""


class LeftOutLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="left_out"):
    """A path that was not compared."""

    path: str
    """as it was given"""
    why: str
    """why, in a sentence"""
    is_unreadable: bool = field(name="unreadable")
    """whether the operating system did not give it out"""


Line = SurvivorLine | QuorumLine | LeftOutLine
"""One line for each copy, best first, one for the quorum, and one for each path that holds none."""


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
    """The survivors, best first, then what they add up to."""
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
