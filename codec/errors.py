"""The few exceptions of the library.  Bad data under examination is a `Finding`, not an exception (see `findings`)."""

from __future__ import annotations

import errno
import shlex
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kafkalog.codec.common.advice import Advice, Sentence, said

if TYPE_CHECKING:
    from kafkalog.codec.findings import Finding

__all__ = [
    "FormatError",
    "KafkaLogError",
    "LimitExceeded",
    "PortableError",
    "RecoveryRefused",
    "ReplicaError",
    "StorageError",
    "UnknownName",
    "UsageError",
]


class PortableError(Exception):
    """An exception that can be pickled and copied with all it says, whatever the constructor of its class takes.

    Python would call the class with the finished sentence alone; a `multiprocessing.Pool` then waits forever.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.args, self.__dict__)


def _restored(kind: type[PortableError], arguments: tuple[Any, ...], state: dict[str, Any]) -> PortableError:
    error = kind.__new__(kind, *arguments)
    error.__dict__.update(state)
    return error


class KafkaLogError(PortableError):
    """Base class: the library raises nothing else."""

    @property
    def sentence(self) -> str:
        """What it says, with what would allow it as a value (`Sentence`)."""
        told = self.args[0] if len(self.args) == 1 else None
        return told if isinstance(told, Sentence) else str(self)

    def worded(self, words: Callable[[Advice], str]) -> str:
        """What it says, in the words of whoever asked."""
        return str(said(self.sentence, words))


class UsageError(KafkaLogError, ValueError):
    """The caller's mistake: an option, an argument or a path that makes no sense."""


class UnknownName(UsageError):
    """Something was asked for by its name (a topic, a partition, a group, a broker) and does not exist."""


class ReplicaError(UsageError):
    """A topic-partition is in several directories, and `replica` does not choose one of them.

    The message names the argument with a value, as Python and Spark have it; `with_flag` says it for a command line.
    """

    def __init__(self, before: str, value: str, after: str) -> None:
        self.before = before
        self.value = value
        self.after = after
        super().__init__(f"{before} replica={value!r} {after}")

    def with_flag(self, flag: str) -> str:
        """The message for those who choose with `flag`."""
        return f"{self.before} {flag} {shlex.quote(self.value)} {self.after}"


class FormatError(KafkaLogError):
    """Bytes that the caller asked to parse do not have that format.

    `position` counts bytes from the start of `source` (a file name, or None for a buffer); `field` is the path of the
    field in the declaration; `code` is the finding code that a scan would report for the same bytes.  `finding` is the
    finding itself if damage ended the reading of a log, else None.
    """

    def __init__(
        self,
        message: str,
        *,
        position: int | None = None,
        field: str | None = None,
        source: str | None = None,
        code: str | None = None,
        finding: Finding | None = None,
    ) -> None:
        self.message = message
        self.finding = finding
        self.position = position
        self.field = field
        self.source = source
        self.code = code
        where = "".join(
            [
                f"{source}: " if source else "",
                message,
                f" (field {field})" if field else "",
                f" at byte {position}" if position is not None else "",
            ]
        )
        super().__init__(where)


class LimitExceeded(FormatError):
    """A cap of `Limits` was hit; `limit` names the cap."""

    def __init__(self, message: str, *, limit: str, position: int | None = None, source: str | None = None) -> None:
        self.limit = limit
        super().__init__(message, position=position, source=source, code="limit_exceeded")


class StorageError(KafkaLogError, OSError):
    """An I/O error; `errno`, `strerror` and `filename` are those of the operating system."""

    @classmethod
    def wrap(cls, error: OSError, doing: str) -> StorageError:
        """Keep errno and file of `error` and add what was being done."""
        wrapped = cls(error.errno, f"{doing}: {error.strerror or error}", error.filename)
        wrapped.__cause__ = error
        return wrapped

    @classmethod
    def became_shorter(cls, position: int, path: str | None = None) -> StorageError:
        """For a file that ends at `position`, before the end that it had when it was listed."""
        what = f"the file became shorter while it was read, at byte {position}"
        return cls(errno.ESTALE, what) if path is None else cls(errno.ESTALE, what, path)

    def __str__(self) -> str:
        """The file and what the system said of it, without its number."""
        if not self.strerror:
            return super().__str__()
        return self.strerror if self.filename is None else f"{self.filename}: {self.strerror}"

    def __reduce__(self) -> tuple[Any, ...]:
        arguments = OSError.__reduce__(self)[1]  # those of the operating system are not in `args`
        return _restored, (type(self), arguments, self.__dict__)


class RecoveryRefused(KafkaLogError):
    """Recovery refused to act; the message says why, and with the advice what would allow it.

    `report` is what a recovery that got as far as a plan would have reported (`ResultJson`); nothing was changed.
    `is_unreadable`: apart from the refusal, something could not be read, which is worse.
    """

    is_unreadable = False
    directory: str | None = None
    """the log directory that it is about, where several were given"""
    each: tuple[RecoveryRefused, ...] = ()
    """where several directories were declined, what was said of each"""
    reports: tuple[Any, ...] = ()
    """where several directories were given, the reports of all that a plan was made for"""

    def __init__(
        self,
        message: str,
        *,
        reason: str = "refused",
        report: Any = None,
        advice: Sequence[Advice] = (),
    ) -> None:
        self.message = message
        self.reason = reason
        self.report = report
        self.advice = tuple(advice)
        super().__init__(Sentence.joined("; ", [message, *map(Sentence, advice)]))

    def about(self, directory: str) -> RecoveryRefused:
        """The same error with the log directory named, unless the message already names it."""
        message = self.message if directory in str(self) else Sentence(f"{directory}: ", self.message)
        named = RecoveryRefused(message, reason=self.reason, report=self.report, advice=self.advice)
        named.is_unreadable, named.directory = self.is_unreadable, directory
        return named

    @classmethod
    def of_several(cls, each: Sequence[RecoveryRefused]) -> RecoveryRefused:
        """One error for all directories that were refused."""
        if len(each) == 1:
            return each[0]
        sentences = [one.sentence for one in each]
        refused = cls(Sentence.joined("; ", sentences), reason=each[0].reason, report=each[0].report)
        refused.is_unreadable, refused.each = any(one.is_unreadable for one in each), tuple(each)
        return refused
