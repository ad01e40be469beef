"""`kafkalog dump`: what is in the files, as text in kafka-dump-log's words or as JSON lines."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import click

from kafkalog.cli.options.common import REPLICA
from kafkalog.cli.options.paths import PATHS
from kafkalog.cli.options.times import Timestamp
from kafkalog.cli.outcome import outcome_of_findings
from kafkalog.cli.output import LineWriter, WritesBehind, escape_controls, report_findings
from kafkalog.cli.progress import ByteProgress
from kafkalog.cli.record_filter import RecordFilter
from kafkalog.cli.record_lines import batch_line, record_line, record_object
from kafkalog.codec.errors import StorageError, UsageError
from kafkalog.codec.findings import Finding
from kafkalog.codec.limits import DEFAULT_LIMITS
from kafkalog.codec.model import Codec
from kafkalog.codec.names import FileKind, parse_kraft_snapshot_file
from kafkalog.codec.thresholds import kernel_is_worth_it
from kafkalog.log import ISOLATION_LEVELS, Partition, RecordReader, Segment, open_all
from kafkalog.log.batch_words import batch_words
from kafkalog.log.behind_damage import behind_damage, with_what_is_behind
from kafkalog.log.consumer_view import consumer_view
from kafkalog.log.deleted import deleted_partitions
from kafkalog.log.files import unreadable
from kafkalog.log.side_files import is_side_file, read_side_file
from kafkalog.log.walk import BatchReader

__all__ = ["command"]


class _OfBatches(NamedTuple):
    """Conditions on the headers of batches, as `Partition.records` has them."""

    producer_ids: tuple[int, ...] | None
    codecs: tuple[str, ...] | None
    transactional: bool | None


@dataclass
class _Dump:
    """One run: where lines go, what is wanted, and what was found."""

    writer: LineWriter
    as_json: bool
    encoding: str
    start_offset: int | None
    end_offset: int | None
    wanted: RecordFilter
    of_batches: _OfBatches
    max_records: int | None
    progress: ByteProgress
    findings: list[Finding] = field(default_factory=list)
    printed: int = 0
    _heading: str | None = None

    @property
    def full(self) -> bool:
        """Whether as many lines were printed as were asked for."""
        return self.max_records is not None and self.printed >= self.max_records

    def side_file(self, path: str) -> None:
        """Entries of an index, snapshot or checkpoint."""
        content = read_side_file(path)
        if not self.as_json:
            self.writer.write(f"Dumping {escape_controls(path)}")
        for entry in content.entries:
            if self.full:
                break
            self.printed += 1
            self.writer.write(json.dumps(entry) if self.as_json else _entry_line(entry))
        self.findings.extend(content.findings)

    def heading(self, segment: Segment | None) -> None:
        """Name the segment in text output when it begins."""
        if self.as_json or segment is None or segment.path == self._heading:
            return
        self._heading = segment.path
        self.writer.write(f"Dumping {escape_controls(segment.path)}")
        snapshot = parse_kraft_snapshot_file(os.path.basename(segment.path))
        if snapshot is not None and not snapshot.pending:
            self.writer.write(f"Snapshot end offset: {snapshot.end_offset}, epoch: {snapshot.epoch}")
        elif segment.path.endswith(FileKind.KRAFT_SNAPSHOT):
            self.writer.write("KRaft bootstrap snapshot")
        else:
            self.writer.write(f"Log starting offset: {segment.base_offset}")

    def batches(self, partition: Partition, *, everything: bool) -> None:
        """Batch lines."""
        start = self.start_offset if everything else consumer_view(partition, self.start_offset).start_offset
        reader = partition.batches(start_offset=start, through_damage=everything, **self.of_batches._asdict())
        place = {"topic": partition.topic, "partition": partition.partition}
        for batch in reader:
            self.progress.advance(batch.size)
            words = batch_words(batch)
            if self.end_offset is not None and int(str(words.get("baseOffset", batch.last_offset))) >= self.end_offset:
                break
            if not self.wanted.accepts_batch(batch):
                continue
            if self.full:
                break
            self.heading(reader.segment)
            self.printed += 1
            self.writer.write(json.dumps({**place, **words}) if self.as_json else batch_line(batch))
        self._ended(partition, reader, everything=everything)

    def _ended(self, partition: Partition, reader: BatchReader | RecordReader, *, everything: bool) -> None:
        """Take over what was found; where damage ended the walk, with what comes after it."""
        found = list(reader.findings)
        if reader.damaged_at is not None and found and not everything:
            segment, position = reader.damaged_at
            behind = behind_damage(partition.segments, segment, position, log_start=partition.log_start_offset)
            found[-1] = with_what_is_behind(found[-1], behind, "; --all shows them")
        self.findings.extend(found)

    def records(self, partition: Partition, reader: RecordReader, *, all_records: bool) -> None:
        """Record lines."""
        json_line = record_object(partition.topic, partition.partition, self.encoding)
        everything = self.wanted.is_empty
        for batch, records in reader.by_batch():
            if self.full:
                break
            if not everything:
                if not self.wanted.accepts_batch(batch):
                    continue
                records = [record for record in records if self.wanted.accepts(record)]
            if self.max_records is not None:
                records = records[: self.max_records - self.printed]
            if not records:
                continue
            self.heading(reader.segment)
            self.printed += len(records)
            line = json_line if self.as_json else record_line
            for record in records:
                self.writer.write(line(batch, record))
        self._ended(partition, reader, everything=all_records)

    def json_records(self, partition: Partition, reader: RecordReader) -> None:
        """All records as JSON lines, most of them without an object for each; only where no filter is set."""
        from kafkalog.codec.columnar.json_lines import JsonLines

        readable = record_object(partition.topic, partition.partition, self.encoding)
        many = JsonLines(partition.topic, partition.partition, self.encoding, DEFAULT_LIMITS)
        with WritesBehind(self.writer) as writer:
            for made in reader.by_run(many.lines):
                if isinstance(made, memoryview):
                    writer.write_lines(made)
                    continue
                batch, records = made
                for record in records:
                    writer.write(readable(batch, record))
        self._ended(partition, reader, everything=False)

    def is_for_many(self, partition: Partition, *, everything: bool) -> bool:
        """Whether `json_records` can do it, and is worth it."""
        simple = self.as_json and not everything and self.wanted.is_empty and self.max_records is None
        return simple and kernel_is_worth_it(partition.size)


def _entry_line(entry: dict[str, object]) -> str:
    words = []
    for name, value in entry.items():
        if name == "currentTxnFirstOffset":
            value = "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"
        words.append(f"{name}: {escape_controls(str(value))}")
    return " ".join(words)


def _selected(partitions: Sequence[Partition], topics: Sequence[str], numbers: Sequence[int]) -> list[Partition]:
    return [
        found
        for found in partitions
        if (not topics or found.topic in topics) and (not numbers or found.partition in numbers)
    ]


@click.command(name="dump")
@PATHS
@click.option("--json", "as_json", is_flag=True, help="One JSON object on each line.")
@click.option(
    "--encoding",
    type=click.Choice(["text", "base64"]),
    default="text",
    show_default=True,
    help="Keys and values in JSON: text, with a _b64 sibling where they are not UTF-8, or always base64.",
)
@click.option("--batches", "only_batches", is_flag=True, help="Batches instead of records.")
@click.option("--all", "everything", is_flag=True, help="All that is in the files: also control records, deleted ones "
              "below the log start offset, aborted ones, and what comes after damage.")  # fmt: skip
@click.option("--deleted", is_flag=True, help="Instead of what lives, what was deleted and is still there: -delete "
              "directories and .deleted segments.")  # fmt: skip
@click.option(
    "--isolation-level",
    type=click.Choice(ISOLATION_LEVELS),
    default=ISOLATION_LEVELS[0],
    show_default=True,
    help="read_committed leaves out aborted and open transactions.",
)
@click.option("--topic", "topics", multiple=True, help="Only this topic; may be repeated.")
@click.option("--partition", "numbers", type=int, multiple=True, help="Only this partition number; may be repeated.")
@click.option("--start-offset", type=int, help="From this offset on.")
@click.option("--end-offset", type=int, help="Up to, not including, this offset.")
@click.option("--start-time", type=Timestamp(), help="From this time on: ms since 1970, or ISO 8601.")
@click.option("--end-time", type=Timestamp(), help="Before this time.")
@click.option("--key", help="Only records with exactly this key.")
@click.option("--value-regex", metavar="REGEX", help="Only records whose value this expression finds.")
@click.option("--header", "headers", multiple=True, metavar="NAME[=VALUE]", help="Only records with this header.")
@click.option("--producer-id", "producer_ids", type=int, multiple=True,
              help="Only records of this producer; may be repeated.")  # fmt: skip
@click.option("--codec", "codecs", type=click.Choice([codec.label for codec in Codec]), multiple=True,
              help="Only records of batches of this compression; may be repeated.")  # fmt: skip
@click.option("--transactional/--not-transactional", default=None,
              help="Only what is, or is not, part of a transaction.")  # fmt: skip
@click.option("-n", "--max-records", type=click.IntRange(min=0), help="Stop after so many lines.")
@REPLICA
def command(
    paths: tuple[str, ...],
    as_json: bool,
    encoding: str,
    only_batches: bool,
    everything: bool,
    deleted: bool,
    isolation_level: str,
    topics: tuple[str, ...],
    numbers: tuple[int, ...],
    start_offset: int | None,
    end_offset: int | None,
    start_time: int | None,
    end_time: int | None,
    key: str | None,
    value_regex: str | None,
    headers: tuple[str, ...],
    producer_ids: tuple[int, ...],
    codecs: tuple[str, ...],
    transactional: bool | None,
    max_records: int | None,
    replica: str | None,
) -> int:
    """Print records as a consumer would see them, or batches, or the entries of another file of Kafka's.

    PATH is a log directory, a directory of several, a partition directory, a segment, or an index, snapshot or
    checkpoint file.  What was deleted and not yet removed is only printed with --deleted, and apart from what lives.
    Findings go to standard error; the exit code is then 1, or 4 if something could not be read.
    """
    wanted = RecordFilter.of(
        start_time=start_time,
        end_time=end_time,
        key=key,
        value_regex=value_regex,
        headers=headers,
    )
    of_batches = _OfBatches(producer_ids or None, codecs or None, transactional)
    side_files = [path for path in paths if is_side_file(path) and not os.path.isdir(path)]
    missing = [path for path in side_files if not os.path.lexists(path)]
    if missing:
        raise UsageError(f"{missing[0]} does not exist")
    others = [path for path in paths if path not in side_files]
    partitions: list[Partition] = []
    findings: list[Finding] = []
    if others:
        inventory = open_all(*others, tolerant=True)
        partitions = _selected(
            deleted_partitions(inventory) if deleted else inventory.readable(replica), topics, numbers
        )
        if topics and not partitions and not deleted and _selected(deleted_partitions(inventory), topics, numbers):
            sys.stderr.write(f"{', '.join(map(escape_controls, topics))}: only what was deleted is there; --deleted "
                             "prints it\n")  # fmt: skip
        findings.extend(inventory.unreadable)
        findings.extend(finding for log_dir in inventory.log_dirs for finding in log_dir.findings)
        findings.extend(finding for partition in partitions for finding in partition.findings)
    progress = ByteProgress("reading", sum(partition.size for partition in partitions))
    with progress, LineWriter() as writer:
        dump = _Dump(
            writer, as_json, encoding, start_offset, end_offset, wanted, of_batches, max_records, progress,
            findings=findings,
        )  # fmt: skip
        for path in side_files:
            try:
                dump.side_file(path)
            except StorageError as error:
                dump.findings.append(unreadable(error, path))
        for partition in partitions:
            if dump.full:
                break
            try:
                if only_batches:
                    dump.batches(partition, everything=everything)
                    continue
                reader = partition.records(
                    start_offset,
                    end_offset,
                    isolation_level=isolation_level,
                    all=everything,
                    on_bytes=progress.advance,
                    **of_batches._asdict(),
                )
                if dump.is_for_many(partition, everything=everything):
                    dump.json_records(partition, reader)
                else:
                    dump.records(partition, reader, all_records=everything)
            except StorageError as error:
                dump.findings.append(unreadable(error, partition.path))
    report_findings(dump.findings)
    return outcome_of_findings(dump.findings)
