"""Deleted topics whose directories have names cut at 255 bytes: told apart by id, and put back by their whole name."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalog.codec.names import may_be_cut
from testkit.made.tens import ten
from testkit.running.command import kafkalog

LONG = "customer." + "x" * 215 + ".orders"
IDS = {"A": "EY8sFxa5y9ipvMtiaRixAA", "B": "dmKFRRDnRFCUNz_scDMXNg"}


def cut_directory(topic: str, partition: int, unique: str, suffix: str = "delete") -> str:
    """The name that `LocalLog.logDirNameWithSuffix` makes."""
    behind = f"-{partition}.{unique}-{suffix}"
    return topic[: min(len(topic), 255 - len(behind))] + behind


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two deleted topics whose names differ only behind the cut."""
    for number, (end, topic_id) in enumerate(IDS.items()):
        directory = tmp_path / "data" / cut_directory(LONG + end, 0, f"{number}" * 32)
        directory.mkdir(parents=True)
        (directory / f"{0:020}.log").write_bytes(ten(0))
        (directory / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")
    return tmp_path / "data"


def test_a_cut_name_is_said_and_topics_are_told_apart_by_id(root: Path) -> None:
    listed = kafkalog("undelete", root)
    assert all(topic_id in listed.out for topic_id in IDS.values())
    assert listed.out.count("--as TOPIC gives the whole name") == 2
    (line,) = kafkalog("undelete", root, "--json").objects
    assert [each["topic_id"] for each in line["remains"]] == list(IDS.values())
    assert all(each["name_is_cut"] for each in line["remains"])


def test_an_inventory_says_it_too(root: Path) -> None:
    text = " ".join(kafkalog("ls", root, columns=80).out.split())
    for topic_id in IDS.values():
        assert f"topic id {topic_id}; such names end at 255 bytes" in text
    (line,) = kafkalog("ls", root, "--json").objects
    assert {each["topic_id"] for each in line["partitions"]} == set(IDS.values())


def test_it_is_put_back_under_its_whole_name_only(root: Path) -> None:
    first = next(root.glob("*.0000*"))
    topic = first.name.split("-0.")[0]
    refused = kafkalog("undelete", root, "--yes", "--topic", topic, "--source", first.name)
    assert refused.code == 3
    assert "--as" in refused.err
    done = kafkalog("undelete", root, "--yes", "--topic", topic, "--source", first.name, "--as", f"{LONG}A")
    assert done.code == 2, done.err
    assert (root / f"{LONG}A-0" / f"{0:020}.log").read_bytes() == ten(0)


@pytest.mark.parametrize(("length", "cut"), [(212, False), (213, True), (249, True)])
def test_names_of_255_bytes_may_be_cut(length: int, *, cut: bool) -> None:
    assert may_be_cut(cut_directory("x" * length, 0, "0" * 32)) == cut


def test_live_names_are_whole() -> None:
    assert not may_be_cut("x" * 253 + "-0")
