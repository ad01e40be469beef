"""Comparison of several nodes' copies of a metadata log: the best copy, the missing voters, and records that may be
lost.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct, field

from kafkalog.cluster.kraft.metadata_log import MetadataLog
from kafkalog.cluster.kraft.newer_metadata import older_voters, sign_of_newer_metadata
from kafkalog.cluster.kraft.quorum_log import QuorumLog, Term, read_quorum_log
from kafkalog.codec.common.errors import StorageError, UsageError
from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.common.shell import shell_word
from kafkalog.codec.common.wording import counted
from kafkalog.codec.files.kraft import VoterNode
from kafkalog.codec.files.text import encode_uuid
from kafkalog.codec.names import CLUSTER_METADATA_DIRECTORY, META_PROPERTIES
from kafkalog.log.directories.identities import meta_properties_of
from kafkalog.log.directories.partition import open_partition
from kafkalog.log.disk.files import PathLike, refuse_no_path

__all__ = [
    "KnownVoter",
    "LeftOut",
    "Quorum",
    "QuorumSurvivor",
    "best_first",
    "common_end",
    "kinds_text",
    "quorum_of",
    "read_quorum",
    "read_what_is_left",
]

NO_OPS = frozenset({"NoOpRecord", "LeaderChange"})
"""Record types that change nothing in the metadata."""


class KnownVoter(Struct, frozen=True, kw_only=True):
    """A voter that some file names."""

    node: int
    directory_id: str | None
    """id of the voter's metadata directory; None with static voters"""
    endpoints: tuple[tuple[str, str, int], ...]
    """(listener, host, port)"""
    is_in_force: bool
    """whether it is in the voter set of the best copy"""
    is_given: bool


class QuorumSurvivor(Struct, kw_only=True):
    """A copy, compared with the best one."""

    log: QuorumLog
    common_end: int | None = None
    """offset up to which it equals the best copy; None if their logs do not overlap"""
    lacks: Counter[str] | None = None
    """records of the best copy that it lacks, by kind; None if unknown"""
    has_more: Counter[str] = field(default_factory=Counter)
    """records that the best copy does not have; it truncates them when it follows"""
    contradicts: tuple[int, int] | None = None
    """offset and epoch at which it has another batch than the best copy, which no single quorum writes; None if there
    is none
    """

    @property
    def only_no_ops(self) -> bool | None:
        """Whether the best copy has only no-op records and elections beyond it; None if unknown."""
        return None if self.lacks is None else set(self.lacks) <= NO_OPS

    @property
    def is_diverged(self) -> bool:
        """Whether it has records that the best copy does not have."""
        return bool(self.has_more)


class Quorum(Struct, kw_only=True):
    """The copies of one cluster's metadata log, best first: `survivors` are the copies, `voters` all voters that any
    file names.
    """

    cluster_id: str | None
    survivors: tuple[QuorumSurvivor, ...]
    voters: tuple[KnownVoter, ...]
    findings: list[Finding] = field(default_factory=list)
    beside: tuple[str, ...] = ()
    """further log directories of these nodes, which hold no metadata log"""
    sign_of_more: str | None = None
    """sentence with a sign that committed metadata is missing although a majority of the voters is here, for example
    because their files are from a backup (`sign_of_newer_metadata`); None without such a sign or a majority
    """
    older: Mapping[int | None, str] = field(default_factory=dict)
    """a clause, by node id, about each voter whose copy was restored from an older one, if the copies of the others are
    no majority of the voters (`older_voters`)
    """

    @property
    def best(self) -> QuorumLog:
        """The copy of the node that would win an election."""
        return self.survivors[0].log

    @property
    def in_force(self) -> tuple[KnownVoter, ...]:
        """The voters of the best copy."""
        return tuple(voter for voter in self.voters if voter.is_in_force)

    @property
    def missing(self) -> tuple[KnownVoter, ...]:
        """Voters that some file names and that are not among the given copies."""
        return tuple(voter for voter in self.voters if not voter.is_given)

    @property
    def majority(self) -> int:
        """Number of voters in force that an election needs."""
        return len(self.in_force) // 2 + 1

    @property
    def contradictions(self) -> list[str]:
        """Return sentences about copies that contradict the best one, at most one per copy; empty if there are none.
        Two copies contradict each other if they have different records at one offset of one epoch. No single quorum
        writes such records.
        """
        return [
            f"{self.best.root} and {each.log.root} hold different records at offset {each.contradicts[0]} of the same "
            f"epoch {each.contradicts[1]}, which no quorum writes: one of them was changed by something else than Kafka"
            for each in self.survivors
            if each.contradicts is not None
        ]

    @property
    def has_majority(self) -> bool:
        """Return whether usable copies of a majority of the voters in force are here. A copy is not usable if it is
        damaged or no node would start on it. Return False if any copy contradicts the best one, or if no voter set is
        known.
        """
        if any(survivor.contradicts is not None for survivor in self.survivors):
            return False
        logs = [survivor.log for survivor in self.survivors if survivor.log.is_voter]
        sound = {log.node for log in logs if log.refusal is None and not log.is_damaged}
        in_force = {known_voter.node for known_voter in self.in_force}
        return bool(in_force) and len(sound & in_force) >= self.majority

    @property
    def lagging(self) -> tuple[QuorumSurvivor, ...]:
        """Return the copies of the voters if each of them lacks metadata (more than no-op records) that the best copy
        has; otherwise an empty tuple. If they do, the best copy belongs to a node that does not vote. Such a node gets
        its records from a voter, so the voters have lost records.

        The tuple is also empty if a voter in force is missing and no snapshot reaches beyond every voter's end: the
        records may then come from the missing voter and be uncommitted. Snapshots have only committed records.
        """
        voters = tuple(survivor for survivor in self.survivors if survivor.log.is_voter)
        is_shown = all(known_voter.is_given for known_voter in self.in_force) or (
            self.committed_at_least > max((voter.log.end for voter in voters), default=0)
        )
        lacks = [voter for voter in voters if voter.common_end is not None and voter.only_no_ops is False]
        return voters if voters and is_shown and len(lacks) == len(voters) else ()

    @property
    def committed_at_least(self) -> int:
        """Offset below which all metadata is certainly committed, as the snapshots of the copies show; 0 if there is no
        snapshot.
        """
        ends = [survivor.log.committed_at_least for survivor in self.survivors if survivor.common_end is not None]
        return min(max(ends, default=0), self.best.end)

    @property
    def later_epoch(self) -> int | None:
        """Latest epoch in which any copy's node knew a leader or voted, if it is above the best copy's last one;
        otherwise None.
        """
        latest = max(survivor.log.elected_epoch for survivor in self.survivors)
        return latest if latest > self.best.epoch else None

    def loss(self) -> str:
        """Say in one sentence which committed metadata may be missing in the best copy.

        The sentence tells whether the voters here are a majority, and at which offset and epoch the best copy ends. If
        no node can start on the best copy, it says this and where that copy ends. If copies contradict each other or
        no voter set is known, it says why nothing is certain.
        """
        given = len({known_voter.node for known_voter in self.in_force if known_voter.is_given})
        best, total = self.best, len(self.in_force)
        if self.contradictions:
            return f"nothing is certain about what was committed: {self.contradictions[0]}"
        if best.refusal is not None:
            several = len(self.survivors) > 1
            text = "no copy that was given can be started on" if several else "no node starts on this copy"
            which = "the best one" if several else "it"
            return (
                f"{text} as it is; {which} ends at offset {best.end} of epoch {best.epoch}, and has nothing that was "
                "committed after that"
            )
        if not total:
            return f"no file says who votes, so that nothing tells what was committed: {best.root} ends at {best.end}"
        name = f"node {best.node}" if best.node is not None else best.root
        here = f"{given} of {counted(total, 'voter')} {'is' if given == 1 else 'are'} here"
        if self.has_majority and self.lagging:
            behind = ", ".join(f"{survivor.log.root} ends at offset {survivor.log.end}" for survivor in self.lagging)
            return (
                f"{here}, a majority, and all of it is older than the copy of {name}, which does not vote and goes to "
                f"offset {best.end} of epoch {best.epoch}: {behind}; started as it is, the quorum goes on without what "
                "is missing there"
            )
        sign = self.sign_of_more or next(self._older, None)
        if self.has_majority and sign is not None:
            return (
                f"{here}, a majority, and the log of {name} ends at offset {best.end} of epoch {best.epoch}; whether "
                f"more was committed is not in these files, but {sign}: if there is a newer copy of a "
                "voter's files, use that"
            )
        if self.has_majority and total == 1:
            return (
                f"{here}: all metadata that was committed is in the log of {name}, which ends at offset {best.end} of "
                f"epoch {best.epoch}, unless these files are an older copy{self._unknown_of_former_voters}"
            )
        if self.has_majority:
            return (
                f"{here}, a majority: all metadata that was committed is in the log of {name}, which ends at offset "
                f"{best.end} of epoch {best.epoch}{self._unknown_of_former_voters}"
            )
        if total == 1 and given == 1:
            damaged = self._unsound.rstrip(",")
            return (
                f"{here}{damaged}: nobody else has the metadata, and what was committed after offset {best.end} of "
                f"epoch {best.epoch} is in no other copy"
            ) if not best.is_displaced else (
                f"{here}{damaged}: nobody else has the metadata, and all of it up to offset {best.end} of epoch "
                f"{best.epoch} is in this log; a batch in it has a wrong base offset, which `kafkalog plan "
                f"--cluster-metadata {shell_word(best.root)}` can mend"
            )
        text = (
            f"{here}{self._unsound} and {self.majority} {'was' if self.majority == 1 else 'were'} needed to commit: "
            f"whatever the others committed after offset {best.end} of epoch {best.epoch} is lost, and the files of "
            f"{name} cannot say whether there was anything"
        )
        if self.later_epoch is not None:
            text += f"; epoch {self.later_epoch} is known to have been voted on, and no record of it is here"
        return text

    @property
    def _older(self) -> Iterator[str]:
        for survivor in self.survivors:
            why = self.older.get(survivor.log.node)
            if why is not None:
                yield f"{survivor.log.root} is older than it was ({why})"

    @property
    def _unknown_of_former_voters(self) -> str:
        """Return a clause for `loss`, beginning with `;`, that names the missing former voters; "" unless they are more
        than the voters in force. If they are, they may have committed metadata without the voters in force.
        """
        in_force = {known_voter.node for known_voter in self.in_force}
        former = sorted({known_voter.node for known_voter in self.missing if not known_voter.is_in_force} - in_force)
        if len(former) <= (len(former) + len(in_force)) // 2:
            return ""
        return (
            f"; what {', '.join(map(str, former))} had committed while they were voters may be missing in it, if the "
            "quorum was recovered without them"
        )

    @property
    def _unsound(self) -> str:
        """Return a clause for `loss` (", 2 of them damaged,") with the number of present voters whose copies are
        damaged or that would not start. Return "" if there are none.
        """
        given = {known_voter.node for known_voter in self.in_force if known_voter.is_given}
        logs = [survivor.log for survivor in self.survivors if survivor.log.is_voter]
        sound = {log.node for log in logs if log.refusal is None and not log.is_damaged}
        bad = len(given - sound)
        return f", {bad} of them damaged," if bad else ""


class LeftOut(Struct, frozen=True):
    """A path that was skipped because no metadata log could be read there."""

    path: str
    why: str
    """a sentence with the path"""
    is_unreadable: bool
    """whether the operating system refused to read it"""

    def finding(self) -> Finding:
        """The finding that the path was skipped."""
        code = FindingCode.UNREADABLE if self.is_unreadable else FindingCode.METADATA_INCONSISTENT
        return Finding(code, Severity.ERROR, None, None, f"left out: {self.why}", self.path)


def best_first(logs: Iterable[QuorumLog]) -> list[QuorumLog]:
    """Sort copies, the best first: copies on which a node can start come before others. Then the larger last epoch and
    the larger end offset come first, as in an election, then voters, then the smaller node id.
    """

    def rank(log: QuorumLog) -> tuple[bool, int, int, bool, int]:
        return log.refusal is not None, -log.epoch, -log.end, not log.is_voter, log.node or 0

    return sorted(logs, key=rank)


def common_end(one: QuorumLog, other: QuorumLog) -> int | None:
    """Return the offset below which two copies have the same batches; None if this cannot be determined. Batches are
    equal if base offset, epoch and checksum are equal, because followers copy batches unchanged. Only offsets that both
    logs have are compared.

    The result is None if the logs neither overlap nor touch. It is also None if the log that begins later does not
    begin at the base offset of a batch of the other log. If one log has no batches, the result is its end offset if the
    other log reaches that position, else None.
    """
    first, second = (one, other) if one.start <= other.start else (other, one)
    a, b = first.batches, second.batches
    if not len(b):
        return second.end if _reaches(first, second.position) else None
    if not len(a):
        return first.end if _reaches(second, first.position) else None
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


def _reaches(log: QuorumLog, position: tuple[int, int]) -> bool:
    """Whether a log has the last record that a snapshot of another copy includes."""
    if log.position == position:
        return True
    number = bisect_left(log.batches.end, position[1])
    return number < len(log.batches) and (log.batches.epoch[number], log.batches.end[number]) == position


def _batch_at(log: QuorumLog, offset: int) -> tuple[int, int, int, int] | None:
    """Return the row (`BatchColumns.row`) of the batch that begins at `offset`; None if none begins there."""
    number = bisect_left(log.batches.base, offset)
    is_there = number < len(log.batches) and log.batches.base[number] == offset
    return log.batches.row(number) if is_there else None


def _contradiction(one: QuorumLog, other: QuorumLog, offset: int) -> tuple[int, int] | None:
    """Return (offset, epoch) if both logs have different batches of one epoch at `offset`, and this epoch began earlier
    in one of them; else None.

    The leader of an epoch writes each batch once. At the beginning of an epoch, however, two separate quorums may have
    had a leader each.
    """
    epoch = _epoch_of_both(one, other, offset)
    batches = [(log.batches, bisect_left(log.batches.base, offset)) for log in (one, other)]
    before = {batch_columns.epoch[number - 1] for batch_columns, number in batches if number}
    return None if epoch is None or epoch not in before else (offset, epoch)


def _epoch_of_both(one: QuorumLog, other: QuorumLog, offset: int) -> int | None:
    """Return the epoch if two logs have different batches of the same epoch at an offset. None if the batches are
    equal, their epochs differ, or no batch begins there in one of the logs.
    """
    here, there = _batch_at(one, offset), _batch_at(other, offset)
    if here is None or there is None or here == there or here[2] != there[2]:
        return None
    return here[2]


def read_quorum(*paths: PathLike, limits: Limits = DEFAULT_LIMITS) -> list[Quorum]:
    """Read the metadata logs at `paths` and compare them; return one `Quorum` for each cluster, in the order of the
    paths.

    Normally this is one cluster. Raises `UsageError` without paths, and the errors of `read_quorum_log`: `UsageError`
    if a path has no metadata log, `StorageError` for I/O errors.

    * `paths`: directories that hold a cluster's metadata log
    * `limits`: what a batch or file may hold at most (`Limits`)
    """
    refuse_no_path(paths)
    return _by_cluster([read_quorum_log(path, limits) for path in paths], limits)


def read_what_is_left(paths: Sequence[PathLike], limits: Limits = DEFAULT_LIMITS) -> tuple[list[Quorum], list[LeftOut]]:
    """Read the metadata logs at `paths`, one per node. Return a `Quorum` for each cluster, and the paths that have no
    readable log, each with the reason; both in the order of the paths. A path that is a further log directory of a node
    whose metadata log was read is in `beside` of the node's quorum instead. Logs without a cluster id count as one
    cluster.

    If no path has a readable log, raises the `UsageError` or `StorageError` of the first path. Raises `StorageError` if
    a log cannot be read any more when the copies are compared.
    """
    logs: list[QuorumLog] = []
    left_out: list[LeftOut] = []
    first: UsageError | StorageError | None = None
    for path in paths:
        try:
            logs.append(read_quorum_log(path, limits))
        except (UsageError, StorageError) as error:
            first = first or error
            given, why = os.fspath(path), str(error)
            why = why if given in why or os.path.realpath(given) in why else f"{given}: {why}"
            left_out.append(LeftOut(given, why, isinstance(error, StorageError)))
    if not logs and first is not None:
        raise first
    beside = {out.path: cluster for out in left_out if (cluster := _cluster_beside(out.path, logs)) is not None}
    return _by_cluster(logs, limits, beside), [out for out in left_out if out.path not in beside]


def _cluster_beside(path: str, logs: Sequence[QuorumLog]) -> str | None:
    """Return the cluster id if `path` is a log directory without a metadata log, of a node to which one of `logs`
    belongs (by `meta.properties`). Otherwise return None.
    """
    inside = os.path.join(path, CLUSTER_METADATA_DIRECTORY)
    if os.path.lexists(inside) or not os.path.isdir(path):
        return None
    meta = meta_properties_of(path)
    if meta is None or meta.cluster_id is None or meta.node_id is None:
        return None
    is_known = any((log.cluster_id, log.node) == (meta.cluster_id, meta.node_id) for log in logs)
    return meta.cluster_id if is_known else None


def _by_cluster(
    logs: Sequence[QuorumLog], limits: Limits, beside: Mapping[str, str] = MappingProxyType({})
) -> list[Quorum]:
    by_cluster: dict[str | None, dict[str, QuorumLog]] = {}
    for log in logs:
        by_cluster.setdefault(log.cluster_id, {}).setdefault(log.root, log)
    return [
        quorum_of([*each.values()], limits, [path for path, of_path in beside.items() if of_path == cluster])
        for cluster, each in by_cluster.items()
    ]


def quorum_of(
    logs: Sequence[QuorumLog], limits: Limits = DEFAULT_LIMITS, beside: Sequence[str] = ()
) -> Quorum:
    """Rank the copies of one cluster, best first, and compare each with the best; return them with voters and findings.

    The records that a copy lacks, or has beyond the best one, are read from disk and counted. `logs` must not be empty.
    If the copies are a majority, the partitions in all their log directories are compared with the metadata; `beside`
    are further log directories of these nodes. Raises `StorageError` if files cannot be read.
    """
    survivors = _beside_the_first(best_first(logs))
    if any(each.contradicts is not None for each in survivors):
        survivors = _beside_the_first(_agreed_first(survivors))
    best = survivors[0].log
    for survivor in survivors[1:]:
        if survivor.common_end is not None:
            survivor.lacks = best.records_between(survivor.common_end, best.end, limits)
            survivor.has_more = survivor.log.records_between(survivor.common_end, survivor.log.end, limits)
    ranked = [each.log for each in survivors]
    quorum = Quorum(cluster_id=best.cluster_id, survivors=tuple(survivors), voters=_voters(ranked),
                    beside=tuple(beside))  # fmt: skip
    if quorum.has_majority:
        quorum.sign_of_more = sign_of_newer_metadata(best, ranked, limits, beside)
        quorum.older = older_voters(best, ranked, {voter.node for voter in quorum.in_force}, limits)
    quorum.findings = [finding for each in survivors for finding in each.log.findings]
    starts_over = (each.log.finding_of_starting_over for each in survivors)
    quorum.findings += [finding for finding in starts_over if finding is not None]
    quorum.findings += [finding for each in survivors[1:] if (finding := _of_divergence(best, each)) is not None]
    quorum.findings += _same_identity(ranked)
    quorum.findings += [_of_lagging(quorum_survivor.log, best) for quorum_survivor in quorum.lagging]
    if quorum.sign_of_more is not None:
        quorum.findings.append(_of_older_metadata(best, quorum.sign_of_more, limits))
    for log in ranked:
        why = quorum.older.get(log.node)
        if why is not None:
            detail = f"it is older than it was: {why}; what was committed since may be lost"
            quorum.findings.append(Finding.of(FindingCode.METADATA_INCONSISTENT, None, None, detail, log.directory))
    return quorum


def _of_lagging(log: QuorumLog, best: QuorumLog) -> Finding:
    detail = f"it ends at offset {log.end}, and no voter has what {best.root} has up to offset {best.end}"
    return Finding(FindingCode.METADATA_INCONSISTENT, Severity.ERROR, None, None, detail, log.directory)


def _beside_the_first(ranked: Sequence[QuorumLog]) -> list[QuorumSurvivor]:
    """Compare each copy with the first; return them in the same order.

    For the first copy `lacks` is empty. For the others `common_end` and `contradicts` are set, but no records are
    counted.
    """
    best = ranked[0]
    survivors = [QuorumSurvivor(log=best, common_end=best.end, lacks=Counter())]
    for log in ranked[1:]:
        end = common_end(best, log)
        survivors.append(
            QuorumSurvivor(log=log, common_end=end, contradicts=None if end is None else _contradiction(best, log, end))
        )
    return survivors


def _agreed_first(survivors: Sequence[QuorumSurvivor]) -> list[QuorumLog]:
    """Sort copies again, of which at least one has a contradiction, and return their logs. Copies on which a node can
    start come before others. Among both kinds, the copies come first whose batch at the first contradicting offset is
    in more copies. A batch in several copies was replicated; one in a single copy may have been changed there. Copies
    without a batch at that offset come last. Equal ranks keep their order.
    """
    offset, _epoch = min(survivor.contradicts for survivor in survivors if survivor.contradicts is not None)
    batches = {survivor.log.root: _batch_at(survivor.log, offset) for survivor in survivors}
    alike = Counter(batches.values())
    alike[None] = 0
    ranked = [survivor.log for survivor in survivors]
    return sorted(ranked, key=lambda log: (log.refusal is not None, -alike[batches[log.root]]))


def _of_older_metadata(best: QuorumLog, sign: str, limits: Limits) -> Finding:
    """Return a finding that the best copy is older than other files of these nodes; `sign` is the sentence that shows
    it. It is an error if the copy has no metadata at all, else a warning. Raises `StorageError` if the log cannot be
    read.
    """
    image = MetadataLog(open_partition(best.directory, limits=limits), limits).state().image
    code, place = FindingCode.METADATA_INCONSISTENT, (None, best.end)
    if image.features or image.topics or image.brokers or image.controllers:
        return Finding(code, Severity.WARNING, *place, f"it is older than other files here: {sign}", best.directory)
    detail = f"no metadata is left: the log ends at offset {best.end}, before any topic or setting; put a copy back "
    detail += "(runbook: no-controller; if there is none, stray-partitions)"
    return Finding(code, Severity.ERROR, *place, detail, best.directory)


def _same_identity(logs: Sequence[QuorumLog]) -> Iterator[Finding]:
    """Yield a finding for each pair of directories whose `meta.properties` have the same node id or directory id."""
    for number, log in enumerate(logs):
        for other in logs[:number]:
            if log.directory_id is not None and log.directory_id == other.directory_id:
                what = f"the same directory.id as {other.root}: one is a copy, and only one of them may ever be started"
            elif log.node is not None and log.node == other.node:
                what = f"the same node.id as {other.root}: only one of them can be node {log.node}"
            else:
                continue
            path = os.path.join(log.root, META_PROPERTIES)
            yield Finding.of(FindingCode.IDENTITY_MISMATCH, None, None, what, path)


def _voters(ranked: Sequence[QuorumLog]) -> tuple[KnownVoter, ...]:
    """Return the voters that some copy names; first come the voters in force, the voter set of the best copy. `ranked`
    are the copies, best first, and must not be empty.

    If the best copy has static voters, only static voters of the copies are returned, and their directory ids are None.
    Otherwise only dynamic voters are returned, one for each pair of node id and directory id.
    """
    best = ranked[0]
    given = {(log.node, log.directory_id) for log in ranked}
    if best.is_static:
        ids = dict.fromkeys([*best.static_voters, *(voter for log in ranked for voter in log.static_voters)])
        nodes = {log.node for log in ranked if log.is_voter}
        return tuple(
            KnownVoter(
                node=node_id,
                directory_id=None,
                endpoints=(),
                is_in_force=node_id in best.static_voters,
                is_given=node_id in nodes,
            )
            for node_id in ids
        )
    known: dict[tuple[int, bytes], VoterNode] = {(voter.voter_id, voter.directory_id): voter for voter in best.voters}
    for log in ranked:
        for key, voter_node in log.known.items():
            known.setdefault(key, voter_node)
    in_force = {(voter.voter_id, voter.directory_id) for voter in best.voters}
    return tuple(
        KnownVoter(
            node=node.voter_id,
            directory_id=encode_uuid(node.directory_id),
            endpoints=tuple((point.name, point.host, point.port) for point in node.endpoints),
            is_in_force=key in in_force,
            is_given=(node.voter_id, encode_uuid(node.directory_id)) in given,
        )
        for key, node in known.items()
    )


def _terms_after(log: QuorumLog, offset: int) -> list[Term]:
    return [term for term in log.terms if term.from_offset >= offset]


def _of_divergence(best: QuorumLog, other: QuorumSurvivor) -> Finding | None:
    """Return the finding for a copy with records that the best copy lacks; None if it has none, or if both do not
    overlap.

    The finding is an error if both copies contradict each other within an epoch, or if two separate quorums have led
    the cluster. Otherwise it is a warning: the records are probably the uncommitted end of a deposed leader's log.
    """
    if not other.is_diverged or other.common_end is None:
        return None
    log, at = other.log, other.common_end
    if other.contradicts is not None:
        detail = (
            f"at offset {at} it holds another record than {best.root}, of the same epoch {other.contradicts[1]}: no "
            "quorum writes that, so that one of the two was changed by something else than Kafka"
        )
        return Finding(FindingCode.METADATA_INCONSISTENT, Severity.ERROR, None, at, detail, log.directory)
    here, there = _terms_after(best, at), _terms_after(log, at)
    where = f"from offset {at} on it differs from {best.root}: epoch {log.epoch} here, epoch {best.epoch} there"
    more = _in_words(other.has_more)
    file = log.directory
    lacks_it = log.node not in best.voter_ids or best.node not in log.voter_ids
    apart = any(not set(a.granting) & set(b.granting) for a in here for b in there)
    went_on = there and log.committed_at_least > at
    own_voters = any(each.voters_offset is not None and each.voters_offset >= at for each in (best, log))
    twice = _epoch_of_both(best, log, at) is not None
    if went_on or apart or twice or (lacks_it and (there or own_voters)):
        detail = f"{where}; two quorums have led this cluster apart from each other, and {more} would go"
        return Finding(FindingCode.METADATA_INCONSISTENT, Severity.ERROR, None, at, detail, file)
    detail = f"{where}; {more} in it, which may never have been committed, would go"
    return Finding.of(FindingCode.METADATA_INCONSISTENT, None, at, detail, file)


def _in_words(counts: Counter[str]) -> str:
    return f"{counted(sum(counts.values()), 'record')} ({kinds_text(counts)})"


def kinds_text(counts: Counter[str]) -> str:
    """Return text with every kind of record and its count, most frequent first; kinds that change nothing come last."""
    kinds = sorted(counts.most_common(), key=lambda kind: kind[0] in NO_OPS)
    return ", ".join(f"{name} {count}" for name, count in kinds)
