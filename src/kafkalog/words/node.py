"""What mends the files of a KRaft node beside its logs, in words."""

from __future__ import annotations

from collections.abc import Iterator

from kafkalog.codec.shell import shell_word
from kafkalog.recovery.broker.node.answer import NodeStart, Part, StartOutcome

__all__ = ["mends"]

_OF_QUORUM = (Part.QUORUM_STATE, Part.METADATA_SNAPSHOT)


def mends(start: NodeStart, root: str) -> Iterator[str]:
    """Yield a sentence for faults of a start that `recover` does not mend and another command may."""
    is_harmed = start.worst.outcome not in (StartOutcome.STARTS, StartOutcome.UNKNOWN)
    parts = {each.part for each in start.faults}
    if is_harmed and parts & set(_OF_QUORUM):
        yield (
            "recover does not change the quorum's files; if this controller is the only voter, this may mend them: "
            f"kafkalog quorum recover --standalone {shell_word(root)}; of several voters give every directory, with "
            "--endpoint for each (runbook: kraft-files)"
        )
