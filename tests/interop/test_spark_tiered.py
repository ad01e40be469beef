"""Both tiers through Spark on a JVM, each layout, a store with an endpoint, and executors in processes of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

import kafkalog
from testkit.recorded.fixture_data import TieredCase, tiered_case
from testkit.serving.tiny_s3 import BUCKET, serving
from testkit.spark.spark_cluster import finish_job, start_job

pytestmark = [pytest.mark.interop, pytest.mark.java]
SOURCE = str(Path(kafkalog.__file__).resolve().parents[1])


def consumed(case: TieredCase, volume: str) -> int:
    """Records that the broker gave of what the directory has, until it was stopped."""
    return sum(len(rows) for name, rows in case.expected("read_committed").items() if name in case.local[volume])


def options(case: TieredCase, root: Path, remote: str) -> dict[str, str]:
    found = {"remote": remote, "kafka.isolation.level": "read_committed", "subscribe": ",".join(topics(case))}
    if case.keys:
        found["remotePrivateKeys"] = ",".join(f"{name}={path}" for name, path in case.key_files(root).items())
    return found


def topics(case: TieredCase) -> list[str]:
    return sorted({name.rpartition("-")[0] for name in case.bounds})


@pytest.mark.parametrize("master", ["local[2]", "local-cluster[2,1,1024]"])
@pytest.mark.parametrize(("name", "volume"), [("pair", "broker-1"), ("aiven", "broker")])
def test_a_query_gives_what_a_broker_gave(name: str, volume: str, master: str, tmp_path: Path) -> None:
    case = tiered_case(name)
    case.unpack(tmp_path)
    given = options(case, tmp_path, str(tmp_path / "remote"))
    answer = finish_job(start_job(master, tmp_path / volume, options=given, python_path=SOURCE))
    assert answer["all"][0] == consumed(case, volume) > 900


@pytest.mark.parametrize(("name", "volume"), [("pair", "broker-1"), ("aiven", "broker")])
def test_a_tier_in_a_store_with_an_endpoint(name: str, volume: str, tmp_path: Path) -> None:
    """The log directory is on the disk, and the options `storage.*` are about the tier."""
    case = tiered_case(name)
    case.unpack(tmp_path)
    with serving(tmp_path) as store:
        given = options(case, tmp_path, f"s3://{BUCKET}/remote") | store.options()
        answer = finish_job(start_job("local[2]", tmp_path / volume, options=given, python_path=SOURCE))
        assert answer["all"][0] == consumed(case, volume) > 900
        assert any(".log" in each and "bytes=" in each for each in store.requests)
