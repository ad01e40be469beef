"""Exceptions of the library. Bad data under examination is a `Finding`, not an exception (see `findings`)."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar

from kafkalog.codec.common.advice import Advice, Ask, Sentence, said

if TYPE_CHECKING:
    from kafkalog.codec.common.findings import Finding

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
    """Exception that keeps all its attributes when it is pickled or copied, whatever its constructor requires. By
    default Python would call the constructor with the message alone; if that fails, a `multiprocessing.Pool` waits
    forever.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.args, self.__dict__)


def _restored(kind: type[PortableError], arguments: tuple[Any, ...], state: dict[str, Any]) -> PortableError:
    error = kind.__new__(kind, *arguments)
    error.__dict__.update(state)
    return error


class KafkaLogError(PortableError):
    """Base class of all exceptions that the library raises on purpose."""

    directories: tuple[str, ...] = ()
    """log directories that it is about; empty if unknown"""

    @property
    def sentence(self) -> str:
        """Message with its advice kept as a value (`Sentence`), or the plain message if it has no advice."""
        argument = self.args[0] if len(self.args) == 1 else None
        return argument if isinstance(argument, Sentence) else str(self)

    def concerning(self, *directories: str) -> Self:
        """Set the log directories that the exception is about, unless they are known; return the exception itself."""
        self.directories = self.directories or directories
        return self

    def worded(self, words: Callable[[Advice], str]) -> str:
        """Return the message as text in which `words` renders each piece of advice."""
        return str(said(self.sentence, words))


Told = TypeVar("Told", bound=KafkaLogError)


def _changed(changed: Mapping[str, str]) -> list[str]:
    return [f"{root} was changed before that, by run {runs}" for root, runs in changed.items()]


def _also_about(named: Told, error: KafkaLogError, directories: Iterable[str]) -> Told:
    """Add the notes of `error` to `named`, and set `named.directories` to the directories of `error` followed by
    `directories`, each once. Return `named`.
    """
    named.directories = tuple(dict.fromkeys([*error.directories, *directories]))
    for note in getattr(error, "__notes__", ()):
        named.add_note(note)
    return named


class UsageError(KafkaLogError, ValueError):
    """A mistake of the caller: an option, argument or path that makes no sense."""


class UnknownName(UsageError):
    """A topic, partition, group or broker that the caller named does not exist."""

    findings: tuple[Finding, ...] = ()
    """why it may exist although it was not found; empty if it certainly does not"""


class ReplicaError(UsageError):
    """A partition is in several directories and `replica` does not choose one of them."""

    def __init__(self, before: str, replica: str, after: str) -> None:
        super().__init__(Sentence(f"{before} ", Advice("{}", Ask.REPLICA_IS, {"replica": replica}), f" {after}"))


class FormatError(KafkaLogError):
    """Bytes that the caller asked to parse do not have the expected format. `position` counts bytes from the start of
    `source` (a file name, or None for a buffer). `field` is the path of the field in the declaration. `code` is the
    finding code that a scan would report for these bytes. `finding` is the finding if damage ended the reading of a
    log, otherwise None.
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
        super().__init__(
            Sentence(
                f"{source}: " if source else "",
                message,
                f" (field {field})" if field else "",
                f" at byte {position}" if position is not None else "",
            )
        )


class LimitExceeded(FormatError):
    """A bound of `Limits` was exceeded; `limit` is the name of its field."""

    def __init__(self, message: str, *, limit: str, position: int | None = None, source: str | None = None) -> None:
        self.limit = limit
        super().__init__(message, position=position, source=source, code="limit_exceeded")


class StorageError(KafkaLogError, OSError):
    """An I/O error, with `errno`, `strerror` and `filename` of the operating system's error."""

    @classmethod
    def wrap(cls, error: OSError, doing: str) -> StorageError:
        """Return a `StorageError` with the errno and file name of `error`, which becomes its cause. Its message is
        `doing` (the action that failed), a colon, and the system's message.
        """
        wrapped = cls(error.errno, f"{doing}: {error.strerror or error}", error.filename)
        wrapped.__cause__ = error
        return wrapped

    @classmethod
    def became_shorter(cls, position: int, path: str | None = None) -> StorageError:
        """Return the error (ESTALE) for a file that now ends at byte `position`, although it was longer when it was
        listed.
        """
        what = f"the file became shorter while it was read, at byte {position}"
        return cls(errno.ESTALE, what) if path is None else cls(errno.ESTALE, what, path)

    def after(self, changed: Mapping[str, str]) -> StorageError:
        """Return a copy of this error whose message adds which log directories had already been changed, and by which
        runs. `changed` maps each directory to the ids of its runs.
        """
        named = StorageError(self.errno, "; ".join([self.strerror or str(self), *_changed(changed)]), self.filename)
        return _also_about(named, self, changed)

    def __str__(self) -> str:
        """File name and message, without the error number."""
        if not self.strerror:
            return super().__str__()
        return self.strerror if self.filename is None else f"{self.filename}: {self.strerror}"

    def __reduce__(self) -> tuple[Any, ...]:
        arguments = OSError.__reduce__(self)[1]  # those of the operating system are not in `args`
        return _restored, (type(self), arguments, self.__dict__)


class RecoveryRefused(KafkaLogError):
    """Error of a recovery that was refused. Nothing was changed, except in log directories that the message names as
    changed before. The message says why it was refused; its advice says what would allow it.

    `report` is the `ResultJson` of the recovery if it had a plan, otherwise None. `is_unreadable` is True if something
    could also not be read, which is worse than the refusal.
    """

    is_unreadable = False
    each: tuple[RecoveryRefused, ...] = ()
    """one error for each refused directory, if several were refused"""
    reports: tuple[Any, ...] = ()
    """reports of all directories for which there is a plan, if several were given"""

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
        """Return a copy of this error, without `each` and `reports`, for the log directory `directory`, whose name is
        put before the message unless the message or the advice contains it.
        """
        message = self.message if directory in str(self) else Sentence(f"{directory}: ", self.message)
        named = RecoveryRefused(message, reason=self.reason, report=self.report, advice=self.advice)
        named.is_unreadable, named.directories = self.is_unreadable, (directory,)
        return named

    def after(self, changed: Mapping[str, str]) -> RecoveryRefused:
        """Return a copy of this error whose message adds which log directories had already been changed, and by which
        runs. `changed` maps each directory to the ids of its runs.
        """
        message = Sentence.joined("; ", [self.message, *_changed(changed)])
        named = RecoveryRefused(message, reason=self.reason, report=self.report, advice=self.advice)
        named.is_unreadable, named.each, named.reports = self.is_unreadable, self.each, self.reports
        return _also_about(named, self, changed)

    @classmethod
    def of_several(cls, each: Sequence[RecoveryRefused]) -> RecoveryRefused:
        """Return one error for several refused directories. It joins their texts, advice included, by "; ", and has the
        reason and report of the first error; its own `advice` and `directories` are empty. `is_unreadable` is True if
        it is True for any error, and `each` has all errors. A single error is returned unchanged. `each` must not be
        empty.
        """
        if len(each) == 1:
            return each[0]
        sentences = [refusal.sentence for refusal in each]
        refused = cls(Sentence.joined("; ", sentences), reason=each[0].reason, report=each[0].report)
        refused.is_unreadable, refused.each = any(refusal.is_unreadable for refusal in each), tuple(each)
        return refused
