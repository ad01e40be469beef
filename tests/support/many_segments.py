"""A remote tier of one log with a thousand segments, as look-ups meet it: a bucket, and the events of its copies."""

from __future__ import annotations

import shutil
from pathlib import Path

import kafkalog
from kafkalog.codec.text import encode_uuid
from kafkalog.recovery.restoring.events import rebuild_remote_metadata
from kafkalog.tiers.layouts import open_tier
from kafkalog.tiers.reading import mounted
from tiny_s3 import BUCKET, TinyS3

SEGMENTS = 1000
START = 1_700_000_000_000
TOPIC_ID = "ZYnPpJwmQNWACTwXWnWA3g"
RECORDS = 3
"""of each segment, a second apart"""


def many_segments(root: Path, segments: int = SEGMENTS) -> Path:
    """`remote/` and, with the events, `broker/` below `root`."""
    (root / "logs").mkdir()
    config = kafkalog.LogConfig(segment_bytes=200 * RECORDS, index_interval_bytes=200)
    with kafkalog.Log.open(root / "logs" / "orders-0", config, topic_id=TOPIC_ID) as log:
        for number in range(segments * RECORDS):
            log.append([kafkalog.NewRecord(value=b"%0115d" % number, timestamp=START + 1000 * number)])
    place = root / "remote" / "kafka-tiered-storage" / f"orders-0-{TOPIC_ID}"
    place.mkdir(parents=True)
    for number, path in enumerate(sorted((root / "logs" / "orders-0").glob("*.log"))):
        segment_id = encode_uuid(number.to_bytes(16, "big"))
        for suffix in (".log", ".index", ".timeindex"):
            shutil.copy(path.with_suffix(suffix), place / f"{path.stem}-{segment_id}{suffix}")
        (place / f"{path.stem}-{segment_id}.leader_epoch_checkpoint").write_text("0\n1\n0 0\n")
    rebuild_remote_metadata(open_tier(str(root / "remote")), root / "broker", partitions=1)
    return root


def asked_for(root: Path, store: TinyS3, *, alone: bool, timestamp: int | None, offset: int) -> tuple[int, int, int]:
    """Segments, ranges and bytes of one look-up in a log just opened, whose answer must be `offset`."""
    storage = {name.removeprefix("storage."): value for name, value in store.options().items()}
    tier = open_tier(f"s3://{BUCKET}/remote", storage=storage)
    ((_, path),) = mounted([] if alone else [str(root / "broker")], tier)
    partition = kafkalog.open_partition(f"{path}/orders-0")
    store.requests.clear()
    store.sent = 0
    if timestamp is None:
        found = next(iter(partition.records(offset))).offset
    else:
        answer = partition.offset_for_timestamp(timestamp)
        found = -1 if answer is None else answer.offset
    if found != offset:
        raise AssertionError(f"offset {found}, and not {offset}")
    ranges = [each for each in store.requests if each.startswith("GET") and "bytes=" in each]
    return len(partition.segments), len(ranges), store.sent
