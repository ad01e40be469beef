"""Write records in the output format of kcat."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from kafkalog.cli.dump.kcat.envelope import envelope
from kafkalog.cli.dump.kcat.format import KcatFormat, default_format
from kafkalog.cli.dump.kcat.serdes import serdes
from kafkalog.cli.dump.redaction import Redaction
from kafkalog.cli.dump.request import Dump
from kafkalog.cli.output import LineWriter
from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.model import Record, RecordBatch
from kafkalog.log import Partition, Segment
from kafkalog.words.escapes import escape_controls

__all__ = ["KcatSink", "kcat_format_of"]


@dataclass
class KcatSink:
    """Writes records in kcat's format. With `redaction`, records are redacted first. Bytes are otherwise unchanged,
    except on a terminal, where they are made printable.
    """

    writer: LineWriter
    format: KcatFormat
    envelope: bool
    redaction: Redaction | None
    failed: int = 0
    """records that `-s` does not fit"""

    def begin(self, partition: Partition) -> None:
        """Set the topic and partition of the records that follow."""
        self._topic = partition.topic or ""
        self._partition = partition.partition if partition.partition is not None else -1

    def take(self, segment: Segment | None, batch: RecordBatch, records: Sequence[Record]) -> None:
        """Write a batch's records in kcat's format, all at once. A record that does not fit the letters of `-s` is
        omitted, reported on standard error, and counted in `failed`.
        """
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


def kcat_format_of(request: Dump) -> KcatFormat:
    """Return the format in which to print records: the format of `-f`, or else one that is made from the delimiters of
    `-D` and `-K`. With `-J` and without `-f`, it has only the delimiter of `-D`, to follow each record. Binary data is
    made printable if standard output is a terminal. Raises `UsageError` for an invalid format, delimiter or `-s`.
    """
    key_serdes, value_serdes = serdes(request.serdes)
    text = request.kcat_format
    if text is None and request.envelope:
        text = default_format(request.message_delimiter, None).removeprefix("%s")
    elif text is None:
        text = default_format(request.message_delimiter, request.key_delimiter)
    return KcatFormat.parse(
        text,
        null=request.null_text,
        key_serdes=key_serdes,
        value_serdes=value_serdes,
        for_people=sys.stdout.isatty(),
    )
