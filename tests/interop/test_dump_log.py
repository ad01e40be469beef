"""`kafkalog dump` with kafka-dump-log's options against kafka-dump-log itself: the same files, the same lines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import kafkalog as library
from kafkalog.cluster.layout import remote_log_metadata
from kafkalog.cluster.records.coordinator_records import SHARE_GROUP_STATE_TOPIC, TOPICS
from kafkalog.cluster.records.messages import encode
from testkit.kafka.kafka_oracle import KafkaOracle
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.recorded.dump_lines import as_lines
from testkit.recorded.fixture_data import broker_cases
from testkit.running.command import kafkalog

Compared = Callable[[str, int], None]
DECODERS = {
    "__consumer_offsets": "--offsets-decoder",
    "__transaction_state": "--transaction-log-decoder",
    "__cluster_metadata": "--cluster-metadata-decoder",
}
SECRETS = ["--show-secrets"]
"""What Kafka's tool prints anyway."""


def same(kafka: KafkaOracle, *arguments: object, more: list[str] | None = None) -> int:
    """Lines that both printed; the files must be sound."""
    words = [str(each) for each in arguments]
    theirs = kafka.dump(*words)
    assert theirs["exception"] is None, theirs
    ours = kafkalog("dump", *words, *(more or []))
    assert ours.code == 0, ours.err
    wanted = as_lines(theirs["stdout"])
    assert as_lines(ours.out) == wanted
    assert sorted(ours.err.splitlines()) == sorted(theirs["stderr"].splitlines()), "in the order of Java's hashes"
    return len(wanted)


def logs(case_id: str, pattern: str, most: int) -> list[Path]:
    """The largest log files of a case whose directories fit a pattern."""
    found = [path for broker in brokers(case_id) for path in broker.glob(f"{pattern}/*.log") if path.stat().st_size]
    return sorted(found, key=lambda path: (-path.stat().st_size, str(path)))[:most]


@pytest.mark.parametrize("options", [[], ["--deep-iteration"], ["--print-data-log"], ["--max-bytes", "2000"],
                                     ["--print-data-log", "--skip-record-metadata"]], ids=" ".join)  # fmt: skip
@pytest.mark.parametrize(
    "case_id", ["4.1.1/codecs", "4.1.1/txn", "4.1.1/compact", "2.8.2/codecs", "0.10.2.2/codecs", "0.9.0.1/segments"]
)
def test_logs(case_id: str, options: list[str], kafka: KafkaOracle, compared: Compared) -> None:
    files = logs(case_id, "[a-z]*", 5)
    assert files
    compared("lines of logs", same(kafka, "--files", ",".join(map(str, files)), *options))


@pytest.mark.parametrize("topic", DECODERS)
@pytest.mark.parametrize("case_id", ["4.1.1/txn", "4.1.1/groups", "3.9.1/groups", "2.8.2/groups", "4.1.1/metadata"])
def test_decoders(case_id: str, topic: str, kafka: KafkaOracle, compared: Compared) -> None:
    for path in logs(case_id, f"{topic}-*", 2):
        for options in ([], ["--skip-record-metadata"]):
            more = SECRETS if topic == "__cluster_metadata" else []
            compared("lines of decoders", same(kafka, "--files", path, DECODERS[topic], *options, more=more))


@pytest.mark.parametrize("release", ["4.1.0", pytest.param("4.3.0", marks=pytest.mark.interop)])
def test_share_groups(release: str, kafka_of: Callable[[str], KafkaOracle], tmp_path: Path, compared: Compared) -> None:
    kafka = kafka_of(release)
    records = []
    for kind, (_name, key, values) in TOPICS[SHARE_GROUP_STATE_TOPIC].items():
        data = kind.to_bytes(2, "big") + encode(key, key.versions[-1], {"group_id": "g", "partition": 3})
        value = bytes(2) + encode(values[0], 0, {"start_offset": 7, "leader_epoch": 2})
        records += [library.NewRecord(value=value, key=data), library.NewRecord(value=None, key=data)]
    records.append(library.NewRecord(value=b"", key=(99).to_bytes(2, "big")))
    with library.Log.open(tmp_path / f"{SHARE_GROUP_STATE_TOPIC}-0") as log:
        log.append(records)
    (path,) = (tmp_path / f"{SHARE_GROUP_STATE_TOPIC}-0").glob("*.log")
    compared("lines of decoders", same(kafka, "--files", path, "--share-group-state-decoder"))
    lines = kafkalog("dump", path.parent).lines
    assert sum('key: {"type":' in line for line in lines) == len(records) - 1


def test_remote_log_metadata(tmp_path: Path) -> None:
    layouts = remote_log_metadata.VALUES
    kinds = [kind for kind in range(10) if layouts.get(kind) is not None]
    assert len(kinds) >= 4
    with library.Log.open(tmp_path / "__remote_log_metadata-0") as log:
        for kind in kinds:
            message = layouts[kind][0]
            value = bytes([1, kind, 0]) + encode(message, 0, {"broker_id": 5})
            log.append([library.NewRecord(value=value)])
        log.append([library.NewRecord(value=b"\x01\x63\x00")])
    found = kafkalog("dump", "--json", tmp_path / "__remote_log_metadata-0").objects
    assert [line["decoded"]["value"] is not None for line in found] == [True] * len(kinds) + [False]
    (path,) = (tmp_path / "__remote_log_metadata-0").glob("*.log")
    lines = kafkalog("dump", "--files", path, "--remote-log-metadata-decoder").lines
    assert sum('"brokerId":5' in line for line in lines) == len(kinds)
    assert "payload: Error at offset 4, skipping. record type 99 is unknown" in lines[-1]


@pytest.mark.parametrize("decoder", ["String", "Long", "Integer"])
def test_decoder_classes(decoder: str, kafka: KafkaOracle, tmp_path: Path, compared: Compared) -> None:
    made = kafkalog("build", _records(tmp_path), "--into", tmp_path / "data")
    assert made.code == 0, made.err
    log = next((tmp_path / "data").glob("numbers-0/*.log"))
    name = f"org.apache.kafka.tools.api.{decoder}Decoder"
    compared("lines of decoder classes", same(kafka, "--files", log, "--value-decoder-class", name,
                                              "--key-decoder-class", name))  # fmt: skip


def _records(folder: Path) -> Path:
    import base64
    import json

    file = folder / "records.jsonl"
    with file.open("w") as lines:
        for number in (0, 1, -1, 2**40, -(2**63)):
            data = base64.b64encode((number & 2**64 - 1).to_bytes(8, "big")).decode()
            line = {"topic": "numbers", "partition": 0, "key_b64": data, "value_b64": data, "key": None, "value": None}
            lines.write(json.dumps(line) + "\n")
    return file


@pytest.mark.parametrize("options", [[], ["--verify-index-only"], ["--index-sanity-check"]], ids=" ".join)
@pytest.mark.parametrize("case_id", ["4.1.1/segments", "2.8.2/segments", "0.11.0.3/segments"])
def test_indexes(case_id: str, options: list[str], kafka: KafkaOracle, compared: Compared) -> None:
    for suffix in (".index", ".timeindex"):
        for log in logs(case_id, "[a-z]*", 6):
            path = log.with_suffix(suffix)
            theirs = kafka.dump("--files", str(path), *options)
            ours = kafkalog("dump", "--files", path, *options)
            assert theirs["exception"] is None, theirs
            assert as_lines(ours.out) == as_lines(theirs["stdout"])
            assert sorted(ours.err.splitlines()) == sorted(theirs["stderr"].splitlines())
            assert ours.code == bool(theirs["stderr"])
            compared("lines of indexes", len(ours.lines))


def test_other_files(kafka: KafkaOracle, compared: Compared) -> None:
    found = []
    for case in broker_cases():
        if case.version == "4.1.1" and case.name in ("txn", "metadata"):
            for broker in brokers(case.id):
                found += [*broker.glob("*/*.snapshot"), *broker.glob("*/*.txnindex")]
                for path in broker.glob("__cluster_metadata-0/*.checkpoint"):
                    more = ["--cluster-metadata-decoder"]
                    compared("lines of snapshots", same(kafka, "--files", path, *more, more=SECRETS))
    files = [path for path in found if path.stat().st_size][:20]
    assert len(files) == 20
    compared("lines of snapshots", same(kafka, "--files", ",".join(map(str, files))))


def test_a_message_that_is_not_sound(kafka: KafkaOracle, tmp_path: Path) -> None:
    source = next(path for path in logs("0.9.0.1/segments", "[a-z]*", 9) if path.stat().st_size > 500)
    copy = own_copy(source.parent, tmp_path / "t-0") / source.name
    data = bytearray(copy.read_bytes())
    data[30] ^= 1
    copy.write_bytes(data)
    theirs = kafka.dump("--files", str(copy), "--deep-iteration")
    ours = kafkalog("dump", "--files", copy, "--deep-iteration")
    assert theirs["exception"] is None
    assert as_lines(ours.out) == as_lines(theirs["stdout"])
    assert "isValid: false" in ours.out
    assert ours.code == 1


def test_what_is_not_sound(kafka: KafkaOracle, tmp_path: Path) -> None:
    (source,) = logs("4.1.1/segments", "[a-z]*", 1)
    copy = own_copy(source.parent, tmp_path / "t-0") / source.name
    data = bytearray(copy.read_bytes())
    data[200] ^= 1
    copy.write_bytes(data[:-5])
    theirs = kafka.dump("--files", str(copy))
    ours = kafkalog("dump", "--files", copy)
    assert as_lines(ours.out) == as_lines(theirs["stdout"])
    assert "isvalid: false" in ours.out
    assert ours.lines[-1].startswith("Found ")
    assert ours.code == 1
    assert "crc_mismatch" in ours.err
    index = copy.with_suffix(".index")
    entries = bytearray(index.read_bytes())
    entries[3] += 1
    index.write_bytes(entries)
    theirs = kafka.dump("--files", str(index))
    ours = kafkalog("dump", "--files", index)
    assert as_lines(ours.out) == as_lines(theirs["stdout"])
    assert theirs["stderr"].startswith("Mismatches in :")
    assert ours.err == theirs["stderr"]
    assert ours.code == 1
