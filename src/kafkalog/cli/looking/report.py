"""`kafkalog report`: all facts about log directories on one page that can be shared."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import click

from kafkalog.cli.looking.report_place import STANDARD_OUTPUT, check_place, place
from kafkalog.cli.options.common import CONFIG, JOBS
from kafkalog.cli.options.paths import PATHS, SERVER_PROPERTIES, settings_in
from kafkalog.cli.options.selection import selection_options
from kafkalog.cli.options.times import AT
from kafkalog.cli.progress import ByteProgress, RecoveryProgress
from kafkalog.cli.sentences import SentenceWriter
from kafkalog.cli.settings import parse_settings, planning_words
from kafkalog.inspect.report_request import Asked, Watch
from kafkalog.log.directories.workers import ProgressState
from kafkalog.recovery.facts.recovery_request import Recovery
from kafkalog.reporting.making import make_report
from kafkalog.words.escapes import escape_controls

__all__ = ["command"]


class _Bars(Watch):
    """Shows a progress bar for each part of the work."""

    def reading(self, what: str, total: int) -> AbstractContextManager[Callable[[int], None]]:
        @contextmanager
        def shown() -> Iterator[Callable[[int], None]]:
            with ByteProgress(what, total) as progress:
                yield progress.advance

        return shown()

    def planning(self) -> AbstractContextManager[Callable[[ProgressState], None]]:
        @contextmanager
        def shown() -> Iterator[Callable[[ProgressState], None]]:
            with RecoveryProgress("planning") as progress:
                yield progress.update

        return shown()


@click.command(name="report")
@PATHS
@click.option("-o", "--output", metavar="FILE", required=True, help="File to write the report to; - prints it.")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["html", "md", "text"]),
    help="An HTML page, Markdown for a ticket, or text for a terminal [by FILE: .md, .txt, else html].",
)
@click.option("--overwrite", is_flag=True, help="Replace FILE if it exists.")
@selection_options
@CONFIG
@SERVER_PROPERTIES
@AT
@JOBS
@click.option("--shallow", is_flag=True, help="Check only the checksums of batches; do not decode records.")
@click.option("--no-bytes", is_flag=True, help="Leave out the bytes around damage, which may contain parts of records.")
def command(
    paths: tuple[str, ...],
    output: str,
    kind: str | None,
    overwrite: bool,
    config: tuple[str, ...],
    server_properties: str | None,
    **given: Any,
) -> int:
    """Write one page about log directories, to share or to attach to an incident; changes nothing in them.

    Damage comes first: each finding with its place, the bytes there and what to do. Then the ways to recover, with the
    commands to run; a map of every segment; copies on several brokers side by side; what was appended when; the
    inventory; earlier recoveries. The page is a single file of at most a few MB that loads nothing else.

    Exit code 0 if nothing was found, 1 if something was, 4 if something could not be read.
    """
    check_place(output, paths, overwrite=overwrite)
    recovery = Recovery(at=given["at"], config=parse_settings(config), select=given["chosen"])
    asked = Asked(
        chosen=given["chosen"],
        config=parse_settings(config),
        server=settings_in(server_properties),
        at=given["at"],
        deep=not given["shallow"],
        with_bytes=not given["no_bytes"],
        jobs=given["jobs"],
        words=tuple(planning_words(recovery, server_properties)),
    )
    report = make_report(paths, asked, _Bars())
    kind = kind or {".md": "md", ".txt": "text"}.get(os.path.splitext(output)[1], "html")
    write = {"md": report.markdown, "text": report.text, "html": report.html}[kind]
    place(output, write(), overwrite=overwrite)
    verdict = report.verdict
    if output != STANDARD_OUTPUT:
        with SentenceWriter() as writer:
            writer.write(escape_controls(f"{output}: {verdict.sentence}"))
    return verdict.code
