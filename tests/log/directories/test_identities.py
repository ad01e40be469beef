"""Log directories that one broker would not take together."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kafkalog.codec.common.findings import FindingCode, Severity
from kafkalog.log.directories.inventory import open_all
from testkit.running.command import kafkalog

CLUSTER, OTHER_CLUSTER = "FbTPGvzJRKyeOjIRxN5zDg", "gcwMtSbTS3WNg7-c9YtFNQ"
DIRECTORY, OTHER_DIRECTORY = "Oy4mAOvGTHuQH0zjUHPUEQ", "iyXFAOkBQPeYlPLoVqwZEg"

Make = Callable[..., Path]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def made(
        name: str,
        *,
        cluster: str = CLUSTER,
        node: int = 1,
        directory: str | None = None,
        version: int = 1,
        partition: str | None = None,
    ) -> Path:
        path = tmp_path / name
        (path / (partition or f"{name}-0")).mkdir(parents=True)
        for kind in (".log", ".index", ".timeindex"):
            (path / (partition or f"{name}-0") / f"{'0' * 20}{kind}").touch()
        if version:
            topic_id = "version: 0\ntopic_id: BIzrMJ9vQ0mHqlDzTQ1XGQ\n"
            (path / (partition or f"{name}-0") / "partition.metadata").write_text(topic_id)
        node_name = "node.id" if version else "broker.id"
        lines = [f"version={version}", f"{node_name}={node}", f"cluster.id={cluster}"]
        lines += [f"directory.id={directory}"] if directory is not None else []
        (path / "meta.properties").write_text("\n".join(lines) + "\n")
        return path

    return made


def found(*paths: Path) -> list[tuple[str, Severity, str]]:
    """Directory, severity and detail of each finding."""
    findings = [
        each for each in open_all(*paths).findings_together() if each.code is not FindingCode.DUPLICATE_PARTITION
    ]
    return [(Path(each.file or "").parent.name, each.severity, each.detail) for each in findings]


def test_volumes_of_one_broker_go_together(make: Make) -> None:
    assert found(make("a", directory=DIRECTORY), make("b", directory=OTHER_DIRECTORY)) == []
    assert found(make("c", version=0), make("d", version=0)) == []


def test_everything_that_a_broker_refuses_is_named(make: Make) -> None:
    first = make("a", directory=DIRECTORY)
    second = make("b", cluster=OTHER_CLUSTER, node=2, directory=DIRECTORY)
    whose, severities, details = zip(*found(first, second), strict=True)
    assert whose == ("b",) * 3
    assert severities == (Severity.ERROR, Severity.WARNING, Severity.ERROR)
    assert [CLUSTER in details[0], "node id is 2" in details[1], str(first) in details[2]] == [True] * 3
    for command in ("verify", "ls"):
        finished = kafkalog(command, first, second)
        assert finished.code == 1
        assert finished.err.count(FindingCode.IDENTITY_MISMATCH) == 3
        assert kafkalog(command, first).code == 0


def test_volumes_of_several_brokers_hold_replicas(make: Make) -> None:
    several = [make(f"b{node}", node=node, partition="t-0") for node in (1, 2, 3)]
    assert [severity for _, severity, _ in found(*several)] == [Severity.INFO] * 2
    assert kafkalog("verify", *several).code == 0


def test_a_directory_under_two_names_is_no_copy(make: Make, tmp_path: Path) -> None:
    first = make("a", directory=DIRECTORY)
    (tmp_path / "link").symlink_to(first)
    assert found(first, tmp_path / "link") == []


@pytest.mark.parametrize(
    ("directory", "why"),
    [
        ("not an id at all", "base64"),
        ("BIzrMJ9vQ0mHqlDzTQ1X+Q", "base64"),
        ("BIzrMJ9vQ0mHqlDzTQ1XGQ=", "base64"),
        ("AQID", "3 bytes"),
        ("A" * 25, "longer"),
        ("AAAAAAAAAAAAAAAAAAAAAQ", "reserved"),
        ("AAAAAAAAAAAAAAAAAAAAAA", "reserved"),
        ("", "0 bytes"),
    ],
)
def test_a_directory_id_that_stops_a_broker(make: Make, directory: str, why: str) -> None:
    path = make("a", directory=directory)
    ((_, severity, detail),) = found(path)
    assert (severity, why in detail) == (Severity.ERROR, True)
    assert kafkalog("verify", path).code == 1


@pytest.mark.parametrize("cluster", ["x" * 23, "my cluster", "", "é"])
def test_a_cluster_id_that_kafka_does_not_make(make: Make, cluster: str) -> None:
    ((_, severity, _),) = found(make("a", cluster=cluster))
    assert severity is Severity.WARNING
