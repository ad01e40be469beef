"""Where records go: text, JSON lines or kcat's words on standard output; a file of columns is `columns`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kafkalog.cli.dump.decoders import Decoder, PlainDecoder, decoder_of
from kafkalog.cli.dump.kcat_envelope import envelope
from kafkalog.cli.dump.kcat_format import KcatFormat
from kafkalog.cli.dump.record_lines import RecordText, record_object
from kafkalog.cli.dump.redaction import Redaction
from kafkalog.cli.output import LineWriter, escape_controls
from kafkalog.codec.errors import FormatError
from kafkalog.codec.model import Record, RecordBatch
from kafkalog.codec.names import FileKind, parse_kraft_snapshot_file
from kafkalog.log import Partition, Segment

__all__ = ["JsonSink", "KcatSink", "Sink", "TextSink", "heading_lines"]


class Sink(Protocol):
    """Takes the records of one partition after the other."""

    def begin(self, partition: Partition) -> None:
        """What comes is of this partition."""

    def take(self, segment: Segment | None, batch: RecordBatch, records: Sequence[Record]) -> None:
        """Some records of one batch; at least one."""


def heading_lines(path: str, base_offset: int) -> list[str]:
    """The lines with which kafka-dump-log begins a log or a snapshot of KRaft's."""
    lines = [f"Dumping {escape_controls(path)}"]
    snapshot = parse_kraft_snapshot_file(os.path.basename(path))
    if snapshot is not None and not snapshot.pending:
        lines.append(f"Snapshot end offset: {snapshot.end_offset}, epoch: {snapshot.epoch}")
    elif path.endswith(FileKind.KRAFT_SNAPSHOT):
        lines.append("KRaft bootstrap snapshot")
    else:
        lines.append(f"Log starting offset: {base_offset}")
    return lines


@dataclass
class TextSink:
    """Lines as kafka-dump-log prints them for records, each segment's under its heading."""

    writer: LineWriter
    decode: bool
    show_secrets: bool
    with_metadata: bool
    redaction: Redaction | None
    _text: RecordText = field(default_factory=RecordText)
    _heading: str | None = None

    def begin(self, partition: Partition) -> None:
        """Choose what decodes the partition's records."""
        decoder: Decoder | None = None
        if self.decode and self.redaction is None:
            decoder = decoder_of(partition.topic, show_secrets=self.show_secrets)
        self._text = RecordText(decoder or PlainDecoder(), self.redaction, self.with_metadata, decode=self.decode)

    def take(self, segment: Segment | None, batch: RecordBatch, records: Sequence[Record]) -> None:
        """Their lines."""
        if segment is not None and segment.path != self._heading:
            self._heading = segment.path
            for line in heading_lines(segment.path, segment.base_offset):
                self.writer.write(line)
        for record in records:
            self.writer.write(self._text.line(batch, record))


@dataclass
class JsonSink:
    """One JSON object for each record."""

    writer: LineWriter
    encoding: str
    decode: bool
    show_secrets: bool
    with_metadata: bool
    redaction: Redaction | None

    def begin(self, partition: Partition) -> None:
        """Choose what decodes the partition's records."""
        self._line = record_object(
            partition.topic,
            partition.partition,
            self.encoding,
            decoder=decoder_of(partition.topic, show_secrets=self.show_secrets) if self.decode else None,
            with_metadata=self.with_metadata,
            redaction=self.redaction,
        )

    def take(self, segment: Segment | None, batch: RecordBatch, records: Sequence[Record]) -> None:
        """Their lines."""
        for record in records:
            self.writer.write(self._line(batch, record))


@dataclass
class KcatSink:
    """kcat's words: bytes as they are, but for a terminal."""

    writer: LineWriter
    format: KcatFormat
    envelope: bool
    redaction: Redaction | None
    failed: int = 0
    """records that `-s` does not fit"""

    def begin(self, partition: Partition) -> None:
        """Remember where the records are."""
        self._topic = partition.topic or ""
        self._partition = partition.partition if partition.partition is not None else -1

    def take(self, segment: Segment | None, batch: RecordBatch, records: Sequence[Record]) -> None:
        """Their words, in one piece."""
        pieces = []
        for record in records:
            shown = record if self.redaction is None else self.redaction.record(record)
            try:
                pieces.append(self._one(shown))
            except FormatError as error:
                self.failed += 1
                sys.stderr.write(
                    f"kafkalog: {escape_controls(self._topic)} [{self._partition}] at offset {record.offset} "
                    f"is left out: {error.message}\n"
                )
        self.writer.write_bytes(b"".join(pieces))

    def _one(self, record: Record) -> bytes:
        if self.envelope:
            return envelope(self._topic, self._partition, record).encode() + self.format.first_literal
        return self.format.of(self._topic, self._partition, record)
