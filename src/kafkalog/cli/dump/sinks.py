"""Write records as text or JSON lines. `kcat.sink` writes kcat's format, `columns` files of columns."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import msgspec
from msgspec import Struct

from kafkalog.cli.dump.decoders import Decoder, PlainDecoder, decoder_of, decodes
from kafkalog.cli.dump.record_lines import RecordText, record_object
from kafkalog.cli.dump.redaction import Redaction
from kafkalog.cli.output import LineWriter
from kafkalog.codec.model import Record, RecordBatch
from kafkalog.codec.names import FileKind, parse_kraft_snapshot_file
from kafkalog.log import Partition, Segment
from kafkalog.words.escapes import escape_controls

if TYPE_CHECKING:
    from kafkalog.cli.dump.decoded_values import ShownValues

__all__ = ["JsonSink", "Sink", "TextSink", "heading_lines"]


class Sink(Protocol):
    """The interface of outputs: receives the records of one partition after the other."""

    def begin(self, partition: Partition) -> None:
        """Begin a partition; the records that follow belong to it."""

    def take(self, segment: Segment | None, batch: RecordBatch, records: Sequence[Record]) -> None:
        """Receive some records of one batch, at least one."""


def heading_lines(path: str, base_offset: int) -> list[str]:
    """Return the two lines with which kafka-dump-log begins a file. The first has its path. The second has the starting
    offset of a log, or the end offset and epoch of a KRaft snapshot. For a bootstrap snapshot, it says that the file is
    one.
    """
    lines = [f"Dumping {escape_controls(path)}"]
    snapshot = parse_kraft_snapshot_file(os.path.basename(path))
    if snapshot is not None and not snapshot.pending:
        lines.append(f"Snapshot end offset: {snapshot.end_offset}, epoch: {snapshot.epoch}")
    elif path.endswith(FileKind.KRAFT_SNAPSHOT):
        lines.append("KRaft bootstrap snapshot")
    else:
        lines.append(f"Log starting offset: {base_offset}")
    return lines


class TextSink(Struct, kw_only=True):
    """Writes records as kafka-dump-log's lines; the lines of each segment have a heading."""

    writer: LineWriter
    decode: bool
    show_secrets: bool
    with_metadata: bool
    redaction: Redaction | None
    _text: RecordText = msgspec.field(default_factory=RecordText)
    _heading: str | None = None

    def begin(self, partition: Partition) -> None:
        """Set the text format for the records of the partition. With `decode`, it decodes records of Kafka's internal
        topics; all others, and with `redaction` all, are plain text.
        """
        decoder: Decoder | None = None
        if self.decode and self.redaction is None:
            decoder = decoder_of(partition.topic, show_secrets=self.show_secrets)
        self._text = RecordText(
            decoder=decoder or PlainDecoder(),
            redaction=self.redaction,
            with_metadata=self.with_metadata,
            decode=self.decode,
        )

    def heading(self, segment: Segment | None) -> None:
        """Print the heading of a segment, before the first of its lines."""
        if segment is not None and segment.path != self._heading:
            self._heading = segment.path
            for line in heading_lines(segment.path, segment.base_offset):
                self.writer.write(line)

    def take(self, segment: Segment | None, batch: RecordBatch, records: Sequence[Record]) -> None:
        """Write the lines of these records."""
        self.heading(segment)
        for record in records:
            self.writer.write(self._text.line(batch, record))


@dataclass
class JsonSink:
    """Writes each record as one JSON object."""

    writer: LineWriter
    encoding: str
    decode: bool
    show_secrets: bool
    with_metadata: bool
    redaction: Redaction | None
    values: ShownValues | None = None

    def begin(self, partition: Partition) -> None:
        """Set the function that makes the JSON lines of a partition's records, according to its topic."""
        self._line = record_object(
            partition.topic,
            partition.partition,
            self.encoding,
            decoder=decoder_of(partition.topic, show_secrets=self.show_secrets) if self.decode else None,
            with_metadata=self.with_metadata,
            redaction=self.redaction,
            values=None if decodes(partition.topic) else self.values,
        )

    def take(self, segment: Segment | None, batch: RecordBatch, records: Sequence[Record]) -> None:
        """Write the lines of these records."""
        for record in records:
            self.writer.write(self._line(batch, record))
