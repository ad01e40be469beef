"""Directories or files of two nodes, or of one node, that were exchanged: the start fails, and its cure is named.

That the start fails, and with which message, is what recorded starts show (`test_starts.py`).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalog.recovery.broker.node_start import node_start
from testkit.made.scenes import SCENES, metadata_elsewhere
from testkit.made.voters import directory_id_changed
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.running.command import kafkalog

BROKER = (
    "process.roles=broker\nlisteners=PLAINTEXT://:9092\ncontroller.quorum.voters=100@h:1\n"
    "controller.listener.names=C\n"
)


def exchange(one: Path, other: Path) -> None:
    aside = one.with_name(f"{one.name}.aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)


def told(*words: object) -> list[str]:
    """What `verify`, `plan` and a report print, in one line each."""
    report = ["report", *words, "--format", "text", "-o", "-"]
    results = [kafkalog(*command) for command in (["verify", *words], ["plan", *words], report)]
    return [" ".join((each.out + each.err).split()) for each in results]


@pytest.mark.parametrize("what", ["directories", "files"])
def test_of_two_nodes(what: str, tmp_path: Path) -> None:
    SCENES["dead-cluster"](tmp_path)
    one, other = tmp_path / "broker-1", tmp_path / "broker-2"
    properties = tmp_path / "server.properties"
    properties.write_text(f"{BROKER}node.id=1\nlog.dirs={one}\n")
    assert not [text for text in told("--server-properties", properties) if "NOT START" in text]
    exchange(*((one, other) if what == "directories" else (one / "meta.properties", other / "meta.properties")))
    for text in told("--server-properties", properties):
        assert "Stored node id 2 doesn't match previous node id 1" in text
        assert (
            f"{one} is node 2's directory, or has its meta.properties: give node 1 its own directory in this place "
            "(the mount, or the entry of log.dirs in server.properties) and node 2 this one; if only the files were "
            "exchanged, exchange them back"
        ) in text


def test_of_one_node_with_its_metadata_log_in_one_of_them(tmp_path: Path) -> None:
    data = own_copy(brokers("4.1.1/segments")[0], tmp_path / "data")
    other = metadata_elsewhere(data, tmp_path / "data-2")
    node = next(line for line in (data / "meta.properties").read_text().splitlines() if line.startswith("node.id="))
    properties = tmp_path / "server.properties"
    lines = (node, f"log.dirs={data},{other}", f"metadata.log.dir={other}")
    role = BROKER.replace("=broker", "=broker,controller").replace("100@", f"{node.partition('=')[2]}@")
    properties.write_text(role + "\n".join([*lines, ""]))
    exchange(data, other)
    for text in told("--server-properties", properties):
        assert f"Found unexpected metadata location in data directory `{data}/__cluster_metadata-0`" in text
        assert (
            f"the metadata log is looked for in {other}: if the mounts of the two directories were exchanged, exchange "
            f"them back; else set metadata.log.dir={data} in server.properties"
        ) in text


def test_a_copy_beside_its_original(tmp_path: Path) -> None:
    data = own_copy(brokers("4.1.1/segments")[0], tmp_path / "data")
    other = metadata_elsewhere(data, tmp_path / "data-2")
    known = next(line for line in (data / "meta.properties").read_text().splitlines() if "directory.id=" in line)
    directory_id_changed(other, known.partition("=")[2])
    for text in told(data, other)[:2]:
        assert "one of the two is a copy of the other: leave it out of log.dirs in server.properties" in text


TEXTS = {"same": "{}/data", "dot": "{}/./data", "slash": "{}/data/", "link": "{}/link"}


def twice(what: str, data: Path) -> str:
    (data.parent / "link").symlink_to(data)
    return TEXTS[what].format(data.parent)


@pytest.mark.parametrize("roles", ["broker,controller", "controller"])
@pytest.mark.parametrize("release", ["3.9", "4.1", "4.3"])
@pytest.mark.parametrize("what", [*TEXTS])
def test_log_dirs_that_name_one_directory_twice(what: str, release: str, roles: str, tmp_path: Path) -> None:
    """Starts of 3.9.1 and 4.1.1; a controller without the broker role started if the text was the same, and so did
    4.3.0 and 4.4.0.
    """
    data = own_copy(brokers("3.9.1/segments")[0], tmp_path / "data")
    meta = dict(line.partition("=")[::2] for line in (data / "meta.properties").read_text().splitlines())
    other = twice(what, data)
    given = {"process.roles": roles, "node.id": meta["node.id"], "log.dirs": f"{data},{other}"}
    found = node_start([str(data)], properties=given, release=release).answers[0]
    if what != "same":
        first, second = sorted((str(data), other))
        whose = f"It was the ID of {first}, but also of {second}"
        assert found.exception == "java.lang.RuntimeException"
        assert found.message == f"Duplicate directory ID Optional[{meta['directory.id']}] found. {whose}"
    elif roles == "controller" or release == "4.3":
        assert "Duplicate" not in (found.message or "")
    else:
        assert found.exception == "org.apache.kafka.common.KafkaException"
        assert found.message == f"Duplicate log directory found: {data}, {data}"
    alone = node_start([str(data)], properties=given | {"log.dirs": other}, release=release).answers[0]
    assert "Duplicate" not in (alone.message or "")


@pytest.mark.parametrize("text", ["{0},,{1}", "{0},{1},", ",{0},{1}"])
def test_log_dirs_with_an_empty_name(text: str, tmp_path: Path) -> None:
    """4.1.1 started, 4.3.0 and 4.4.0 did not."""
    data = own_copy(brokers("3.9.1/segments")[0], tmp_path / "data")
    meta = dict(line.partition("=")[::2] for line in (data / "meta.properties").read_text().splitlines())
    given = {
        "process.roles": "broker,controller", "node.id": meta["node.id"], "log.dirs": text.format(data, data / "x"),
        "controller.quorum.voters": f"{meta['node.id']}@h:1", "controller.listener.names": "C",
    }  # fmt: skip
    answers = {
        release: node_start([str(data)], properties=given, release=release).answers[0] for release in ("4.1", "4.3")
    }
    message = "Configuration 'log.dirs' values must not be empty."
    assert [found.message == message for found in answers.values()] == [False, True]
    assert answers["4.3"].exception == "org.apache.kafka.common.config.ConfigException"


@pytest.mark.parametrize("what", [*TEXTS])
def test_log_dirs_that_name_one_directory_twice_without_directory_ids(what: str, tmp_path: Path) -> None:
    """3.6.2 with KRaft, whose `LogManager` is that of a broker with ZooKeeper."""
    data = own_copy(brokers("2.8.2/segments")[0], tmp_path / "data")
    given = {"zookeeper.connect": "zoo:2181", "log.dirs": f"{data},{twice(what, data)}"}
    found = node_start([str(data)], properties=given, release="2.8").answers[0]
    assert found.exception == "org.apache.kafka.common.KafkaException"
    assert found.message == f"Duplicate log directory found: {data}, {TEXTS[what].format(tmp_path).rstrip('/')}"
