"""Add forecasts of the whole node's start to plans: a start also depends on files other than the directory's logs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from msgspec import structs

from kafkalog.codec.common.errors import StorageError, UsageError
from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.names import (
    CLUSTER_METADATA_DIRECTORY,
    META_PROPERTIES,
    SHARE_GROUP_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
    FileKind,
)
from kafkalog.log.directories.partition import open_partition
from kafkalog.log.disk.files import unreadable
from kafkalog.recovery.broker.manager import BrokerResult, StartResult
from kafkalog.recovery.broker.node.answer import (
    ConsequenceKind,
    NodeStart,
    Part,
    ReplacedConsequence,
    StartOutcome,
)
from kafkalog.recovery.broker.node.bootstrap import BOOTSTRAP_CHECKPOINT
from kafkalog.recovery.broker.node.sentences import node_findings
from kafkalog.recovery.broker.start_question import StartQuestion, directories_of_node, findings_for, start_with
from kafkalog.recovery.checks.checkpoint_checks import verify_beside
from kafkalog.recovery.checks.lost_and_found import offered_once
from kafkalog.recovery.checks.started_over import findings_of_starting_over
from kafkalog.recovery.decide.actions import ActionKind, RecoveryAction
from kafkalog.recovery.decide.aftermath import LossConsequence, of_earlier_ends, of_missing
from kafkalog.recovery.decide.plan import Plan
from kafkalog.recovery.facts.coordinators import Coordinators
from kafkalog.recovery.facts.recovery_request import Rules

__all__ = ["start_now", "with_nodes"]


def with_nodes(plans: Sequence[Plan], rules: Mapping[str, Rules]) -> list[Plan]:
    """Return the plans, in order, with two forecasts of their node's start: on the directories as they are, and after
    the plans (None as in `BrokerForecast.after`). `rules` are by log directory. Plans that were made without comparing
    ways, or whose broker's start could not be predicted, get neither these nor the following. Each node is predicted
    once, from the results of loading the logs in these plans. If only some partitions were examined, no further
    segments are read for it. Findings about one file outside the logs are reduced in all plans, as `offered_once` does.

    If the logs of a directory load, or the start after the plans is known, its plan also gets the consequences of the
    start. If the logs load, it also gets findings about the start and the metadata log. Then the plan is also refused
    if a later release than those asked about has written the files, so that none of them starts; and the outcome
    becomes START_FAILS if the node starts with no release. A `bootstrap.checkpoint` that prevents the start is removed
    by the plan too (`_without_bootstrap`).

    Raises `StorageError` if a file that a start reads cannot be read, `UsageError` if the release asked about is not
    known.
    """
    loaded = {
        plan.root: logs
        for plan in plans
        if isinstance(logs := plan.broker.logs, BrokerResult)
        and not (plan.survey.is_partial and logs.outcome == StartResult.LOADED)
    }
    by_root = {plan.root: plan for plan in plans}
    starts: dict[tuple[str, ...], tuple[NodeStart, NodeStart | None]] = {}

    def starts_of(plan: Plan) -> tuple[NodeStart, NodeStart | None]:
        """Return the node's start on the directories as they are, and after the plans as in `BrokerForecast.after`."""
        asked, facts = rules[plan.root], rules[plan.root].facts
        roots = tuple(directories_of_node(plan.root, facts.directories))
        if roots not in starts:
            question = StartQuestion(asked.release, asked.server)
            own = {root: loaded[root] for root in roots if root in loaded}
            together = facts.directories
            start = start_with(plan.root, together, own, question, asked.at, facts.controllers, facts.apart)
            left = {} if start.loses_nothing else _left_by([by_root[root] for root in roots if root in by_root], start)
            after = None if not left else start_with(
                plan.root, together, {**own, **left}, question, asked.at, facts.controllers, facts.apart,
                {root: result.tree for root, result in left.items()},
            )  # fmt: skip
            starts[roots] = start, None if after is None or _is_same_failure(start, after) else after
        return starts[roots]

    asked = [
        plan if plan.broker.logs is None or plan.broker.outcome is None
        else _with_node(plan, rules[plan.root], *starts_of(plan))
        for plan in plans
    ]  # fmt: skip
    once = offered_once({plan.root: plan.findings for plan in asked})
    return [replace(plan, findings=once[plan.root]) for plan in asked]


def _is_same_failure(start: NodeStart, after: NodeStart) -> bool:
    """Return whether the plans leave what a start fails by, so that they tell nothing of it."""
    one, other = start.worst, after.worst
    is_failure = one.outcome is other.outcome is StartOutcome.FAILS
    return is_failure and (one.exception, one.message) == (other.exception, other.message)


def _left_by(plans: Sequence[Plan], start: NodeStart) -> dict[str, BrokerResult]:
    """Load the logs of one node as its plans leave them. Return the result for each log directory that a plan changes,
    with the tree that the plan leaves. Empty if nothing is changed, or if one of the plans is refused, declines
    partitions or has an unknown result.
    """
    left: dict[str, BrokerResult] = {}
    for plan in plans:
        planned = _without_bootstrap(plan, start)
        if planned.refusal is not None or planned.declined or planned.broker.outcome is None:
            return {}
        if not planned.actions:
            continue
        result = plan.broker.logs_after if plan.actions else plan.broker.logs
        if not isinstance(result, BrokerResult):
            return {}
        tree = (result.tree if plan.actions else plan.survey.tree()).copy()
        if planned is not plan:
            tree.delete(BOOTSTRAP_CHECKPOINT)
        left[plan.root] = structs.replace(result, tree=tree)
    return left


def _with_node(plan: Plan, rules: Rules, start: NodeStart, after: NodeStart | None) -> Plan:
    facts = rules.facts
    broker = replace(plan.broker, node=start, strays=start.strays, logs=None, logs_after=None, after=after)
    plan = _without_bootstrap(plan, start)
    if broker.outcome != StartResult.LOADED:
        plan = replace(plan, broker=broker)
        return plan if after is None else _with_consequences(plan, rules)
    newest = start.answers[-1]
    if plan.refusal is None and all(answer.is_of_newer_files for answer in start.answers):
        plan = _refused(plan, f"a recovery does not make it start: {newest.condition}, which may need no recovery")
    if start.never_starts:
        broker = replace(broker, outcome=StartResult.START_FAILS, exception=newest.exception, message=newest.message,
                         is_of_node=True)  # fmt: skip
    together = rules.facts.directories
    of_start = node_findings(start) if plan.survey.is_partial else findings_for(start, plan.root, together)
    findings = [finding.in_file(os.path.relpath(finding.file or plan.root, plan.root)) for finding in of_start]
    if facts.apart:
        detail = (
            f"it names another broker or cluster than {facts.apart[0]}: a broker that has both starts with neither; "
            "mount it at its own broker, or take it out of log.dirs in server.properties"
        )
        findings.append(Finding(FindingCode.IDENTITY_MISMATCH, Severity.WARNING, None, None, detail, META_PROPERTIES))
    known = {(finding.code, finding.file, finding.position) for finding in plan.findings}
    of_metadata = [
        finding
        for finding in _of_metadata_log(plan.root, rules)
        if (finding.code, finding.file, finding.position) not in known
    ]
    return _with_consequences(replace(plan, broker=broker, findings=[*plan.findings, *of_metadata, *findings]), rules)


def _with_consequences(plan: Plan, rules: Rules) -> Plan:
    """Return the plan with the consequences of the node's start added (`Plan.node_then`), and without those of
    partitions whose only directory the start puts out of service. Consequences of partitions that no directory of the
    node has then are added only to the plan of its first directory. They are left out if it is not certain that all its
    directories were given. Unchanged without a forecast of the node's start. Raises `StorageError` if a file cannot be
    read.
    """
    start, facts = plan.broker.node_then, rules.facts
    if start is None:
        return plan
    is_first = os.path.abspath(plan.root) == start.roots[0]  # plans of the node's other directories need not say it
    missing = _without_directory(start) if is_first and start.not_given == 0 else []
    coordinators = Coordinators([plan.root, *facts.roots], facts.partitions_of(SHARE_GROUP_STATE_TOPIC))
    is_lost = any(name.startswith(f"{TRANSACTION_STATE_TOPIC}-") for name in start.lost)
    return replace(
        plan,
        consequences=(
            *_served(plan, start),
            *of_missing(missing, coordinators),
            *of_earlier_ends(_replaced(plan, start), coordinators),
            *(plan.if_coordinator_is_lost if is_lost else ()),
        ),
    )  # fmt: skip


def _refused(plan: Plan, why: str) -> Plan:
    """Return the plan with a refusal, which applies to its ways too."""
    ways = [structs.replace(way, refusal=way.refusal or why) for way in plan.choice.ways]
    choice = structs.replace(plan.choice, ways=ways)
    return replace(plan, refusal=why, refused_by="written_by_newer", choice=choice)


def _replaced(plan: Plan, start: NodeStart) -> dict[str, int]:
    """Return the log end offsets of `-future` copies in the plan's directory, by name of the partition. Only copies
    count that replace the current log at the start although they end earlier. Copies whose end is unknown are left out.
    """
    ends = {partition.name: partition.log_end_offset for partition in plan.partitions}
    replaced = {
        name: ends.get(os.path.basename(consequence.file))
        for answer in start.judged
        for consequence in answer.consequences
        if isinstance(consequence, ReplacedConsequence) and consequence.file is not None
        if os.path.dirname(consequence.file) == os.path.abspath(plan.root)
        for name in consequence.lost
    }
    return {name: end for name, end in replaced.items() if end is not None}


def _without_directory(start: NodeStart) -> list[str]:
    """Names of the partitions that the start loses, except those whose directory exists and keeps its name."""
    strays = _strays(start)
    return [name for name in start.lost if name in strays or not _places(start, name)]


def _served(plan: Plan, start: NodeStart) -> list[LossConsequence]:
    """The plan's consequences, except those of directories that the start takes out of service; these count if another
    log directory of the node has the partition too.
    """
    strays = _strays(start)
    return [each for each in plan.consequences if each.partition not in strays or _places(start, each.partition) > 1]


def _strays(start: NodeStart) -> set[str]:
    """Partition directories that the start renames `-stray` or removes, with evidence that it should or without."""
    kinds = (ConsequenceKind.STRAY, ConsequenceKind.DELETED, ConsequenceKind.EXPECTED_STRAY)
    consequences = (consequence for answer in start.answers for consequence in answer.consequences)
    return {name for consequence in consequences if consequence.kind in kinds for name in consequence.names}


def _places(start: NodeStart, name: str) -> int:
    return sum(os.path.lexists(os.path.join(root, name)) for root in start.roots)


def _without_bootstrap(plan: Plan, start: NodeStart) -> Plan:
    """Return the plan with a finding about `bootstrap.checkpoint`, if this file prevents a start and the metadata log
    has data. If it prevents the start of all releases that were asked about, its removal is the first action.
    Otherwise the plan is returned unchanged, also if the file is missing or the plan's mode is not compared with
    others.
    """
    path = os.path.join(plan.root, BOOTSTRAP_CHECKPOINT)
    refusing = [
        releases
        for releases, answer in start.grouped
        if any(
            fault.part is Part.BOOTSTRAP and os.path.realpath(fault.file) == os.path.realpath(path)
            for fault in answer.faults
        )
    ]
    has_records = any(
        name.startswith(f"{CLUSTER_METADATA_DIRECTORY}/") and name.endswith(FileKind.LOG.value) and facts.size
        for name, facts in plan.survey.files.items()
    )
    is_ours = plan.mode.spec.is_compared and BOOTSTRAP_CHECKPOINT in plan.survey.files
    if not (refusing and has_records and is_ours):
        return plan
    detail = f"Kafka {' and '.join(refusing)} does not start with it; the metadata log has records and does not need it"
    code = FindingCode.CHECKPOINT_INVALID
    if not start.never_starts:
        detail = f"{detail}: a recovery that is asked about such a release alone sets it aside"
        finding = Finding(code, Severity.WARNING, None, None, detail, BOOTSTRAP_CHECKPOINT)
        return replace(plan, findings=[*plan.findings, finding])
    finding = Finding(code, Severity.ERROR, None, None, f"{detail}, so it is set aside", BOOTSTRAP_CHECKPOINT)
    action = RecoveryAction(kind=ActionKind.REMOVE, path=BOOTSTRAP_CHECKPOINT)
    return replace(plan, actions=[action, *plan.actions], findings=[*plan.findings, finding])


def _of_metadata_log(root: str, rules: Rules) -> list[Finding]:
    """Return the warnings and errors of `verify` about the metadata log, followed by findings about metadata that was
    started over; paths are relative to `root`. Records are not decoded. Empty if the plan includes the metadata log
    (`rules.cluster_metadata`), or if there is none or it has no segment. An unreadable log becomes a finding; nothing
    is raised for it.
    """
    path = os.path.join(root, CLUSTER_METADATA_DIRECTORY)
    if rules.cluster_metadata or not os.path.isdir(path):
        return []
    try:
        findings = verify_beside(open_partition(path), None, deep=False).findings
    except StorageError as error:
        findings = [unreadable(error, path)]
    except UsageError:  # there is no segment, which the model of the start judges
        return []
    worse = [finding for finding in findings if finding.severity is not Severity.INFO] + findings_of_starting_over(root)
    return [finding.in_file(os.path.relpath(finding.file or path, root)) for finding in worse]


def start_now(root: str, rules: Rules, before: NodeStart | None) -> NodeStart | None:
    """Predict the node's start on the directory as it is now, after a recovery, from the same facts as the plan
    (`start_with`). `before` is the plan's prediction, if any. The logs, which the recovery has verified, are not loaded
    again if the start changes nothing according to `before`. Return None if the metadata log, a snapshot of it or
    `quorum-state` cannot be read, or a `partition.metadata` of a node without a known role. If another file cannot be
    read, the answers are UNKNOWN. Raises `UsageError` if the release asked about is not known.
    """
    facts = rules.facts
    try:
        return start_with(
            root, facts.directories, {}, StartQuestion(rules.release, rules.server), rules.at, facts.controllers,
            facts.apart, loads_others=before is None or not before.changes_nothing,
        )  # fmt: skip
    except StorageError:
        return None
