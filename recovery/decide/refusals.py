"""Check the reasons for which a recovery declines a whole log directory, in a fixed order.

The first that applies is the plan's refusal. Reasons about single partition directories are in `declined`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from kafkalog.codec.common.advice import Sentence
from kafkalog.codec.common.errors import RecoveryRefused
from kafkalog.codec.common.finding_codes import Trait, codes_with
from kafkalog.codec.common.wording import first_of
from kafkalog.codec.names import (
    CLEAN_SHUTDOWN_FILE,
    CLUSTER_METADATA_DIRECTORY,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    META_PROPERTIES,
    READ_BY_A_BROKER,
    RECOVERY_POINT_CHECKPOINT,
    TEMPORARY,
    parse_partition_directory,
)
from kafkalog.log.disk.pointer import half_done
from kafkalog.log.storage.java import as_printed
from kafkalog.log.storage.tree import Tree
from kafkalog.recovery.broker.manager import BrokerResult, StartResult
from kafkalog.recovery.decide.actions import ActionKind, RecoveryAction
from kafkalog.recovery.facts.recovery_request import Rules
from kafkalog.recovery.facts.survey import LINKED_DIRECTORY, Survey
from kafkalog.recovery.facts.topic_facts import TopicFacts, directory_id_of
from kafkalog.recovery.facts.unreadable import refusal_of_unreadable
from kafkalog.recovery.modes.table import Mode
from kafkalog.recovery.safe.result import SafeResult

__all__ = [
    "CHECKPOINTS", "KEPT_BY_A_RUN", "REFUSALS", "WRITTEN_BESIDE", "Decision", "marker_for_all",
    "refusal_in_every_mode", "refusal_of", "refuse_unsafe", "written_through",
]  # fmt: skip

CHECKPOINTS = frozenset({RECOVERY_POINT_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT})
"""Checkpoints that recovery reads and rewrites."""
WRITTEN_BESIDE = frozenset(name + TEMPORARY for name in CHECKPOINTS)
"""Temporary files of these checkpoints, which every clean stop removes."""
_OWN_FILES = CHECKPOINTS | WRITTEN_BESIDE | {CLEAN_SHUTDOWN_FILE}
"""Files of the log directory itself that are read and written here."""

KEPT_BY_A_RUN = "kept_by_a_run"
"""Reason that is gone once the unfinished run is completed or undone."""


class Decision(Struct, frozen=True, kw_only=True):
    """Facts about a plan for deciding whether it can be carried out."""

    survey: Survey
    rules: Rules
    kafka: BrokerResult
    own: SafeResult | None
    """result of all modes other than kafka; None in mode kafka"""
    actions: Sequence[RecoveryAction]
    declined: Mapping[str, str]
    """why a partition directory is left as it is, by name, including unreadable ones"""
    mark_clean: bool = False

    @property
    def is_kafka(self) -> bool:
        """Whether the mode leaves what the broker's own start leaves."""
        return self.rules.mode.spec.is_as_broker


def _damaged_log(decision: Decision) -> str | None:
    if decision.own is None or not decision.rules.rebuild_indexes:
        return None
    return next(iter(decision.own.refusals.values()), None)


def _link_in_the_way(decision: Decision) -> str | None:
    return None if decision.is_kafka else _dangling_checkpoint(decision.survey)


def _through_a_link(decision: Decision) -> str | None:
    if decision.own is not None:
        return written_through(decision.own.tree)
    return written_through(decision.kafka.tree) if decision.kafka.is_loaded else None


def _every_partition_declined(decision: Decision) -> str | None:
    """Return the reason of the first declined partition, if partitions are declined and the plan does nothing for any
    other; else None.
    """
    of_directories = (ActionKind.REMOVE_DIRECTORY, ActionKind.RENAME_DIRECTORY)
    reaches_others = any("/" in action.path or action.kind in of_directories for action in decision.actions)
    return None if decision.own is None or reaches_others else next(iter(decision.own.refusals.values()), None)


def _nobody_named(decision: Decision) -> str | None:
    if not decision.rules.mode.spec.takes_whole_partitions or decision.survey.is_partial:
        return None
    text = "mode set-aside moves whole partitions to quarantine: say which, by path or by topic and partition"
    if any(path.startswith(f"{CLUSTER_METADATA_DIRECTORY}/") for path in decision.survey.files):
        metadata = os.path.join(decision.survey.root, CLUSTER_METADATA_DIRECTORY)
        text += f"; to give this directory's metadata only, name {metadata}"
    return text


def _beyond_strict(decision: Decision) -> str | None:
    """Return the sentence with which mode strict declines, if the recovery finds more (`SafeResult.findings`) than
    incomplete writes and zeros at the ends of logs. None if it does not, and in other modes.
    """
    if not decision.rules.mode.spec.leaves_worse_to_person or decision.own is None:
        return None
    tails = codes_with(Trait.TAIL)
    worse = [finding for finding in decision.own.findings() if finding.code not in tails]
    if not worse:
        return None
    return f"mode strict removes only torn and zero tails, but there is {first_of([*map(str, worse)], 1)}"


def _unreadable(decision: Decision) -> str | None:
    return refusal_of_unreadable(decision.survey, decision.rules.mode)


def _no_start(decision: Decision) -> str | None:
    if not decision.is_kafka or decision.kafka.is_loaded:
        return None
    end = "not start" if decision.kafka.outcome == StartResult.START_FAILS else "take this directory offline"
    words = as_printed(decision.kafka.exception, decision.kafka.message)
    return f"Kafka would {end} ({words}); mode kafka changes nothing then"


def _log_directory_inside(decision: Decision) -> str | None:
    return _inside(decision.survey, decision.actions, decision.rules.facts)


def _kept_by_a_run(decision: Decision) -> str | None:
    return _linked_by_a_run(decision.survey, decision.actions)


def _unsafe(decision: Decision) -> str | None:
    return _not_its_own(decision.survey, decision.actions)


def _marker_in_mode_kafka(decision: Decision) -> str | None:
    return "mode kafka never writes a clean-shutdown marker" if decision.mark_clean and decision.is_kafka else None


def _marker_for_some(decision: Decision) -> str | None:
    """Reason why a clean-shutdown marker that was requested cannot be written, because it would vouch for all
    partitions: only some were chosen, or one is declined. None if it can be written, or was not requested.
    """
    if decision.mark_clean and decision.survey.is_partial:
        return marker_for_all(decision.survey.root)
    return next(iter(decision.declined.values()), None) if decision.mark_clean else None


def marker_for_all(root: str) -> str:
    """Return why no clean-shutdown marker is written if only some partitions of the log directory are recovered."""
    return (
        f"a clean-shutdown marker vouches for every partition of {root}: to have one written, recover the whole log "
        "directory"
    )


REFUSALS: Mapping[str, Callable[[Decision], str | None]] = {
    "damaged_log": _damaged_log,
    "link_in_the_way": _link_in_the_way,
    "through_a_link": _through_a_link,
    "every_partition_declined": _every_partition_declined,
    "nobody_named": _nobody_named,
    "beyond_strict": _beyond_strict,
    "unreadable": _unreadable,
    "no_start": _no_start,
    "log_directory_inside": _log_directory_inside,
    KEPT_BY_A_RUN: _kept_by_a_run,
    "unsafe": _unsafe,
    "marker_in_mode_kafka": _marker_in_mode_kafka,
    "marker_for_some": _marker_for_some,
}
"""Reasons by name, in order; each returns a sentence, or None if it does not apply."""


def refusal_of(decision: Decision) -> tuple[str, str] | None:
    """Return name and sentence of the first reason in `REFUSALS` that applies to the plan; None if none does."""
    for name, why in REFUSALS.items():
        sentence = why(decision)
        if sentence is not None:
            return name, sentence
    return None


def refusal_in_every_mode(survey: Survey, actions: Sequence[RecoveryAction], facts: TopicFacts) -> str | None:
    """Return the sentence with which recovery is declined in every mode; None if there is no reason for that. `actions`
    are those of the plan, whatever its mode. Reasons that depend on the mode, and `written_through`, are not
    considered; of dangling links, only those in place of checkpoints are.
    """
    return (
        refusal_of_unreadable(survey, Mode.SAFE)
        or _dangling_checkpoint(survey)
        or _inside(survey, actions, facts)
        or _not_its_own(survey, actions)
    )


def refuse_unsafe(survey: Survey, actions: Sequence[RecoveryAction], after: Tree) -> None:
    """Raise `RecoveryRefused` if the actions could change bytes that do not belong to the directory: through links, or
    in files with several hard links. `after` is the tree that the actions leave.
    """
    why = _dangling_checkpoint(survey) or written_through(after) or _not_its_own(survey, actions)
    if why is not None:
        raise RecoveryRefused(why, reason="special")


def _dangling_checkpoint(survey: Survey) -> str | None:
    for path in survey.dangling:
        directory, _separator, name = path.rpartition("/")
        is_of_partition = parse_partition_directory(directory) is not None
        if path in CHECKPOINTS or (is_of_partition and name == LEADER_EPOCH_CHECKPOINT):
            return f"{path} is a dangling symbolic link, which takes the log directory offline: remove it"
    return None


def written_through(after: Tree) -> str | None:
    """Return a sentence if the tree `after` cannot be written, because a broker would write through a dangling symbolic
    link; None if it can.
    """
    path = after.written_through()
    if path is None:
        return None
    return (
        f"{path} is a dangling symbolic link, through which a broker would write: bring back what it points to, or "
        "remove it"
    )


def _inside(survey: Survey, actions: Sequence[RecoveryAction], facts: TopicFacts) -> str | None:
    """Return a sentence if a directory that the actions change is itself a log directory of this broker, for which
    recovery is declined; None if there is none. Such a directory has `meta.properties`, and is in log.dirs or has a
    registered id. A `meta.properties` that cannot be read counts as one without an id.
    """
    roots = {os.path.realpath(root) for root in facts.roots}
    for name in sorted({action.path.partition("/")[0] for action in actions}):
        path = os.path.realpath(os.path.join(survey.root, name))
        if f"{name}/{META_PROPERTIES}" in survey.files and (path in roots or directory_id_of(path) in facts.registered):
            return (
                f"{name} is a log directory of the same broker, and lies inside this one, where a broker takes it for "
                "a partition: move it out, and change log.dirs"
            )
    return None


def _changed_links(survey: Survey, actions: Sequence[RecoveryAction]) -> tuple[str, int] | None:
    """Return the path of the first file with several hard links that the actions would truncate or write, and its
    number of links; None if there is none.
    """
    for action in actions:
        facts = survey.files.get(action.path)
        if facts is not None and facts.links > 1 and action.kind in (ActionKind.TRUNCATE, ActionKind.WRITE):
            return action.path, facts.links
    return None


def _linked_by_a_run(survey: Survey, actions: Sequence[RecoveryAction]) -> str | None:
    """Return a sentence if the actions would truncate or write a file with several hard links that an unfinished
    execution may have made. It says that the execution has to be completed or undone first. None if there is no such
    file or execution.
    """
    changed = _changed_links(survey, actions)
    unfinished = () if changed is None else half_done(survey.root)
    if changed is None or not unfinished:
        return None
    rest = f"; until then {changed[0]} has {changed[1]} hard links: if neither can be, work on a copy"
    return Sentence(unfinished[0], rest)


def _other_link(survey: Survey, path: str) -> str:
    """Return a phrase about the other hard links of the file at `path`: it names one in this directory; if there is
    none, it asks whether the links come from a snapshot or backup.
    """
    facts = survey.files[path]
    for other, its_facts in survey.files.items():
        if other != path and (its_facts.device, its_facts.inode) == (facts.device, facts.inode):
            return f"one is {other}: a broker that starts here writes into both"
    return "from a snapshot or backup?"


def _not_its_own(survey: Survey, actions: Sequence[RecoveryAction]) -> str | None:
    """Return the reason for which recovery declines a directory, as a sentence; None if there is none. The reasons:

    * The actions would truncate or write a file that has several hard links.
    * A partition's file, or a file of the log directory that recovery or a broker reads, is special (a link, a device).
    * A directory is a link.

    Other special files directly in the log directory are accepted.
    """
    changed = _changed_links(survey, actions)
    if changed is not None:
        return _linked_by_a_run(survey, actions) or (
            f"{changed[0]} has {changed[1]} hard links ({_other_link(survey, changed[0])}), so a change would affect "
            "those too; work on a copy instead"
        )
    for path, what in survey.special.items():
        if "/" in path or path in _OWN_FILES.union(READ_BY_A_BROKER):
            return f"{path} is {what}; recovery does not follow it: put the file itself in its place"
        if what == LINKED_DIRECTORY:
            return (
                f"{path} is {what}, which a broker would follow and recovery does not: put the directory itself in its "
                "place, or give recovery the log directory in which it really is"
            )
    return None
