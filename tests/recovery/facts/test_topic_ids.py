"""A live partition whose partition.metadata is missing keeps its name: the id is written, or consent is asked for."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kafkalog.codec.common.errors import RecoveryRefused
from kafkalog.recovery import Recovery, Undo, plan, recover, undo
from testkit.made.scenes import metadata_elsewhere
from testkit.made.tens import log_of_tens
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.running.command import kafkalog

TOPIC_ID = "EY8sFxa5y9ipvMtiaRixAA"
METADATA = f"version: 0\ntopic_id: {TOPIC_ID}"
KRAFT = "version=1\ncluster.id=TfAiZkA10MauGrybRYvRRw\nnode.id=1\ndirectory.id=2iIv0ZCJSfqb9PhR-y6y3Q\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A broker's directory with KRaft and one partition, which has no topic id."""
    root = tmp_path / "data"
    log_of_tens(root, 3)
    (root / "meta.properties").write_text(KRAFT)
    return root


def files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_another_partition_of_the_topic_tells_the_id(root: Path) -> None:
    shutil.copytree(root / "t-0", root / "t-1")
    (root / "t-1" / "partition.metadata").write_text(METADATA)
    before = files(root)
    done = recover(root)[0]
    assert (root / "t-0" / "partition.metadata").read_text().split() == METADATA.split()
    assert not plan(root)[0].changes
    undo(Undo(run_ids=[done.run_id or ""]), root)
    assert files(root) == before


def test_the_operator_tells_the_id(root: Path) -> None:
    assert kafkalog("recover", root, "--yes", "--topic-id", TOPIC_ID).code == 2
    assert (root / "t-0" / "partition.metadata").read_text().split() == METADATA.split()


def test_without_an_id_it_becomes_stray_with_consent_only(root: Path) -> None:
    before = files(root)
    with pytest.raises(RecoveryRefused, match="-stray") as refused:
        recover(root)
    assert refused.value.reason == "loss"
    assert "topic_id" in str(refused.value)
    assert files(root) == before
    made = plan(root)[0]
    assert (made.needs_consent, made.made_stray) == (True, ("t-0",))
    recover(Recovery(accept_loss=True), root)
    assert [path.name.endswith("-stray") for path in root.glob("t-0*")] == [True]


def test_a_plan_names_what_keeps_it_in_service(root: Path) -> None:
    printed = kafkalog("plan", root).out
    assert "t-0 becomes -stray" in printed
    assert "--topic-id" in printed
    (line,) = kafkalog("plan", root, "--json").objects
    assert line["needs_consent"]
    assert kafkalog("recover", root, "--yes").code == 3
    assert kafkalog("recover", root, "--yes", "--accept-loss").code == 2


def test_under_zookeeper_it_is_no_fault(root: Path) -> None:
    (root / "meta.properties").write_text("version=0\ncluster.id=TfAiZkA10MauGrybRYvRRw\nbroker.id=1\n")
    recover(root)
    assert not (root / "t-0" / "partition.metadata").exists()


def topic_ids(root: Path) -> dict[str, bytes]:
    """Content of `partition.metadata` of each live partition directory."""
    return {path.parent.name: path.read_bytes() for path in sorted(root.glob("*-[0-9]/partition.metadata"))}


@pytest.mark.parametrize("content", [None, b"", b"node.id=1\ncluster.id=TfAiZkA10MauGrybRYvRRw\n"])
def test_without_meta_properties_they_are_missed_all_the_same(content: bytes | None, tmp_path: Path) -> None:
    """No start gets as far as the topic ids then; the first that does renames the partitions -stray."""
    (source,) = brokers("4.3.0/metadata")
    root = own_copy(source, tmp_path / "data")
    recorded = topic_ids(root)
    names = [name for name in recorded if name != "__cluster_metadata-0"]
    for name in names:
        (root / name / "partition.metadata").unlink()
    file = root / "meta.properties"
    whole = file.read_bytes()
    file.unlink() if content is None else file.write_bytes(content)
    for command in ("plan", "verify"):
        assert "once it starts, it renames -stray" in " ".join(kafkalog(command, root).out.split())
    assert kafkalog("recover", root, "--yes").code == 2
    assert topic_ids(root) == recorded
    assert "-stray" not in kafkalog("plan", root).out
    file.write_bytes(whole)
    assert kafkalog("plan", root).code == 0


def test_of_the_other_directory_of_a_broker_too(tmp_path: Path) -> None:
    """Its metadata log is in another directory, which shows that the broker is one of KRaft."""
    (source,) = brokers("4.3.0/metadata")
    first = own_copy(source, tmp_path / "a")
    second = metadata_elsewhere(first, tmp_path / "b")
    recorded = topic_ids(first)
    for name in recorded:
        (first / name / "partition.metadata").unlink()
    (first / "meta.properties").unlink()
    assert kafkalog("recover", first, second, "--yes").code == 2
    assert topic_ids(first) == recorded


def test_an_id_that_nobody_knows_is_said_before_meta_properties_is_back(root: Path) -> None:
    (root / "meta.properties").unlink()
    (root / "__cluster_metadata-0").mkdir()
    assert "t-0 becomes -stray" in kafkalog("plan", root).out
    assert kafkalog("recover", root, "--yes").code == 3
