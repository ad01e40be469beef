"""`kafkalog merge`: merge several copies of a partition, or several volumes, into one healthy log or log directory."""

from __future__ import annotations

import os

import click

from kafkalog.cli.lines import print_lines
from kafkalog.cli.options.common import JSON
from kafkalog.cli.options.requests import request_option
from kafkalog.cli.options.selection import selection_options
from kafkalog.cli.output import print_json
from kafkalog.cli.progress import ByteProgress, total_bytes
from kafkalog.cli.repairing.merge_text import print_directory, print_partition
from kafkalog.cli.settings import parse_settings
from kafkalog.cli.shapes.merge_lines import PartitionLine, summary_line
from kafkalog.codec.common.errors import UsageError
from kafkalog.jobs.merge.merge import merge_directories, merge_preview, merge_replicas
from kafkalog.jobs.merge.request import Merge
from kafkalog.log.directories.directory import is_partition_dir
from kafkalog.log.directories.selection import Selection
from kafkalog.log.disk.files import is_directory
from kafkalog.words.exit_codes import ExitCode

__all__ = ["command"]


@click.command(name="merge")
@click.argument("copies", nargs=-1, required=True, metavar="DIR...")
@click.option("--into", "target", metavar="DIR", help="New directory for the result.")
@click.option("--dry-run", is_flag=True, help="Show the plan of the merge and write nothing.")
@request_option(Merge, "prefer")
@selection_options
@request_option(Merge, "config")
@JSON
def command(
    copies: tuple[str, ...],
    target: str | None,
    dry_run: bool,
    prefer: str | None,
    chosen: Selection,
    config: tuple[str, ...],
    as_json: bool,
) -> int:
    """Merge copies of a topic-partition, or log directories of several brokers, by the lineage of leader epochs.

    Needs --into or --dry-run.  The copies are only read.  Shows which copy each range of offsets came from, what is
    wrong with each copy, and which offsets no copy has.  Given log directories, it merges every partition found in any
    of them except `__cluster_metadata-0`, and writes no meta.properties.

    Exit code 0 if all was merged, even if a copy is damaged, 3 if a partition was refused, 4 if something could not be
    read (even if a partition was refused).
    """
    if dry_run is (target is not None):
        raise UsageError("give either --into DIR or --dry-run")
    request = Merge(prefer=prefer, select=chosen, config=parse_settings(config))
    if all(is_directory(path) and is_partition_dir(path) for path in copies):
        result = merge_preview(request, *copies) if target is None else merge_replicas(request, *copies, target=target)
        if as_json:
            print_json(result, PartitionLine)
        else:
            print_partition(result)
        is_unread = any(copy.error is not None or copy.unread for copy in result.copies)
        return ExitCode.IO_ERROR if is_unread else ExitCode.CLEAN
    with ByteProgress("merging", lambda: total_bytes(filter(os.path.isdir, copies))) as progress:
        merged = merge_directories(request, *copies, target=target, on_read=progress.advance)
    if as_json:
        print_lines(merged.partitions, PartitionLine)
        print_json(summary_line(merged))
    else:
        print_directory(merged)
    if merged.unreadable:
        return ExitCode.IO_ERROR
    return ExitCode.REFUSED if merged.refused else ExitCode.CLEAN
