"""Compare a log directory's checkpoints, and a partition's producer snapshots, with the real end of its log."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.files.text import LeaderEpoch
from kafkalog.codec.model import RecordBatch
from kafkalog.codec.names import LEADER_EPOCH_CHECKPOINT
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.log.directories.partition import Partition
from kafkalog.log.disk.files import FileSource
from kafkalog.log.storage.leader_epochs import doubtful_epochs
from kafkalog.log.storage.producers.snapshots import snapshot_offsets

__all__ = ["checkpoint_findings", "epoch_findings", "too_high_end"]


def checkpoint_findings(
    partition: Partition, log_end_offset: int, log_start: int, high_watermark: int | None, *, end_behind: int
) -> Iterator[Finding]:
    """Yield findings about a log that ends too early. The first, LOG_END_BELOW_LOG_START (ERROR), is yielded if the
    partition has segments, and log end and last base offset are below `log_start`; a broker then deletes the log
    (`LogLoader`). The second, LOG_END_BELOW_HIGH_WATERMARK, is yielded if the log ends below `high_watermark`.

    `log_end_offset` is the offset after the last sound batch before any damage. `end_behind` is the offset after the
    last sound batch that follows damage, or 0; it is only compared with the high watermark. `log_start` is the
    partition's entry in log-start-offset-checkpoint, or 0. `high_watermark` is its entry in
    replication-offset-checkpoint, or None.
    """
    if partition.segments and max(log_end_offset, partition.segments[-1].base_offset) < log_start:
        detail = f"the log ends at {log_end_offset}, its start is {log_start}: a broker would delete all of it"
        code = FindingCode.LOG_END_BELOW_LOG_START
        yield Finding(code, Severity.ERROR, None, log_end_offset, detail, partition.path)
    end = max(log_end_offset, end_behind)
    if high_watermark is not None and end < high_watermark:
        detail = f"the log ends at {end}, the high watermark was {high_watermark}"
        yield Finding.of(FindingCode.LOG_END_BELOW_HIGH_WATERMARK, None, end, detail, partition.path)


def epoch_findings(
    entries: Sequence[LeaderEpoch], log_end_offset: int, known_epoch: int | None, directory: str
) -> Iterator[Finding]:
    """Yield at most one LEADER_EPOCH_MISMATCH finding. It is about the last entry that begins beyond the log's end but
    does not prove that the log was longer (`doubtful_epochs`). `entries` are the content of `leader-epoch-checkpoint`
    in the partition directory `directory`. `known_epoch` is the partition's leader epoch in the metadata, None if that
    is not known.
    """
    for entry, reason in doubtful_epochs(entries, known_epoch).items():
        if entry.start_offset > log_end_offset:
            detail = f"epoch {entry.epoch} from offset {entry.start_offset}, beyond the log's end {log_end_offset}"
            path = os.path.join(directory, LEADER_EPOCH_CHECKPOINT)
            yield Finding.of(FindingCode.LEADER_EPOCH_MISMATCH, None, None, f"{detail}, {reason}", path)
            return


def too_high_end(
    logs: Sequence[tuple[int, str]], snapshots: Iterable[str], log_end_offset: int, closed_at: int | None
) -> Iterator[Finding]:
    """Yield at most one LOG_END_BEYOND_CHECKPOINT finding: a live partition's log ends too far. It ends beyond
    `closed_at`, the offset at which its broker closed it. Or it ends beyond a producer snapshot, and a single flipped
    bit in the base offset of its last batch explains this. Yield nothing otherwise, or if the last segment does not end
    in a batch that ends at `log_end_offset`.

    `logs` are base offset and path of the segments, `snapshots` the paths of the producer snapshots. `closed_at` is the
    recovery point if the directory has a clean-shutdown marker, otherwise None. A broker that stops flushes each log
    and then writes its end there (`LogManager.shutdown`). The headers of the last segment are only read if `closed_at`,
    or a snapshot above the segment's base offset, is below `log_end_offset`. Raises `StorageError` if they cannot be
    read.
    """
    if not logs:
        return
    base, path = logs[-1]
    is_beyond = closed_at is not None and closed_at < log_end_offset
    at_snapshots = snapshot_offsets(map(os.path.basename, snapshots))
    ends = [closed_at] if is_beyond else [end for end in at_snapshots if base < end < log_end_offset]
    if not ends:
        return
    before: RecordBatch | None = None
    last: RecordBatch | None = None
    with FileSource(path) as source:
        for batch in Scanner(source, check_crc=False):
            before, last = last, batch
    if last is None or last.last_offset + 1 != log_end_offset:
        return
    first, expected = last.header.first_offset, base if before is None else before.last_offset + 1
    end = expected + log_end_offset - first
    is_flipped = end in ends and first > expected and (first ^ expected).bit_count() == 1
    if not (is_beyond or is_flipped):
        return
    where = f"the recovery point {closed_at} of a broker that stopped in order" if is_beyond else "a producer snapshot"
    detail = f"the log ends at {log_end_offset}, beyond {where}"
    if first > expected:
        detail += f": its last batch, at byte {last.position}, has offset {first} where {expected} should come, and no "
        detail += "checksum covers that"
    if is_flipped:
        detail += f"; the two differ by one bit, and with {expected} the log ends at {end}, as that says"
    yield Finding.of(FindingCode.LOG_END_BEYOND_CHECKPOINT, None, first, detail, path)
