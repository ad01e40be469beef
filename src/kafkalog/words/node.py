"""What mends the files of a KRaft node beside its logs, in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kafkalog.codec.shell import shell_word
from kafkalog.recovery.broker.node.answer import NodeStart, Part, StartOutcome

__all__ = ["Mend", "mends"]

_OF_QUORUM = (Part.QUORUM_STATE, Part.METADATA_SNAPSHOT)


class Mend(NamedTuple):
    """What mends a fault of a start that `recover` does not mend."""

    words: str
    command: str

    @property
    def sentence(self) -> str:
        """Both; the command comes last, so that it can be pasted."""
        return f"{self.words}: {self.command}"


def mends(start: NodeStart, root: str) -> Iterator[Mend]:
    """Yield what may mend the faults of a start that `recover` does not mend."""
    is_harmed = start.worst.outcome not in (StartOutcome.STARTS, StartOutcome.UNKNOWN)
    parts = {each.part for each in start.faults}
    if is_harmed and parts & set(_OF_QUORUM):
        yield Mend(
            "recover does not change the quorum's files (runbook: kraft-files); of several voters give every "
            "directory, with --endpoint for each; if this controller is the only voter, type this",
            f"kafkalog quorum recover --standalone {shell_word(root)}",
        )
