"""`kafkalog index`: check the indexes of a log directory, or rebuild them."""

from __future__ import annotations

from collections.abc import Iterable

import click
from msgspec import Struct

from kafkalog.cli.acting import Acting
from kafkalog.cli.lines import finish
from kafkalog.cli.options.common import JOBS, JSON, YES
from kafkalog.cli.options.paths import PATHS, SERVER_PROPERTIES, paths_in_properties, settings_in
from kafkalog.cli.options.requests import request_option
from kafkalog.cli.options.selection import selection_options
from kafkalog.cli.options.times import AT
from kafkalog.cli.output import print_json, remark
from kafkalog.cli.progress import ByteProgress, RecoveryProgress, total_bytes
from kafkalog.cli.repairing.plan_text import print_plan
from kafkalog.cli.settings import parse_settings
from kafkalog.cli.shapes.plan_lines import result_line
from kafkalog.codec.common.finding_codes import Trait, codes_with
from kafkalog.codec.common.findings import Finding, FindingCode, FindingJson
from kafkalog.codec.common.shapes import shaped
from kafkalog.codec.names import CLUSTER_METADATA_DIRECTORY
from kafkalog.log.directories.log_settings import LogSettings
from kafkalog.log.directories.selection import Selection
from kafkalog.recovery import Plan, RecoveryResult
from kafkalog.recovery.checks.verify import verify
from kafkalog.recovery.facts.places import log_directories
from kafkalog.recovery.facts.recovery_request import Recovery
from kafkalog.recovery.rebuilding import IndexRebuild, rebuild_indexes
from kafkalog.recovery.results import result_json
from kafkalog.words.escapes import escape_controls
from kafkalog.words.exit_codes import ExitCode

__all__ = ["command"]

_ABOUT_INDEXES = codes_with(Trait.REBUILT) | {FindingCode.SNAPSHOT_INVALID, FindingCode.UNREADABLE}


class IndexVerifyLine(Struct, frozen=True, kw_only=True):
    """One line for each log directory, or for the given path itself."""

    path: str
    """the log directory, partition directory or segment"""
    clean: bool
    """nothing was found"""
    findings: list[FindingJson]
    """what was found about indexes and snapshots"""


@click.group(name="index")
def command() -> None:
    """Check the indexes of log directories, or rebuild them from sound logs."""


@command.command(name="verify")
@PATHS
@selection_options
@paths_in_properties
@JSON
def verify_command(paths: tuple[str, ...], chosen: Selection, as_json: bool) -> int:
    """Check that every index, transaction index and producer snapshot describes the log beside it.

    Exit code 0 if they do, 1 if not, 4 if something could not be read.  Nothing is changed.
    """
    with ByteProgress("verifying", lambda: total_bytes(paths)) as progress:
        report = verify(*paths, deep=False, select=chosen, on_read=progress.advance)
    if as_json:
        for directory in report.directories:
            findings = _of_indexes(directory.findings)
            shaped_findings = shaped(findings, list[FindingJson])
            print_json(IndexVerifyLine(path=directory.path, clean=not findings, findings=shaped_findings))
    return finish(_of_indexes(report.findings))


def _of_indexes(findings: Iterable[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.code in _ABOUT_INDEXES]


@command.command(name="rebuild")
@PATHS
@request_option(IndexRebuild, "config")
@SERVER_PROPERTIES
@AT
@request_option(Recovery, "cluster_metadata")
@JOBS
@YES
@JSON
def rebuild_command(
    paths: tuple[str, ...],
    config: tuple[str, ...],
    server_properties: str | None,
    at: int | None,
    cluster_metadata: bool,
    jobs: int,
    yes: bool,
    as_json: bool,
) -> int:
    """Rebuild every index, producer snapshot and leader epoch, as a broker that scans all segments does.

    Refuses if a log is damaged.  The old files are kept, and `kafkalog undo` restores them.  Exit code 0 if there
    was nothing to do, 2 if something was changed, 3 if it refused, 4 if something could not be read.
    """
    settings = {**LogSettings.from_server_properties(settings_in(server_properties)), **parse_settings(config)}
    acting = Acting[Plan](yes=yes, as_json=as_json)
    paths = tuple(log_directories(paths))
    with acting.on(paths):
        acting.agree(f"Rebuild all indexes in {', '.join(map(escape_controls, paths))}?")
        with RecoveryProgress("rebuilding") as progress:
            request = IndexRebuild(config=settings, at=at, cluster_metadata=cluster_metadata)
            results = rebuild_indexes(request, *paths, jobs=jobs, on_progress=progress.update)
    for result in results:
        _tell(result, acting, cluster_metadata=cluster_metadata)
    if any(result.plan.is_unreadable for result in results):
        return ExitCode.IO_ERROR
    return ExitCode.CHANGED if any(result.changed for result in results) else ExitCode.CLEAN


def _tell(result: RecoveryResult, acting: Acting[Plan], *, cluster_metadata: bool) -> None:
    """Print the result of an index rebuild in one log directory: its JSON line, or its plan and the place of the old
    files. If `__cluster_metadata-0` was skipped, a remark on standard error says so.
    """
    if not cluster_metadata and CLUSTER_METADATA_DIRECTORY in result.plan.survey.directories:
        remark(
            f"{CLUSTER_METADATA_DIRECTORY} was left out, which `index verify` examines: add --cluster-metadata to "
            "rebuild its indexes too"
        )
    acting.tell(result_line(result_json(result)), lambda: print_plan(result.plan))
    if result.run_id is not None and not acting.as_json:
        acting.write(f"what was there is in {result.quarantine}")
