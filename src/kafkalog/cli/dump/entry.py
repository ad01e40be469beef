"""The command itself: what is read, in which form it is shown, and what was found."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import click

from kafkalog.cli.dump.bounds import Bounds, Committed, begin_of
from kafkalog.cli.dump.committed import committed_of
from kafkalog.cli.dump.decoders import decodes
from kafkalog.cli.dump.forms import Form, form_of, names_of, refuse_meaningless
from kafkalog.cli.dump.kafka_indexes import LARGEST_MESSAGE, KafkaIndexes, is_index
from kafkalog.cli.dump.options import Options, SectionedCommand, dump_options
from kafkalog.cli.dump.patterns import searching
from kafkalog.cli.dump.record_filter import RecordFilter
from kafkalog.cli.dump.records import OfBatches, Walk, json_lines
from kafkalog.cli.dump.redaction import Redaction
from kafkalog.cli.dump.refused import refused_options
from kafkalog.cli.dump.side_files import write_side_file
from kafkalog.cli.dump.sinks import JsonSink, Sink, TextSink
from kafkalog.cli.options.paths import log_directories, settings_in
from kafkalog.cli.options.selection import chosen_of, selected
from kafkalog.cli.outcome import Outcome, outcome_of_findings
from kafkalog.cli.output import LineWriter, escape_controls, report_findings
from kafkalog.cli.progress import ByteProgress
from kafkalog.codec.arguments import needed
from kafkalog.codec.errors import StorageError, UsageError
from kafkalog.codec.findings import Finding
from kafkalog.log import Partition, open_all
from kafkalog.log.deleted import deleted_partitions
from kafkalog.log.files import real, unreadable
from kafkalog.log.side_files import is_side_file

__all__ = ["command"]


class _Sources:
    """What the paths hold, as far as it was chosen."""

    def __init__(self, options: Options) -> None:
        paths = [*options.paths, *(path for text in options.files for path in text.split(",") if path)]
        if options.server_properties is not None:
            if paths:
                raise UsageError("--server-properties stands in the place of PATH here: give one of them")
            paths = [*log_directories(options.server_properties, settings_in(options.server_properties))]
        if not paths:
            raise click.UsageError("Missing argument 'PATH...'.")
        self.side_files = [path for path in paths if is_side_file(path) and not os.path.isdir(path)]
        missing = [path for path in self.side_files if not os.path.lexists(path)]
        if missing:
            raise UsageError(f"{missing[0]} does not exist")
        self._others = [path for path in paths if path not in self.side_files]
        self._paths = paths
        self.partitions: list[Partition] = []
        self.in_order: list[str | Partition] = []
        """side files and partitions: as the paths were given for kafka-dump-log's lines, else the former first"""
        self.at_hand: Sequence[Partition] = ()
        self.findings: list[Finding] = []

    def open(self, options: Options, form: Form) -> None:
        """Look into the paths; `UnknownName` for a topic that is not there."""
        if self._others:
            self._open(options)
        self.in_order = [*self.side_files, *self.partitions]
        if form is Form.KAFKA and self.side_files:
            places = {real(path): number for number, path in enumerate(self._paths)}
            self.in_order.sort(key=lambda each: _place(each if isinstance(each, str) else each.path, places))

    def _open(self, options: Options) -> None:
        inventory = open_all(*self._others, tolerant=True)
        self.at_hand = inventory.readable(options.replica)
        deleted = deleted_partitions(inventory)
        chosen = chosen_of(options.topics, [each for each in options.numbers if each >= 0], options.excluded)
        if options.topics and not options.deleted and _only_deleted(options, self.at_hand, deleted):
            sys.stderr.write(f"kafkalog: {', '.join(map(escape_controls, options.topics))}: only what was deleted is "
                             "there; --deleted prints it\n")  # fmt: skip
            return
        self.partitions = selected(chosen, deleted if options.deleted else self.at_hand)
        self.findings.extend(inventory.unreadable)
        self.findings.extend(finding for log_dir in inventory.log_dirs for finding in log_dir.findings)
        self.findings.extend(finding for partition in self.partitions for finding in partition.findings)


def _place(path: str, places: Mapping[str, int]) -> int:
    """Number of the path that is this one, or one above it."""
    below = real(path)
    while below not in places and below != os.path.dirname(below):
        below = os.path.dirname(below)
    return places.get(below, len(places))


def _only_deleted(options: Options, at_hand: Sequence[Partition], deleted: Sequence[Partition]) -> bool:
    """Whether the topics that were asked for are only among what was deleted."""
    chosen = chosen_of(options.topics)
    live, gone = ([each for each in some if chosen.takes(each.topic, each.partition)] for some in (at_hand, deleted))
    return bool(gone) and not live


@contextmanager
def _shown(
    options: Options, form: Form, walk: Walk, writer: LineWriter
) -> Iterator[Callable[[Partition, Bounds], None]]:
    """What shows one partition."""
    redaction = Redaction() if options.redact else None
    decode = not options.no_decode
    if form is Form.BATCHES:
        yield lambda partition, bounds: walk.batches(partition, bounds, writer, as_json=options.as_json)
    elif form is Form.KAFKA:
        from kafkalog.cli.dump.kafka_logs import KafkaLogs

        logs = KafkaLogs(options, walk, writer, redaction)
        yield lambda partition, bounds: logs.partition(partition, bounds)
        writer.flush()
        logs.tell_gaps()
    elif form is Form.COLUMNS:
        with _columns(options, walk, redaction) as show:
            yield show
    elif form is Form.JSON:
        decode = decode and options.encoding != "base64"
        sink: Sink = JsonSink(
            writer, options.encoding, decode, options.show_secrets, options.with_metadata, redaction
        )  # fmt: skip
        plain = not (options.with_metadata or options.redact)

        def show_json(partition: Partition, bounds: Bounds) -> None:
            fast = plain and not (decode and decodes(partition.topic))
            if not (fast and json_lines(walk, partition, bounds, writer, options.encoding)):
                walk.records(partition, bounds, sink)

        yield show_json
    elif form is Form.KCAT:
        from kafkalog.cli.dump.kcat_sink import KcatSink, kcat_format_of

        kcat = KcatSink(writer, kcat_format_of(options), options.envelope, redaction)
        yield lambda partition, bounds: walk.records(partition, bounds, kcat)
        if kcat.failed:
            walk.is_incomplete = True
    else:
        text = TextSink(writer, decode, options.show_secrets, options.with_metadata, redaction)
        yield lambda partition, bounds: walk.records(partition, bounds, text)


@contextmanager
def _columns(
    options: Options, walk: Walk, redaction: Redaction | None
) -> Iterator[Callable[[Partition, Bounds], None]]:
    with needed("dump --parquet" if options.parquet is not None else "dump --arrow", "fast"):
        from kafkalog.cli.dump.columns import ColumnsSink, columns_schema
        from kafkalog.log.columns_file import ColumnsFile

    schema = columns_schema(with_metadata=options.with_metadata)
    with ColumnsFile(str(options.columns_file), schema, parquet=options.parquet is not None) as file:
        sink = ColumnsSink(file, schema, redaction)

        def show(partition: Partition, bounds: Bounds) -> None:
            if not sink.whole(walk, partition, bounds):
                walk.records(partition, bounds, sink)

        yield show
        sink.flush()


def _options(ctx: click.Context, given: dict[str, Any]) -> Options:
    sources = {name: ctx.get_parameter_source(name) for name in given}
    on_command_line = frozenset(
        name for name, source in sources.items() if source is click.core.ParameterSource.COMMANDLINE
    )
    return Options(given=on_command_line, **given)


@click.command(name="dump", cls=SectionedCommand)
@click.argument("paths", nargs=-1, metavar="PATH...", type=click.Path(path_type=str))
@dump_options
@refused_options
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> int:
    """Print records as a consumer would see them, or batches, or the entries of another file of Kafka's.

    PATH is a log directory, a directory of several, a partition directory, a segment, or an index, snapshot or
    checkpoint file.  What was deleted and not yet removed is only printed with --deleted, and apart from what lives.
    Records of Kafka's internal topics are decoded.

    The options of kafka-dump-log and of kcat's consumer are taken as they are, and then its own lines are printed.

    Findings go to standard error; the exit code is then 1, or 4 if something could not be read.
    """
    options = _options(ctx, given)
    form = form_of(options)
    sources = _Sources(options)
    refuse_meaningless(options, form, names_of(ctx.command.params), side_files=bool(sources.side_files))
    wanted = RecordFilter.of(
        start_time=options.start_time,
        end_time=options.end_time,
        key=options.key,
        key_regex=options.key_regex,
        value_regex=options.value_regex,
        headers=options.headers,
        header_regexes=options.header_regexes,
    )
    begin = begin_of(options.kcat_offsets, options.group)
    if form is Form.KCAT:
        from kafkalog.cli.dump.kcat_sink import kcat_format_of

        kcat_format_of(options)  # refused before anything is read
    sources.open(options, form)
    committed = committed_of(options.group, sources.at_hand) if options.group is not None else {}
    progress = ByteProgress("reading", sum(each.size for each in sources.partitions), quiet=options.quiet)
    walk = Walk(
        wanted,
        OfBatches(options.producer_ids or None, options.codecs or None, options.transactional),
        options.everything,
        options.isolation_level,
        options.max_records,
        progress,
        findings=sources.findings,
    )
    with ExitStack() as stack:
        if wanted.has_patterns:
            stack.enter_context(searching())
        stack.enter_context(progress)
        writer = stack.enter_context(LineWriter(unbuffered=options.unbuffered))
        indexes = KafkaIndexes(
            writer,
            sanity_only=options.index_sanity_check,
            verify_only=options.verify_index_only,
            largest_message=options.max_message_size or LARGEST_MESSAGE,
        )
        with _shown(options, form, walk, writer) as show:
            for each in sources.in_order:
                if isinstance(each, Partition):
                    _partition(options, begin.of, committed, each, walk, show)
                else:
                    _side_file(options, form, each, walk, writer, indexes)
            writer.flush()
            is_wrong = indexes.tell()
    walk.findings += indexes.findings
    report_findings(walk.findings)
    outcome = outcome_of_findings(walk.findings)
    return max(outcome, Outcome.FINDINGS) if is_wrong or walk.is_incomplete else outcome


def _side_file(options: Options, form: Form, path: str, walk: Walk, writer: LineWriter, indexes: KafkaIndexes) -> None:
    try:
        if form is Form.KAFKA and is_index(path):
            indexes.file(path)
        else:
            write_side_file(path, walk, writer, as_json=options.as_json)
    except StorageError as error:
        walk.findings.append(unreadable(error, path))


def _partition(
    options: Options,
    bounds_of: Callable[[Partition, Options, Committed, list[Finding]], Bounds],
    committed: Committed,
    partition: Partition,
    walk: Walk,
    show: Callable[[Partition, Bounds], None],
) -> None:
    if walk.full:
        return
    try:
        bounds = bounds_of(partition, options, committed, walk.findings)
        if not bounds.is_empty:
            show(partition, bounds)
    except StorageError as error:
        if options.columns_file is not None and str(error.filename).startswith(options.columns_file):
            raise
        walk.findings.append(unreadable(error, partition.path))
