"""A log directory for which no plan could be made, with the reason; the other directories still get their plans."""

from __future__ import annotations

import os

from msgspec import Struct

from kafkalog.codec.common.errors import RecoveryRefused, StorageError, UsageError
from kafkalog.codec.common.findings import Finding, FindingJson
from kafkalog.codec.common.shapes import shaped
from kafkalog.log.disk.files import unreadable
from kafkalog.recovery.decide.plan_json import ResultJson
from kafkalog.words.exit_codes import sentence_of

__all__ = ["Unplanned"]


class Unplanned(Struct, frozen=True):
    """A directory without a plan, and the reason: it could not be read, or it was refused, or another directory was
    refused first.
    """

    root: str
    error: StorageError | RecoveryRefused | UsageError | None
    """None: another directory was in the way before this one was examined"""
    finding: Finding | None = None
    """one of the broker's directories is not there or cannot be read: what was in it"""

    @property
    def is_unreadable(self) -> bool:
        """Whether there is no plan because the operating system reported an error."""
        return isinstance(self.error, StorageError)

    @property
    def sentence(self) -> str:
        """Reason why there is no plan, as one sentence with the directory's name: the detail of `finding` if there is
        one, else the error, or that another directory was refused first.
        """
        if self.finding is not None:
            file = self.finding.file or self.root
            is_inside = file == self.root or file.startswith(os.path.join(self.root, ""))
            where = file if is_inside else f"{self.root}: {file}"
            return f"{where if self.is_unreadable else self.root}: {self.finding.detail}"
        blocked = "another directory was declined before this one was examined"
        why = blocked if self.error is None else sentence_of(self.error)
        return why if self.root in why else f"{self.root}: {why}"

    def as_json(self) -> ResultJson:
        """Return a result without changes, with the reason as `refusal`. If the directory or a file in it is missing or
        cannot be read, the result also has a finding with a relative path.
        """
        findings: list[Finding] = []
        if isinstance(self.error, StorageError):
            finding = self.finding or unreadable(self.error, self.root)
            relative = os.path.relpath(finding.file or self.root, self.root)
            findings = [finding.in_file(relative)]
        elif self.finding is not None:
            findings = [self.finding.in_file(".")]
        return ResultJson(path=self.root, refusal=self.sentence, findings=shaped(findings, list[FindingJson]))
