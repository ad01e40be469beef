"""Print logs in kafka-dump-log's format: each batch of a file, valid or not, and its records if requested."""

from __future__ import annotations

import os
import sys
import zlib
from collections.abc import Iterator, Sequence

from msgspec import Struct

from kafkalog.cli.dump.bounds import Bounds
from kafkalog.cli.dump.decoders import Decoder, DecoderClasses, PlainDecoder, data_decoder
from kafkalog.cli.dump.forms import decoded_topic
from kafkalog.cli.dump.record_lines import Checksum, RecordText, batch_line
from kafkalog.cli.dump.records import Walk
from kafkalog.cli.dump.redaction import Redaction
from kafkalog.cli.dump.request import Dump
from kafkalog.cli.dump.sinks import heading_lines
from kafkalog.cli.output import LineWriter
from kafkalog.codec.common.findings import Finding, FindingCode, StopReason
from kafkalog.codec.common.limits import DEFAULT_LIMITS
from kafkalog.codec.model import Codec, LegacyHeader, Record, RecordBatch
from kafkalog.codec.plain.crc32c import crc32c
from kafkalog.codec.plain.decoding import PLAIN
from kafkalog.codec.plain.legacy import inner_messages
from kafkalog.codec.plain.records import decode_batch
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.codec.rules.framing import BATCH_CRC_START, LEGACY_CRC_START
from kafkalog.log import Partition, Segment
from kafkalog.log.reading.record_filter import conditions_of
from kafkalog.words.escapes import escape_controls

__all__ = ["KafkaLogs"]

_MOST_GAPS = 1000
"""pairs of offsets that are listed for a file"""


class _Gaps(Struct):
    """Places in one file at which an offset does not follow the previous one."""

    last: int = -1
    pairs: list[tuple[int, int]] = []
    more: int = 0

    def next(self, offset: int) -> None:
        if self.last not in (-1, offset - 1):
            if len(self.pairs) < _MOST_GAPS:
                self.pairs.append((self.last, offset))
            else:
                self.more += 1
        self.last = offset


class KafkaLogs:
    """Prints log files in kafka-dump-log's format. At the end, `tell_gaps` prints where offsets are missing."""

    def __init__(self, request: Dump, walk: Walk, writer: LineWriter, redaction: Redaction | None) -> None:
        self._request = request
        self._walk = walk
        self._writer = writer
        topic = decoded_topic(request)
        classes = request.key_decoder_class or request.value_decoder_class
        decoder: Decoder = PlainDecoder()
        if topic is not None:
            decoder = data_decoder(topic, show_secrets=request.show_secrets)
        elif classes:
            decoder = DecoderClasses.of(request.key_decoder_class, request.value_decoder_class)
        self._with_data = bool(request.print_data_log or topic or classes)
        self._deep = self._with_data or request.deep_iteration
        self._text = RecordText(
            decoder=decoder,
            redaction=redaction,
            with_metadata=request.with_metadata,
            skip_record_metadata=request.skip_record_metadata,
            skip_data=not self._with_data,
        )
        self._accepted = conditions_of(walk.filter)
        self._gaps: dict[str, _Gaps] = {}

    def partition(self, partition: Partition, bounds: Bounds) -> None:
        """Print every segment of a partition, until the limit of records is reached. A single file counts as a
        partition with one segment.
        """
        for segment in partition.segments:
            if self._walk.full:
                return
            self._segment(segment, bounds.start_offset, bounds.end_offset)

    def _segment(self, segment: Segment, start: int | None, end: int | None) -> None:
        for line in heading_lines(segment.path, segment.base_offset):
            self._writer.write(line)
        with segment.open() as source:
            scanner = Scanner(source, end=self._request.max_bytes, check_crc=False)
            for batch in scanner:
                self._walk.progress.advance(batch.size)
                if self._walk.full:
                    return
                self._batch(segment, batch, start, end)
            self._ended(segment, scanner, source.size)

    def _batch(self, segment: Segment, batch: RecordBatch, start: int | None, end: int | None) -> None:
        header = batch.header
        first = header.offset if isinstance(header, LegacyHeader) else header.base_offset
        outside = (start is not None and header.last_offset < start) or (end is not None and first >= end)
        if outside or not (self._accepted is None or self._accepted.accepts(header)):
            return
        if not self._walk.wanted.accepts_batch(batch):
            return
        is_valid = self._is_valid(segment, batch)
        lines = [*self._records(segment, batch, is_valid, start, end)] if self._deep else []
        if self._deep and not lines and not (self._walk.wanted.is_empty and start is None and end is None):
            return
        self._walk.printed += len(lines) if self._deep else 1
        self._writer.write(batch_line(batch, is_valid=is_valid, redacted=self._request.redact))
        for line in lines:
            self._writer.write(line)

    def _is_valid(self, segment: Segment, batch: RecordBatch) -> bool:
        is_legacy = isinstance(batch.header, LegacyHeader)
        found = zlib.crc32(batch.data[LEGACY_CRC_START:]) if is_legacy else crc32c(batch.data[BATCH_CRC_START:])
        if found != batch.header.crc:
            detail = f"stored checksum {batch.header.crc:#010x}, computed {found:#010x}"
            self._walk.findings.append(
                Finding.of(FindingCode.CRC_MISMATCH, batch.position, batch.last_offset, detail, segment.path)
            )
        return found == batch.header.crc

    def _records(
        self, segment: Segment, batch: RecordBatch, is_valid: bool, start: int | None, end: int | None
    ) -> Iterator[str]:
        decoded = decode_batch(batch)
        if decoded.finding is not None:
            self._walk.findings.append(decoded.finding.in_file(segment.path))
        gaps = self._gaps.setdefault(segment.path, _Gaps())
        left = None if self._walk.max_records is None else self._walk.max_records - self._walk.printed
        checksums = self._checksums(batch, decoded.records, is_valid=is_valid)
        for record, checksum in zip(decoded.records, checksums, strict=True):
            gaps.next(record.offset)
            within = (start is None or record.offset >= start) and (end is None or record.offset < end)
            if not within or not self._walk.wanted.accepts(record) or left == 0:
                continue
            left = None if left is None else left - 1
            yield self._text.line(batch, record, checksum)

    @staticmethod
    def _checksums(batch: RecordBatch, records: Sequence[Record], *, is_valid: bool) -> Sequence[Checksum | None]:
        """Return the checksum of each record of a batch, in order. `records` are those that `decode_batch` returned for
        the batch. Records of magic 2 have no checksum, and get None. In an uncompressed batch of magic 0 or 1, the
        checksum is the stored CRC of the batch, and `is_valid` says whether it is right. In a compressed one, it is the
        stored CRC of the record's inner message, which is verified here.
        """
        header = batch.header
        if not isinstance(header, LegacyHeader):
            return [None] * len(records)
        if header.codec == Codec.NONE or not records:
            return [Checksum(header.crc, is_valid)] * len(records)
        return [
            Checksum(inner.crc, zlib.crc32(data[LEGACY_CRC_START:]) == inner.crc)
            for inner, data in inner_messages(batch, DEFAULT_LIMITS, PLAIN, len(records))
        ]

    def _ended(self, segment: Segment, scanner: Scanner, size: int) -> None:
        if self._request.max_bytes is not None or scanner.stop is StopReason.END:
            return
        left = size - scanner.valid_bytes
        if left:
            name = escape_controls(os.path.basename(segment.path))
            self._writer.write(f"Found {left} invalid bytes at the end of {name}")
        self._walk.findings += [finding.in_file(segment.path) for finding in scanner.findings]

    def tell_gaps(self) -> None:
        """Print non-consecutive offsets on standard error, in the words of kafka-dump-log; nothing if no records were
        decoded. For each file with such offsets, print its path and one line per gap. A gap is a record whose offset is
        not one above the offset of the record before it. If a file has too many gaps to keep, print how many more there
        are.
        """
        for path, gaps in self._gaps.items():
            if not gaps.pairs:
                continue
            sys.stderr.write(f"Non-consecutive offsets in {escape_controls(os.path.abspath(path))}\n")
            for first, second in gaps.pairs:
                sys.stderr.write(f"  {first} is followed by {second}\n")
            if gaps.more:
                sys.stderr.write(f"  and {gaps.more} more\n")
