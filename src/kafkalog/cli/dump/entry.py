"""`kafkalog dump`: the command itself, from options to printed lines and findings."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import click

from kafkalog.cli.dump.bounds import Bounds, Committed, begin_of
from kafkalog.cli.dump.committed import committed_of
from kafkalog.cli.dump.content_filter import ContentFilter
from kafkalog.cli.dump.forms import Form, form_of, names_of, refuse_meaningless
from kafkalog.cli.dump.kafka_indexes import LARGEST_MESSAGE, KafkaIndexes, is_index
from kafkalog.cli.dump.patterns import searching
from kafkalog.cli.dump.records import Walk
from kafkalog.cli.dump.redaction import redacted_findings
from kafkalog.cli.dump.refused import refused_options
from kafkalog.cli.dump.request import Dump, SectionedCommand, dump_options
from kafkalog.cli.dump.shown import shown
from kafkalog.cli.dump.side_files import write_side_file
from kafkalog.cli.dump.sources import Sources
from kafkalog.cli.output import LineWriter, remark, report_findings
from kafkalog.cli.progress import ByteProgress
from kafkalog.codec.common.errors import StorageError
from kafkalog.codec.common.findings import Finding
from kafkalog.log import Partition
from kafkalog.log.disk.files import unreadable
from kafkalog.log.reading.consumer_view import READ_COMMITTED, consumer_view
from kafkalog.log.reading.record_filter import RecordFilter
from kafkalog.words.exit_codes import ExitCode, exit_code_of_findings

__all__ = ["command"]


def _request(ctx: click.Context, given: dict[str, Any]) -> Dump:
    sources = {name: ctx.get_parameter_source(name) for name in ctx.params}
    on_command_line = frozenset(
        name for name, source in sources.items() if source is click.core.ParameterSource.COMMANDLINE
    )
    return Dump(given=on_command_line, **given)


@click.command(name="dump", cls=SectionedCommand)
@click.argument("paths", nargs=-1, metavar="PATH...", type=click.Path(path_type=str, readable=False))
@dump_options
@refused_options
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> int:
    """Print records as a consumer would see them, or batches, or the entries of another Kafka file.

    PATH is a log directory, a directory of several, a partition directory, a segment, or an index, snapshot or
    checkpoint file.  Data that was deleted but is still on disk is printed only with --deleted, and never together
    with live data.  Records of Kafka's internal topics are decoded.

    Also takes the options of kafka-dump-log and of kcat's consumer, and then prints the lines of that tool.

    Warnings and errors go to standard error; the exit code is then 1, or 4 if something could not be read.
    """
    request = _request(ctx, given)
    form = form_of(request)
    sources = Sources(request)
    refuse_meaningless(request, form, names_of(ctx.command.params), side_files=sources.side_files)
    wanted = ContentFilter.of(
        start_time=request.start_time,
        end_time=request.end_time,
        key=request.key,
        key_regex=request.key_regex,
        value_regex=request.value_regex,
        headers=request.headers,
        header_regexes=request.header_regexes,
    )
    begin = begin_of(request.kcat_offsets, request.group)
    if form is Form.KCAT:
        from kafkalog.cli.dump.kcat.sink import kcat_format_of

        kcat_format_of(request)  # refused before anything is read
    sources.open(request, form)
    committed = committed_of(request.group, sources.at_hand, sources.findings) if request.group is not None else {}
    progress = ByteProgress("reading", sum(partition.size for partition in sources.partitions), quiet=request.quiet)
    walk = Walk(
        wanted=wanted,
        filter=RecordFilter(
            isolation_level=request.isolation_level,
            producer_ids=request.producer_ids or None,
            codecs=request.codecs or None,
            transactional=request.transactional,
        ),
        everything=request.everything,
        max_records=request.max_records,
        progress=progress,
        findings=sources.findings,
    )
    with ExitStack() as stack:
        if wanted.has_patterns:
            stack.enter_context(searching())
        stack.enter_context(progress)
        writer = stack.enter_context(LineWriter(unbuffered=request.unbuffered))
        indexes = KafkaIndexes(
            writer,
            sanity_only=request.index_sanity_check,
            verify_only=request.verify_index_only,
            largest_message=request.max_message_size or LARGEST_MESSAGE,
        )
        with shown(request, form, walk, writer, sources.paths) as show:
            for each in sources.in_order:
                if isinstance(each, Partition):
                    _partition(request, begin.of, committed, each, walk, show)
                else:
                    _side_file(request, form, each, walk, writer, indexes)
            writer.flush()
            is_wrong = indexes.tell()
    walk.findings[:] = dict.fromkeys((*walk.findings, *indexes.findings))
    report_findings(redacted_findings(walk.findings) if request.redact else walk.findings)
    outcome = exit_code_of_findings(walk.findings)
    return max(outcome, ExitCode.FINDINGS) if is_wrong or walk.is_incomplete else outcome


def _side_file(request: Dump, form: Form, path: str, walk: Walk, writer: LineWriter, indexes: KafkaIndexes) -> None:
    try:
        if form is Form.KAFKA and is_index(path):
            indexes.file(path)
        else:
            write_side_file(path, walk, writer, as_json=request.as_json)
    except StorageError as error:
        walk.findings.append(unreadable(error, path))


def _partition(
    request: Dump,
    bounds_of: Callable[[Partition, Dump, Committed, list[Finding]], Bounds],
    committed: Committed,
    partition: Partition,
    walk: Walk,
    show: Callable[[Partition, Bounds], None],
) -> None:
    if walk.full:
        return
    try:
        bounds = bounds_of(partition, request, committed, walk.findings)
        if not bounds.is_empty:
            show(partition, bounds)
            if request.isolation_level == READ_COMMITTED and not (request.everything or request.quiet):
                _remark_of_open(partition, bounds)
    except StorageError as error:
        if request.columns_file is not None and str(error.filename).startswith(request.columns_file):
            raise
        walk.findings.append(unreadable(error, partition.path))


def _remark_of_open(partition: Partition, bounds: Bounds) -> None:
    """Print a remark if the shown records end at an open transaction; nothing if the requested end is before it."""
    why = consumer_view(partition, end_offset=bounds.end_offset, isolation_level=READ_COMMITTED).open_transaction
    if why is not None:
        remark(f"{partition.topic}-{partition.partition}: {why}")
