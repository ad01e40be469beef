"""What is asked for of a recovery, and what that means for each of several log directories."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Protocol

from kafkalog.classes import dataclass
from kafkalog.codec.errors import StorageError, UsageError
from kafkalog.log.directories.selection import ALL, Selection
from kafkalog.log.disk.files import scan_directory
from kafkalog.recovery.facts.brokers import facts_of_each
from kafkalog.recovery.facts.modes import Mode
from kafkalog.recovery.facts.own_identity import lost_identity
from kafkalog.recovery.facts.rules import Rules
from kafkalog.recovery.facts.topic_facts import NO_FACTS, TopicFacts

if TYPE_CHECKING:
    from kafkalog.recovery.decide.plan import Plan
    from kafkalog.recovery.facts.survey import Survey

__all__ = ["RecoveryOptions", "RemoteLogSource", "options_for_each", "refuse_copies"]


class RemoteLogSource(Protocol):
    """The parts of tiered logs that are in a remote tier, for a recovery; `kafkalog.jobs.restore` implements it."""

    def beginnings(self, survey: Survey, select: Selection, facts: TopicFacts) -> Callable[[Plan], Plan] | None:
        """Find the logs that can only begin after their remote part, because nothing usable of them is local.

        Returns a function that adds them to a plan; None if there are none.  Raises `StorageError` if the tier cannot
        be read, and `RecoveryRefused` if no event names the segments of such a log.
        """

    def restore(self, root: str, select: Selection) -> None:
        """Write the missing and damaged segments of tiered logs into `root`, a copy that nobody else uses.

        Raises `StorageError` if an object cannot be read or is not as it was copied.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryOptions:
    """What is asked for besides the directory."""

    rules: Rules = field(default_factory=Rules)
    select: Selection = ALL
    """the partitions that are meant"""
    beside: tuple[str, ...] = ()
    """more log directories of the same brokers, which a start reads too; nothing is done to them"""
    copies: tuple[str, ...] = ()
    """directories that hold other copies of them"""
    mark_clean: bool = False
    """end with a clean-shutdown marker"""
    accept_loss: bool = False
    """go on where records that can still be read would be dropped"""
    complete: str | None = None
    """an execution that another machine began and that is to be completed all the same"""
    moved: bool = False
    """the directory is the one that its executions were on, although that cannot be seen"""
    remote_logs: RemoteLogSource | None = None
    """the remote part of tiered logs: in mode remote, lost logs begin after it; into a copy, it is copied"""
    lacking: Mapping[str, StorageError] = field(default_factory=dict)
    """directories that are not in a copy, because they could not be read, and why"""


def options_for_each(options: RecoveryOptions, roots: Sequence[str]) -> Mapping[str, RecoveryOptions]:
    """What is asked for of each log directory, with one time to treat as now, and with what its broker knew."""
    rules = options.rules
    known = [*roots, *filter(_can_be_listed, options.beside)]
    facts = dict.fromkeys(roots, rules.topics) if rules.topics is not None else facts_of_each(known)
    settled = replace(rules, topics=NO_FACTS).settled(())
    if rules.meta_properties and (options.select != ALL or rules.mode is Mode.KAFKA):
        raise UsageError("meta.properties is written in a whole log directory, and not in mode kafka")

    def identity_of(root: str) -> bytes | None:
        return lost_identity(root, roots, facts[root]) if rules.meta_properties else None

    return {
        root: replace(options, rules=replace(settled, topics=facts[root], identity=identity_of(root))) for root in roots
    }


def _can_be_listed(path: str) -> bool:
    try:
        scan_directory(path)
    except StorageError:
        return False
    return True


def refuse_copies(options: RecoveryOptions) -> None:
    """Raise `UsageError` for copies that are none, and where mode merge is given none."""
    if options.rules.mode is Mode.MERGE and not options.copies:
        raise UsageError("mode merge takes what other copies hold: say where they are")
    if options.copies:
        from kafkalog.recovery.decide.merge_in_place import refuse_no_copies  # merges: most plans know no other copy

        refuse_no_copies(options.copies)
