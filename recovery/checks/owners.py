"""Find files that the broker's user may not open."""

from __future__ import annotations

import os

from kafkalog.codec.common.findings import Finding, FindingCode
from kafkalog.codec.common.wording import counted
from kafkalog.recovery.facts.owners import closed_files
from kafkalog.recovery.facts.topic_facts import TopicFacts

__all__ = ["other_owners"]

_NAMED = 3


def other_owners(root: str, facts: TopicFacts) -> list[Finding]:
    """Return one OWNER_MISMATCH finding if the broker's user may not open or change something in the log directory
    `root`, else an empty list. The user is the most frequent owner of the log directories `root` and `facts.roots` (the
    broker's others), their partition directories and `meta.properties`; the root user is not counted. Empty also if
    everything belongs to root, or a directory cannot be listed. The finding's file is `root`; its text names at most
    three paths.
    """
    found = closed_files(root, facts.roots)
    if found is None:
        return []
    user, closed = found
    named = ", ".join(os.path.relpath(path, root) for path in closed[:_NAMED])
    more = f" and {len(closed) - _NAMED} more" if len(closed) > _NAMED else ""
    detail = (
        f"{counted(len(closed), 'path')} may not be opened or changed by user "
        f"{user[0]}, to whom the broker's other directories belong: {named}{more}; a broker that runs as this user "
        f"takes the log directory offline: give all of it to user {user[0]} and group {user[1]}"
    )
    return [Finding.of(FindingCode.OWNER_MISMATCH, None, None, detail, root)]
