"""A remote tier in an object store: what a look-up asks for, and what is said where the store cannot be reached."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import kafkalog
from kafkalog.log.disk import remote_file as mounts
from kafkalog.tiers.layouts import open_tier
from kafkalog.tiers.reading import mounted
from testkit.made.many_segments import RECORDS, SEGMENTS, START, asked_for, many_segments
from testkit.recorded.fixture_data import tiered_case
from testkit.running.command import kafkalog as command
from testkit.serving.tiny_s3 import BUCKET, TinyS3, serving


@pytest.fixture(autouse=True)
def own_mounts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounts, "_MOUNTED", {})


def storage(store: TinyS3) -> dict[str, str]:
    return {name.removeprefix("storage."): value for name, value in store.options().items()}


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return many_segments(tmp_path_factory.mktemp("many"))


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("number", [0, 617, 998])
def test_requests_of_one_look_up(alone: bool, number: int, many: Path) -> None:
    """Five ranges at most, and where no event tells of times as many more as the segments can be halved."""
    most = 5 + (math.log2(SEGMENTS) if alone else 0)
    with serving(many) as store:
        offset = RECORDS * number + 1
        found = asked_for(many, store, alone=alone, timestamp=START + 1000 * offset - 1, offset=offset)
        assert found[0] >= SEGMENTS - 1
        assert found[1] <= most
        assert found[2] < 9000
        found = asked_for(many, store, alone=alone, timestamp=None, offset=offset)
        assert found[1] <= 5


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
        assert next(iter(partition.records(kafkalog.RecordFilter(start_offset=500)))).offset == 500
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
