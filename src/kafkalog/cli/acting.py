"""Common procedure of the commands that change a log directory: make a plan, print it, ask the user, carry it out,
print the result.

The plan is printed before anything is changed; without --yes the user is asked. With --json a refusal prints an object
for each directory. After an interrupt, the command reports which executions were begun or completed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Generic, TypeVar

from msgspec import Struct, structs

from kafkalog.cli.confirm import confirm
from kafkalog.cli.interrupt import Happened, interruptible
from kafkalog.cli.output import print_json, remark
from kafkalog.cli.sentences import SentenceWriter
from kafkalog.codec.common.errors import RecoveryRefused, StorageError, UsageError
from kafkalog.words.escapes import escape_controls

__all__ = ["Acting", "Declined"]

Plan = TypeVar("Plan")
Declined = RecoveryRefused | StorageError | UsageError


class Acting(Generic[Plan]):
    """One execution of a command that changes log directories. It collects the plans in `plans`."""

    def __init__(
        self,
        *,
        yes: bool,
        as_json: bool,
        show: Callable[[Plan], None] = lambda made: None,
        reports: Callable[[Declined, Sequence[Plan]], Sequence[Struct]] = lambda error, plans: (),
    ) -> None:
        self.plans: list[Plan] = []
        self.as_json = as_json
        self.asks = not yes
        """the user has to agree first"""
        self._show = show
        self._reports = reports

    @contextmanager
    def on(self, paths: Sequence[str], quarantine: str | None = None) -> Iterator[None]:
        """Context manager around the change of the log directories at `paths`. If the change is refused or fails, or
        the user presses Ctrl-C, the state of the directories is reported. `quarantine` is another directory in which
        executions are kept.
        """
        with self._refusal_told(Happened(paths, quarantine)), interruptible(paths, quarantine):
            yield

    @contextmanager
    def _refusal_told(self, happened: Happened) -> Iterator[None]:
        """Context manager: on `RecoveryRefused`, `StorageError` or `UsageError`, print what was done so far, then raise
        the error again.

        With --json, print each report that the callback `reports` returns as an object, which names the execution if
        this command changed the report's directory. On standard error, print a sentence for each execution in
        `happened` that this command began or ended. A `RecoveryRefused` gets `is_unreadable` if a plan could not read
        everything.
        """
        try:
            yield
        except (RecoveryRefused, StorageError, UsageError) as error:
            for report in self._reports(error, self.plans) if self.as_json else ():
                print_json(_as_it_is(report, happened))
            for sentence in happened.sentences(only_new=True):
                remark(sentence)
            if isinstance(error, RecoveryRefused):
                unread = any(getattr(plan, "is_unreadable", False) for plan in self.plans)
                error.is_unreadable = error.is_unreadable or unread
            raise

    def planned(self, plan: Plan) -> None:
        """Receive a plan and print it before anything is changed."""
        self.plans.append(plan)
        if not self.as_json:
            self._show(plan)

    def agree(self, question: str) -> None:
        """Ask the user, unless --yes was given; raises `RecoveryRefused` without consent."""
        if self.asks:
            confirm(question)

    def tell(self, result: Struct, text: Callable[[], None]) -> None:
        """Print the result, as JSON or as text."""
        if self.as_json:
            print_json(result)
        else:
            text()

    @staticmethod
    def write(*lines: str) -> None:
        """Print lines for people; unprintable characters are made visible."""
        with SentenceWriter() as writer:
            for line in lines:
                writer.write(escape_controls(line))


def _as_it_is(report: Struct, happened: Happened) -> Struct:
    """Return a copy of `report` that says what this command did to its directory. `changed` is true, and `run_id` and
    `quarantine`, if `report` has them, name the execution. Return `report` itself if its directory was not changed, or
    if the executions of the directory cannot be read. The same holds for a report without a path or without a field
    `changed`.
    """
    names = report.__struct_fields__
    path = getattr(report, "path", None) or getattr(report, "root", None)
    run = None if path is None or "changed" not in names else happened.run_in(path)
    if run is None:
        return report
    done = {"changed": True, "run_id": run[0], "quarantine": run[1]}
    return structs.replace(report, **{name: value for name, value in done.items() if name in names})
