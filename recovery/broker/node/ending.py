"""Represent the end of a start as an exception: the broker's exception and message, the file that caused it, and what
is wrong in that file.
"""

from __future__ import annotations

from kafkalog.codec.common.errors import PortableError
from kafkalog.recovery.broker.node.answer import Fault, NodeAnswer, Part, StartOutcome

__all__ = ["RUNTIME", "StartEndsError", "ends", "without_cause"]

RUNTIME = "java.lang.RuntimeException"


class StartEndsError(PortableError):
    """Raised if the node's start ends at this point; `answer` describes the end."""

    def __init__(self, answer: NodeAnswer) -> None:
        super().__init__(answer.message)
        self.answer = answer


def ends(
    part: Part, kind: str, file: str, exception: str, message: str, *, detail: str | None = None, cure: str = ""
) -> StartEndsError:
    """Return a `StartEndsError` for a start that fails because of one file; the caller raises it. `detail` is a
    sentence of kafkalog about the fault in the file (None: the broker's message), `cure` a clause that says what to do.
    """
    fault = Fault(part=part, kind=kind, file=file, detail=detail or message, cure=cure)
    return StartEndsError(
        NodeAnswer(outcome=StartOutcome.FAILS, exception=exception, message=message, file=file, faults=(fault,))
    )


def without_cause(message: str) -> str:
    """First part of a message, before its cause after a colon."""
    return message.partition(": ")[0]
