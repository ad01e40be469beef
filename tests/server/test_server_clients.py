"""Clients of other people read recorded directories through the server: what Kafka's own consumer had read."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kafkalog import Log, LogConfig
from kafkalog.log.reading.consumer_view import ISOLATION_LEVELS
from testkit.recorded.broker_dirs import brokers, expected_offsets, expected_records
from testkit.recorded.fixture_data import broker_case
from testkit.serving.self_signed import self_signed
from testkit.serving.serving import CLIENTS, Given, Place, bootstrap, serving, subscribed
from testkit.serving.the_server import STOP_SECONDS, listening

CASES = ("0.8.2.2/codecs", "0.10.2.2/segments", "2.8.2/txn", "2.8.2/codecs", "4.3.0/txn", "4.3.0/compact")
# aiokafka refuses lz4 in messages of magic 0, whoever serves them.
PAIRS = [(client, case) for client in CLIENTS for case in CASES
         if client != "aiokafka" or case not in ("0.8.2.2/codecs", "2.8.2/codecs")]  # fmt: skip


def plain(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def recorded(case_id: str, isolation_level: str) -> dict[Place, Given]:
    """What was recorded, in the form of a client's answer."""
    version, _, name = case_id.partition("/")
    records = expected_records(broker_case(version, name), isolation_level)
    return {place: given(line) for place, line in records.items()}


def given(line: Mapping[str, Any]) -> Given:
    headers = tuple((name, plain(value)) for name, value in line.get("headers", ()))
    has_no_time = line.get("timestampType") in (None, "NoTimestampType")
    return Given(-1 if has_no_time else line["timestamp"], plain(line["key"]), plain(line["value"]), headers)


@pytest.mark.parametrize("isolation_level", ISOLATION_LEVELS)
@pytest.mark.parametrize(("client", "case_id"), PAIRS)
def test_a_client_reads_what_kafkas_consumer_read(client: str, case_id: str, isolation_level: str) -> None:
    version, _, name = case_id.partition("/")
    ends = expected_offsets(broker_case(version, name), isolation_level)
    with serving(*brokers(case_id)) as server:
        found = CLIENTS[client](bootstrap(server), ends, isolation_level)
    assert found == recorded(case_id, isolation_level)
    assert found


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_reads_with_tls(client: str, tmp_path: Path) -> None:
    """The records go through memory then, a piece at a time."""
    certificate, key = self_signed(tmp_path)
    with listening("--tls-certificate", certificate, "--tls-key", key, *brokers("4.3.0/txn")) as (address, process):
        ends = expected_offsets(broker_case("4.3.0", "txn"), "read_committed")
        assert CLIENTS[client](address, ends, "read_committed", certificate) == recorded("4.3.0/txn", "read_committed")
        process.terminate()
        told = process.communicate(timeout=STOP_SECONDS)[1].splitlines()
    assert [each for each in told if "read_committed ends at offset" not in each] == []


def test_large_records_with_tls(tmp_path: Path) -> None:
    """Answers of many pieces, and several of them one after the other."""
    certificate, key = self_signed(tmp_path)
    (tmp_path / "data").mkdir()
    values = [number.to_bytes(1) * 700_000 for number in range(40)]
    with Log.open(tmp_path / "data" / "t-0", LogConfig(retention_ms=-1)) as log:
        for value in values:
            log.append([value])
    with listening("--tls-certificate", certificate, "--tls-key", key, tmp_path / "data") as (address, _):
        for client in CLIENTS.values():
            found = client(address, {("t", 0): (0, 40)}, "read_uncommitted", certificate)
            assert [each.value for _, each in sorted(found.items())] == values


@pytest.mark.parametrize("case_id", ["2.8.2/txn", "4.3.0/segments"])
def test_a_group_reads_everything_once(case_id: str) -> None:
    expected = recorded(case_id, "read_committed")
    topics = sorted({topic for topic, _, _ in expected})
    with serving(*brokers(case_id)) as server:
        assert subscribed(bootstrap(server), topics, "first", len(expected)) == expected
        assert subscribed(bootstrap(server), topics, "first", None) == {}  # it goes on where it was
        assert subscribed(bootstrap(server), topics, "second", len(expected)) == expected
