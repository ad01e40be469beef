"""A run of one batch beside the same batch in a run of columns."""

from __future__ import annotations

import pytest

from kafkalog.codec.common.source import BufferSource
from kafkalog.codec.headers.one_batch import OneBatch
from kafkalog.codec.headers.run_scanner import RunScanner
from kafkalog.codec.headers.runs import BatchRun
from testkit.made import damage


@pytest.mark.compiled
@pytest.mark.parametrize("count", [-(2**31), -1, 0, 1, 2, 2**31 - 1])
@pytest.mark.parametrize("attributes", [0, 0x10, 0x30])
def test_records_by_the_header(count: int, attributes: int) -> None:
    data = damage.batch(5, [damage.record(0)], damage.Header(attributes=attributes))
    data = damage.with_crc(damage.put(data, "records_count", count))
    (run,) = RunScanner(BufferSource(data))
    assert isinstance(run, BatchRun)
    expected = 0 if attributes & 0x20 else max(count, 0)
    assert run.data_records() == OneBatch(run.batch(0)).data_records() == expected
