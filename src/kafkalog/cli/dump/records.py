"""Read the records or batches to show, within their bounds and through the filters."""

from __future__ import annotations

import json
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from kafkalog.cli.dump.bounds import Bounds
from kafkalog.cli.dump.content_filter import ContentFilter
from kafkalog.cli.dump.record_lines import batch_line, record_object
from kafkalog.cli.dump.sinks import Sink, TextSink, heading_lines
from kafkalog.cli.output import LineWriter, WritesBehind
from kafkalog.cli.progress import ByteProgress
from kafkalog.codec.common.findings import Finding
from kafkalog.codec.common.limits import DEFAULT_LIMITS
from kafkalog.codec.model import Record
from kafkalog.codec.native.thresholds import kernel_is_worth_it
from kafkalog.log import Partition, RecordReader, Segment
from kafkalog.log.reading.batch_words import batch_words
from kafkalog.log.reading.consumer_view import consumer_view
from kafkalog.log.reading.record_filter import RecordFilter
from kafkalog.log.walk.batches import BatchReader
from kafkalog.log.walk.behind_damage import tell_what_is_behind
from kafkalog.log.walk.on_damage import SKIP, STOP
from kafkalog.words.escapes import text_of

__all__ = ["Walk", "json_lines", "text_lines"]


class Walk(Struct, kw_only=True):
    """One execution of `dump` over all partitions: its filters, limit and progress, and the number of printed records
    and the findings so far.
    """

    wanted: ContentFilter
    filter: RecordFilter
    everything: bool
    max_records: int | None
    progress: ByteProgress
    findings: list[Finding] = []
    printed: int = 0
    is_incomplete: bool = False
    """whether a record was left out that could not be shown as it was asked for"""

    @property
    def full(self) -> bool:
        """Whether the limit of records is reached."""
        return self.max_records is not None and self.printed >= self.max_records

    def within(self, bounds: Bounds) -> RecordFilter:
        """Return the filter with the bounds of one partition."""
        return replace(self.filter, start_offset=bounds.start_offset, end_offset=bounds.end_offset)

    def reader(self, partition: Partition, bounds: Bounds) -> RecordReader:
        """The records of a partition within its bounds."""
        return partition.records(
            self.within(bounds), all=self.everything, on_damage=STOP, on_bytes=self.progress.advance
        )

    def records(self, partition: Partition, bounds: Bounds, sink: Sink) -> None:
        """Pass the partition's records to the sink, batch by batch, after calling `sink.begin`. These are the records
        within the bounds that fulfill the filters. Reading ends at the first record at or after `bounds.stop_time`,
        when `max_records` are printed (counted over all partitions), or at damage unless `--all` is used.

        Updates `printed` and `findings`. Raises `StorageError` if a file cannot be read, `UsageError` if a regular
        expression takes too long.
        """
        sink.begin(partition)
        reader = self.reader(partition, bounds)
        everything = self.wanted.is_empty
        for batch, found in reader.by_batch():
            if self.full:
                break
            records: Sequence[Record] = found
            is_last = False
            if bounds.stop_time is not None:
                records, is_last = _before(records, bounds.stop_time)
            if not everything:
                if not self.wanted.accepts_batch(batch):
                    continue
                records = [record for record in records if self.wanted.accepts(record)]
            if self.max_records is not None:
                records = records[: self.max_records - self.printed]
            if records:
                self.printed += len(records)
                sink.take(reader.segment, batch, records)
            if is_last:
                break
        self.ended(partition, reader)

    def batches(self, partition: Partition, bounds: Bounds, writer: LineWriter, *, as_json: bool) -> None:
        """Write a line for each batch that is within the bounds and fulfills the filters. With `as_json` it is a JSON
        object. Otherwise it is kafka-dump-log's line, and the segment's path is a heading. A batch's time is its
        largest timestamp.

        Reading ends at the first batch that begins at or after `end_offset` (a wrapper of magic 0 or 1: that ends
        there, as its header has only the last offset) or reaches `stop_time`. It also ends when `max_records` batches
        are printed (counted over all partitions), and at damage unless `--all` is used. Updates `printed`, progress and
        `findings`. Raises `StorageError` if a file cannot be read.
        """
        start = bounds.start_offset
        if not self.everything:
            start = consumer_view(partition, start).start_offset
        reader = partition.batches(
            start_offset=start, on_damage=SKIP if self.everything else STOP,
            producer_ids=self.filter.producer_ids, codecs=self.filter.codecs, transactional=self.filter.transactional,
        )  # fmt: skip
        place = {"topic": partition.topic, "partition": partition.partition}
        heading: str | None = None
        for batch in reader:
            self.progress.advance(batch.size)
            words = batch_words(batch)
            base = int(str(words.get("baseOffset", batch.last_offset)))
            if bounds.end_offset is not None and base >= bounds.end_offset:
                break
            newest = batch.header.max_timestamp
            if bounds.stop_time is not None and newest >= bounds.stop_time:
                break
            if not self.wanted.accepts_batch(batch) or not _is_before(newest, self.wanted.end_time):
                continue
            if self.full:
                break
            self.printed += 1
            if as_json:
                writer.write(json.dumps({**place, **words}))
                continue
            heading = _headed(writer, reader.segment, heading)
            writer.write(batch_line(batch))
        self.ended(partition, reader)

    def ended(self, partition: Partition, reader: BatchReader | RecordReader) -> None:
        """Add the findings of a finished reader to `findings`. If reading ended at damage, the last finding also says
        how many batches and records follow it; to count them, the rest of the log is read. With `--all` this is left
        out, because reading continues after damage. Raises `StorageError` if the log cannot be read.
        """
        findings = list(reader.findings)
        if reader.damaged_at is not None and findings and not self.everything:
            ended, start = findings[-1:], partition.log_start_offset
            tell_what_is_behind(ended, partition.segments, log_start=start, more="; --all shows them")
            findings[-1:] = ended
        self.findings.extend(findings)

    def is_plain(self, bounds: Bounds) -> bool:
        """Whether every record that a consumer sees within the offsets, in batches that pass the filter on batches, is
        shown: without a content filter, `--all`, a limit or a stop time.
        """
        return not self.everything and self.wanted.is_empty and self.max_records is None and bounds.stop_time is None


def _headed(writer: LineWriter, segment: Segment | None, heading: str | None) -> str | None:
    if segment is None or segment.path == heading:
        return heading
    for line in heading_lines(segment.path, segment.base_offset):
        writer.write(line)
    return segment.path


def _is_before(timestamp: int, end: int | None) -> bool:
    return end is None or timestamp < end


def _before(records: Sequence[Record], stop_time: int) -> tuple[Sequence[Record], bool]:
    """Return the records before the first one that is at or after `stop_time` (ms), and whether there is such a
    record.
    """
    for number, record in enumerate(records):
        if record.timestamp >= stop_time:
            return records[:number], True
    return records, False


def json_lines(walk: Walk, partition: Partition, bounds: Bounds, writer: LineWriter, encoding: str) -> bool:
    """Write all records within the bounds, up to the first damage, as JSON lines, with compiled code that makes most
    lines without Python objects. Filters on batches apply. Return True if this was possible. Return False and write
    nothing if the partition is too small, or if compiled code is missing. The same holds if filters on records, a
    limit, a stop time or `--all` apply.

    `encoding` is `text` or `base64`. Adds the reader's findings to the walk (`Walk.ended`). Raises `StorageError` if a
    file cannot be read.
    """
    if not walk.is_plain(bounds) or not kernel_is_worth_it(partition.size):
        return False
    from kafkalog.codec.columnar.json_lines import JsonLines

    reader = walk.reader(partition, bounds)
    readable = record_object(partition.topic, partition.partition, encoding)
    many = JsonLines(partition.topic, partition.partition, encoding, DEFAULT_LIMITS)
    with WritesBehind(writer) as behind:
        for made in reader.by_run(many.pieces):
            if isinstance(made, memoryview):
                behind.write_lines(made)
                continue
            batch, records = made
            for record in records:
                behind.write(readable(batch, record))
    walk.ended(partition, reader)
    return True


def text_lines(walk: Walk, partition: Partition, bounds: Bounds, sink: TextSink) -> bool:
    """Write all records within the bounds, up to the first damage, as kafka-dump-log's lines, with compiled code that
    makes most lines without Python objects. The sink writes them. Filters on batches apply. Return True if this was
    possible. Return False and write nothing if filters on records, a limit, a stop time or `--all` apply, if the
    partition is too small, or if compiled code is missing.

    Adds the reader's findings to the walk (`Walk.ended`). Raises `StorageError` if a file cannot be read.
    """
    if not walk.is_plain(bounds) or not kernel_is_worth_it(partition.size):
        return False
    from kafkalog.codec.columnar.text_lines import TextLines

    sink.begin(partition)
    reader = walk.reader(partition, bounds)
    many = TextLines(text_of, DEFAULT_LIMITS)
    for made in reader.by_run(many.pieces):
        if isinstance(made, str):
            sink.heading(reader.segment)
            sink.writer.write(made)
        else:
            sink.take(reader.segment, *made)
    walk.ended(partition, reader)
    return True
