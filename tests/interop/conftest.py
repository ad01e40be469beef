"""Kafka itself for the tests: one JVM per version and session.

Where Kafka cannot be run the tests are skipped with one line that says why; ``KAFKALOG_INTEROP=required`` makes that a
failure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import kafka_jars
from kafka_needed import kafka_needed
from kafka_oracle import KafkaOracle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def oracle_of(version: str) -> KafkaOracle:
    with kafka_needed():
        kafka_jars.setup(version)
    return KafkaOracle(version)


@pytest.fixture(scope="session")
def kafka_of() -> Iterator[Callable[[str], KafkaOracle]]:
    """The oracle of a version, started at the first request and shared by all tests."""
    oracles: dict[str, KafkaOracle] = {}

    def of(version: str) -> KafkaOracle:
        if version not in oracles:
            oracles[version] = oracle_of(version)
        return oracles[version]

    yield of
    for oracle in oracles.values():
        oracle.close()


@pytest.fixture(scope="session")
def kafka(kafka_of: Callable[[str], KafkaOracle]) -> KafkaOracle:
    """Kafka 4.1.0, the version the recovery cases were recorded with."""
    return kafka_of("4.1.0")
