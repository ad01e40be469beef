"""The table of Kafka's own defaults is what its classes say."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from config_defaults import RELEASES, TABLE, of_release, table, written
from kafkalog.cluster.rules.config_defaults import default_settings
from testkit.kafka.kafka_needed import kafka_needed


def test_the_table_is_what_kafka_says() -> None:
    with kafka_needed():
        made = table()
    assert TABLE.read_text(encoding="utf-8") == written(made)


@pytest.mark.parametrize(("level", "version"), RELEASES.items())
def test_each_default_is_kafkas(level: int, version: str, compared: Callable[[str, int], None]) -> None:
    with kafka_needed():
        told = of_release(version)
    for kind, wanted in told.items():
        assert default_settings(kind, [level]) == {name: value for name, value in wanted.items() if value is not None}
        compared("default settings", len(wanted))
