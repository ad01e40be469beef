"""Use a remote tier in a recovery: lost logs begin after their remote part, or all of that part is copied back."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from msgspec import Struct

from kafkalog.codec.common.arguments import check_fields
from kafkalog.jobs.restore.in_place import beginnings_in, with_beginnings
from kafkalog.jobs.restore.whole_logs import bring_back
from kafkalog.log.directories.selection import Selection
from kafkalog.recovery.decide.plan import Plan
from kafkalog.recovery.facts.survey import Survey
from kafkalog.recovery.facts.topic_facts import TopicFacts
from kafkalog.tiers.remote_tier import RemoteTier

__all__ = ["RemoteLogs"]


class RemoteLogs(Struct, frozen=True):
    """Tiered logs in a remote tier, for `Recovery.remote_logs`."""

    tier: RemoteTier
    keep_remote: bool = False
    """in a copy, logs without local files begin after their remote part, which is not copied back"""

    def __post_init__(self) -> None:
        check_fields(self)

    def beginnings(self, survey: Survey, select: Selection, facts: TopicFacts) -> Callable[[Plan], Plan] | None:
        """Find the logs that can only begin after their remote part; return a function that adds them to a plan, None
        if there are none (`RemoteLogSource.beginnings`). Raises the errors of `beginnings_in`.
        """
        beginnings = beginnings_in(survey, self.tier, select, facts)
        return partial(with_beginnings, found=beginnings) if beginnings else None

    def restore(self, root: str, select: Selection) -> None:
        """Write the missing and damaged segments of tiered logs into a copy (`RemoteLogSource.restore`)."""
        bring_back(root, self.tier, select, keep_remote=self.keep_remote)
