"""Make a report: everything about log directories, as a page or as text for a channel."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kafkalog.codec.common.arguments import Count
from kafkalog.codec.common.findings import Finding
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.inspect.examine import examine
from kafkalog.inspect.facts import ReportFacts
from kafkalog.inspect.report_request import Asked, Watch
from kafkalog.log.directories.selection import ALL, Selection
from kafkalog.log.disk.files import PathLike
from kafkalog.reporting.markdown import markdown_of
from kafkalog.reporting.page import page_of
from kafkalog.reporting.text import text_of_report
from kafkalog.reporting.verdict import ReportVerdict, verdict_of

__all__ = ["Report", "make_report", "report"]



@dataclass(frozen=True, slots=True)
class Report:
    """A finished report, which can be written as HTML, Markdown or text."""

    facts: ReportFacts = field(repr=False)

    @property
    def verdict(self) -> ReportVerdict:
        """Sentence, and exit code of the command."""
        return verdict_of(self.facts)

    @property
    def findings(self) -> Sequence[Finding]:
        """Warnings and errors as in `verify`, errors first."""
        return self.facts.findings

    def html(self) -> str:
        """Return one self-contained page of a few MB at most, which loads nothing from elsewhere. Raises `StorageError`
        if a metadata log, which some advice needs, cannot be read.
        """
        return page_of(self.facts)

    def markdown(self) -> str:
        """Return at most 80 lines of Markdown for a chat channel: verdict, damage, ways, commands. Raises
        `StorageError` as `html` does.
        """
        return markdown_of(self.facts)

    def text(self) -> str:
        """Return plain text of 80 columns: the verdict on the first 24 lines, then the problems. Raises `StorageError`
        as `html` does.
        """
        return text_of_report(self.facts)


def report(
    *paths: PathLike,
    deep: bool = True,
    select: Selection = ALL,
    config: Mapping[str, str] | None = None,
    at: int | None = None,
    show_bytes: bool = True,
    jobs: Count = 1,
    limits: Limits = DEFAULT_LIMITS,
) -> Report:
    """Examine log directories, partition directories or segments, and return a report of their state; changes nothing.

    `deep` decodes every record; `config` and `at` have the same meaning as in `plan`; `show_bytes` shows the bytes
    around damage, which may be parts of records. A page is limited to a few MB and says what it leaves out. Raises
    `UsageError` for paths without Kafka data, or if everything selected is excluded. Raises `UnknownName` for a topic
    or partition that does not exist. Raises `StorageError` if a request to an object store fails. Anything else that
    cannot be read is part of the report.

    * `paths`: log directories, partition directories or segments
    * `select`: the topic-partitions to examine; all of them without it
    * `jobs`: how many partitions are examined at a time, each in its own process
    * `limits`: what a batch or file may hold at most (`Limits`)
    """
    asked = Asked(chosen=select, config=config or {}, at=at, deep=deep, with_bytes=show_bytes, jobs=jobs, limits=limits)
    return make_report([os.fspath(path) for path in paths], asked, Watch())


def make_report(paths: Sequence[str], asked: Asked, watch: Watch) -> Report:
    """Make a report as `report` does, with the whole request in one object. `watch` receives the progress."""
    return Report(examine(paths, asked, watch))
