"""Objects of Aiven's layout made from local files, as the plugin makes plain ones."""

from __future__ import annotations

import json
from pathlib import Path

import kafkalog

KINDS = (
    ("offset", ".index"), ("timestamp", ".timeindex"), ("producerSnapshot", ".snapshot"),
    ("leaderEpoch", ".leader_epoch_checkpoint"), ("transaction", ".txnindex"),
)  # fmt: skip
CHUNK = 4 << 20


def as_aiven(tier: Path, target: Path) -> None:
    """A tier of `LocalTieredStorage` as one of the other layout; what is in no object of it is made up."""
    for directory in sorted((tier / "kafka-tiered-storage").iterdir()):
        name, topic_id = directory.name[:-23], directory.name[-22:]
        topic, _, number = name.rpartition("-")
        place = target / f"{topic}-{topic_id}" / number
        place.mkdir(parents=True)
        logs = sorted(directory.glob("*.log"))
        for log in logs:
            _segment(log, place, (topic, topic_id, int(number)))


def _segment(log: Path, place: Path, of: tuple[str, str, int]) -> None:
    stem, base, segment_id = log.name[:43], int(log.name[:20]), log.name[21:43]
    data, indexes, found = log.read_bytes(), b"", {}
    end = kafkalog.scan(data).batches[-1].last_offset
    for name, suffix in KINDS:
        path = log.with_name(stem + suffix)
        part = path.read_bytes() if path.exists() else b""
        found[name] = None if name == "transaction" and not part else {"position": len(indexes), "size": len(part)}
        indexes += part
    newest = int.from_bytes(log.with_name(stem + ".timeindex").read_bytes()[-12:-4], "big")
    (place / f"{stem}.log").write_bytes(data)
    (place / f"{stem}.indexes").write_bytes(indexes)
    manifest = {
        "version": "1",
        "chunkIndex": {"type": "fixed", "originalChunkSize": CHUNK, "originalFileSize": len(data),
                       "transformedChunkSize": CHUNK, "finalTransformedChunkSize": (len(data) - 1) % CHUNK + 1},
        "segmentIndexes": found,
        "compression": False,
        "remoteLogSegmentMetadata": {
            "remoteLogSegmentId": {
                "topicIdPartition": {"topicId": of[1], "topicPartition": {"topic": of[0], "partition": of[2]}},
                "id": segment_id,
            },
            "startOffset": base, "endOffset": end, "maxTimestampMs": newest, "brokerId": 1, "eventTimestampMs": 1,
            "segmentLeaderEpochs": {"0": base},
        },
    }  # fmt: skip
    (place / f"{stem}.rsm-manifest").write_text(json.dumps(manifest))
