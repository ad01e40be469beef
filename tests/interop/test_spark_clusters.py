"""The same job on real clusters as on local[2], with the same result: standalone, local-cluster, one file, a death."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kafkalog
from testkit.recorded.broker_dirs import brokers
from testkit.spark.spark_cluster import (
    WRITE_JOB,
    StandaloneCluster,
    finish_job,
    start_job,
    start_program,
    zipped_package,
)

pytestmark = [pytest.mark.interop, pytest.mark.java]

SOURCE = str(Path(kafkalog.__file__).resolve().parents[1])
OPTIONS = {"kafka.isolation.level": "read_committed", "maxPartitionBytes": "20000"}


@pytest.fixture(scope="module")
def path() -> Path:
    (broker,) = brokers("4.1.1/txn")
    return broker


@pytest.fixture(scope="module")
def local(path: Path) -> dict[str, Any]:
    """What local[2] makes of it, which other tests compare with the consumer."""
    answer = finish_job(start_job("local[2]", path, options=OPTIONS, python_path=SOURCE))
    consumed = sum(
        1
        for partition in kafkalog.open(path).partitions
        for _ in partition.records(kafkalog.RecordFilter(isolation_level="read_committed"))
    )
    assert answer["all"][0] == consumed > 100
    return answer


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    with StandaloneCluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def same(answer: dict[str, Any], local: dict[str, Any]) -> None:
    assert (answer["all"], answer["topics"]) == (local["all"], local["topics"])


def test_a_standalone_cluster(cluster: StandaloneCluster, path: Path, local: dict[str, Any]) -> None:
    same(finish_job(start_job(cluster.master, path, options=OPTIONS, python_path=SOURCE)), local)


def test_a_local_cluster(path: Path, local: dict[str, Any]) -> None:
    same(finish_job(start_job("local-cluster[2,1,1024]", path, options=OPTIONS, python_path=SOURCE)), local)


def test_the_package_as_one_file(cluster: StandaloneCluster, path: Path, local: dict[str, Any], tmp_path: Path) -> None:
    archive = zipped_package(tmp_path)
    answer = finish_job(start_job(cluster.master, path, options=OPTIONS, py_files=str(archive)))
    same(answer, local)
    assert all(".zip" in each for each in answer["imported"]), "the executors import the file, not an installation"


def test_a_worker_that_dies_in_the_middle_loses_nothing(path: Path, local: dict[str, Any], tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    with StandaloneCluster(tmp_path / "cluster") as cluster:
        job = start_job(cluster.master, path, options=OPTIONS, python_path=SOURCE, marks=str(marks), pause=0.7)
        deadline = time.monotonic() + 120
        while len(list(marks.iterdir())) < 4 and job.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        before = len(list(marks.iterdir()))
        cluster.kill(0)
        answer = finish_job(job)
    same(answer, local)
    names = [mark.name for mark in marks.iterdir()]
    assert before < len(names)
    assert any(not name.endswith(".0") for name in names), "a task was run again"


def test_attempts_that_fail_or_are_overtaken_write_nothing_twice(cluster: StandaloneCluster, tmp_path: Path) -> None:
    marks, target = tmp_path / "marks", tmp_path / "data"
    marks.mkdir()
    job = {"master": cluster.master, "path": str(target), "tasks": 6, "rows": 500, "marks": str(marks)}
    answer = finish_job(start_program(WRITE_JOB, job, python_path=SOURCE))
    values = [
        int(record.value or b"-1") for partition in kafkalog.open(target).partitions for record in partition.records()
    ]
    assert sorted(values) == list(range(3000))
    assert answer["written"] == 3000
    again = sorted(mark.name for mark in marks.iterdir() if not mark.name.endswith(".0"))
    assert again == ["1.1", "3.1"], "one task was run again because it failed, one because it took too long"
    assert kafkalog.verify(target).is_clean
