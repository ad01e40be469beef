"""Find overlapping segments that make a broker give aborted records to consumers with `read_committed`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from kafkalog.codec.common.findings import Finding, FindingCode
from kafkalog.codec.common.wording import counted
from kafkalog.codec.model import AbortedTransaction
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.log.disk.files import FileSource

__all__ = ["aborted_in_overlaps"]


def aborted_in_overlaps(
    logs: Sequence[tuple[int, str]], aborted: Sequence[AbortedTransaction]
) -> Iterator[Finding]:
    """Yield a SEGMENT_OVERLAP finding for each segment that overlaps the next one, if the first offset of an aborted
    transaction is in the overlap. `logs` are base offset and path of the segments in order, `aborted` the aborted
    transactions of the log. If there are any, the headers of all segments but the last are read. Raises `StorageError`
    if a segment cannot be read.

    A fetch returns aborted transactions only up to the base offset of the next segment
    (`UnifiedLog.collectAbortedTransactions`). The exception is that the offset index has an entry after the fetched
    bytes (`LogSegment.fetchUpperBoundOffset`). So a client gets the records of later transactions as if they were
    committed.
    """
    for (_base, path), (next_base, _path) in pairwise(logs) if aborted else ():
        with FileSource(path) as source:
            last = max((batch.last_offset for batch in Scanner(source, check_crc=False)), default=-1)
        count = sum(next_base <= each.first_offset <= last for each in aborted)
        if count:
            detail = f"readers of committed data get records of {counted(count, 'aborted transaction')} from here: of "
            detail += f"this segment a broker names the aborted ones only up to {next_base}, where the next one begins"
            yield Finding.of(FindingCode.SEGMENT_OVERLAP, None, next_base, detail, path)
