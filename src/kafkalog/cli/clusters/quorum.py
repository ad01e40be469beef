"""`kafkalog quorum`: compare the remaining copies of a KRaft metadata log, and recover the quorum."""

from __future__ import annotations

import click

from kafkalog.cli.clusters.quorum_recover import recover_command
from kafkalog.cli.clusters.quorum_text import print_left_out, print_quorum
from kafkalog.cli.lines import finish, print_lines
from kafkalog.cli.options.common import JSON
from kafkalog.cli.options.paths import PATHS, paths_in_properties
from kafkalog.cli.options.strict import StrictCommand
from kafkalog.cli.shapes.quorum_lines import quorum_lines
from kafkalog.cluster.kraft.quorum import read_what_is_left
from kafkalog.codec.common.findings import Finding, FindingCode, Severity

__all__ = ["command"]


@click.group(name="quorum")
def command() -> None:
    """Show what is left of a KRaft quorum, or bring it back from the files."""


@command.command(name="show", cls=StrictCommand)
@PATHS
@paths_in_properties
@JSON
def show_command(paths: tuple[str, ...], as_json: bool) -> int:
    """Compare the metadata logs of controllers and brokers: which goes furthest, who is missing, what may be lost.

    Each PATH is a log directory with __cluster_metadata-0 in it, or that directory itself.  Copies are ranked as an
    election ranks them, by the last epoch and then by the end of the log.  Nothing is changed.

    Exit code 0 if all is well; 1 if something was found, such as a damaged or different copy, several clusters, or a
    PATH without a copy; 4 if one cannot be read.  The other copies are still compared.
    """
    quorums, left_out = read_what_is_left(paths)
    findings: list[Finding] = []
    for quorum in quorums:
        if as_json:
            print_lines(quorum_lines(quorum))
        else:
            print_quorum(quorum)
        findings += quorum.findings
    print_left_out(left_out, as_json)
    findings += [out.finding() for out in left_out]
    if len(quorums) > 1:
        ids = ", ".join(quorum.cluster_id or "one that is not known" for quorum in quorums)
        detail = f"the directories are of {len(quorums)} clusters ({ids}), which have nothing to do with each other"
        findings.append(Finding(FindingCode.METADATA_INCONSISTENT, Severity.ERROR, None, None, detail))
    return finish(findings)


command.add_command(recover_command)
