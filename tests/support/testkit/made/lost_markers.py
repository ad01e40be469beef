"""Recorded logs that lose the end marker of a transaction."""

from __future__ import annotations

from pathlib import Path

from kafkalog.codec.model import BatchHeader, ControlType
from kafkalog.codec.plain.scanner import scan
from kafkalog.log.reading.transactions import marker_of

__all__ = ["without_a_trace", "without_last_marker"]


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
