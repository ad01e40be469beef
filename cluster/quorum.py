"""Several nodes' copies of one metadata log side by side: which goes furthest, who is missing, what may be lost.

An election goes to the copy with the later last epoch, then the longer log (`ReplicatedLog.endOffset` in a vote).  What
was committed is on a majority of the voters, and nothing in the files of fewer says how much that was.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from kafkalog.cluster.quorum_log import QuorumLog, Term, read_quorum_log
from kafkalog.codec.arguments import checked
from kafkalog.codec.findings import Finding, FindingCode, Severity
from kafkalog.codec.kraft import VoterNode
from kafkalog.codec.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.text import encode_uuid
from kafkalog.codec.wording import counted
from kafkalog.log.files import PathLike

__all__ = ["KnownVoter", "Quorum", "Survivor", "best_first", "common_end", "quorum_of", "read_quorum"]

NO_OPS = frozenset({"NoOpRecord", "LeaderChange"})
"""what changes nothing in the metadata"""
_FEW = 6


@dataclass(frozen=True, slots=True)
class KnownVoter:
    """A voter that some file names."""

    node: int
    directory_id: str | None
    """None with static voters"""
    endpoints: tuple[tuple[str, str, int], ...]
    """(listener, host, port)"""
    is_in_force: bool
    """in the voter set of the best copy"""
    is_given: bool


@dataclass(slots=True)
class Survivor:
    """One copy, compared with the best one."""

    log: QuorumLog
    common_end: int | None = None
    """up to here it is the same as the best one; None if their logs do not meet"""
    lacks: Counter[str] | None = None
    """records of the best one that are not in it, by kind; None if not known"""
    has_more: Counter[str] = field(default_factory=Counter)
    """records in it that the best one does not have: they go when it follows"""

    @property
    def only_no_ops(self) -> bool | None:
        """What the best one has more is nothing but no-op records and elections; None if not known."""
        return None if self.lacks is None else set(self.lacks) <= NO_OPS

    @property
    def is_diverged(self) -> bool:
        """It holds records that the best one does not."""
        return bool(self.has_more)


@dataclass(slots=True)
class Quorum:
    """The copies of one cluster, best first."""

    cluster_id: str | None
    survivors: tuple[Survivor, ...]
    voters: tuple[KnownVoter, ...]
    findings: list[Finding] = field(default_factory=list)

    @property
    def best(self) -> QuorumLog:
        """The copy that goes furthest."""
        return self.survivors[0].log

    @property
    def in_force(self) -> tuple[KnownVoter, ...]:
        """The voters of the best copy."""
        return tuple(each for each in self.voters if each.is_in_force)

    @property
    def missing(self) -> tuple[KnownVoter, ...]:
        """Voters that some file names and that are not among the given."""
        return tuple(each for each in self.voters if not each.is_given)

    @property
    def majority(self) -> int:
        """How many voters an election takes."""
        return len(self.in_force) // 2 + 1

    @property
    def has_majority(self) -> bool:
        """As many of the voters are here, undamaged, as an election takes."""
        logs = [each.log for each in self.survivors if each.log.is_voter]
        sound = {log.node for log in logs if log.refusal is None and not log.is_damaged}
        in_force = {each.node for each in self.in_force}
        return bool(in_force) and len(sound & in_force) >= self.majority

    @property
    def committed_at_least(self) -> int:
        """Metadata below this offset was committed, as far as the files say."""
        ends = [each.log.committed_at_least for each in self.survivors if each.common_end is not None]
        return min(max(ends, default=0), self.best.end)

    @property
    def later_epoch(self) -> int | None:
        """An election after the best copy's last record, of which somebody knows; None if nobody does."""
        latest = max(each.log.latest_epoch for each in self.survivors)
        return latest if latest > self.best.epoch else None

    def loss(self) -> str:
        """What may be lost if the best of the given is not the best that ever was; one sentence."""
        given = len({each.node for each in self.in_force if each.is_given})
        best, total = self.best, len(self.in_force)
        name = f"node {best.node}" if best.node is not None else best.root
        if self.has_majority:
            return (
                f"{given} of {total} voters are here, a majority: all metadata that was committed is in the log of "
                f"{name}, which ends at offset {best.end} of epoch {best.epoch}"
            )
        text = (
            f"{given} of {total} voters are here and {self.majority} were needed to commit: whatever the others "
            f"committed after offset {best.end} of epoch {best.epoch} is lost, and the files of {name} cannot say "
            "whether there was anything"
        )
        if self.later_epoch is not None:
            text += f"; epoch {self.later_epoch} is known to have been voted on, and no record of it is here"
        return text


def best_first(logs: Iterable[QuorumLog]) -> list[QuorumLog]:
    """As an election ranks them; of equals those that would start at all, that are voters, then by node."""

    def rank(log: QuorumLog) -> tuple[bool, int, int, bool, int]:
        return log.refusal is not None, -log.epoch, -log.end, not log.is_voter, log.node or 0

    return sorted(logs, key=rank)


def common_end(one: QuorumLog, other: QuorumLog) -> int | None:
    """Up to which offset two copies hold the same batches; None where their logs do not meet.

    Followers copy batches as they are, so that the same base offset, epoch and checksum are the same bytes.
    """
    first, second = (one, other) if one.start <= other.start else (other, one)
    a, b = first.batches, second.batches
    if not len(a) or not len(b):
        return min(one.end, other.end) if one.position == other.position else None
    number = bisect_left(a.base, b.base[0])
    if number == len(a):
        same = a.end[-1] == b.base[0]
        return a.end[-1] if same else None
    if a.base[number] != b.base[0]:
        return None
    for mine, its in zip(range(number, len(a)), range(len(b)), strict=False):
        if a.row(mine) != b.row(its):
            return a.base[mine]
    return min(a.end[-1], b.end[-1])


@checked
def read_quorum(paths: Sequence[PathLike], limits: Limits = DEFAULT_LIMITS) -> list[Quorum]:
    """The clusters whose metadata logs are at the paths; one, unless they were mixed.  Errors: `read_quorum_log`."""
    logs: dict[str, QuorumLog] = {}
    for path in paths:
        log = read_quorum_log(path, limits)
        logs.setdefault(log.root, log)
    by_cluster: dict[str | None, list[QuorumLog]] = {}
    for log in logs.values():
        by_cluster.setdefault(log.cluster_id, []).append(log)
    return [quorum_of(each, limits) for each in by_cluster.values()]


def quorum_of(logs: Sequence[QuorumLog], limits: Limits = DEFAULT_LIMITS) -> Quorum:
    """Copies of one cluster, compared."""
    ranked = best_first(logs)
    best = ranked[0]
    survivors = [Survivor(best, best.end, Counter())]
    for log in ranked[1:]:
        found = Survivor(log, common_end(best, log))
        if found.common_end is not None:
            found.lacks = best.records_between(found.common_end, best.end, limits)
            found.has_more = log.records_between(found.common_end, log.end, limits)
        survivors.append(found)
    quorum = Quorum(best.cluster_id, tuple(survivors), _voters(ranked))
    quorum.findings = [finding for each in survivors for finding in each.log.findings]
    quorum.findings += [finding for each in survivors[1:] if (finding := _of_divergence(best, each)) is not None]
    return quorum


def _voters(ranked: Sequence[QuorumLog]) -> tuple[KnownVoter, ...]:
    """Everybody whom a file names, those in force first."""
    best = ranked[0]
    given = {(log.node, log.directory_id) for log in ranked}
    if best.is_static:
        ids = dict.fromkeys([*best.static_voters, *(each for log in ranked for each in log.static_voters)])
        nodes = {log.node for log in ranked if log.is_voter}
        return tuple(KnownVoter(each, None, (), each in best.static_voters, each in nodes) for each in ids)
    found: dict[tuple[int, bytes], VoterNode] = {(each.voter_id, each.directory_id): each for each in best.voters}
    for log in ranked:
        for key, each in log.known.items():
            found.setdefault(key, each)
    in_force = {(each.voter_id, each.directory_id) for each in best.voters}
    return tuple(
        KnownVoter(
            each.voter_id,
            encode_uuid(each.directory_id),
            tuple((point.name, point.host, point.port) for point in each.endpoints),
            key in in_force,
            (each.voter_id, encode_uuid(each.directory_id)) in given,
        )
        for key, each in found.items()
    )


def _terms_after(log: QuorumLog, offset: int) -> list[Term]:
    return [each for each in log.terms if each.from_offset >= offset]


def _of_divergence(best: QuorumLog, other: Survivor) -> Finding | None:
    """A copy with records of its own: the tail of a deposed leader, or a second quorum."""
    if not other.is_diverged or other.common_end is None:
        return None
    log, at = other.log, other.common_end
    here, there = _terms_after(best, at), _terms_after(log, at)
    where = f"from offset {at} on it differs from {best.root}: epoch {log.epoch} here, epoch {best.epoch} there"
    more = _in_words(other.has_more)
    file = log.directory
    lacks_it = log.node not in best.voter_ids or best.node not in log.voter_ids
    apart = any(not set(a.granting) & set(b.granting) for a in here for b in there)
    went_on = there and log.committed_at_least > at
    own_voters = any(each.voters_offset is not None and each.voters_offset >= at for each in (best, log))
    if went_on or apart or (lacks_it and (there or own_voters)):
        detail = f"{where}; two quorums have led this cluster apart from each other, and {more} would go"
        return Finding(FindingCode.METADATA_INCONSISTENT, Severity.ERROR, None, at, detail, file)
    detail = f"{where}; {more} in it, which may never have been committed, would go"
    return Finding(FindingCode.METADATA_INCONSISTENT, Severity.WARNING, None, at, detail, file)


def _in_words(counts: Counter[str]) -> str:
    named = [f"{name} {count}" for name, count in counts.most_common(_FEW)]
    more = len(counts) - len(named)
    return counted(sum(counts.values()), "record") + f" ({', '.join(named)}{f' and {more} more kinds' if more else ''})"
