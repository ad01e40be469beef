"""A remote tier in an object store: what a look-up asks for, and what is said where the store cannot be reached."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import kafkalog
from command import kafkalog as command
from fixture_data import tiered_case
from kafkalog.codec.text import encode_uuid
from kafkalog.log.disk import remote as mounts
from kafkalog.recovery.restoring.events import rebuild_remote_metadata
from kafkalog.tiers.layouts import open_tier
from kafkalog.tiers.reading import mounted
from tiny_s3 import BUCKET, TinyS3, serving

SEGMENTS = 1000
START = 1_700_000_000_000
TOPIC_ID = "ZYnPpJwmQNWACTwXWnWA3g"


@pytest.fixture(autouse=True)
def own_mounts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounts, "_MOUNTED", {})


def storage(store: TinyS3) -> dict[str, str]:
    return {name.removeprefix("storage."): value for name, value in store.options().items()}


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A remote tier of one log with a thousand segments, each of one record, and the events of its copies."""
    root = tmp_path_factory.mktemp("many")
    (root / "logs").mkdir()
    config = kafkalog.LogConfig(segment_bytes=200)
    with kafkalog.Log.open(root / "logs" / "orders-0", config, topic_id=TOPIC_ID) as log:
        for number in range(SEGMENTS):
            log.append([kafkalog.NewRecord(value=b"%0100d" % number, timestamp=START + 1000 * number)])
    place = root / "remote" / "kafka-tiered-storage" / f"orders-0-{TOPIC_ID}"
    place.mkdir(parents=True)
    for number, path in enumerate(sorted((root / "logs" / "orders-0").glob("*.log"))):
        segment_id = encode_uuid(number.to_bytes(16, "big"))
        for suffix in (".log", ".index", ".timeindex"):
            shutil.copy(path.with_suffix(suffix), place / f"{path.stem}-{segment_id}{suffix}")
        (place / f"{path.stem}-{segment_id}.leader_epoch_checkpoint").write_text("0\n1\n0 0\n")
    return root


def test_requests_of_one_look_up_by_time(many: Path, tmp_path: Path) -> None:
    rebuild_remote_metadata(open_tier(str(many / "remote")), tmp_path / "broker", partitions=1)
    with serving(many) as store:
        tier = open_tier(f"s3://{BUCKET}/remote", storage=storage(store))
        ((_, path),) = mounted([str(tmp_path / "broker")], tier)
        partition = kafkalog.open_partition(f"{path}/orders-0")
        assert len(partition.segments) >= SEGMENTS - 1
        store.requests.clear()
        store.sent = 0
        found = partition.offset_for_timestamp(START + 1000 * 617 - 1)
        assert found is not None
        assert (found.offset, found.timestamp) == (617, START + 617_000)
        ranges = [each for each in store.requests if each.startswith("GET") and "bytes=" in each]
        print(f"one look-up by time in {len(partition.segments)} segments: {len(ranges)} ranges, {store.sent} bytes")
        assert len(ranges) <= 5
        assert store.sent < 4096


def test_records_from_a_store_are_those_of_the_directory(tmp_path: Path) -> None:
    tiered_case("pair").unpack(tmp_path)
    with serving(tmp_path) as store:
        options = [word for name, value in storage(store).items() for word in ("--storage", f"{name}={value}")]
        uri = f"s3://{BUCKET}/remote"
        here = command("dump", "--json", "-t", "payments", tmp_path / "broker-1", "--remote", tmp_path / "remote")
        there = command("dump", "--json", "-t", "payments", tmp_path / "broker-1", "--remote", uri, *options)
        assert there.code == 0, there.err
        assert there.out == here.out
        assert command("remote", tmp_path / "broker-1", "--remote", uri, *options).code == 0
        assert command("verify", tmp_path / "broker-1", "--remote", uri, *options).code == 0


def test_only_ranges_are_asked_for(many: Path) -> None:
    with serving(many) as store:
        tier = open_tier(f"s3://{BUCKET}/remote", storage=storage(store))
        ((_, path),) = mounted([], tier)
        partition = kafkalog.open_partition(f"{path}/orders-0")
        store.requests.clear()
        assert next(iter(partition.records(500))).offset == 500
        assert all("bytes=" in each for each in store.requests if each.startswith("GET") and ".log" in each)
        assert len(store.requests) < 30


def test_a_store_that_cannot_be_reached_is_one_sentence(tmp_path: Path) -> None:
    tiered_case("pair").unpack(tmp_path)
    with serving(tmp_path) as store:
        given = storage(store) | {"secret.key": "wrong", "access.key": "OTHER"}
        options = [word for name, value in given.items() for word in ("--storage", f"{name}={value}")]
        refused = command("dump", tmp_path / "broker-1", "--remote", f"s3://{BUCKET}/remote", *options)
    assert refused.code == 4
    assert len(refused.err.strip().splitlines()) == 1
    assert "wrong" not in refused.err
