"""Build the plan of a recovery: the forecast of Kafka's own start, the actions, and what each partition keeps.

`plan_of` makes a plan from forecasts and the compared ways. It changes nothing; a plan is valid only for its survey.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from msgspec import structs

from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.common.findings import Finding, FindingCode, FindingJson, Severity
from kafkalog.codec.common.shapes import plain, shaped
from kafkalog.codec.files.text import NEW_CLEAN_SHUTDOWN, CleanShutdown, decode_offset_checkpoint, encode_clean_shutdown
from kafkalog.codec.names import (
    CLEAN_SHUTDOWN_FILE,
    CLUSTER_METADATA_DIRECTORY,
    LOCK_FILE,
    LOG_START_OFFSET_CHECKPOINT,
    META_PROPERTIES,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    TRANSACTION_STATE_TOPIC,
    DirectoryState,
    FileKind,
    parse_partition_directory,
    parse_segment_file,
    segment_file,
)
from kafkalog.codec.plain.insides import Insides
from kafkalog.log.directories.checkpoint_findings import epoch_findings, too_high_end
from kafkalog.log.directories.partition import read_partition
from kafkalog.log.disk.pointer import half_done, partitions_kept_by_runs
from kafkalog.log.storage.content import Content, Literal
from kafkalog.log.storage.java import TooLargeError
from kafkalog.recovery.broker.identity import meta_properties_finding, names_newer_version
from kafkalog.recovery.broker.manager import BrokerResult, StartResult
from kafkalog.recovery.broker.node.answer import NodeStart
from kafkalog.recovery.checks.deleted_beyond_end import DeletedBeyondEnd
from kafkalog.recovery.checks.lost_and_found import (
    MISNAMED_BY,
    batches_outside,
    known_ends,
    misnamed_segments,
)
from kafkalog.recovery.checks.missing_partitions import (
    copied_directories,
    lost_places,
    missing_partitions,
    renamed_directories,
)
from kafkalog.recovery.checks.moments import moments_differ
from kafkalog.recovery.checks.overlaps import aborted_in_overlaps
from kafkalog.recovery.checks.owners import other_owners, shared_files_of
from kafkalog.recovery.checks.unfinished_moves import unfinished_moves
from kafkalog.recovery.decide.actions import (
    WRITTEN_AT_STOP,
    ActionJson,
    ActionKind,
    RecoveryAction,
    difference,
    marker_first,
)
from kafkalog.recovery.decide.aftermath import (
    LossConsequence,
    consequences,
    ends_going_back,
    of_log_starts,
    of_look_ups,
    of_overlaps,
    of_transaction_indexes,
    of_wrong_names,
    transactions_staying_open,
)
from kafkalog.recovery.decide.choice import RecoveryChoice
from kafkalog.recovery.decide.closed_in_order import findings_of_checks, is_for_full
from kafkalog.recovery.decide.deleted_data import (
    DeletedPartitions,
    deleted_beyond_end,
    deleted_partitions,
    lost_in_deleted,
    note_of_deleted,
    old_copies_elsewhere,
)
from kafkalog.recovery.decide.forecasts import Forecasts, SurveyedDirectory
from kafkalog.recovery.decide.longer_copies import longer_copies, of_copies
from kafkalog.recovery.decide.partition_plan import PartitionPlan, partition_plans
from kafkalog.recovery.decide.plan_json import BrokerForecastJson, PartitionPlanJson, PlanJson
from kafkalog.recovery.decide.refusals import (
    WRITTEN_BESIDE,
    Decision,
    refusal_in_every_mode,
    refusal_of,
    written_through,
)
from kafkalog.recovery.decide.ways import Measured, RecoveryWay, recommended
from kafkalog.recovery.decide.ways_json import way_json
from kafkalog.recovery.decide.written_end import epochs_of
from kafkalog.recovery.facts.own_identity import BY_HAND, directories_that_name
from kafkalog.recovery.facts.recovery_request import Recovery, Rules
from kafkalog.recovery.facts.survey import LINKED_DIRECTORY, Survey
from kafkalog.recovery.facts.topic_facts import NO_FACTS, SettingsJson, TopicFacts
from kafkalog.recovery.facts.unreadable import (
    findings_of_unreadable,
    sentences_of_unreadable,
    unpredicted_sentence,
    why_not_predicted,
)
from kafkalog.recovery.modes.spec import Help
from kafkalog.recovery.modes.table import Mode
from kafkalog.recovery.safe.normalize import Checkpoints, read_high_watermarks
from kafkalog.recovery.safe.result import SafeResult

_NEVER_TOUCHED = frozenset({LOCK_FILE})

__all__ = [
    "BrokerForecast", "PartitionPlan", "Plan", "other_brokers_in_sync", "plan_json", "plan_of",
    "with_findings_of_segments",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class BrokerForecast:
    """Forecast of Kafka 4.1's next start on the directory."""

    outcome: str | None
    """`loaded`, `start_fails` or `dir_offline`; None if unknown because not everything could be read"""
    exception: str | None
    message: str | None
    log_end_offsets: Mapping[str, int]
    """log end offset by partition directory"""
    clean_shutdown: bool
    """whether there is a clean-shutdown marker, so that the start does not scan logs"""
    valid_records_lost: Mapping[str, int] | None
    """number of records with valid checksums that would be lost, by partition directory; None if the logs
    do not load
    """
    strays: tuple[str, ...] = ()
    """partition directories that the start would rename to `-stray`, because the metadata does not place them here"""
    refusing: tuple[str, ...] = ()
    """partition directories whose log the start ends too low, below an index entry: the first appends are
    acknowledged, perhaps at offsets that are in use, and later ones are refused"""
    node: NodeStart | None = None
    """forecast of the whole node's start; None if it was not requested"""

    logs: object = field(default=None, repr=False, compare=False)
    """the `BrokerResult` of loading the logs, kept until the node's start is forecast from it; None afterwards"""
    logs_after: object = field(default=None, repr=False, compare=False)
    """the `BrokerResult` of loading the logs that the plan leaves, kept as long as `logs`; None if it is unknown, or if
    the plan changes nothing
    """
    after: NodeStart | None = None
    """forecast of the node's start after the plans for all of its directories, if the start on them as they are fails
    or loses something; None if it is unknown, or if the plans are refused or change nothing
    """
    is_of_node: bool = False
    """whether `outcome` is that of the whole node, while its logs alone would load"""

    @property
    def node_then(self) -> NodeStart | None:
        """Forecast of the node's start after the plans if it is known, else of the start on the directories as they
        are; None if neither is known.
        """
        return self.node if self.after is None else self.after

    @property
    def starts_and_loses_nothing(self) -> bool:
        """Whether the logs load, and the whole node, if it was asked about, starts, serves and loses nothing."""
        return self.outcome == StartResult.LOADED and (self.node is None or self.node.loses_nothing)


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that a recovery would do to one log directory, or why it would do nothing."""

    root: str
    mode: Mode
    broker: BrokerForecast
    actions: list[RecoveryAction]
    partitions: Sequence[PartitionPlan]
    survey: Survey = field(repr=False)
    refusal: str | None = None
    """why recovery in this mode declines, in one sentence; None if it does not"""
    refused_by: str | None = None
    """name of that reason in `refusals`"""
    findings: Sequence[Finding] = ()
    """why logs are truncated and files are set aside"""
    topics: TopicFacts = NO_FACTS
    """settings and placement of topics, and their source"""
    copies: tuple[str, ...] = ()
    """directories that hold other copies"""
    declined: Mapping[str, str] = field(default_factory=dict)
    """why a partition directory is left as it is, by name, while others are recovered"""
    choice: RecoveryChoice = field(default_factory=RecoveryChoice)
    """what each way of recovering keeps and loses"""
    deleted: str | None = None
    """one sentence if deleted data is still on disk and nothing else holds it; else None"""
    deleted_partitions: DeletedPartitions | None = None
    """`-delete` directories, which a start removes, with records that nothing else holds; None if there are none"""
    deleted_beyond_end: tuple[DeletedBeyondEnd, ...] = ()
    """`.deleted` segments, which a start removes, with records at or beyond the end of their log, by partition"""
    identity_in: tuple[str, ...] = ()
    """all log directories of the broker, if this one has lost its `meta.properties`, or an id in it, and it can be
    written again
    """
    consequences: Sequence[LossConsequence] = ()
    """consequences of lost records, or of the offsets at which logs end"""
    if_coordinator_is_lost: Sequence[LossConsequence] = ()
    """further consequences if a partition of `__transaction_state` is lost"""
    begins: Mapping[str, int] = field(default_factory=dict)
    """partition directory -> offset after the remote part, at which a tiered log without local files begins empty"""
    is_of_newer_kafka: bool = False
    """whether `meta.properties` has a version unknown here; a newer Kafka may start on it"""
    waits_for_a_run: bool = False
    """whether an interrupted execution comes first: a recovery in any mode completes it and does nothing else"""

    needs_full: bool = False
    """whether an error is left that a recovery with `full` repairs"""
    lost_in_deleted: tuple[str, ...] = ()
    """names of the partition directories whose `.deleted` files hold offsets that the recommended way loses"""
    kept_by_runs: tuple[str, ...] = ()
    """names of the partition directories that lose offsets with the recommended way, and of which earlier recoveries
    keep `.deleted` segments
    """
    request: Recovery | None = None
    """what it was made for"""

    @property
    def needs_consent(self) -> bool:
        """Whether recovery asks for consent: it would lose readable records or sound transaction markers, make a
        partition with records stray, or move away a directory that looks like a missing partition. Always False for
        mode kafka, which does what the broker would do.
        """
        if self.mode.spec.is_as_broker:
            return False
        return self.choice.own.drops_sound or bool(self.made_stray or self.choice.renamed)

    @property
    def made_stray(self) -> tuple[str, ...]:
        """Live partition directories with records that this plan renames to `-stray`, which takes them
        out of service.
        """
        strays = (partition for partition in self.partitions if partition.renamed_to is not None)
        return tuple(partition.name for partition in strays if partition.kept_bytes)

    @property
    def is_unreadable(self) -> bool:
        """Whether something in the log directory cannot be read."""
        return bool(self.survey.unreadable)

    @property
    def node(self) -> NodeStart | None:
        """Forecast of the whole node's start; None if unknown."""
        return self.broker.node

    @property
    def node_then(self) -> NodeStart | None:
        """Forecast of the whole node's start after the plan, as in `BrokerForecast`."""
        return self.broker.node_then

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the partition directories in the plan."""
        return tuple(partition.name for partition in self.partitions)

    @property
    def is_not_needed(self) -> bool:
        """Whether the plan changes only indexes and snapshots, which a broker rebuilds by itself if necessary. False if
        it changes nothing, if there is any finding, or if the broker's start does not find a clean-shutdown marker.
        False also if anything is lost or hidden, or if records come from copies.
        """
        starts = self.broker.starts_and_loses_nothing and self.broker.clean_shutdown
        harmless = not (self.is_hurt or self.findings or any(partition.cut_bytes for partition in self.partitions))
        hides = any(way.spec.is_start and way.measured.records_hidden for way in self.choice.ways)
        gains = any(consequence.kind == "from_copies" for consequence in self.consequences)
        return bool(self.changes and starts and harmless and not hides and not gains)

    @property
    def note_of_identity(self) -> str | None:
        """Return one sentence if this plan leaves a `meta.properties` that is missing or invalid
        (META_PROPERTIES_INVALID), or could not be read. Return None if the plan changes the file, or the file has none
        of these faults.
        """
        if any(action.path == META_PROPERTIES for action in self.actions):
            return None
        for finding in self.findings:
            if finding.code is FindingCode.META_PROPERTIES_INVALID:
                if self.is_of_newer_kafka:
                    return f"{META_PROPERTIES} stays as it is; a Kafka that is new enough may start on it"
                others = ", ".join(directory for directory in self.identity_in if directory != self.root)
                if finding.severity is Severity.WARNING:
                    return f"{META_PROPERTIES} stays as it is: {finding.detail}"
                known = f"it can be written again with the ids that {others} has" if others else (
                    "what it says is enough to complete it" if self.identity_in
                    else f"copy cluster.id and the id of the broker from another volume of the same broker, {BY_HAND}"
                )  # fmt: skip
                return f"{META_PROPERTIES} stays as it is, and no broker starts on it: {known}"
        if META_PROPERTIES in self.survey.unreadable:
            return f"{META_PROPERTIES} could not be read, so whether a broker starts on it is not known"
        return None

    @property
    def is_worth_a_look(self) -> bool:
        """Whether the plan changes something or reports a problem (`is_hurt`)."""
        return self.changes or self.is_hurt

    @property
    def is_hurt(self) -> bool:
        """Whether there is a problem. Problems are a warning or an error among the findings, lost records (if their
        number is known), remaining damage, damaged transaction markers, decreasing leader epochs, and a refusal of the
        plan or of a partition. Hidden records are a problem only if the recommended way hides fewer.
        """
        is_incomplete = any(finding.code is FindingCode.SEGMENT_MISSING for finding in self.findings)
        return bool(self.choice.own.records_lost) or is_incomplete or self.is_hurt_still

    @property
    def is_hurt_still(self) -> bool:
        """Whether there is a problem (`is_hurt`) other than records that were lost before the plan, of which a missing
        segment is a sign.
        """
        own = self.choice.own
        has_findings = any(
            finding.severity is not Severity.INFO and finding.code is not FindingCode.SEGMENT_MISSING
            for finding in self.findings
        )
        best = self.choice.recommended
        has_hidden = best is not None and best.measured.records_hidden < own.records_hidden
        is_losing = own.records_lost and not own.is_lost_before
        lost = is_losing or has_hidden or own.damage_left or own.markers_damaged or own.epoch_falls
        return bool(self.refusal is not None or self.declined or lost or has_findings)

    @property
    def changes(self) -> bool:
        """Whether anything would be changed."""
        return bool(self.actions)

    @property
    def asked_for(self) -> tuple[str, ...]:
        """Sorted names of the chosen partition directories; empty if the plan is for the whole log directory."""
        if not self.survey.is_partial:
            return ()
        return tuple(sorted({name for name in self.survey.directories if "/" not in name} | set(self.declined)))

    @property
    def metadata_beside(self) -> str | None:
        """Path of the metadata log that the plan relies on, if it is in another log directory of the broker; else None.

        Always None in mode set-aside, which takes whole partitions out of service.
        """
        source = self.topics.source
        if source is None or self.topics.problem is not None or self.mode.spec.takes_whole_partitions:
            return None
        return None if os.path.dirname(source) == self.root else source

    @property
    def changing(self) -> tuple[str, ...]:
        """Names of the partition directories in which something would be changed."""
        return tuple(partition.name for partition in self.partitions if partition.changes)

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as plain values, in the shape of `PlanJson`."""
        return plain(plan_json(self))  # type: ignore[no-any-return]


def plan_of(
    directory: SurveyedDirectory, forecasts: Forecasts, choice: RecoveryChoice | None, *, mark_clean: bool = False
) -> Plan:
    """Make a plan from forecasts and the compared ways of recovering; nothing on disk is changed. If `choice` is None,
    the plan has no ways, consequences or deleted data, and only the findings of the recovery and of unreadable files.

    With `mark_clean` a clean-shutdown marker is written as the last file; mode kafka writes none and gets a refusal. If
    there is a choice, no `mark_clean` and nothing to change, the checks of `verify` are run. Their findings are added;
    if the plan has problems already (`is_hurt`), only new findings that a full recovery repairs are added.

    Raises `StorageError` if a file cannot be read, and with a choice `UsageError` for a setting of retention or of the
    cleaner that Kafka would refuse.
    """
    survey, rules, kafka, own = directory.survey, directory.rules, forecasts.kafka, forecasts.own
    actions = _actions(forecasts, survey)
    result, compared = kafka if own is None else own, RecoveryChoice() if choice is None else choice
    loaded = [] if own is None and not kafka.is_loaded else result.partitions.values()
    partitions = partition_plans(survey, loaded, actions, {} if own is None else own.lost)
    own_findings = [] if own is None else own.findings()
    ends = {name: partition_result.log_end_offset for name, partition_result in result.partitions.items()}
    renamed: dict[str, str] = {}
    copied: dict[str, tuple[str, bool]] = {}
    findings = own_findings
    if choice is not None:
        findings = [*_with_what_is_missing(survey, rules.facts, choice, own_findings), *_outside(survey, ends)]
        renamed = renamed_directories(survey.root, findings, rules.facts)
        missing_by_path = {directory: name for name, directory in renamed.items()}
        copied = copied_directories(findings, rules.facts, directory.copies)
        findings = [_with_copy(finding, copied) for finding in findings]
        findings = [
            structs.replace(finding, detail=f"{finding.detail}; it looks like {missing_by_path[finding.file or '']}")
            if finding.code is FindingCode.FOREIGN_DIRECTORY and finding.file in missing_by_path else finding
            for finding in findings
        ]  # fmt: skip
        if own is not None and not survey.is_partial:
            findings += _of_different_moments(survey, ends, [*choice.damaged, *own_findings])
            findings += _too_high_ends(survey, ends)
            findings += _of_epochs(survey, ends, rules.facts)
    declined = {**({} if own is None else own.refusals), **sentences_of_unreadable(survey)}
    refused = refusal_of(
        Decision(
            survey=survey, rules=rules, kafka=kafka, own=own, actions=actions, declined=declined, mark_clean=mark_clean
        )
    )
    broker = BrokerForecast(
        kafka.outcome,
        kafka.exception,
        kafka.message,
        {name: partition.log_end_offset for name, partition in kafka.partitions.items()},
        kafka.clean,
        compared.lost_by_kafka() if kafka.is_loaded else None,
        tuple(rules.facts.strays(name for name, partition in kafka.partitions.items() if partition.stray is None)),
        refusing=tuple(name for name, partition in kafka.partitions.items() if partition.refuses_appends),
        logs=None if choice is None else kafka,
        logs_after=None if choice is None or own is None or survey.is_partial else _loaded_after(own, actions),
    )
    ways = compared.ways
    if kafka.is_loaded or not rules.mode.spec.is_as_broker:
        ways = _with_refusals(ways, rules.mode, refusal_in_every_mode(survey, actions, rules.facts), refused)
        by_start = written_through(kafka.tree) if kafka.is_loaded else None
        ways = [structs.replace(way, refusal=way.refusal or by_start) if way.spec.is_start else way for way in ways]
    unknown = _why_not_predicted(survey, kafka)
    if unknown is not None:
        broker = replace(broker, outcome=None, exception=None, message=unknown)
        ways = [structs.replace(way, consequence=unknown) if way.spec.is_start else way for way in ways]
    is_marked = mark_clean and not rules.mode.spec.is_as_broker
    names_newer = META_PROPERTIES not in survey.unreadable and names_newer_version(survey.tree())
    plan = Plan(
        root=survey.root,
        mode=rules.mode,
        broker=broker,
        actions=_with_marker(survey, actions, rules.facts.broker_epoch) if is_marked else actions,
        partitions=partitions,
        survey=survey,
        refusal=None if refused is None else refused[1],
        refused_by=None if refused is None else refused[0],
        findings=[*findings, *findings_of_unreadable(survey)],
        topics=rules.facts,
        copies=tuple(directory.copies),
        declined=declined,
        choice=structs.replace(compared, ways=ways, renamed=_moved_away(survey.root, renamed, actions),
                              copied=_to_copy(survey.root, copied, renamed, rules.facts),
                              mergeable=tuple(name for name in _helped(compared)
                                              if not other_brokers_in_sync(name, rules.facts))),
        identity_in=_named_in(survey, rules, () if names_newer else findings),
        is_of_newer_kafka=names_newer,
        waits_for_a_run=bool(half_done(survey.root)),
    )
    if choice is None:
        return plan
    lost, best = choice.own_by_partition, plan.choice.recommended
    lost_by_best = best.measured.lost if best is not None else [each for one in lost.values() for each in one.lost]
    in_deleted = lost_in_deleted(survey, lost_by_best)
    moved = old_copies_elsewhere(survey, rules.facts)
    gone, beyond = deleted_partitions(survey, rules.facts, moved), deleted_beyond_end(survey, ends)
    open_ones = tuple(transactions_staying_open(result.tree, result.partitions.values(), directory.coordinators, rules))
    is_emptied = _empties_coordinator(lost, rules.facts)
    plan = replace(
        plan,
        deleted=note_of_deleted(survey, rules.facts, in_deleted, gone, moved),
        deleted_partitions=gone,
        deleted_beyond_end=beyond,
        findings=[*plan.findings, *(each.finding() for each in beyond)],
        lost_in_deleted=tuple(in_deleted),
        kept_by_runs=partitions_kept_by_runs(survey.root, dict.fromkeys(each.partition for each in lost_by_best)),
        consequences=(
            *consequences(survey.tree(), result.tree, result.partitions.values(), lost, rules, directory.coordinators),
            *of_log_starts(survey.root, survey.tree(), result.partitions.values()),
            *longer_copies(survey.root, directory.copies, result.partitions.values(), _merged(plan.choice)),
            *(of_copies(*each) for each in ({} if own is None else own.from_copies).items() if each[1].records),
            *ends_going_back(survey.root, survey.tree(), result.partitions.values(), lost),
            *(of_best for of_best in choice.consequences if best is not None and of_best.way == best.way),
            *(open_ones if is_emptied else ()),
        ),
        if_coordinator_is_lost=() if is_emptied else open_ones,
    )
    if mark_clean or plan.changes:
        return plan
    unseen = list(findings_of_checks(survey, rules.facts.tiering, forecasts.checked))  # else all would be well
    if plan.is_hurt:
        unseen = [finding for finding in unseen if is_for_full(finding) and finding not in plan.findings]
    needs_full = rules.may_need_full and any(map(is_for_full, unseen))
    return replace(plan, findings=[*plan.findings, *unseen], needs_full=needs_full)


def _merged(choice: RecoveryChoice) -> set[str]:
    """Return the partition directories that the recommended way merges with other copies."""
    if choice.recommended is None or choice.recommended.spec.help is not Help.COPIES:
        return set()
    return set(_helped(choice))


def _helped(choice: RecoveryChoice) -> list[str]:
    """Return the partition directories that a merge with other copies helps."""
    return [name for name, ways in choice.by_partition.items() if any(way.spec.help is Help.COPIES for way in ways)]


def with_findings_of_segments(plan: Plan, forecasts: Forecasts, rules: Rules) -> Plan:
    """Return the plan with the findings about whole segments (`_of_segments`) that it lacks, followed by its own
    findings. Consequences of overlapping segments, wrong names and wrong indexes are added, except for files that the
    plan changes. A time index that was perhaps made of another segment counts even if the plan changes it. `forecasts`
    and `rules` are those from which the plan was made. Raises `StorageError` if a log cannot be read, `UsageError` as
    `plan_of` does.
    """
    known = list(plan.findings)
    findings = [*(finding for finding in _of_segments(plan) if finding not in known), *known]
    changed = {action.path for action in plan.actions}
    result = forecasts.kafka if forecasts.own is None else forecasts.own
    left = (
        *of_overlaps(findings, changed),
        *of_wrong_names(findings, result.tree),
        *of_transaction_indexes(findings, changed),
        *of_look_ups(findings, changed, result.tree, result.partitions, rules),
    )
    return replace(plan, findings=findings, consequences=(*plan.consequences, *left))


def _empties_coordinator(measured: Mapping[str, Measured], facts: TopicFacts) -> bool:
    """Whether a live partition of `__transaction_state` loses all of its records, and this broker has its only replica
    according to the metadata. If it loses some and the number of kept records is unknown, all count as lost.
    """
    for name, counts in measured.items():
        parsed = parse_partition_directory(name)
        if parsed is None or parsed.topic != TRANSACTION_STATE_TOPIC or parsed.state is not DirectoryState.LIVE:
            continue
        is_alone = facts.replicas.get((parsed.topic, parsed.partition)) == (facts.node_id,)
        if counts.lost and not counts.records_kept and is_alone:
            return True
    return False


def _named_in(survey: Survey, rules: Rules, findings: Sequence[Finding]) -> tuple[str, ...]:
    codes = {finding.code for finding in findings}
    is_lost = rules.identity is not None or FindingCode.META_PROPERTIES_INVALID in codes
    return directories_that_name(survey.root, rules.facts) if is_lost and not survey.is_partial else ()


def _actions(forecasts: Forecasts, survey: Survey) -> list[RecoveryAction]:
    """Return the actions that change the directory into the tree that the mode leaves. In mode kafka they are empty if
    the logs do not load. In other modes they are empty if Kafka starts on the directory, can read its checkpoints, and
    only files that it writes itself would differ; if no partition is changed, the clean-shutdown marker stays. May read
    files to compare them; raises `StorageError` if this fails.
    """
    kafka, own = forecasts.kafka, forecasts.own
    if own is None:
        return difference(survey, kafka.tree) if kafka.is_loaded else []
    actions = difference(survey, own.tree, _NEVER_TOUCHED)
    starts = kafka.is_loaded and Checkpoints.are_readable(survey.tree())
    if starts and not any(action.path not in WRITTEN_AT_STOP | WRITTEN_BESIDE for action in actions):
        return []  # the log is in order: no need to have a broker examine it again
    if kafka.clean and not any(_touches_a_partition(action) for action in actions):
        return [action for action in actions if action.path != CLEAN_SHUTDOWN_FILE]  # it is true still
    return actions


def _loaded_after(own: SafeResult, actions: Sequence[RecoveryAction]) -> BrokerResult | None:
    """Return the result of loading the logs that a recovery leaves. None if it is unknown: the recovery leaves
    partitions as they are, changes the metadata log, or does nothing.
    """
    if not actions or own.refusals or any(action.path.startswith(CLUSTER_METADATA_DIRECTORY) for action in actions):
        return None
    return BrokerResult(outcome=StartResult.LOADED, tree=own.tree, clean=False, partitions=own.partitions)


def _touches_a_partition(action: RecoveryAction) -> bool:
    return parse_partition_directory(action.path.partition("/")[0]) is not None


def _with_marker(survey: Survey, actions: Sequence[RecoveryAction], epoch: int | None) -> list[RecoveryAction]:
    """Return the actions with a clean-shutdown marker as the last file to be written. An existing marker is removed
    first. The marker has the broker epoch `epoch` of the registration, or none if `epoch` is None.

    Since 3.8, if a broker's marker has another epoch, the broker counts as shut down uncleanly and leaves every ISR and
    ELR.
    """
    marker = NEW_CLEAN_SHUTDOWN if epoch is None else CleanShutdown(NEW_CLEAN_SHUTDOWN.version, epoch)
    content = Content((Literal(encode_clean_shutdown(marker)),))
    in_place = (ActionKind.REMOVE_DIRECTORY,)  # a directory that has the marker's name goes first
    rest = [action for action in actions if action.path != CLEAN_SHUTDOWN_FILE or action.kind in in_place]
    marker_action = RecoveryAction(kind=ActionKind.WRITE, path=CLEAN_SHUTDOWN_FILE, size=content.size, content=content)
    return marker_first(survey, [*rest, marker_action])


def _with_refusals(
    ways: Sequence[RecoveryWay], mode: Mode, in_every_mode: str | None, refused: tuple[str, str] | None
) -> list[RecoveryWay]:
    """Return the ways, each with the reason why recovery declines it, if there is one. A way's own reason has
    precedence. `in_every_mode` is a reason for all ways. Without it, `refused` counts: the name and sentence of the
    plan's refusal. It does not apply to merging or to the broker's start. It applies to no way if the plan's mode is
    not compared with others, such as strict or kafka.
    """
    if in_every_mode is not None:
        return [structs.replace(way, refusal=way.refusal or in_every_mode) for way in ways]
    if refused is None or not mode.spec.is_compared:
        return list(ways)
    why = refused[1]
    return [
        way if way.spec.help is Help.COPIES or way.spec.is_start else structs.replace(way, refusal=way.refusal or why)
        for way in ways
    ]


def _why_not_predicted(survey: Survey, kafka: BrokerResult) -> str | None:
    """Return why Kafka's start cannot be predicted, as a sentence: it would read a file or directory that cannot be
    read here. None if it can be predicted.
    """
    if kafka.is_before_logs and META_PROPERTIES not in survey.unreadable:
        return None
    error = why_not_predicted(survey.unreadable)
    return None if error is None else unpredicted_sentence(error)


def _with_copy(finding: Finding, copied: Mapping[str, tuple[str, bool]]) -> Finding:
    """Return a PARTITION_MISSING finding with the path of the partition's copy added to its detail, which also says if
    the copy may be of another topic. Unchanged if `copied` has no copy of the partition, or if it is another finding.
    """
    name = os.path.basename(finding.file or "")
    if finding.code is not FindingCode.PARTITION_MISSING or name not in copied:
        return finding
    path, is_of_topic = copied[name]
    text = f"a copy has {name}: {path}" if is_of_topic else f"{path} is not known to be of the same topic"
    return structs.replace(finding, detail=f"{finding.detail}; {text}")


def _to_copy(
    root: str, copied: Mapping[str, tuple[str, bool]], renamed: Mapping[str, str], topics: TopicFacts
) -> tuple[tuple[str, str], ...]:
    """Return (path of a copy, path to copy it to) for missing partitions, sorted by partition directory. The copies are
    those in `copied` that are of the topic, and directories in a `lost+found` beside the log directory (in `renamed`).
    Left out are partitions that have a renamed directory inside the log directory, and those that another broker has in
    sync: a start fetches them.
    """
    beside = {name: os.path.normpath(os.path.join(root, directory)) for name, directory in renamed.items()
              if directory.startswith(os.pardir)}  # fmt: skip
    paths = {name: path for name, (path, is_of_topic) in copied.items() if is_of_topic and name not in renamed} | beside
    return tuple(
        (path, os.path.join(root, name))
        for name, path in sorted(paths.items())
        if not other_brokers_in_sync(name, topics)
    )


def other_brokers_in_sync(name: str, topics: TopicFacts) -> tuple[int, ...]:
    """Return the sorted ids of the other brokers that have the partition of a directory in sync by the metadata; empty
    if there are none.
    """
    parsed = parse_partition_directory(name)
    in_sync = () if parsed is None else topics.in_sync.get((parsed.topic, parsed.partition), ())
    return tuple(sorted(node for node in in_sync if node != topics.node_id))


def _with_what_is_missing(
    survey: Survey, topics: TopicFacts, choice: RecoveryChoice, findings: Sequence[Finding]
) -> list[Finding]:
    """Return `findings` together with findings that no action handles. Paths are relative to the root. Raises
    `StorageError` if a file cannot be read. The added findings are about:

    * the log directory's own files and owners
    * other damage in logs, and missing segments and partitions
    * unfinished moves, dangling links, and files that are hard links to each other
    """
    return [
        *_of_own_files(survey, topics), *findings, *_unnamed(choice.damaged, findings),
        *_lost_logs(survey), *choice.missing,
        *_missing_partitions(survey, topics), *_unfinished_moves(survey, topics),
        *(finding.in_file(".") for finding in other_owners(survey.root, topics)), *shared_files_of(survey.files),
    ]  # fmt: skip


def _of_segments(plan: Plan) -> Iterator[Finding]:
    """Yield the findings about segments, with paths relative to the log directory: about segments with a wrong
    name, and about aborted transactions in segments that overlap the next one. Only partitions with a batch below
    its segment's base offset or with overlapping segments are examined; their logs are read again. Raises
    `StorageError` if that fails.
    """
    root = plan.survey.root
    named = (finding.file or "" for finding in plan.findings if finding.code in MISNAMED_BY)
    directories = sorted({*map(os.path.dirname, named), *plan.choice.overlapping})
    for directory in directories:
        logs = [(base, os.path.join(root, path)) for base, path in plan.survey.tree().logs(directory)]
        findings = misnamed_segments(logs)
        name = parse_partition_directory(directory)
        if name is not None and directory in plan.choice.overlapping:
            partition = read_partition(os.path.join(root, directory), name, None)
            findings += aborted_in_overlaps(logs, partition.transactions().aborted)
        yield from (finding.in_file(os.path.relpath(finding.file or root, root)) for finding in findings)


def _unfinished_moves(survey: Survey, topics: TopicFacts) -> list[Finding]:
    names = sorted(name for name in survey.directories if "/" not in name)
    moves = unfinished_moves(survey.root, names, topics.roots)
    return [finding.in_file(os.path.relpath(finding.file or survey.root, survey.root)) for finding in moves]


def _outside(survey: Survey, ends: Mapping[str, int]) -> list[Finding]:
    """Return the findings about batches in files that are not part of a log (`batches_outside`), with paths relative to
    the root. `ends` are log end offsets by partition directory. Empty if the root is not a log directory. Empty too if
    there is no `lost+found` and every file with `.log` in its name has a segment's name. Raises `StorageError` if the
    directory cannot be listed.
    """
    names = (os.path.basename(path) for path in survey.files if FileKind.LOG.value in path)
    if not lost_places(survey.root) and all(map(_is_segments_name, names)):
        return []
    from kafkalog.log.directories.directory import is_log_dir, open_log_dir  # most directories have none of these

    if not is_log_dir(survey.root):
        return []
    log_dir = open_log_dir(survey.root, tolerant=True)
    ends_at = known_ends({os.path.join(log_dir.path, name): end for name, end in ends.items()})
    return [
        finding.in_file(os.path.relpath(finding.file or survey.root, survey.root))
        for finding in batches_outside(log_dir, ends_at)
    ]


def _is_segments_name(name: str) -> bool:
    """Whether a name is of a segment's file as Kafka writes it, with all digits."""
    parsed = parse_segment_file(name)
    return parsed is not None and name == segment_file(parsed.base_offset, parsed.kind) + parsed.pending


def _of_different_moments(survey: Survey, ends: Mapping[str, int], damaged: Iterable[Finding]) -> list[Finding]:
    """Return one MOMENTS_DIFFER finding if some log ends below its recovery point, else an empty list. This happens in
    a copy that was made while a broker ran. `ends` are log end offsets by partition directory. Live partitions with a
    log are compared, unless a finding in `damaged` is about them. Empty if there is a clean-shutdown marker. Reads the
    recovery-point checkpoint. Raises `StorageError` if a file cannot be read.
    """
    if CLEAN_SHUTDOWN_FILE in survey.files:
        return []
    left_out = {(finding.file or "").partition("/")[0] for finding in damaged}
    with_logs = {path.partition("/")[0] for path in survey.files if path.endswith(FileKind.LOG.value)}
    live = {
        (name.topic, name.partition): end
        for directory, end in ends.items()
        if directory in with_logs
        and directory not in left_out
        and (name := parse_partition_directory(directory)) is not None
        and name.state is DirectoryState.LIVE
    }
    return moments_differ(Checkpoints.read(survey.tree()).recovery_points, live)


def _too_high_ends(survey: Survey, ends: Mapping[str, int]) -> Iterator[Finding]:
    """Yield a finding for each live partition whose log ends too far (`too_high_end`): beyond its recovery point
    although the broker stopped cleanly, or beyond a producer snapshot because of one flipped bit. Paths are relative to
    the log directory. `ends` are log end offsets by partition directory. Raises `StorageError` while iterating if a
    checkpoint or a log cannot be read.
    """
    tree = survey.tree()
    closed_at = Checkpoints.read(tree).closed_at(tree)
    snapshots: dict[str, list[str]] = {}
    for path in survey.files:
        if path.endswith(FileKind.PRODUCER_SNAPSHOT.value):
            snapshots.setdefault(os.path.dirname(path), []).append(path)
    for directory, end in ends.items():
        name = parse_partition_directory(directory)
        if name is None or name.state is not DirectoryState.LIVE:
            continue
        logs = [(base, os.path.join(survey.root, path)) for base, path in tree.logs(directory)]
        point = closed_at.get((name.topic, name.partition))
        for finding in too_high_end(logs, snapshots.get(directory, ()), end, point):
            yield finding.in_file(os.path.relpath(finding.file or survey.root, survey.root))


def _of_epochs(survey: Survey, ends: Mapping[str, int], topics: TopicFacts) -> Iterator[Finding]:
    """Yield a finding for each live partition with a leader epoch that begins beyond its log's end and is not believed
    (`epoch_findings`). Paths are relative to the log directory. `ends` are log end offsets by partition directory.
    Raises `StorageError` while iterating if a file cannot be read.
    """
    tree = survey.tree()
    for directory, end in ends.items():
        name = parse_partition_directory(directory)
        if name is not None and name.state is DirectoryState.LIVE:
            known = topics.leader_epochs.get((name.topic, name.partition))
            yield from epoch_findings(epochs_of(tree, directory), end, known, directory)


def _of_own_files(survey: Survey, topics: TopicFacts) -> list[Finding]:
    """Return the findings about `meta.properties` and about checkpoints for recovery points and log start offsets that
    cannot be parsed, worded as in `verify`. A broker reads these files before the logs. A missing `meta.properties` is
    a finding for a broker with KRaft; missing checkpoints and unreadable files are not. Raises `StorageError` if one of
    the files that could be surveyed cannot be read.
    """
    tree = survey.tree()
    is_known = META_PROPERTIES not in survey.unreadable
    identity = meta_properties_finding(tree, survey.root, topics) if is_known else None
    findings = [] if identity is None else [identity]
    for name in (RECOVERY_POINT_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT):
        if name not in tree.files:
            continue
        try:
            decode_offset_checkpoint(tree.read(name))
        except (FormatError, TooLargeError) as error:
            detail = error.message if isinstance(error, FormatError) else str(error)
            findings.append(Finding.of(FindingCode.CHECKPOINT_INVALID, None, None, detail, name))
    return findings


def _unnamed(damaged: Sequence[Finding], named: Sequence[Finding]) -> list[Finding]:
    """Damage that has no finding in `named`; truncated or corrected places have one already."""
    places = {(finding.file, finding.position) for finding in named}
    return [finding for finding in damaged if (finding.file, finding.position) not in places]


def _lost_logs(survey: Survey) -> list[Finding]:
    """Return an error for each dangling symbolic link `*.log` in a partition directory, sorted by path: a broker
    ignores such links.
    """
    detail = "a dangling symbolic link: the log's content is not here, and no count includes it"
    return [
        Finding(FindingCode.FOREIGN_FILE, Severity.ERROR, None, None, detail, path)
        for path in sorted(survey.dangling)
        if parse_partition_directory(os.path.dirname(path)) is not None and path.endswith(FileKind.LOG.value)
    ]


def _moved_away(
    root: str, renamed: Mapping[str, str], actions: Sequence[RecoveryAction]
) -> tuple[tuple[str, str], ...]:
    """Return the paths of renamed directories that `actions` move, each with the path of its partition. `renamed` has
    the directory's name by the name of the partition.
    """
    changed = {action.path.split("/", 1)[0] for action in actions}
    return tuple((os.path.join(root, directory), os.path.join(root, name))
                 for name, directory in renamed.items() if directory.partition("/")[0] in changed)  # fmt: skip


def _missing_partitions(survey: Survey, topics: TopicFacts) -> list[Finding]:
    """Return the findings about missing partitions that checkpoints or metadata name (`missing_partitions`), with
    relative paths. Empty if only a part of the log directory was surveyed. Raises `StorageError` as
    `missing_partitions` does, or if a checkpoint cannot be read.
    """
    if survey.is_partial:
        return []
    tree = survey.tree()
    points = Checkpoints.read(tree)
    checkpoints = {
        RECOVERY_POINT_CHECKPOINT: points.recovery_points,
        LOG_START_OFFSET_CHECKPOINT: points.log_starts,
        REPLICATION_OFFSET_CHECKPOINT: read_high_watermarks(tree),
    }
    names = dict.fromkeys([path for path in (*survey.files, *survey.dangling) if "/" not in path], False)
    names |= {path: what == LINKED_DIRECTORY for path, what in survey.special.items() if "/" not in path}
    names |= dict.fromkeys([*(path for path in survey.directories if "/" not in path), *survey.unreadable], True)
    return missing_partitions(survey.root, names, checkpoints, topics)


def plan_json(plan: Plan) -> PlanJson:
    """Return the JSON structure of the plan. `recommended` (name of the way) and `recommended_way` are None if no way
    is recommended.
    """
    best = plan.choice.recommended
    return PlanJson(
        path=plan.root,
        mode=plan.mode,
        changes=plan.changes,
        refusal=plan.refusal,
        needs_consent=plan.needs_consent,
        insides=Insides.READABLE if plan.mode.spec.resumes else Insides.NOT_EXAMINED,
        deleted=plan.deleted,
        identity_in=plan.identity_in,
        begins=plan.begins,
        declined=plan.declined,
        consequences=tuple(plan.consequences),
        ways=list(map(way_json, plan.choice.ways)),
        recommended=None if best is None else best.way,
        recommended_way=None if best is None else way_json(best),
        broker=shaped(plan.broker, BrokerForecastJson),
        settings=shaped(plan.topics, SettingsJson),
        findings=shaped(plan.findings, list[FindingJson]),
        partitions=[_partition_json(plan.choice, partition) for partition in plan.partitions],
        actions=shaped(plan.actions, list[ActionJson]),
    )


def _partition_json(choice: RecoveryChoice, partition: PartitionPlan) -> PartitionPlanJson:
    ways = choice.by_partition.get(partition.name, [])
    is_elsewhere = choice.loses_metadata and partition.name == CLUSTER_METADATA_DIRECTORY
    is_elsewhere |= any(partition.name == copy.name for copy in choice.better_copies)
    best = None if is_elsewhere else recommended(ways)
    line = shaped(partition, PartitionPlanJson)
    return structs.replace(line, ways=list(map(way_json, ways)), recommended=None if best is None else best.way)
