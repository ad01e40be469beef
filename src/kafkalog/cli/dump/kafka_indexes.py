"""Print indexes in kafka-dump-log's format: each entry, after a comparison with the log."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack

from kafkalog.cli.output import LineWriter
from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.common.limits import MIB
from kafkalog.codec.files.index_files import OFFSET_ENTRY, TIME_ENTRY, each_slot
from kafkalog.codec.model import NO_TIMESTAMP, RecordBatch
from kafkalog.codec.names import FileKind, parse_segment_file
from kafkalog.codec.plain.records import decode_batch
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.log.disk.files import FileSource
from kafkalog.words.escapes import escape_controls

__all__ = ["LARGEST_MESSAGE", "KafkaIndexes", "is_index"]

LARGEST_MESSAGE = 5 * MIB
"""`--max-message-size`, unless it is given"""
_MOST_TOLD = 1000
_KINDS = {FileKind.OFFSET_INDEX: OFFSET_ENTRY, FileKind.TIME_INDEX: TIME_ENTRY}


def is_index(path: str) -> bool:
    """Whether the file name is the name of an offset index or a time index."""
    parsed = parse_segment_file(os.path.basename(path))
    return parsed is not None and parsed.kind in _KINDS and not parsed.pending


class _Told:
    """Collected messages of one kind about index files, limited in number."""

    def __init__(self, heading: str) -> None:
        self._heading = heading
        self._lines: dict[str, list[str]] = {}
        self._more = 0

    def add(self, path: str, line: str) -> None:
        lines = self._lines.setdefault(path, [])
        if len(lines) < _MOST_TOLD:
            lines.append(line)
        else:
            self._more += 1

    def write(self) -> bool:
        for path, lines in self._lines.items():
            heading = self._heading.format(escape_controls(os.path.abspath(path)))
            sys.stderr.write("".join(f"{line}\n" for line in (heading, *lines)))
        if self._more:
            sys.stderr.write(f"  and {self._more} more\n")
        return bool(self._lines)


class KafkaIndexes:
    """Prints indexes in kafka-dump-log's format. At the end, `tell` prints the entries that disagree with the logs."""

    def __init__(self, writer: LineWriter, *, sanity_only: bool, verify_only: bool, largest_message: int) -> None:
        self._writer = writer
        self._sanity_only = sanity_only
        self._verify_only = verify_only
        self._largest = largest_message
        self.findings: list[Finding] = []
        self._mismatches = _Told("Mismatches in :{}")
        self._times = _Told("Found timestamp mismatch in :{}")
        self._order = _Told("Found out of order timestamp in :{}")
        self._missing = _Told("The following indexed offsets are not found in the log.")

    def file(self, path: str) -> None:
        """Print the entries of one offset or time index in kafka-dump-log's format (none if they are only verified).
        Compare the entries with the log beside the index. Entries of a time index are also compared with the offset
        index. `tell` prints the disagreements later. A missing log, or an entry at whose position no batch begins, is
        added to `findings`. If only the sanity of indexes is checked, nothing is compared: print that the index is
        right, or add a finding. For an offset index without a whole entry, print its path and that it is empty. Raises
        `StorageError` if a file cannot be read. Raises `ValueError` if the file is not named like a file of a segment.
        Raises `KeyError` if it is named like one that is not an index of these two kinds.
        """
        parsed = parse_segment_file(os.path.basename(path))
        if parsed is None:
            raise ValueError("not the name of an index")
        self._writer.write(f"Dumping {escape_controls(path)}")
        layout = _KINDS[parsed.kind]
        with ExitStack() as stack:
            index = stack.enter_context(FileSource(path))
            if parsed.kind is FileKind.OFFSET_INDEX and index.size < layout.size:
                self._writer.write(f"{escape_controls(path)} is empty.")
            elif self._sanity_only:
                self._sanity(index, path, parsed.base_offset, is_time=parsed.kind is FileKind.TIME_INDEX)
            else:
                log = self._beside(stack, path, FileKind.LOG)
                if parsed.kind is FileKind.OFFSET_INDEX:
                    self._offsets(index, log, path, parsed.base_offset)
                else:
                    offsets = self._beside(stack, path, FileKind.OFFSET_INDEX)
                    self._time_entries(index, offsets, log, path, parsed.base_offset)

    def tell(self) -> bool:
        """Print the collected messages on standard error, in the words of kafka-dump-log. Return whether there were
        any.
        """
        said = [each.write() for each in (self._mismatches, self._times, self._order, self._missing)]
        return any(said)

    def _found(self, code: FindingCode, path: str, detail: str, position: int | None = None) -> None:
        self.findings.append(Finding(code, Severity.ERROR, position, None, detail, path))

    def _beside(self, stack: ExitStack, path: str, kind: FileKind) -> FileSource | None:
        name = os.path.join(os.path.dirname(path), os.path.basename(path).partition(".")[0] + kind.value)
        try:
            return stack.enter_context(FileSource(name))
        except FileNotFoundError:
            if kind is FileKind.LOG:
                self._found(
                    FindingCode.INDEX_ENTRY_MISMATCH, path, f"{name} is not there, so no entry is compared with it"
                )
            return None

    def _sanity(self, index: FileSource, path: str, base: int, *, is_time: bool) -> None:
        layout = TIME_ENTRY if is_time else OFFSET_ENTRY
        count = index.size // layout.size
        problem = ""
        if count:
            first = layout.struct.unpack(index.read(0, layout.size))
            last = layout.struct.unpack(index.read((count - 1) * layout.size, layout.size))
            relative = last[1] if is_time else last[0]
            if is_time and last[0] < first[0]:
                problem = f"the last timestamp {last[0]} is below the first, {first[0]}"
            elif relative < 0:
                problem = f"the last offset {base + relative} is below the base offset {base}"
        if index.size % layout.size:
            problem = f"{index.size} bytes are not a multiple of {layout.size}"
        if problem:
            self._found(FindingCode.INDEX_NOT_INCREASING, path, f"the sanity check fails: {problem}")
        else:
            self._writer.write(f"{escape_controls(path)} passed sanity check.")

    def _offsets(self, index: FileSource, log: FileSource | None, path: str, base: int) -> None:
        for number, (relative, position) in each_slot(index, OFFSET_ENTRY):
            if relative == 0 and (number > 0 or position == 0):
                return  # allocated and never written; Kafka's tool prints the first such slot
            if log is not None:
                self._compare(log, path, base + relative, position)
            if not self._verify_only:
                self._writer.write(f"offset: {base + relative} position: {position}")

    def _compare(self, log: FileSource, path: str, offset: int, position: int) -> None:
        batch = next(_batches(log, position, position + self._largest), None)
        if batch is None:
            self._found(FindingCode.INDEX_ENTRY_MISMATCH, path, f"no batch of the log begins at {position}", position)
        elif batch.last_offset != offset:
            self._mismatches.add(path, f"  Index offset: {offset}, log offset: {batch.last_offset}")

    def _time_entries(
        self, index: FileSource, offsets: FileSource | None, log: FileSource | None, path: str, base: int
    ) -> None:
        before = NO_TIMESTAMP
        at = _Positions(offsets, base)
        for number, (timestamp, relative) in each_slot(index, TIME_ENTRY):
            if relative == 0 and (number > 0 or timestamp == 0):
                return
            offset = base + relative
            if log is not None:
                self._compare_time(log, at, path, timestamp, offset, before)
            if not self._verify_only:
                self._writer.write(f"timestamp: {timestamp} offset: {offset}")
            before = timestamp

    def _compare_time(
        self, log: FileSource, positions: _Positions, path: str, timestamp: int, offset: int, before: int
    ) -> None:
        start = positions.below(offset)
        found = next((batch for batch in _batches(log, start, None) if batch.last_offset >= offset), None)
        if found is not None:
            positions.learned(found.position, offset)
        if found is None or found.last_offset != offset:
            at = -1 if found is None else found.last_offset
            self._missing.add(path, f"Indexed offset: {offset}, found log offset: {at}")
            return
        newest = max([record.timestamp for record in decode_batch(found).records], default=NO_TIMESTAMP)
        if newest != timestamp:
            self._times.add(path, f"  Index timestamp: {timestamp}, log timestamp: {newest}")
        if before >= timestamp:
            self._order.add(path, f"  Index timestamp: {timestamp}, Previously indexed timestamp: {before}")


class _Positions:
    """Looks up positions in an offset index, as `OffsetIndex.lookup` does; fast if the requested offsets mostly
    rise.
    """

    def __init__(self, index: FileSource | None, base: int) -> None:
        self._index = index
        self._base = base
        self._known = (0, -1)

    def learned(self, position: int, offset: int) -> None:
        """Remember that the batch for `offset` begins at `position`, so that a search for a later offset begins
        there.
        """
        self._known = (position, offset)

    def below(self, offset: int) -> int:
        """Return the position of the greatest entry at or below `offset`, or of a batch found earlier if that is
        greater; 0 if there is neither.
        """
        position, known = self._known
        return max(self._of_index(offset), position if known <= offset else 0)

    def _of_index(self, offset: int) -> int:
        if self._index is None:
            return 0
        low, high = -1, self._index.size // OFFSET_ENTRY.size
        while high - low > 1:
            middle = (low + high) // 2
            relative, position = self._entry(middle)
            if position > 0 and self._base + relative <= offset:
                low = middle
            else:
                high = middle
        return self._entry(low)[1] if low >= 0 else 0

    def _entry(self, number: int) -> tuple[int, int]:
        assert self._index is not None  # noqa: S101 - `below` has looked
        data = self._index.read(number * OFFSET_ENTRY.size, OFFSET_ENTRY.size)
        relative, position = OFFSET_ENTRY.struct.unpack(data)
        return relative, position


def _batches(log: FileSource, position: int, end: int | None) -> Iterator[RecordBatch]:
    """Yield batches from any byte position by the sizes in their headers; nothing if `position` is outside of the
    file.
    """
    if 0 <= position < log.size:
        yield from Scanner(log, position=position, end=end, check_crc=False)
