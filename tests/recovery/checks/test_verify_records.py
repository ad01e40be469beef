"""`verify` with a look into the records says the same whether compiled code examines them or plain Python."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest

from kafkalog import verify
from kafkalog.codec.common.findings import FindingCode
from kafkalog.codec.encode import build_batch
from kafkalog.codec.model import BATCH, Codec, Record, TimestampType
from kafkalog.recovery.checks.report import VerifyReport
from testkit.judging.executions import choose_execution
from testkit.made import damage
from testkit.made.record_bytes import batch, payload
from testkit.recorded.broker_dirs import STOPPED, brokers
from testkit.recorded.fixture_data import BrokerCase


def both(*paths: Path, monkeypatch: pytest.MonkeyPatch) -> VerifyReport:
    """The report, which does not depend on who examines records."""
    choose_execution(monkeypatch, 2**62)
    plain = verify(*paths)
    choose_execution(monkeypatch, 0)
    compiled = verify(*paths)
    assert compiled == plain
    return compiled


@pytest.mark.parametrize("case", STOPPED, ids=lambda case: case.id)
def test_every_log_of_a_broker(case: BrokerCase, monkeypatch: pytest.MonkeyPatch) -> None:
    report = both(*brokers(case.id), monkeypatch=monkeypatch)
    assert report.partitions


def written(base: int, codec: Codec, source: random.Random, kind: TimestampType) -> bytes:
    records = [
        Record(base + number, 1000 + source.randrange(50), kind, b"k%d" % number, source.randbytes(20))
        for number in range(5)
    ]
    return build_batch(records, base_offset=base, codec=codec, partition_leader_epoch=base // 200)


def faulty(base: int, source: random.Random) -> bytes:
    """A batch with a checksum that is right, and something wrong in it."""
    match source.randrange(4):
        case 0:  # a value that is longer than its record
            spoilt = bytearray(payload([(0, 0, number, b"k", bytes(20), []) for number in range(5)]))
            spoilt[source.randrange(len(spoilt))] = 0xFF
            return batch(bytes(spoilt), 5, base_offset=base, last_offset_delta=4)
        case 1:  # more records than there are
            return batch(payload([(0, 0, 0, b"k", b"v", [])]), 5, base_offset=base, last_offset_delta=4)
        case 2:  # no record at all
            return batch(b"", 0, base_offset=base, last_offset_delta=4)
        case _:  # newer than the header says
            content = payload([(0, 7 * number, number, b"k", b"v", []) for number in range(5)])
            return batch(content, 5, base_offset=base, last_offset_delta=4)


def test_faults_inside_of_sound_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = random.Random(37)
    seen: set[FindingCode] = set()
    for number in range(25):
        parts, base = [], 0
        while base < 600:
            kind = source.choice((TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME))
            codec = source.choice(list(Codec))
            is_faulty = source.random() < 0.1
            parts.append(faulty(base, source) if is_faulty else written(base, codec, source, kind))
            base += source.choice((5, 5, 5, 5, 9))
        data = bytearray(b"".join(parts))
        if number % 5 == 4:
            data[source.randrange(len(data))] ^= 1 << source.randrange(8)
        directory = tmp_path / str(number) / "t-0"
        directory.mkdir(parents=True)
        (directory / f"{0:020}.log").write_bytes(data)
        (directory / "leader-epoch-checkpoint").write_text("0\n3\n0 0\n1 210\n2 400\n")
        if number % 2:
            (directory.parent / "log-start-offset-checkpoint").write_text("0\n1\nt 0 123\n")
        report = both(directory.parent, monkeypatch=monkeypatch)
        seen |= {finding.code for finding in report.findings}
        assert report.partitions[0].records > 100
    assert seen >= {FindingCode.MAX_TIMESTAMP_MISMATCH, FindingCode.OFFSETS_BELOW_LOG_START}
    assert seen >= {FindingCode.LEADER_EPOCH_MISMATCH, FindingCode.RECORD_LENGTH_MISMATCH}


def test_a_timestamp_that_columns_cannot_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They count microseconds."""
    directory = tmp_path / "t-0"
    directory.mkdir()
    records = [Record(at, 2**62 + at, TimestampType.CREATE_TIME, None, b"v") for at in range(5)]
    first = build_batch(records, base_offset=0)
    assert struct.unpack_from(">q", first, BATCH.position("max_timestamp")) == (2**62 + 4,)
    second = written(5, Codec.NONE, random.Random(1), TimestampType.CREATE_TIME)
    (directory / f"{0:020}.log").write_bytes(first + second)
    report = both(tmp_path, monkeypatch=monkeypatch)
    assert report.partitions[0].records == 10


@pytest.mark.parametrize("enough", [pytest.param(0, marks=pytest.mark.compiled), 1 << 62])
def test_findings_are_in_the_order_of_the_batches(enough: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fault of a record that is missing stands at the byte where the next batch begins."""
    choose_execution(monkeypatch, enough)
    batches = [damage.batch(offset, [damage.record(0)], damage.Header(leader_epoch=1)) for offset in range(4)]
    nothing = damage.batch(1, [], damage.Header(leader_epoch=1))
    batches[1] = damage.with_crc(damage.put(damage.put(nothing, "records_count", 1), "last_offset_delta", 0))
    directory = tmp_path / "t-0"
    directory.mkdir()
    (directory / f"{0:020}.log").write_bytes(b"".join(batches))
    (directory / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    found = [each for each in verify(directory).findings if each.position is not None]
    epoch = FindingCode.LEADER_EPOCH_MISMATCH
    truncated = FindingCode.RECORD_TRUNCATED
    codes = [(each.code, each.offset) for each in found]
    assert codes == [(epoch, 0), (epoch, 1), (truncated, 1), (epoch, 2), (epoch, 3)]
    assert found[2].position == found[3].position == len(batches[0]) + len(batches[1])
