"""A remote tier of one log with a thousand segments, as look-ups meet it: a bucket, and the events of its copies."""

from __future__ import annotations

import shutil
from pathlib import Path

import kafkalog
from kafkalog.codec.files.text import encode_uuid
from kafkalog.jobs.restore.events import RemoteMetadataRebuild, rebuild_remote_metadata
from kafkalog.tiers.layouts import open_tier
from kafkalog.tiers.reading import mounted
from testkit.serving.tiny_s3 import BUCKET, TinyS3

SEGMENTS = 1000
START = 1_700_000_000_000
TOPIC_ID = "ZYnPpJwmQNWACTwXWnWA3g"
RECORDS = 3
"""of each segment, a second apart"""


def many_segments(root: Path, segments: int = SEGMENTS, *, records: int = RECORDS) -> Path:
    """`remote/` and, with the events, `broker/` below `root`.

    With more `records` each segment has so many, of a batch and an entry of each index each.
    """
    (root / "logs").mkdir()
    config = kafkalog.LogConfig(segment_bytes=200 * records, index_interval_bytes=150, segment_index_bytes=20 * records)
    with kafkalog.Log.open(root / "logs" / "orders-0", config, topic_id=TOPIC_ID) as log:
        for number in range(segments * records):
            log.append([kafkalog.NewRecord(value=b"%0115d" % number, timestamp=START + 1000 * number)])
    as_tier(root / "logs" / "orders-0", root / "remote")
    tier = open_tier(str(root / "remote"))
    rebuild_remote_metadata(RemoteMetadataRebuild(partitions=1), tier, target=root / "broker")
    return root


def as_tier(log: Path, target: Path) -> None:
    """The segments of a log but the last, as `LocalTieredStorage` has them."""
    place = target / "kafka-tiered-storage" / f"{log.name}-{TOPIC_ID}"
    place.mkdir(parents=True)
    for number, path in enumerate(sorted(log.glob("*.log"))[:-1]):
        segment_id = encode_uuid(number.to_bytes(16, "big"))
        for suffix in (".log", ".index", ".timeindex"):
            shutil.copy(path.with_suffix(suffix), place / f"{path.stem}-{segment_id}{suffix}")
        (place / f"{path.stem}-{segment_id}.leader_epoch_checkpoint").write_text("0\n1\n0 0\n")


def opened(root: Path, store: TinyS3, *, alone: bool, tier: str = "remote") -> kafkalog.Partition:
    """The log, by the events or of the bucket alone."""
    storage = {name.removeprefix("storage."): value for name, value in store.options().items()}
    found_in = open_tier(f"s3://{BUCKET}/{tier}", storage=storage)
    ((_, path),) = mounted([] if alone else [str(root / "broker")], found_in)
    return kafkalog.open_partition(f"{path}/orders-0")


def asked_for(
    root: Path, store: TinyS3, *, alone: bool, timestamp: int | None, offset: int, tier: str = "remote"
) -> tuple[int, int, int]:
    """Segments, ranges and bytes of one look-up in a log just opened, whose answer must be `offset`."""
    partition = opened(root, store, alone=alone, tier=tier)
    store.requests.clear()
    store.sent = 0
    if timestamp is None:
        found = next(iter(partition.records(kafkalog.RecordFilter(start_offset=offset)))).offset
    else:
        answer = partition.offset_for_timestamp(timestamp)
        found = -1 if answer is None else answer.offset
    if found != offset:
        raise AssertionError(f"offset {found}, and not {offset}")
    ranges = [each for each in store.requests if each.startswith("GET") and "bytes=" in each]
    return len(partition.segments), len(ranges), store.sent
