"""A committed transaction whose COMMIT marker was cut off: what the page names brings its records back."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafkalog.codec.model import BatchHeader
from kafkalog.codec.plain.scanner import scan
from testkit.kafka.kafka_oracle import Json, KafkaOracle
from testkit.kafka.real_broker import RealBroker
from testkit.running.command import kafkalog
from testkit.running.pages import DOCS, blocks_of

pytestmark = pytest.mark.interop
COMMIT_AGAIN, WRITE_MARKER = (text for kind, text in blocks_of(DOCS / "runbook" / "lost-marker.md") if kind == "py")
TOPICS = ("again", "written", "aborted")
FIRST, LAST = ["first-0", "first-1"], ["last-0", "last-1"]


def records(values: list[str]) -> list[Json]:
    return [{"partition": 0, "v": base64.b64encode(value.encode()).decode()} for value in values]


def read(broker: RealBroker, topic: str, isolation: str = "read_committed") -> list[str]:
    found = broker.records(topic, isolation=isolation)[f"{topic}-0"]["records"]
    return [base64.b64decode(each["value"]).decode() for each in found]


def cut_before_the_marker(directory: Path) -> None:
    log = max(directory.glob("*.log"))
    last = scan(log.read_bytes()).batches[-1]
    assert isinstance(last.header, BatchHeader)
    assert last.header.is_control
    os.truncate(log, last.position)


def typed(program: str, *words: tuple[str, str]) -> str:
    """What a program of the page prints, with other words in place of the page's."""
    for word, other in words:
        assert program.count(word) == 1, word
        program = program.replace(word, other)
    return subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout


@pytest.fixture(params=["3.9.1", "4.3.0"])
def broker(
    request: pytest.FixtureRequest, kafka_of: Callable[[str], KafkaOracle], tmp_path: Path
) -> Iterator[RealBroker]:
    """With a log that has lost its last marker for each topic, recovered and started again."""
    kafka_of(request.param)
    with RealBroker(request.param, tmp_path / "broker") as made:
        made.start()
        for topic in TOPICS:
            made.create(topic)
            for values in (FIRST, LAST):
                made.client("transaction", transactional_id=topic, topic=topic, records=records(values), end="commit")
            assert read(made, topic) == FIRST + LAST
        made.stop()
        for topic in TOPICS:
            cut_before_the_marker(made.log_dir / f"{topic}-0")
        assert kafkalog("recover", "--yes", made.log_dir).code == 2
        yield made


def test_what_the_page_names_brings_the_records_back(broker: RealBroker) -> None:
    lines = kafkalog("transactions", "--json", broker.log_dir).objects
    (opened,) = (each for each in lines if each.get("topic") == "written" and each["currentTxnStart"] is not None)
    assert opened["decided"] == "commit"
    broker.start()
    assert [read(broker, topic) for topic in TOPICS] == [FIRST] * 3

    typed(COMMIT_AGAIN, ("HOST:PORT", broker.bootstrap), ('"tx-0"', '"again"'), ('"sensors-0"', '"again"'))
    assert read(broker, "again") == [*FIRST, *LAST, "a record that your consumers ignore"]

    typed(COMMIT_AGAIN, ("HOST:PORT", broker.bootstrap), ('"tx-0"', '"another"'), ('"sensors-0"', '"written"'))
    assert read(broker, "written") == FIRST, "another producer id ends nothing"
    host, port = broker.bootstrap.split(":")
    numbers = [opened["producerId"], opened["producerEpoch"], opened["coordinatorEpoch"] or 0]
    printed = typed(
        WRITE_MARKER, ('"HOST", 9092', f'"{host}", {port}'), ('"sensors-0"', '"written"'),
        ("= 0, 7, 0", f"= {', '.join(map(str, numbers))}"),
    )  # fmt: skip
    assert printed == "0\n"
    assert read(broker, "written") == [*FIRST, *LAST, "a record that your consumers ignore"]

    for end in ("abort", "commit"):
        broker.client("transaction", transactional_id="aborted", topic="aborted", records=records([end]), end=end)
    assert read(broker, "aborted") == [*FIRST, "commit"], "an abort hides them for good"
    assert read(broker, "aborted", "read_uncommitted") == [*FIRST, *LAST, "abort", "commit"]
