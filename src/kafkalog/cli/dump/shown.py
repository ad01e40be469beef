"""Choose how partitions are printed, once for all of them, and import only the modules that this needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kafkalog.cli.dump.bounds import Bounds
from kafkalog.cli.dump.decoders import decodes
from kafkalog.cli.dump.forms import Form
from kafkalog.cli.dump.records import Walk, json_lines, text_lines
from kafkalog.cli.dump.redaction import Redaction
from kafkalog.cli.dump.request import Dump
from kafkalog.cli.dump.sinks import JsonSink, Sink, TextSink
from kafkalog.cli.output import LineWriter
from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.common.extras import needed
from kafkalog.log import Partition

if TYPE_CHECKING:
    from kafkalog.cli.dump.decoded_values import ShownValues

__all__ = ["shown"]


@contextmanager
def shown(
    request: Dump, form: Form, walk: Walk, writer: LineWriter, paths: Sequence[str]
) -> Iterator[Callable[[Partition, Bounds], None]]:
    """Context manager that yields a function which shows one partition within bounds. It writes to `writer`, or to the
    file of --parquet or --arrow. `paths` are the inputs; that file is never created inside one of them.

    At the end, rows that are still kept are written. In kafka-dump-log's form, gaps between offsets are then reported
    on standard error. In kcat's form, `walk.is_incomplete` is set if a record could not be printed. Entering the
    context, the function and the end of the context raise `StorageError` and `UsageError`.
    """
    redaction = Redaction() if request.redact else None
    decode = not request.no_decode
    if form is Form.BATCHES:
        yield lambda partition, bounds: walk.batches(partition, bounds, writer, as_json=request.as_json)
    elif form is Form.KAFKA:
        from kafkalog.cli.dump.kafka_logs import KafkaLogs

        logs = KafkaLogs(request, walk, writer, redaction)
        yield lambda partition, bounds: logs.partition(partition, bounds)
        writer.flush()
        logs.tell_gaps()
    elif form is Form.COLUMNS:
        with _columns(request, walk, redaction, paths) as show:
            yield show
    elif form is Form.JSON:
        decode = decode and request.encoding != "base64"
        values = _values(request, walk, paths)
        sink: Sink = JsonSink(
            writer, request.encoding, decode, request.show_secrets, request.with_metadata, redaction, values
        )  # fmt: skip
        plain = not (request.with_metadata or request.redact or values is not None)

        def show_json(partition: Partition, bounds: Bounds) -> None:
            fast = plain and not (decode and decodes(partition.topic))
            if not (fast and json_lines(walk, partition, bounds, writer, request.encoding)):
                walk.records(partition, bounds, sink)
                walk.findings += () if values is None else values.findings(partition)

        yield show_json
    elif form is Form.KCAT:
        from kafkalog.cli.dump.kcat.sink import KcatSink, kcat_format_of

        kcat = KcatSink(writer, kcat_format_of(request), request.envelope, redaction)
        yield lambda partition, bounds: walk.records(partition, bounds, kcat)
        if kcat.failed:
            walk.is_incomplete = True
    else:
        text = TextSink(
            writer=writer,
            decode=decode,
            show_secrets=request.show_secrets,
            with_metadata=request.with_metadata,
            redaction=redaction,
        )
        plain = not (request.with_metadata or request.redact)

        def show_text(partition: Partition, bounds: Bounds) -> None:
            fast = plain and not (decode and decodes(partition.topic))
            if not (fast and text_lines(walk, partition, bounds, text)):
                walk.records(partition, bounds, text)

        yield show_text


def _values(request: Dump, walk: Walk, paths: Sequence[str]) -> ShownValues | None:
    if request.values != "auto":
        return None
    from kafkalog.cli.dump.decoded_values import ShownValues

    return ShownValues.of(request, paths, walk.findings)


@contextmanager
def _columns(
    request: Dump, walk: Walk, redaction: Redaction | None, paths: Sequence[str]
) -> Iterator[Callable[[Partition, Bounds], None]]:
    with needed("dump --parquet" if request.parquet is not None else "dump --arrow", "fast"):
        from kafkalog.cli.dump.columns import ColumnsSink, columns_schema
        from kafkalog.log.writing.columns_file import ColumnsFile

    schema = columns_schema(with_metadata=request.with_metadata)
    is_parquet = request.parquet is not None
    with ColumnsFile(str(request.columns_file), schema, parquet=is_parquet, examined=paths) as file:
        sink = ColumnsSink(file, schema, redaction)

        def show(partition: Partition, bounds: Bounds) -> None:
            _require_text(partition)
            if not sink.whole(walk, partition, bounds):
                walk.records(partition, bounds, sink)

        yield show
        sink.flush()


def _require_text(partition: Partition) -> None:
    """Raise `UsageError` if the partition's topic name is not UTF-8, so that a text column of Arrow or Parquet cannot
    hold it. A missing name is accepted.
    """
    try:
        (partition.topic or "").encode("utf-8")
    except UnicodeEncodeError:
        raise UsageError(
            f"the name of {partition.path} is not UTF-8, so no column can hold its topic: leave it out with --exclude"
        ) from None
