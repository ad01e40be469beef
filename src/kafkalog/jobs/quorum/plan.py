"""Plan how to recover a quorum, and what is lost by it; nothing is changed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack

from msgspec.structs import replace

from kafkalog.cluster.kraft.metadata_image import MetadataImage
from kafkalog.cluster.kraft.quorum import KnownVoter, Quorum, read_quorum
from kafkalog.cluster.kraft.quorum_log import QuorumLog, root_of_metadata
from kafkalog.codec.common.advice import Ask, Sentence
from kafkalog.codec.common.findings import FindingCode
from kafkalog.codec.common.wording import counted
from kafkalog.codec.files.kraft import KRaftRecord, VoterNode
from kafkalog.codec.files.quorum_state import QuorumState
from kafkalog.codec.names import (
    CLUSTER_METADATA_DIRECTORY,
    CLUSTER_METADATA_TOPIC,
    QUORUM_STATE,
    DirectoryState,
    parse_partition_directory,
)
from kafkalog.codec.parsing.properties import decode_properties
from kafkalog.jobs.quorum.expiry import PREVENTION, expiry_of
from kafkalog.jobs.quorum.mending import any_needs_mending, image_of
from kafkalog.jobs.quorum.metadata_tree import (
    NOBODY,
    NewMetadata,
    actions_of,
    broken_snapshots,
    content_elsewhere,
    cut_of,
    make_metadata,
)
from kafkalog.jobs.quorum.planned import DirectoryChange, QuorumPlan
from kafkalog.jobs.quorum.properties import listener_lines, log_dirs_line
from kafkalog.jobs.quorum.refusals import (
    gone,
    is_settled,
    needless,
    one_quorum,
    refuse_contradictions,
    refuse_damage,
    refuse_epochs,
    refuse_half_changed,
    refuse_kinds,
    refuse_majority,
    refuse_no_files,
    refuse_old_metadata,
    refuse_others,
)
from kafkalog.jobs.quorum.request import QuorumRecovery, QuorumWay
from kafkalog.jobs.quorum.voters import (
    QuorumMember,
    bootstrap_line,
    endpoints_known,
    listener_of,
    members_of,
    new_member,
    new_records,
    node_of,
    static_line,
)
from kafkalog.log.directories.directory import is_log_dir
from kafkalog.log.disk.files import scan_directory
from kafkalog.log.storage.content import Content
from kafkalog.recovery.decide.refusals import refuse_unsafe
from kafkalog.recovery.facts.survey import Survey, survey
from kafkalog.recovery.facts.topic_facts import node_id_of

__all__ = ["make_plan"]

_ONLY_METADATA = frozenset({CLUSTER_METADATA_DIRECTORY})
_KRAFT_STATIC, _KRAFT_DYNAMIC = 0, 1


def make_plan(
    stack: ExitStack, wanted: QuorumRecovery, roots: Sequence[str], refuse_in_use: Callable[[str], None]
) -> QuorumPlan:
    """Plan the recovery of a quorum; reads only. `wanted` is the request, whose options were already checked. `roots`
    are the log directories of the controllers that will form the quorum. If nothing has to be done, the plan has the
    reason in `needless` and no actions.

    `stack` gets the surveys of the plan and closes them. `refuse_in_use` is called with each log directory, and raises
    if a process uses it. Raises `RecoveryRefused` if recovery is impossible, if an execution on another copy was
    interrupted, or if consent is needed that the request does not give. Raises `UsageError` for a path without a
    metadata log. Raises `StorageError` if a file cannot be read.
    """
    wanted = _rooted(wanted)
    with_metadata = [root for root in wanted.brokers if os.path.isdir(os.path.join(root, CLUSTER_METADATA_DIRECTORY))]
    quorum = one_quorum(read_quorum(*roots, *wanted.beside, *with_metadata))
    logs = {survivor.log.root: survivor.log for survivor in quorum.survivors}
    targets = [logs[root] for root in roots]
    best = quorum.best
    for root in dict.fromkeys([*logs, *wanted.brokers]):
        refuse_in_use(root)
    refuse_half_changed(log for root, log in logs.items() if root not in roots)  # those are examined when opened
    refuse_contradictions(quorum)
    refuse_no_files([best, *targets])
    image = image_of(best, cut_of(best, wanted))
    refuse_damage(best, wanted, image)
    refuse_epochs(quorum)
    refuse_kinds(quorum, targets, wanted, image)
    refuse_majority(quorum, wanted)
    known = endpoints_known(best, image)
    members = members_of(targets, wanted, known)
    if wanted.way is QuorumWay.FROM_BROKER:
        members = (new_member(wanted.node or 0, wanted),)
    others = gone(quorum, [(member.node, member.directory_id) for member in members])
    is_dynamic = wanted.becomes_dynamic or not best.is_static
    if wanted.becomes_dynamic and best.is_static:
        refuse_old_metadata(image)
    voters = tuple(node_of(member, wanted, known, best.voters) for member in members) if is_dynamic else ()
    why_not = None if cut_of(best, wanted) is not None else needless(quorum, targets, voters, wanted)
    if why_not is not None:
        lines = [static_line(members)] if best.is_static else [bootstrap_line(best.voters)]
        quorum_plan = _nothing(stack, wanted, quorum, targets, members, why_not)
        quorum_plan.warnings = list(_of_starting_over(best, wanted))
        quorum_plan.configuration = [("every controller and broker", lines)]
        return quorum_plan
    refuse_others(others, wanted)
    quorum_plan = _Making(
        stack=stack,
        wanted=wanted,
        quorum=quorum,
        targets=targets,
        members=members,
        voters=voters,
        others=others,
        listener=listener_of(wanted, known),
        image=image,
    ).plan()
    quorum_plan.expiry = expiry_of(image, _brokers(wanted, roots, logs), wanted.config, wanted.now_ms)
    if quorum_plan.expiry:
        quorum_plan.configuration.append(("every broker, until it is clear what may go", list(PREVENTION)))
    nodes = {member.node for member in members} | image.brokers.keys()
    quorum_plan.configuration = _not_yet_there(quorum_plan.configuration, nodes, wanted.properties)
    return quorum_plan


def _not_yet_there(
    configuration: Sequence[tuple[str, list[str]]], nodes: Set[int], given: Mapping[int, Mapping[str, str]]
) -> list[tuple[str, list[str]]]:
    """Return `configuration` without the lines that every node of `nodes` already has in its properties, and without
    entries that have no line left. `given` are the properties by node id; if those of one of `nodes` are missing,
    `configuration` is returned unchanged.
    """
    if not nodes <= given.keys():
        return list(configuration)
    missing = [(who, [line for line in lines if not all(_has_line(given[node], line) for node in nodes)])
               for who, lines in configuration]  # fmt: skip
    return [(who, lines) for who, lines in missing if lines]


def _has_line(settings: Mapping[str, str], line: str) -> bool:
    return decode_properties(line.encode()).items() <= settings.items()


def _nothing(
    stack: ExitStack,
    wanted: QuorumRecovery,
    quorum: Quorum,
    targets: Sequence[QuorumLog],
    members: tuple[QuorumMember, ...],
    why: str,
) -> QuorumPlan:
    """Return a plan that changes nothing; `why` is a sentence with the reason. The surveys of the directories are added
    to `stack`. Raises `StorageError` if a directory cannot be listed.
    """
    best = quorum.best
    surveys = {log.root: stack.enter_context(survey(log.root, only=_ONLY_METADATA)) for log in [*targets, best]}
    changes = [DirectoryChange(log.root, log.node or 0, surveys[log.root], [], log.end) for log in targets]
    return QuorumPlan(
        wanted=wanted,
        quorum=quorum,
        donor=best,
        members=members,
        voters=best.voters,
        others=(),
        epoch=best.epoch,
        metadata=NewMetadata(files={}, end_before=best.end, end=best.end, batch=b""),
        changes=changes,
        donor_survey=surveys[best.root],
        needless=why,
    )  # fmt: skip


def _brokers(
    wanted: QuorumRecovery, controllers: Sequence[str], logs: Mapping[str, QuorumLog]
) -> list[tuple[str, int | None]]:
    """Pairs of log directory and node id (None if unknown) of the nodes that have partitions: the request's brokers,
    and controllers that are brokers too. Raises `StorageError` if a directory cannot be listed.
    """
    combined = [root for root in controllers if any(_is_live(entry.name) for entry in scan_directory(root))]
    roots = dict.fromkeys([*wanted.brokers, *combined])
    return [(root, logs[root].node if root in logs else node_id_of(root)) for root in roots]


def _is_live(name: str) -> bool:
    """Whether a directory name is that of a live partition; False for the metadata log."""
    parsed = parse_partition_directory(name)
    return parsed is not None and parsed.state is DirectoryState.LIVE and parsed.topic != CLUSTER_METADATA_TOPIC


def _rooted(wanted: QuorumRecovery) -> QuorumRecovery:
    def roots(paths: Sequence[str]) -> tuple[str, ...]:
        return tuple(root_of_metadata(path)[0] for path in paths)

    first, rest = wanted.brokers[:1], wanted.brokers[1:]
    if wanted.way is not QuorumWay.FROM_BROKER:
        first, rest = (), wanted.brokers
    data = tuple(os.path.realpath(path) if _holds_data_only(path) else roots([path])[0] for path in rest)
    return replace(wanted, beside=roots(wanted.beside), brokers=(*roots(first), *data))


def _holds_data_only(path: str) -> bool:
    """Whether a path is a broker's log directory without the metadata log, which must be in another one. Raises
    `StorageError` if the path cannot be listed.
    """
    real = os.path.realpath(path)
    holds_metadata = CLUSTER_METADATA_DIRECTORY in (os.path.basename(real), *_names(real))
    return not holds_metadata and os.path.isdir(real) and is_log_dir(real)


def _names(path: str) -> list[str]:
    return [entry.name for entry in scan_directory(path)] if os.path.isdir(path) else []


class _Making:
    """Builder of a plan, after all checks have passed."""

    def __init__(
        self,
        stack: ExitStack,
        wanted: QuorumRecovery,
        quorum: Quorum,
        targets: Sequence[QuorumLog],
        members: tuple[QuorumMember, ...],
        voters: tuple[VoterNode, ...],
        others: tuple[KnownVoter, ...],
        listener: str,
        image: MetadataImage,
    ) -> None:
        self.stack = stack
        self.wanted = wanted
        self.quorum = quorum
        self.targets = targets
        self.members = members
        self.voters = voters
        self.others = others
        self.listener = listener
        self.image = image
        self.best = quorum.best

    def plan(self) -> QuorumPlan:
        records = self.records()
        epoch = max(survivor.log.latest_epoch for survivor in self.quorum.survivors)
        # a vote that an unreadable quorum-state held must not be given again in the same epoch
        goes_back = cut_of(self.best, self.wanted) is not None
        is_new = bool(records) or (
            not self.voters and (self.is_smaller or goes_back or any_needs_mending(self.targets))
        )
        epoch += is_new
        donor_survey = self.surveyed(self.best.root)
        metadata = make_metadata(donor_survey, self.best, self.wanted, records, self.state(epoch), epoch)
        changes = [self.change(log, metadata) for log in self.targets]
        quorum_plan = QuorumPlan(
            wanted=self.wanted,
            quorum=self.quorum,
            donor=self.best,
            members=self.members,
            voters=self.voters,
            others=self.others,
            epoch=epoch,
            metadata=metadata,
            changes=[*(change for change in changes if change.root != self.best.root),
             *(change for change in changes if change.root == self.best.root)],
            donor_survey=donor_survey,
        )  # fmt: skip
        if self.wanted.way is QuorumWay.FROM_BROKER:
            member = self.members[0]
            quorum_plan.identity = member.node, member.directory_id or ""
        quorum_plan.configuration = self.configuration()
        quorum_plan.warnings = self.warnings(quorum_plan)
        return quorum_plan

    def surveyed(self, root: str) -> Survey:
        return self.stack.enter_context(survey(root, only=_ONLY_METADATA))

    @property
    def is_smaller(self) -> bool:
        """Whether a static voter is not in the new quorum; the epoch must rise then, so that its old log cannot win an
        election.
        """
        return bool(self.others) or self.wanted.way is QuorumWay.FROM_BROKER

    def records(self) -> tuple[KRaftRecord, ...]:
        """Return the control records to append to the log; empty if none are needed. Static voters need none. Dynamic
        voters need none under two conditions. The log already ends with these voters, as a recovery wrote them
        (`is_settled`). It is not truncated to where a controller started the metadata over.
        """
        if not self.voters:
            return ()
        wanted = {(voter.voter_id, voter.directory_id, voter.endpoints) for voter in self.voters}
        standing = {(voter.voter_id, voter.directory_id, voter.endpoints) for voter in self.best.voters}
        if wanted == standing and is_settled(self.best) and cut_of(self.best, self.wanted) is None:
            return ()
        return new_records(self.voters, becomes_dynamic=self.best.is_static)

    def state(self, epoch: int) -> QuorumState:
        """Return the new `quorum-state` at `epoch`: without leader and vote, because votes for lost nodes are void.

        Static voters are listed in it; dynamic voters are not, because they are in the log.
        """
        if self.voters:
            return QuorumState(data_version=_KRAFT_DYNAMIC, leader_id=NOBODY, leader_epoch=epoch)
        before = self.best.state
        cluster = "" if before is None else before.cluster_id
        ids = tuple(sorted(member.node for member in self.members))
        return QuorumState(
            data_version=_KRAFT_STATIC, leader_id=NOBODY, leader_epoch=epoch, current_voters=ids, cluster_id=cluster
        )

    def change(self, log: QuorumLog, metadata: NewMetadata) -> DirectoryChange:
        survey = self.surveyed(log.root)
        files: dict[str, Content] = metadata.files
        if log.root != self.best.root:
            files = content_elsewhere(files, self.best.root)
        actions = [] if self.stays(log) else actions_of(survey, files)
        refuse_unsafe(survey, actions, survey.tree())
        return DirectoryChange(log.root, log.node or 0, survey, actions, log.end)

    def stays(self, log: QuorumLog) -> bool:
        """Whether no file of this directory changes: the voters are static and all here, nothing has to be repaired,
        and the log ends where the best one does.
        """
        is_needless = not self.is_smaller and not any_needs_mending(self.targets)
        is_whole = log.position == self.best.position and cut_of(self.best, self.wanted) is None
        return not self.voters and is_needless and is_whole

    def configuration(self) -> list[tuple[str, list[str]]]:
        lines: list[tuple[str, list[str]]] = []
        given = self.wanted.properties
        for member in self.members:
            own = list(listener_lines(self.listener, member.place, given.get(member.node)))
            if self.wanted.way is QuorumWay.FROM_BROKER:
                place = os.path.abspath(self.wanted.into or "")
                own = ["process.roles=controller", f"node.id={member.node}", log_dirs_line(place), *own,
                       f"controller.listener.names={self.listener}"]  # fmt: skip
                lines.append((f"controller {member.node}", own))
            elif member.node in self.wanted.endpoints and not self.listens_beside(member):
                lines.append((f"controller {member.node}", own))
        who = "every controller and broker"
        if self.voters:
            quorum_lines = [bootstrap_line(self.voters)]
            if self.best.is_static or any("controller.quorum.voters" in settings for settings in given.values()):
                who += ", in place of controller.quorum.voters"
        else:
            quorum_lines = [static_line(self.members)]
        return [*lines, (who, quorum_lines)]

    def listens_beside(self, member: QuorumMember) -> bool:
        """Whether the member is a broker too, and its other listeners are unknown."""
        return member.node in self.image.brokers and member.node not in self.wanted.properties

    def warnings(self, made: QuorumPlan) -> list[str]:
        sentences = []
        names = ", ".join(made.stay_dead)
        if self.others:
            sentences.append(_never_again(names, len(self.others) > 1))
        brokers = sorted({voter.node for voter in self.others if voter.node in self.image.brokers})
        if brokers and self.image.topics:
            sentences.append(
                f"partitions with replicas on {', '.join(map(str, brokers))} may have no leader when the others start: "
                "`kafkalog triage` says which, and what to do, with the directories of all brokers that are left"
            )
        here = {survivor.log.node for survivor in self.quorum.survivors}
        in_force = {voter.node for voter in self.quorum.in_force}
        if not self.quorum.has_majority and not (in_force and in_force <= here):
            sentences.append(
                f"metadata that only {names or 'others'} had is lost: topics, partitions, configurations and access "
                "control entries that were created, changed or removed last"
            )
        sentences += [
            f"{finding.file}: {finding.detail}"
            for finding in self.quorum.findings
            if finding.code is FindingCode.CHECKPOINT_INVALID and (finding.file or "").endswith(QUORUM_STATE)
        ]
        if self.quorum.later_epoch is not None:
            sentences.append(f"epoch {self.quorum.later_epoch} was voted on and nothing that was written in it is here")
        sentences += [
            f"{finding.file}: {finding.detail}"
            for finding in self.quorum.findings
            if finding.code is FindingCode.IDENTITY_MISMATCH
        ]
        nodes = {member.node for member in self.members}
        sentences += [
            f"{_are(sum(survivor.has_more.values()), 'record')} set aside that only {survivor.log.root} has"
            for survivor in self.quorum.survivors
            if survivor.is_diverged and survivor.log.node in nodes
        ]
        sentences += self.of_best()
        sentences += [
            Sentence(
                f"node {member.node} is a broker too: in its listeners only {self.listener}://{member.place} is new "
                "and the others stay as they are (",
                Ask.PROPERTIES,
                " FILE prints the whole line)",
            )
            for member in self.members
            if member.node in self.wanted.endpoints and self.listens_beside(member)
        ]
        if made.is_static:
            sentences.append(
                Sentence(
                    "the voters are static, so the configuration decides, and not the files: the line below must be in "
                    "the properties of every controller and broker before the first of them starts (",
                    Ask.DYNAMIC,
                    " makes the voters dynamic instead)",
                )
            )
        return sentences

    def of_best(self) -> Iterator[str]:
        """Yield sentences about the parts of the best log that are cut off, and about the log or snapshots that are set
        aside. Metadata that a controller has started over gets sentences too. Raises `StorageError` while iterating if
        the log cannot be read.
        """
        best = self.best
        yield from _of_starting_over(best, self.wanted)
        if best.is_torn:
            yield f"the torn end of the log in {best.root} is cut off first"
        impossible = {snapshot.file for snapshot in best.snapshots if snapshot.problem is not None}
        for name in broken_snapshots(best):
            what = (
                f"the snapshot {name}, which cannot be of this log,"
                if name in impossible
                else f"the damaged snapshot {name}"
            )
            yield f"{what} is set aside"
        if best.drops_log:
            yield (
                f"the log in {best.root} ends at offset {best.log_end[1]} of epoch {best.log_end[0]}, before its "
                "newest snapshot, and is set aside, as a start would delete it"
            )
        if best.ends_in_damage:
            yield f"the log in {best.root} ends in damage after offset {best.end}, which is cut off"
        if best.records_behind_damage:
            yield f"{_are(best.records_behind_damage, 'record')} cut off after the damage in {best.root}"


def _of_starting_over(best: QuorumLog, wanted: QuorumRecovery) -> Iterator[str]:
    """Yield one sentence if a controller took the metadata for empty and began it again; nothing otherwise. If the
    request goes back to the earlier metadata, the sentence says what returns and how many records are set aside.
    Otherwise it names the options that go back. Raises `StorageError` while iterating if the log cannot be read.
    """
    place = best.started_over
    if place is None:
        return
    if cut_of(best, wanted) is None:
        yield Sentence(f"{place}; ", Ask.STANDALONE, " with ", Ask.ACCEPT_LOSS, " goes back to them")
        return
    since = sum(best.records_between(place.offset, best.end).values())
    yield (
        f"the log goes back to offset {place.offset}, before a controller started the metadata over: {place.topics} "
        f"topics and {place.acls} access control entries are there again, and {_are(since, 'record')} set aside that "
        "came since"
    )


def _never_again(names: str, are_several: bool) -> str:
    if are_several:
        return (
            f"controllers {names} must never be started again with the disks that they have: wipe and format them "
            "before they join again"
        )
    return (
        f"controller {names} must never be started again with the disk that it has: wipe and format it before it joins "
        "again"
    )


def _are(count: int, noun: str) -> str:
    return f"{counted(count, noun)} {'is' if count == 1 else 'are'}"
