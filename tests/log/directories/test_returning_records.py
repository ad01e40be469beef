"""Records that `kafka-delete-records` removed and that come back after a kill.

Kafka 4.3.0 was told to delete the records of two logs below 101 and 50, and was killed before it had written
log-start-offset-checkpoint: it began them at 91 and 0 again, while their leader-epoch-checkpoint said 101 and 50.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalog import verify
from kafkalog.codec.common.findings import FindingCode, Severity
from kafkalog.codec.common.source import BufferSource
from kafkalog.codec.files.text import LeaderEpoch
from kafkalog.log.directories.returning_records import returning_records
from testkit.made import damage
from testkit.recorded.broker_dirs import STOPPED, brokers, own_copy
from testkit.running.command import kafkalog

LOG = "parcels-5-0"
"""its log start is 97, inside the segment that begins at 84"""
CODE = FindingCode.OFFSETS_BELOW_LOG_START


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """As it was before the broker wrote the log start of 97, to which it had deleted records."""
    root = own_copy(brokers("4.3.0/segments")[0], tmp_path / "data")
    checkpoint = root / "log-start-offset-checkpoint"
    assert "parcels-5 0 97\n" in checkpoint.read_text()
    checkpoint.write_text(checkpoint.read_text().replace("parcels-5 0 97\n", "parcels-5 0 91\n"))
    return root


def test_they_are_named(root: Path) -> None:
    sentence = "offsets 91 to 96 had been deleted, and consumers get them again: delete them again after a start"
    (found,) = (each for each in verify(root).findings if each.code is CODE and each.severity is Severity.WARNING)
    assert found.detail.startswith(sentence)
    assert found.file == str(root / LOG / "leader-epoch-checkpoint")
    (root / ".kafka_cleanshutdown").unlink()
    screen = " ".join(kafkalog("plan", root, columns=80).out.partition("\n\n")[0].split())
    assert f"{LOG}: {sentence} (runbook: deleted-records)" in screen


def test_no_log_of_a_broker_that_stopped_in_order_has_any() -> None:
    for case in STOPPED:
        for broker in brokers(f"{case.version}/{case.name}"):
            found = [each for each in verify(broker, deep=False).findings if each.code is CODE]
            assert {each.severity for each in found} <= {Severity.INFO}, case.id


@pytest.mark.parametrize(
    ("entries", "log_start", "expected"),
    [
        ([(0, 97), (4, 120)], 84, (84, 96)),
        ([(0, 97), (4, 120)], 97, None),
        ([(3, 97), (4, 120)], 84, None),  # the checkpoint may have been lost, and these were assigned since
        ([(4, 120)], 84, None),
        ([], 84, None),
    ],
)
def test_what_shows_them(entries: list[tuple[int, int]], log_start: int, expected: tuple[int, int] | None) -> None:
    logs = {int(path.stem): path.read_bytes() for path in (brokers("4.3.0/segments")[0] / LOG).glob("*.log")}
    listed = [LeaderEpoch(epoch, start) for epoch, start in entries]
    assert returning_records(listed, log_start, logs, lambda base, _: (BufferSource(logs[base]), 0)) == expected


def test_a_log_whose_first_batch_begins_later_than_its_segment_has_none() -> None:
    """A follower of a compacted log has such a first segment, and its epochs begin with the batch."""
    log = (brokers("4.3.0/segments")[0] / LOG / f"{84:020d}.log").read_bytes()
    assert returning_records([LeaderEpoch(0, 84)], 0, {80: log}, lambda base, _: (BufferSource(log), 0)) is None
    assert returning_records([LeaderEpoch(0, 85)], 0, {80: log}, lambda base, _: (BufferSource(log), 0)) == (0, 84)


EPOCHS = [0, 0, 0, 2, 2, 2]
"""Kafka 3.9.1 deleted records up to an offset of epoch 2 in such a segment, and served them again after a kill."""


@pytest.mark.parametrize(
    ("epoch", "start", "expected"),
    [
        (2, 828 + 8, (0, 828 + 7)),
        (2, 828 + 7, (0, 828 + 6)),  # inside a batch
        (2, 828 + 11, (0, 828 + 10)),
        (2, 828 + 6, None),  # the epoch begins there
        (0, 828 + 5, (0, 828 + 4)),
        (4, 828 + 12, None),
    ],
)
def test_the_batch_before_decides_not_the_first_of_the_segment(
    epoch: int, start: int, expected: tuple[int, int] | None
) -> None:
    batches = [
        damage.batch(828 + 2 * number, [damage.record(0), damage.record(1)], damage.Header(leader_epoch=known))
        for number, known in enumerate(EPOCHS)
    ]
    log = b"".join(batches)
    asked: list[tuple[int, int]] = []

    def log_at(base: int, offset: int) -> tuple[BufferSource, int]:
        asked.append((base, offset))
        return BufferSource(log), 0

    assert returning_records([LeaderEpoch(epoch, start)], 0, {0: b"", 828: log}, log_at) == expected
    assert asked == [(828, start - 1)]
