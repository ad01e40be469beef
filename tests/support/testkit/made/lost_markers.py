"""Recorded logs that lose the end marker of a transaction."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kafkalog.cluster.records.coordinator_records import decode_record
from kafkalog.codec.model import BatchHeader, ControlType, RecordBatch
from kafkalog.codec.plain.records import decode_batch
from kafkalog.codec.plain.scanner import scan
from kafkalog.log.reading.transactions import marker_of

__all__ = ["cut_coordinator", "without_a_trace", "without_last_marker", "without_marker", "without_transaction"]


def without_marker(root: Path, name: str, producer_id: int, number: int) -> bool:
    """Cut the log of partition `name` before a marker of a producer, the first of which is number 0. Return whether it
    is a COMMIT marker.
    """
    batches = [(log, batch) for log in sorted((root / name).glob("*.log")) for batch in scan(log.read_bytes()).batches]
    log, batch = [(log, batch) for log, batch in batches if isinstance(batch.header, BatchHeader)
                  and batch.header.producer_id == producer_id and batch.header.is_control][number]  # fmt: skip
    marker = marker_of(batch)
    assert marker is not None
    log.write_bytes(log.read_bytes()[: batch.position])
    for path in (root / name).iterdir():
        if path.stem.isdigit() and int(path.stem) > batch.header.first_offset:
            path.unlink()
    (root / ".kafka_cleanshutdown").unlink(missing_ok=True)
    return marker.marker.type is ControlType.COMMIT


def cut_coordinator(root: Path, producer_id: int, status: int) -> None:
    """Cut the coordinator's log behind the last record about the producer with this state."""
    log, batch = [(log, batch) for log, batch, state in _states(root, producer_id) if state == status][-1]
    log.write_bytes(log.read_bytes()[: batch.position + batch.size])
    end = f"{log.parent.name.replace('-', ' ')} {batch.header.next_offset}"
    (root / "replication-offset-checkpoint").write_text(f"0\n1\n{end}\n")


def without_transaction(root: Path, producer_id: int, number: int) -> None:
    """Remove the records of a producer's transaction from the coordinator's log; the first one is number 0."""
    completed, removed = 0, []
    for log, batch, state in _states(root, producer_id):
        if completed == number and state:
            removed.append((log, batch))
        completed += state in (4, 5)
    for log, batch in reversed(removed):
        data = log.read_bytes()
        log.write_bytes(data[: batch.position] + data[batch.position + batch.size :])


def _states(root: Path, producer_id: int) -> Iterator[tuple[Path, RecordBatch, int]]:
    """Yield the batches about a producer in the coordinator's logs, each with the last state in it."""
    for log in root.glob("__transaction_state-*/*.log"):
        for batch in scan(log.read_bytes()).batches:
            states = []
            for record in decode_batch(batch).records:
                value = decode_record("__transaction_state", record.key, record.value).value
                if value is not None and value.fields["producer_id"] == producer_id:
                    states.append(value.fields["transaction_status"])
            if states:
                yield log, batch, states[-1]


def without_last_marker(root: Path, kind: ControlType) -> tuple[str, int, int]:
    """Cut a recorded log before a marker of this kind that is the last batch of its producer in the partition.

    Returns the partition's name, the producer's id and the offset of the marker.
    """
    for log in sorted(root.glob("*-*/*.log")):
        if log.parent.name.startswith("__"):
            continue
        batches = [each for each in scan(log.read_bytes()).batches if isinstance(each.header, BatchHeader)]
        last = {each.header.producer_id: each for each in batches if isinstance(each.header, BatchHeader)}
        for batch in last.values():
            marker = marker_of(batch) if batch.header.is_control else None
            if marker is None or marker.marker.type is not kind or batch.position == 0:
                continue
            log.write_bytes(log.read_bytes()[: batch.position])
            for path in log.parent.glob("*.snapshot"):
                if int(path.stem) > batch.header.first_offset:
                    path.unlink()
            return log.parent.name, getattr(batch.header, "producer_id", -1), batch.last_offset
    raise AssertionError(f"no recorded log has a last marker {kind.name}")


def without_a_trace(root: Path) -> tuple[str, int]:
    """Cut a recorded log before its last COMMIT marker; nothing beside it knows that the log went on.

    Returns the partition's name and the producer's id.
    """
    name, producer_id, offset = without_last_marker(root, ControlType.COMMIT)
    for path in (root / name).iterdir():
        if path.stem.isdigit() and int(path.stem) > offset:
            path.unlink()
    for path in (*root.glob("*-checkpoint"), root / ".kafka_cleanshutdown"):
        path.unlink(missing_ok=True)
    return name, producer_id
