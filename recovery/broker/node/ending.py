"""The end of a start, as an exception of ours: the broker's exception, its words, the file, and what is wrong there."""

from __future__ import annotations

from kafkalog.codec.errors import PortableError
from kafkalog.recovery.broker.node.answer import Fault, NodeAnswer, Part, StartOutcome

__all__ = ["RUNTIME", "StartEndsError", "ends", "in_full", "without_cause"]

RUNTIME = "java.lang.RuntimeException"


class StartEndsError(PortableError):
    """The node's start ends here; `answer` says how."""

    def __init__(self, answer: NodeAnswer) -> None:
        super().__init__(answer.message)
        self.answer = answer


def ends(
    part: Part, kind: str, file: str, exception: str, message: str, *, detail: str | None = None
) -> StartEndsError:
    """The end of a start because of one file; `detail` is our sentence about the file (default: the broker's words)."""
    fault = Fault(part, kind, file, detail or message)
    return StartEndsError(NodeAnswer(StartOutcome.FAILS, exception, message, file, faults=(fault,)))


def in_full(message: str, root: str) -> str:
    """A message of the model of logs, which names files relative to their log directory, with whole paths."""
    for before in ("reading checkpoint file ", "metadata file ", "Found directory "):
        if before in message:
            return message.replace(before, f"{before}{root}/", 1)
    return message


def without_cause(message: str) -> str:
    """The first part of a message that goes on with its cause after a colon."""
    return message.partition(": ")[0]
