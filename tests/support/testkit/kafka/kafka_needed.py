"""What a test does where Kafka cannot be had."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from testkit.kafka.kafka_jars import KafkaUnavailableError


@contextmanager
def kafka_needed() -> Iterator[None]:
    """A `KafkaUnavailableError` inside skips the test with its one line; KAFKALOG_INTEROP=required makes it fail."""
    try:
        yield
    except KafkaUnavailableError as error:
        if os.environ.get("KAFKALOG_INTEROP") == "required":
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))
