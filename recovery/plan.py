"""What would be done, decided from bytes alone: the broker's outcome, the actions, and what each partition keeps.

Pure but for reading: a plan changes nothing, and is bound to the survey it was made from.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from kafkalog.codec.errors import FormatError, RecoveryRefused
from kafkalog.codec.findings import Finding, FindingCode, Severity
from kafkalog.codec.names import (
    CLEAN_SHUTDOWN_FILE,
    CLUSTER_METADATA_DIRECTORY,
    LEADER_EPOCH_CHECKPOINT,
    LOCK_FILE,
    LOG_START_OFFSET_CHECKPOINT,
    META_PROPERTIES,
    READ_BY_A_BROKER,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    TEMPORARY,
    FileKind,
    parse_partition_directory,
)
from kafkalog.codec.text import NEW_CLEAN_SHUTDOWN, decode_offset_checkpoint, encode_clean_shutdown
from kafkalog.log.storage.content import Content, Literal
from kafkalog.log.storage.java import TooLargeError
from kafkalog.log.storage.tree import Tree
from kafkalog.recovery.actions import WRITTEN_AT_STOP, Action, ActionKind, difference, marker_first
from kafkalog.recovery.broker.identity import meta_properties_finding, with_identity
from kafkalog.recovery.broker.manager import BrokerResult, Outcome
from kafkalog.recovery.choice import Choice, OtherCopy, compare_ways
from kafkalog.recovery.closed_in_order import checks_of, told_by_checks
from kafkalog.recovery.examination import examine_apart
from kafkalog.recovery.forecast import load_directory
from kafkalog.recovery.missing_partitions import missing_partitions
from kafkalog.recovery.modes import Mode
from kafkalog.recovery.normalize import Checkpoints, read_high_watermarks, topic_ids
from kafkalog.recovery.partition_plan import PartitionPlan, partition_plans
from kafkalog.recovery.rules import Rules
from kafkalog.recovery.safe import InOrder, SafeResult, no_checks, recover_safely
from kafkalog.recovery.set_aside import set_aside, why_not_set_aside
from kafkalog.recovery.still_there import note_of_deleted
from kafkalog.recovery.survey import LINKED_DIRECTORY, Survey
from kafkalog.recovery.topic_facts import NO_FACTS, TopicFacts
from kafkalog.recovery.unreadable import findings_of_unreadable, refusal_of_unreadable, sentences_of_unreadable
from kafkalog.recovery.ways import WayName, recommended
from kafkalog.recovery.workers import Workers

_NEVER_TOUCHED = frozenset({LOCK_FILE})
_CHECKPOINTS = frozenset({RECOVERY_POINT_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT})
_WRITTEN_BESIDE = frozenset(name + TEMPORARY for name in _CHECKPOINTS)
"""What is left of a checkpoint's writing; every orderly stop takes it."""
_OWN_FILES = _CHECKPOINTS | _WRITTEN_BESIDE | {CLEAN_SHUTDOWN_FILE}
"""Of the log directory: what is read and written here."""

__all__ = ["BrokerForecast", "PartitionPlan", "Plan", "make_plan", "refuse_unsafe"]


@dataclass(frozen=True, slots=True)
class BrokerForecast:
    """What Kafka 4.1 would make of the directory at its next start."""

    outcome: str | None
    """`loaded`, `start_fails` or `dir_offline`; None: not known, because not everything could be read"""
    exception: str | None
    message: str | None
    log_end_offsets: Mapping[str, int]
    """by partition directory"""
    clean_shutdown: bool
    """a clean-shutdown marker is there, so logs are not scanned"""
    valid_records_lost: Mapping[str, int] | None
    """by partition directory, records with valid checksums that would be gone; None if it does not load"""
    strays: tuple[str, ...] = ()
    """partition directories that the metadata beside them does not place on this broker: it would rename them"""

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "outcome": self.outcome,
            "exception": self.exception,
            "message": self.message,
            "clean_shutdown": self.clean_shutdown,
            "log_end_offsets": dict(self.log_end_offsets),
            "strays": list(self.strays),
            "valid_records_lost": None if self.valid_records_lost is None else dict(self.valid_records_lost),
        }


@dataclass(slots=True)
class Plan:
    """Everything that would be done to one log directory, or why nothing would be done."""

    root: str
    mode: Mode
    broker: BrokerForecast
    actions: list[Action]
    partitions: list[PartitionPlan]
    survey: Survey = field(repr=False)
    refusal: str | None = None
    """one sentence, if recovery in this mode declines"""
    findings: list[Finding] = field(default_factory=list)
    """why logs are cut and things are put out of the way"""
    topics: TopicFacts = NO_FACTS
    """where the topics' settings came from"""
    copies: tuple[str, ...] = ()
    """directories that hold other copies"""
    declined: dict[str, str] = field(default_factory=dict)
    """partition directory -> why it is left as it is, while others are recovered"""
    choice: Choice = field(default_factory=Choice)
    """what each way of recovering keeps and loses"""
    deleted: str | None = None
    """one sentence, where what was deleted is still there and held by nothing else"""

    @property
    def needs_consent(self) -> bool:
        """Records would go that can still be read: recovery asks for consent first; mode kafka is told what it does."""
        return self.mode is not Mode.KAFKA and (self.choice.own.sound_lost > 0 or self.choice.own.markers_lost > 0)

    @property
    def is_unreadable(self) -> bool:
        """Whether something in it cannot be read."""
        return bool(self.survey.unreadable)

    @property
    def note_of_identity(self) -> str | None:
        """One sentence, where no broker may start whatever becomes of the logs; recovery never writes that file."""
        for finding in self.findings:
            if finding.code is FindingCode.META_PROPERTIES_INVALID:
                return (
                    f"{META_PROPERTIES} stays as it is, and no broker starts on it: copy cluster.id and the id of the "
                    "broker from another volume of the same broker"
                )
        if META_PROPERTIES in self.survey.unreadable:
            return f"{META_PROPERTIES} could not be read, so whether a broker starts on it is not known"
        return None

    @property
    def is_worth_a_look(self) -> bool:
        """Whether something was found, would be changed, is refused or cannot be read."""
        return self.changes or self.is_hurt

    @property
    def is_hurt(self) -> bool:
        """Whether something is wrong: found, lost, out of a consumer's reach, refused or not readable."""
        own = self.choice.own
        found = any(finding.severity is not Severity.INFO for finding in self.findings)
        lost = own.records_lost or own.records_hidden or own.damage_left or own.markers_damaged or own.epoch_falls
        return bool(self.refusal is not None or self.declined or lost or found)

    @property
    def changes(self) -> bool:
        """Whether anything would be changed."""
        return bool(self.actions)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        best = self.choice.recommended
        return {
            "path": self.root,
            "mode": str(self.mode),
            "changes": self.changes,
            "refusal": self.refusal,
            "needs_consent": self.needs_consent,
            "deleted": self.deleted,
            "declined": dict(self.declined),
            "ways": [way.as_dict() for way in self.choice.ways],
            "recommended": None if best is None else str(best.way),
            "recommended_needs": [] if best is None else list(best.needs),
            "broker": self.broker.as_dict(),
            "settings": self.topics.as_dict(),
            "findings": [finding.as_dict() for finding in self.findings],
            "partitions": [self._partition(partition) for partition in self.partitions],
            "actions": [action.as_dict() for action in self.actions],
        }

    def _partition(self, partition: PartitionPlan) -> dict[str, Any]:
        ways = self.choice.by_partition.get(partition.name, [])
        is_elsewhere = self.choice.loses_metadata and partition.name == CLUSTER_METADATA_DIRECTORY
        best = None if is_elsewhere else recommended(ways)
        return {
            **partition.as_dict(),
            "ways": [way.as_dict() for way in ways],
            "recommended": None if best is None else str(best.way),
        }


def make_plan(
    found: Survey,
    rules: Rules,
    *,
    mark_clean: bool = False,
    workers: Workers | None = None,
    compare: bool = True,
    copies: Sequence[str] = (),
) -> Plan:
    """Let the rules, which are settled, run over a virtual copy, and take the difference to what is there.

    `compare`: count too what this and every other way would keep; `copies` are directories that hold other copies.
    What was closed in order stays as it is only where nothing changes: a run removes the marker that vouched for it.
    """
    workers = workers or Workers()
    checks = no_checks if mark_clean else checks_of(found)
    plan = _planned(found, rules, checks, workers, compare, copies, mark_clean)
    if checks is no_checks or rules.mode is Mode.SET_ASIDE or not plan.actions:
        return plan
    return _planned(found, rules, no_checks, workers, compare, copies, mark_clean)


def _planned(
    found: Survey,
    rules: Rules,
    is_in_order: InOrder,
    workers: Workers,
    compare: bool,
    copies: Sequence[str],
    mark_clean: bool,
) -> Plan:
    mode, topics = rules.mode, rules.facts
    unread: str | tuple[()] = () if rules.cluster_metadata else f"{CLUSTER_METADATA_DIRECTORY}/"
    sizes = {path: facts.size for path, facts in found.files.items() if not path.startswith(unread)}
    donors = cache(lambda: topic_ids(found.tree()))  # seldom asked for: most trees know their own

    def topic_id(topic: str) -> str | None:
        return topics.topic_ids.get(topic) or donors().get(topic, rules.topic_id)

    examined = None
    if mode not in (Mode.KAFKA, Mode.SET_ASIDE):
        examined = examine_apart(found.tree(), rules, topic_id, is_in_order, workers, sizes, counts=compare)
    if examined is None:
        workers.begin("what Kafka would do", sizes)
    loaded = load_directory(found.tree(), rules, workers) if examined is None else examined.kafka
    result = with_identity(loaded, found.tree(), found.root)
    forecast = BrokerForecast(
        result.outcome,
        result.exception,
        result.message,
        {partition.name: partition.log_end_offset for partition in result.partitions},
        result.clean,
        None,
        tuple(topics.strays(partition.name for partition in result.partitions if partition.stray is None)),
    )
    plan = Plan(found.root, mode, forecast, [], [], found, topics=topics, copies=tuple(copies))

    def safely(
        tree: Tree, rules: Rules, counted: Workers | None = None, forecast: BrokerResult | None = None
    ) -> SafeResult:
        return _recovered(tree, rules, topic_id, is_in_order, counted, forecast)

    own: SafeResult | None = None
    if mode is not Mode.KAFKA:
        if examined is None:
            workers.begin("what recovery would do", sizes)
        own = safely(found.tree(), rules, workers, result) if examined is None else examined.own
        _take_over(plan, own, result)
        if rules.rebuild_indexes and plan.declined:
            plan.refusal = next(iter(plan.declined.values()))
    elif result.outcome == Outcome.LOADED:
        plan.actions = difference(found, result.tree)
        plan.refusal = _through_a_link(result.tree)
        plan.partitions = partition_plans(found, result.partitions, plan.actions)
    if compare:
        merged = _with_copies(found.root, copies)
        counted = None if examined is None else examined.counted
        plan.choice = compare_ways(found.tree(), rules, result, own, safely, merged, counted)
        _tell_what_is_missing(plan)
    if result.outcome == Outcome.LOADED:
        plan.broker = replace(forecast, valid_records_lost=plan.choice.lost_by_kafka())
    elif mode is Mode.KAFKA:
        end = "not start" if result.outcome == Outcome.START_FAILS else "take this directory offline"
        plan.refusal = (
            refusal_of_unreadable(found, mode)
            or f"Kafka would {end} ({result.exception}: {result.message}); mode kafka changes nothing then"
        )
        _tell_unreadable(plan, result)
        return plan
    plan.refusal = plan.refusal or refusal_of_unreadable(found, mode) or _unsafe(found, plan.actions)
    _tell_refusal(
        plan, refusal_of_unreadable(found, Mode.SAFE) or _link_in_the_way(found) or _unsafe(found, plan.actions)
    )
    _tell_unreadable(plan, result)
    if mark_clean:
        _mark_clean(plan)
    elif compare:
        _tell_what_checks_find(plan)
    return plan


def _with_copies(root: str, copies: Sequence[str]) -> OtherCopy | None:
    if not copies:
        return None
    from kafkalog.recovery.other_copies import other_copies  # merges: most plans know no other copy

    return other_copies(root, copies)


def _recovered(
    tree: Tree,
    rules: Rules,
    topic_id: Callable[[str], str | None],
    is_in_order: InOrder,
    workers: Workers | None,
    forecast: BrokerResult | None,
) -> SafeResult:
    """What these rules leave, where that is not the broker's own result."""
    if rules.mode is Mode.SET_ASIDE:
        return set_aside(tree)
    return recover_safely(tree, rules, topic_id=topic_id, is_in_order=is_in_order, workers=workers, forecast=forecast)


def _tell_what_checks_find(plan: Plan) -> None:
    """Where the plan itself found nothing: else whoever asks for a plan would be told that all is well."""
    if not plan.is_worth_a_look:
        plan.findings += told_by_checks(plan.survey)


def _tell_what_is_missing(plan: Plan) -> None:
    """What no action is there for, and was found while the ways were compared."""
    found = plan.survey
    plan.deleted = note_of_deleted(found)
    plan.findings = [
        *_of_own_files(found), *plan.findings, *_unnamed(plan.choice.damaged, plan.findings),
        *_lost_logs(found), *plan.choice.missing,
        *_missing_partitions(found, plan.topics),
    ]  # fmt: skip


def _of_own_files(survey: Survey) -> list[Finding]:
    """What cannot be understood of the files that a broker reads before the logs, in the words of `verify`."""
    tree = survey.tree()
    identity = meta_properties_finding(tree, survey.root)
    found = [] if identity is None else [identity]
    for name in (RECOVERY_POINT_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT):
        if name not in tree.files:
            continue
        try:
            decode_offset_checkpoint(tree.read(name))
        except (FormatError, TooLargeError) as error:
            detail = error.message if isinstance(error, FormatError) else str(error)
            found.append(Finding(FindingCode.CHECKPOINT_INVALID, Severity.ERROR, None, None, detail, name))
    return found


def _unnamed(damaged: Sequence[Finding], named: Sequence[Finding]) -> list[Finding]:
    """Of damaged places those that no action is there for: what is cut or corrected has its finding already."""
    places = {(each.file, each.position) for each in named}
    return [each for each in damaged if (each.file, each.position) not in places]


def _lost_logs(found: Survey) -> list[Finding]:
    """Links to nothing in place of logs, which a broker takes for no log at all."""
    detail = "a dangling symbolic link: the log's content is not here, and no count includes it"
    return [
        Finding(FindingCode.FOREIGN_FILE, Severity.ERROR, None, None, detail, path)
        for path in sorted(found.dangling)
        if "/" in path and path.endswith(FileKind.LOG.value)
    ]


def _missing_partitions(found: Survey, topics: TopicFacts) -> list[Finding]:
    """Partitions that checkpoints or metadata name and that are not there; where all directories were examined."""
    if found.is_partial:
        return []
    tree = found.tree()
    points = Checkpoints.read(tree)
    checkpoints = {
        RECOVERY_POINT_CHECKPOINT: points.recovery_points,
        LOG_START_OFFSET_CHECKPOINT: points.log_starts,
        REPLICATION_OFFSET_CHECKPOINT: read_high_watermarks(tree),
    }
    names = dict.fromkeys([path for path in (*found.files, *found.dangling) if "/" not in path], False)
    names |= {path: what == LINKED_DIRECTORY for path, what in found.special.items() if "/" not in path}
    names |= dict.fromkeys([*(path for path in found.directories if "/" not in path), *found.unreadable], True)
    return missing_partitions(found.root, names, checkpoints, topics)


def _mark_clean(plan: Plan) -> None:
    """End with a clean-shutdown marker, as the last thing that is written."""
    if plan.mode is Mode.KAFKA:
        plan.refusal = plan.refusal or "mode kafka never writes a clean-shutdown marker"
        return
    content = Content((Literal(encode_clean_shutdown(NEW_CLEAN_SHUTDOWN)),))
    in_place = (ActionKind.REMOVE_DIRECTORY,)  # a directory that has the marker's name goes first
    actions = [each for each in plan.actions if each.path != CLEAN_SHUTDOWN_FILE or each.kind in in_place]
    actions.append(Action(ActionKind.WRITE, CLEAN_SHUTDOWN_FILE, size=content.size, content=content))
    plan.actions = marker_first(plan.survey, actions)
    plan.refusal = plan.refusal or next(iter(plan.declined.values()), None)  # a marker vouches for all partitions


def _take_over(plan: Plan, result: SafeResult, kafka: BrokerResult) -> None:
    """Modes safe, salvage and strict: what is to be done so that the tree of the result is there."""
    found = plan.survey
    plan.findings = result.findings()
    plan.declined = result.refusals
    plan.refusal = _link_in_the_way(found) or _through_a_link(result.tree)
    plan.actions = difference(found, result.tree, _NEVER_TOUCHED)
    plan.partitions = partition_plans(found, result.partitions, plan.actions)
    for partition in plan.partitions:
        partition.gaps = result.lost.get(partition.name, [])
    starts = kafka.outcome == Outcome.LOADED and Checkpoints.are_readable(found.tree())
    if starts and not any(action.path not in WRITTEN_AT_STOP | _WRITTEN_BESIDE for action in plan.actions):
        plan.actions = []  # the log is in order: no need to have a broker examine it again
    if kafka.clean and not any(_touches_a_partition(action) for action in plan.actions):
        plan.actions = [action for action in plan.actions if action.path != CLEAN_SHUTDOWN_FILE]  # it is true still
    if plan.declined and not _reaches_others(plan):
        plan.refusal = plan.refusal or next(iter(plan.declined.values()))
    if plan.mode is Mode.SET_ASIDE:
        plan.refusal = plan.refusal or why_not_set_aside(found)
    if plan.mode is Mode.STRICT and plan.refusal is None:
        plan.refusal = _beyond_strict(plan.findings)


def _touches_a_partition(action: Action) -> bool:
    return parse_partition_directory(action.path.partition("/")[0]) is not None


def _tell_unreadable(plan: Plan, kafka: BrokerResult) -> None:
    """Say what could not be read; a broker that reaches it may read it, or fail."""
    found = plan.survey
    if not found.unreadable:
        return
    plan.declined |= sentences_of_unreadable(found)
    plan.findings = [*plan.findings, *findings_of_unreadable(found)]
    if kafka.is_before_logs and META_PROPERTIES not in found.unreadable:
        return  # the broker comes to nothing of that
    first = findings_of_unreadable(found)[0]
    message = f"the broker's start cannot be predicted: {os.path.join(found.root, first.file or '')}: {first.detail}"
    plan.broker = replace(plan.broker, outcome=None, exception=None, message=message)
    plan.choice.ways = [
        replace(way, consequence=message) if way.way is WayName.KAFKA else way for way in plan.choice.ways
    ]


def _tell_refusal(plan: Plan, in_every_mode: str | None) -> None:
    """Of which ways recovery declines; strict and kafka have reasons of their own, which do not concern the others."""
    why = in_every_mode
    left_alone = {WayName.MERGE}
    if why is None and plan.refusal is not None and plan.mode in (Mode.SAFE, Mode.SALVAGE):
        why = plan.refusal
        left_alone.add(WayName.KAFKA)
    if why is not None:
        plan.choice.ways = [
            way if way.way in left_alone else replace(way, refusal=way.refusal or why) for way in plan.choice.ways
        ]


def _reaches_others(plan: Plan) -> bool:
    """Something is done for partitions that are not left as they are."""
    return any("/" in action.path or action.kind is ActionKind.REMOVE_DIRECTORY for action in plan.actions)


def _beyond_strict(findings: list[Finding]) -> str | None:
    """What mode strict leaves to a person."""
    worse = [finding for finding in findings if finding.code not in (FindingCode.TORN_TAIL, FindingCode.ZERO_TAIL)]
    if not worse:
        return None
    more = f" and {len(worse) - 1} more" if len(worse) > 1 else ""
    return f"mode strict removes only torn and zero tails, but there is {worse[0]}{more}"


def _link_in_the_way(found: Survey) -> str | None:
    for path in found.dangling:
        name = path.rpartition("/")[2]
        if path in _CHECKPOINTS or (path != name and name == LEADER_EPOCH_CHECKPOINT):
            return f"{path} is a dangling symbolic link, which takes the log directory offline: remove it"
    return None


def _through_a_link(after: Tree) -> str | None:
    path = after.written_through()
    if path is None:
        return None
    return f"{path} is a dangling symbolic link, through which a broker would write: remove it"


def refuse_unsafe(found: Survey, actions: list[Action], after: Tree) -> None:
    """Raise `RecoveryRefused` where acting could touch bytes that are not the directory's own."""
    why = _link_in_the_way(found) or _through_a_link(after) or _unsafe(found, actions)
    if why is not None:
        raise RecoveryRefused(why, reason="special")


def _unsafe(found: Survey, actions: list[Action]) -> str | None:
    """Why acting could touch bytes that are not the directory's own."""
    for action in actions:
        facts = found.files.get(action.path)
        if facts is not None and facts.links > 1 and action.kind in (ActionKind.TRUNCATE, ActionKind.WRITE):
            return (
                f"{action.path} has {facts.links} hard links (from a snapshot or backup?), so a change would affect "
                "those too; work on a copy instead"
            )
    for path, what in found.special.items():
        if "/" in path or path in _OWN_FILES.union(READ_BY_A_BROKER):
            return f"{path} is {what}; recovery does not follow it: put the file itself in its place"
        if what == LINKED_DIRECTORY:
            return (
                f"{path} is {what}, which a broker would follow and recovery does not: put the directory itself in its "
                "place, or give recovery the log directory in which it really is"
            )
    return None
