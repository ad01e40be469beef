"""What comes after the records of a stream is read alike by plain Python, the reference and the kernels.

Kafka's classes are asked about the same batches in `tests/interop/test_batches.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from testkit.judging.read_both_ways import read
from testkit.judging.reference_execution import REFERENCE
from testkit.kafka.kafka_batches import ours
from testkit.made import stream_tails


@pytest.mark.sweep
def test_every_execution_reads_them_alike(tmp_path: Path) -> None:
    log = tmp_path / f"{0:020}.log"
    buffers = list(dict.fromkeys(stream_tails.made()))
    refused = 0
    for data in buffers:
        log.write_bytes(data)
        plain = read(log, kernel=False)
        assert read(log, kernel=True) == plain, data.hex()
        refused += bool(plain[1])
    assert 100 < refused < len(buffers) - 100


def test_the_reference_reads_them_alike() -> None:
    for data in stream_tails.made():
        assert ours(data, REFERENCE) == ours(data), data.hex()
