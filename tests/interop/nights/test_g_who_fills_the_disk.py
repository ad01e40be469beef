"""Who fills the disk, who wrote at a certain minute, and what is there twice: asked of what real producers wrote."""

from __future__ import annotations

import base64
import re

import pytest

from testkit.kafka.nights import T0, produced, section, values
from testkit.kafka.real_broker import RealBroker
from testkit.running.pages import Followed, type_commands

pytestmark = pytest.mark.interop
MINUTE_MS = 60_000
NIGHT = T0 + 1_000 * MINUTE_MS
"""A minute in which one of the producers wrote, and nobody else; the page has another."""
WORDS = {"2019-06-18T16:12:00Z": "2023-11-15T14:53:20Z", "2019-06-18T16:13:00Z": "2023-11-15T14:54:20Z"}


def table(typed: Followed) -> list[list[str]]:
    """The cells of each row below the head of the table."""
    lines = typed.output.splitlines()
    return [re.split(r"\s{2,}", line.strip()) for line in lines if re.search(r"\d{4}-\d\d-\d\d", line)]


def test_the_questions_of_the_page(broker: RealBroker) -> None:
    broker.start()
    for topic in ("sessions-20", "other"):
        broker.create(topic)
    produced(broker, "sessions-20", 500)
    produced(broker, "other", 20, seed=2)
    twice = {"k": base64.b64encode(b"order 7").decode(), "v": base64.b64encode(b"again").decode()}
    at_night = [{"partition": 0, "ts": NIGHT + number, **twice} for number in range(3)]
    broker.client("produce", topic="other", records=at_night, producer={"enable.idempotence": "true"})
    counts = {topic: len(values(broker.records(topic))) for topic in ("sessions-20", "other")}
    asked = type_commands(section("../space", "Who fills"), broker.directory, WORDS)  # beside the running broker
    broker.stop()

    by_topic, _by_hour, _by_key, by_producer, repeats = asked
    assert counts.items() <= {row[0]: int(row[1]) for row in table(by_topic)}.items()
    assert table(by_topic)[0][0] == "sessions-20"
    (row,) = table(by_producer)
    assert (row[0], row[2]) == ("other", str(len(at_night)))
    assert int(row[1]) >= 0, "a producer that is idempotent has an id"
    assert ["other", "order 7", str(len(at_night))] in [row[:3] for row in table(repeats)]
