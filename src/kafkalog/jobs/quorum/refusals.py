"""Check, before anything is changed, whether a quorum may be recovered; each function raises for one reason."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kafkalog.cluster.kraft.metadata_image import MetadataImage
from kafkalog.cluster.kraft.quorum import KnownVoter, Quorum
from kafkalog.cluster.kraft.quorum_log import QuorumLog
from kafkalog.codec.common.advice import Advice, Ask, Sentence
from kafkalog.codec.common.errors import RecoveryRefused
from kafkalog.codec.common.findings import FindingCode, Severity
from kafkalog.codec.common.wording import counted
from kafkalog.codec.files.kraft import VoterNode
from kafkalog.codec.names import META_PROPERTIES, QUORUM_STATE
from kafkalog.jobs.quorum.mending import any_needs_mending, has_lost_all
from kafkalog.jobs.quorum.metadata_tree import NOBODY, broken_snapshots
from kafkalog.jobs.quorum.request import QuorumRecovery, QuorumWay

__all__ = [
    "gone",
    "is_settled",
    "needless",
    "one_quorum",
    "refuse_contradictions",
    "refuse_damage",
    "refuse_epochs",
    "refuse_half_changed",
    "refuse_kinds",
    "refuse_majority",
    "refuse_no_files",
    "refuse_others",
]

_FIRST_DYNAMIC = 21
"""metadata.version of 3.9, the first release with dynamic voters"""
_LAST_EPOCH = 2**31 - 1 - 2**20
"""no cluster has had so many elections, and few epochs would be left"""


def one_quorum(quorums: Sequence[Quorum]) -> Quorum:
    """Return the only element of `quorums`, which must not be empty. Raises `RecoveryRefused` if there are several,
    because the directories belong to several clusters.
    """
    if len(quorums) > 1:
        clusters = "; ".join(
            f"{quorum.best.root} is of {quorum.cluster_id or 'no known cluster'}" for quorum in quorums
        )
        raise RecoveryRefused(
            f"the directories are of {len(quorums)} clusters ({clusters}): name those of one cluster only",
            reason="clusters",
        )
    return quorums[0]


def _is_controller(log: QuorumLog, image: MetadataImage) -> bool:
    return log.node in log.voter_ids or log.node in image.controllers


def refuse_kinds(quorum: Quorum, targets: Sequence[QuorumLog], wanted: QuorumRecovery, image: MetadataImage) -> None:
    """Raise `RecoveryRefused` if the given directories cannot form the requested quorum. A target must be a
    controller's directory, and the source of a new controller a broker's. Two targets must not have one identity.
    Requested voters must be exactly the nodes of the quorum, and no option may name another node. The new controller's
    id must not be a broker's. `image` is the metadata of the best copy.
    """
    for log in targets:
        _refuse_no_controller(log, image)
    _refuse_same_identity(targets)
    _refuse_strangers([log.node for log in targets], wanted)
    if wanted.way is QuorumWay.FROM_BROKER:
        logs = (survivor.log for survivor in quorum.survivors)
        _refuse_source(next(log for log in logs if log.root == wanted.brokers[0]), image)
        if wanted.node in image.brokers:
            raise RecoveryRefused(
                f"node {wanted.node} is a broker of this cluster: choose an id that no node has for the controller",
                reason="node",
            )


def _refuse_no_controller(log: QuorumLog, image: MetadataImage) -> None:
    meta = f"{log.root}/{META_PROPERTIES}"
    if log.node is None or log.cluster_id is None:
        raise RecoveryRefused(
            f"{log.root} has no {META_PROPERTIES} that says which node of which cluster it is: put that back first",
            reason="identity",
        )
    if log.known_as is not None:
        raise RecoveryRefused(
            f"{meta} says node.id={log.node}, and the voter set knows this directory, by its directory.id, as node "
            f"{log.known_as}: put node.id={log.known_as} back if the directory.id is right",
            reason="identity",
        )
    _refuse_as_of_another_broker(log, image)
    if _is_controller(log, image):
        return
    if log.node in image.brokers:
        raise RecoveryRefused(
            Sentence(
                f"{log.root} is of broker {log.node}, not of a controller: to make a controller of its copy, use ",
                Ask.FROM_BROKER,
                f" {log.root}",
            ),
            reason="kind",
        )
    raise RecoveryRefused(
        f"{meta} says node.id={log.node}, and its log knows neither a controller nor a broker of that id: put the "
        "right node.id back",
        reason="identity",
    )


def _refuse_as_of_another_broker(log: QuorumLog, image: MetadataImage) -> None:
    """Raise `RecoveryRefused` if the metadata has registered this directory, identified by its directory id, for a
    broker, and `meta.properties` does not name this broker. Does nothing if no broker has registered it.
    """
    brokers = image.brokers.items()
    broker = next((node for node, registration in brokers if log.directory_id in registration.directories), None)
    if broker is not None and broker != log.node:
        raise RecoveryRefused(
            f"{log.root}/{META_PROPERTIES} says node.id={log.node}, and the log knows this directory, by its "
            f"directory.id, as one of broker {broker}: put node.id={broker} back if the directory.id is right",
            reason="identity",
        )


def _refuse_same_identity(targets: Sequence[QuorumLog]) -> None:
    nodes = [log.node for log in targets]
    ids = [log.directory_id for log in targets]
    for log in targets:
        if nodes.count(log.node) > 1:
            roots = " and ".join(target.root for target in targets if target.node == log.node)
            raise RecoveryRefused(
                f"two of the directories are of node {log.node}, {roots}: name the one that is to go on", reason="kind"
            )
        if log.directory_id is not None and ids.count(log.directory_id) > 1:
            roots = " and ".join(target.root for target in targets if target.directory_id == log.directory_id)
            raise RecoveryRefused(
                f"{roots} have the same directory.id, {log.directory_id}, by which voters are told apart, so that one "
                f"{META_PROPERTIES} is a copy: name the directory that is to go on",
                reason="identity",
            )


def _refuse_strangers(nodes: Sequence[int | None], wanted: QuorumRecovery) -> None:
    """Raise `RecoveryRefused` if endpoints or properties name a node that will not be in the quorum, or if the
    requested voters are not exactly its nodes. `nodes` are the ids of the given directories' nodes; a node that is made
    from a broker's copy belongs to the quorum too.
    """
    members = {*nodes, *(() if wanted.node is None else (wanted.node,))}
    if wanted.voters is not None and set(wanted.voters) != members:
        raise RecoveryRefused(
            Sentence(
                Ask.VOTERS,
                f" names {', '.join(map(str, wanted.voters))}, and the directories are of nodes "
                f"{', '.join(map(str, nodes)) or wanted.node}: both must be the same",
            ),
            reason="endpoint",
        )
    strangers = sorted(set(wanted.endpoints) - members)
    if strangers:
        raise RecoveryRefused(
            Sentence(
                Ask.ENDPOINT,
                f" names node {strangers[0]}, of which no directory is given: give its log directory, or leave the "
                "endpoint out",
            ),
            reason="endpoint",
        )
    for node in sorted(set(wanted.properties) - members):
        raise RecoveryRefused(
            Sentence(Ask.PROPERTIES, f" gives a file of node {node}, which is not one of the new quorum: leave it out"),
            reason="properties",
        )


def _refuse_source(source: QuorumLog, image: MetadataImage) -> None:
    if source.cluster_id is None:
        raise RecoveryRefused(
            f"{source.root} has no {META_PROPERTIES} that says which cluster it is of: put that back first",
            reason="identity",
        )
    _refuse_as_of_another_broker(source, image)
    if _is_controller(source, image):
        raise RecoveryRefused(
            Sentence(
                f"{source.root} is of controller {source.node}, whose own log is worth more than a copy: use ",
                Ask.STANDALONE,
                f" {source.root}",
            ),
            reason="kind",
        )


def refuse_majority(quorum: Quorum, wanted: QuorumRecovery) -> None:
    """Raise `RecoveryRefused` if the given copies are those of a majority of the voters: they elect a leader without a
    recovery. Does nothing if there is a single voter, if all given voters lag behind a node that does not vote
    (`Quorum.lagging`), or in the way `TOGETHER`.
    """
    is_needed = not quorum.has_majority or bool(quorum.lagging) or len(quorum.in_force) == 1
    if wanted.way is QuorumWay.TOGETHER or is_needed:
        return
    given = [str(known_voter.node) for known_voter in quorum.in_force if known_voter.is_given]
    raise RecoveryRefused(
        Sentence(
            f"controllers {', '.join(given)} are {len(given)} of {len(quorum.in_force)} voters, a majority, and elect "
            "a leader without this: start them together; where they have moved, give ",
            Ask.ENDPOINT,
            " for each instead",
        ),
        reason="majority",
    )


def is_settled(log: QuorumLog) -> bool:
    """Whether the log ends with a voter set that a recovery has written, and the node was not started since. Writing it
    again would change nothing.
    """
    at_end = log.voters_offset is not None and log.voters_offset + 1 == log.end
    state = log.state
    return at_end and state is not None and (state.leader_id, state.leader_epoch) == (NOBODY, log.epoch)


def needless(
    quorum: Quorum, targets: Sequence[QuorumLog], voters: Sequence[VoterNode], wanted: QuorumRecovery
) -> str | None:
    """Return a sentence if nothing has to be done, else None. Nothing has to be done if all voters are given, undamaged
    and up to date, with the same voter set. The request must change neither voters nor endpoints. In the way `TOGETHER`
    without endpoints, a majority of the voters is enough. Any endpoint for static voters counts as a change.

    Always None for a new controller, for a change to dynamic voters, and if a recovery has written the voter set and no
    start followed.
    """
    best = quorum.best
    becomes_dynamic = wanted.becomes_dynamic and best.is_static
    if wanted.way is QuorumWay.FROM_BROKER or becomes_dynamic or not quorum.has_majority or is_settled(best):
        return None
    if any_needs_mending(targets) or quorum.lagging:
        return None
    if any((target.voters, target.static_voters) != (best.voters, best.static_voters) for target in targets):
        return None
    standing = {(voter.voter_id, voter.directory_id, voter.endpoints) for voter in best.voters}
    if best.is_static:
        moves = bool(wanted.endpoints) or not {target.node for target in targets} <= set(best.static_voters)
    else:
        moves = not {(voter.voter_id, voter.directory_id, voter.endpoints) for voter in voters} <= standing
    is_all = {target.node for target in targets} == set(best.voter_ids)
    if moves or not (is_all or (wanted.way is QuorumWay.TOGETHER and not wanted.endpoints)):
        return None
    if len(quorum.in_force) == 1:
        node = quorum.in_force[0].node
        return f"nothing needs doing: controller {node} is the only voter, and elects itself when it is started"
    names = ", ".join(str(known_voter.node) for known_voter in quorum.in_force if known_voter.is_given)
    return (
        f"nothing needs doing: controllers {names} are a majority of {len(quorum.in_force)} voters, and elect a leader "
        "when they are started together"
    )


def gone(quorum: Quorum, members: Sequence[tuple[int, str | None]]) -> tuple[KnownVoter, ...]:
    """Return the voters of any known voter set that will not be in the new quorum, in the order of `quorum.voters`.
    They must never start again with their present disks.

    `members` are (node id, directory id) of the new quorum. A static voter is compared by node id only.
    """
    ids = {node for node, _ in members}
    known = set(members)

    def stays(voter: KnownVoter) -> bool:
        return voter.node in ids if voter.directory_id is None else (voter.node, voter.directory_id) in known

    return tuple(voter for voter in quorum.voters if not stays(voter))


def refuse_others(others: Sequence[KnownVoter], wanted: QuorumRecovery) -> None:
    """Raise `RecoveryRefused` if any of `others` is still in the voter set of the best copy: it may be alive, or come
    back and continue the old quorum. `others` are old voters that will not be in the new quorum. Does nothing if the
    request gives consent with `others_are_gone`.
    """
    alive = [other for other in others if other.is_in_force]
    if not alive or wanted.others_are_gone:
        return
    names = ", ".join(_named(known_voter) for known_voter in alive)
    raise RecoveryRefused(
        Sentence(
            f"controllers that vote too may be alive: {names}; two quorums would tear the cluster apart, so make sure "
            "that none of them runs or will ever be started again with its disk, and say so with ",
            Ask.OTHERS_ARE_GONE,
        ),
        reason="others",
    )


def _named(voter: KnownVoter) -> str:
    places = ", ".join(f"{host}:{port}" for _name, host, port in voter.endpoints)
    return f"{voter.node} at {places}" if places else f"{voter.node}"


def refuse_contradictions(quorum: Quorum) -> None:
    """Raise `RecoveryRefused` if two copies contradict each other: the files do not show which copy is right."""
    for contradiction in quorum.contradictions:
        raise RecoveryRefused(
            f"{contradiction}; find out which (copies that are alike in `kafkalog quorum show` were there before), and "
            "leave it out",
            reason="contradiction",
        )


_OTHERWISE = Sentence(
    "give another copy, as a further path or with ",
    Ask.BROKER,
    ", or make a controller of a broker's copy with ",
    Ask.FROM_BROKER,
)


def refuse_damage(best: QuorumLog, wanted: QuorumRecovery, image: MetadataImage) -> None:
    """Raise `RecoveryRefused` if the best copy is empty or cannot be used, or if its metadata before the damage
    (`image`) is empty. Also raise it if records after its damage would be cut off without `accept_loss`. A snapshot
    that is damaged or does not fit the log is accepted if it can be removed.
    """
    if best.refusal is not None and not broken_snapshots(best):
        raise RecoveryRefused(Sentence(f"{best.root}: {best.refusal}; ", _OTHERWISE), reason="unusable")
    if best.is_displaced:
        raise RecoveryRefused(
            Sentence(
                f"{best.root}: a batch of its metadata log has a wrong base offset; first see whether ",
                Ask.REPAIR_BITS,
                " mends it: ",
                Advice("{}", Ask.PLAN_METADATA, {"root": best.root}),
            ),
            reason="unusable",
        )
    if best.end == 0:
        raise RecoveryRefused(
            Sentence(f"{best.root}: {best.why_empty}; ", _OTHERWISE), reason="unusable"
        )
    if has_lost_all(best, image):
        raise RecoveryRefused(
            Sentence(
                f"{best.root}: its metadata log is damaged after offset {best.end}, and a controller would take what "
                "is before that for empty; ",
                _OTHERWISE,
                ", or see what can be done about it (",
                Ask.REPAIR_BITS,
                "): ",
                Advice("{}", Ask.PLAN_METADATA, {"root": best.root}),
            ),
            reason="unusable",
        )
    if best.records_behind_damage and not wanted.accept_loss:
        raise RecoveryRefused(
            Sentence(
                f"the metadata log in {best.root} is damaged after offset {best.end}, and "
                f"{counted(best.records_behind_damage, 'record')} behind the damage would be cut off; give another "
                "copy, or give these records up with ",
                Ask.ACCEPT_LOSS,
                ", or see what can be done about it (",
                Ask.REPAIR_BITS,
                "): ",
                Advice("{}", Ask.PLAN_METADATA, {"root": best.root}),
            ),
            reason="loss",
        )


def refuse_no_files(logs: Sequence[QuorumLog]) -> None:
    """Raise `RecoveryRefused` if a dangling link or a directory is in place of a segment's log file. The content of the
    segment is missing then.
    """
    for finding in (finding for log in logs for finding in log.findings):
        if finding.code is FindingCode.FOREIGN_FILE and finding.severity is Severity.ERROR:
            raise RecoveryRefused(
                f"{finding.file}: {finding.detail}; put the file back in its place, or leave this directory out",
                reason="unusable",
            )


def refuse_half_changed(logs: Iterable[QuorumLog]) -> None:
    """Raise `RecoveryRefused` if an execution on the log directory of one of these copies was interrupted."""
    for finding in (finding for log in logs for finding in log.findings):
        if finding.code is FindingCode.RUN_UNFINISHED:
            raise RecoveryRefused(finding.detail, reason="unfinished")


def refuse_epochs(quorum: Quorum) -> None:
    """Raise `RecoveryRefused` if the log or `quorum-state` of any copy has an epoch that is too large for any cluster.
    Such an epoch is damage.
    """
    for log in (survivor.log for survivor in quorum.survivors):
        if log.latest_epoch > _LAST_EPOCH:
            if log.epoch > _LAST_EPOCH:
                where, way = log.directory, "leave this directory out"
            else:
                where = f"{log.directory}/{QUORUM_STATE}"
                way = "leave this directory out, or move that file away: the epoch is then that of the log"
            raise RecoveryRefused(
                f"{where} names epoch {log.latest_epoch}, which is damage, as no cluster has had so many elections: "
                f"{way}",
                reason="unusable",
            )


def refuse_old_metadata(image: MetadataImage) -> None:
    """Raise `RecoveryRefused` if the `metadata.version` is missing or older than 3.9, the first with dynamic voters."""
    level = image.features.get("metadata.version", 0)
    if level < _FIRST_DYNAMIC:
        raise RecoveryRefused(
            f"metadata.version {level} is older than 3.9, which has dynamic voters first: keep static voters",
            reason="version",
        )
