"""Recovery takes a topic's settings from the metadata log beside it, as the broker did that left `recovered`."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkalog.codec.model import BatchHeader
from kafkalog.log.directories.directory import open_log_dir
from kafkalog.log.directories.log_settings import LogSettings
from kafkalog.recovery import Recovery, plan, recover
from kafkalog.recovery.facts.topic_facts import NO_FACTS, read_topic_facts
from kafkalog.words.advice import told
from testkit.recorded.fixture_data import broker_case, recovery_case

VERSIONS = ("3.9.1", "4.1.1", "4.3.0")
INDEXES = (".index", ".timeindex", ".log", ".snapshot")


def differing(root: Path, name: str, expected: dict[str, dict[str, object]]) -> tuple[list[str], int]:
    """Paths of indexes, logs and snapshots that are not what the broker left, and how many were examined."""
    found, looked_at = [], 0
    for path, entry in expected.items():
        broker, _, rest = path.partition("/")
        topic = rest.split("/")[0]
        if (
            broker != name
            or "sha256" not in entry
            or not path.endswith(INDEXES)
            or topic.startswith(("__consumer_offsets", "__cluster_metadata"))
        ):
            continue
        looked_at += 1
        file = root / rest
        if not file.is_file() or hashlib.sha256(file.read_bytes()).hexdigest() != entry["sha256"]:
            found.append(rest)
    return found, looked_at


def time_of(root: Path) -> int:
    """When the broker was killed, in ms: producers that were silent for a day by then are forgotten."""
    partitions = open_log_dir(root).partitions
    batches = [batch.header for each in partitions for batch in each.batches(on_damage="stop")]
    return max(header.max_timestamp for header in batches if isinstance(header, BatchHeader))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["crash", "torn"])
def test_settings_come_from_the_metadata_log(
    version: str, name: str, tmp_path: Path, compared: Callable[[str, int], None]
) -> None:
    case = broker_case(version, name)
    (root,) = case.unpack(tmp_path / "data").iterdir()
    copy = tmp_path / "copy"
    shutil.copytree(root, copy)
    expected = case.expected_json("recovered")
    facts = read_topic_facts([str(root)])
    assert facts.problem is None
    assert facts.configs
    killed_at = time_of(root)
    recover(Recovery(mode="kafka", at=killed_at), root)
    wrong, count = differing(root, root.name, expected)
    assert wrong == []
    assert count > 100
    compared("files of crashed brokers recovered with their topics' own settings", count)
    if (version, name) == ("3.9.1", "crash"):  # the only one where Kafka's defaults give other bytes
        recover(Recovery(mode="kafka", topics=NO_FACTS, at=killed_at), copy)
        assert differing(copy, root.name, expected)[0]


def crashed(tmp_path: Path) -> Path:
    (root,) = broker_case("4.1.1", "crash").unpack(tmp_path / "data").iterdir()
    return root


def test_metadata_wins_over_what_is_given(tmp_path: Path) -> None:
    facts = read_topic_facts([str(crashed(tmp_path))])
    given = {"index.interval.bytes": "7", "log.segment.bytes": "1000"}
    assert facts.settings("parcels-40", given).index_interval_bytes == 400
    assert facts.settings("parcels-40", given).segment_bytes == 1000
    assert facts.settings("metrics-22", given).index_interval_bytes == 7


def test_a_topics_own_name_wins_in_any_order() -> None:
    names = {"segment.bytes": "200", "log.segment.bytes": "100", "segment.ms": "1", "index.interval.bytes": "x"}
    assert LogSettings.known_to_topics(names) == {"segment.bytes": "200"}
    assert LogSettings.from_names({"segment.bytes": "200", "log.segment.bytes": "100"}).segment_bytes == 200


def test_a_lost_topic_id_is_taken_from_the_metadata(tmp_path: Path) -> None:
    root = crashed(tmp_path)
    files = sorted(root.glob("parcels-40-*/partition.metadata"))
    stored = {path: path.read_bytes() for path in files}
    for path in files:
        path.write_bytes(b"version: 0\ntopic_id: ???")
    made = plan(Recovery(topics=NO_FACTS), root)[0]
    assert set(made.declined) == {path.parent.name for path in files}
    assert all("--topic-id" in told(why) and "--" not in why for why in made.declined.values())
    assert not plan(root)[0].declined
    recover(Recovery(accept_loss=True), root)
    assert {path: path.read_bytes().strip() for path in files} == {path: data.strip() for path, data in stored.items()}


def test_partitions_that_the_metadata_does_not_know_are_foretold(tmp_path: Path) -> None:
    root = crashed(tmp_path)
    assert plan(root)[0].broker.strays == ()
    shutil.copytree(root / "parcels-40-0", root / "parcels-40-77")
    assert plan(root)[0].broker.strays == ("parcels-40-77",)
    assert (root / "parcels-40-77").is_dir()


@pytest.mark.parametrize("spoil", ["random", "empty", "loop"])
def test_a_metadata_log_that_cannot_be_read_is_said_and_nothing_else(spoil: str, tmp_path: Path) -> None:
    root = crashed(tmp_path)
    directory = root / "__cluster_metadata-0"
    for path in directory.iterdir():
        if spoil == "random":
            path.write_bytes(bytes(range(256)) * 40)
        else:
            path.unlink()
    if spoil == "loop":
        (directory / "00000000000000000000.log").symlink_to(directory / "00000000000000000000.log")
    facts = read_topic_facts([str(root)])
    assert not facts.configs
    assert not facts.topic_ids
    assert facts.strays(["parcels-40-0"]) == []
    assert facts.problem is not None
    assert str(directory) in facts.problem


def test_without_a_metadata_log_nothing_is_known(tmp_path: Path) -> None:
    root = recovery_case("undamaged/crash-single").unpack_before(tmp_path / "logs")
    assert not (root / "__cluster_metadata-0").exists()
    assert read_topic_facts([str(root)]) == NO_FACTS
    assert plan(root)[0].as_dict()["settings"] == {"source": None, "problem": None, "topics": {}, "broker": {}}
