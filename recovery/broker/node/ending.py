"""End of a start as an exception: the broker's exception, its message, the file, and what is wrong there."""

from __future__ import annotations

from kafkalog.codec.common.errors import PortableError
from kafkalog.recovery.broker.node.answer import Fault, NodeAnswer, Part, StartOutcome

__all__ = ["RUNTIME", "StartEndsError", "ends", "without_cause"]

RUNTIME = "java.lang.RuntimeException"


class StartEndsError(PortableError):
    """The node's start ends here; `answer` describes it."""

    def __init__(self, answer: NodeAnswer) -> None:
        super().__init__(answer.message)
        self.answer = answer


def ends(
    part: Part, kind: str, file: str, exception: str, message: str, *, detail: str | None = None
) -> StartEndsError:
    """Return the end of a start because of one file; `detail` is our sentence about the file (default: the broker's
    message).
    """
    fault = Fault(part=part, kind=kind, file=file, detail=detail or message)
    return StartEndsError(
        NodeAnswer(outcome=StartOutcome.FAILS, exception=exception, message=message, file=file, faults=(fault,))
    )


def without_cause(message: str) -> str:
    """First part of a message, before its cause after a colon."""
    return message.partition(": ")[0]
