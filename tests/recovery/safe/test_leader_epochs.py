"""A checkpoint of leader epochs that contradicts the log beside it; what is right is what the recorded broker wrote."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kafkalog.codec.common.findings import FindingCode
from kafkalog.codec.model import BATCH
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.log.disk.files import FileSource
from kafkalog.recovery import Recovery, plan, recover
from testkit.recorded.fixture_data import broker_case

CASE = broker_case("4.1.1", "txn")
EPOCHS = "leader-epoch-checkpoint"
PARTITION = "sensors-0-0"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The log directory, with the leader epochs of another partition."""
    (root,) = CASE.unpack(tmp_path / "data").iterdir()
    shutil.copy(root / "sensors-0-1" / EPOCHS, root / PARTITION / EPOCHS)
    return root


@pytest.fixture
def original(tmp_path: Path) -> bytes:
    (root,) = CASE.unpack(tmp_path / "original").iterdir()
    return (root / PARTITION / EPOCHS).read_bytes()


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("request_", [Recovery(), Recovery(full=True), Recovery(mode="salvage")])
def test_they_are_rebuilt_from_the_log(request_: Recovery, is_clean: bool, root: Path, original: bytes) -> None:
    if not is_clean:
        (root / ".kafka_cleanshutdown").unlink()
    assert (root / PARTITION / EPOCHS).read_bytes() != original
    recover(request_, root)
    assert (root / PARTITION / EPOCHS).read_bytes() == original
    (planned,) = plan(root)
    assert FindingCode.LEADER_EPOCH_MISMATCH not in {finding.code for finding in planned.findings}


def test_a_plan_tells_of_them_after_a_clean_stop(root: Path) -> None:
    (planned,) = plan(root)
    assert FindingCode.LEADER_EPOCH_MISMATCH in {finding.code for finding in planned.findings}
    assert f"{PARTITION}/{EPOCHS}" in {action.path for action in planned.actions}


def test_mode_kafka_keeps_them_as_a_broker_does(root: Path) -> None:
    before = (root / PARTITION / EPOCHS).read_bytes()
    recover(Recovery(mode="kafka"), root)
    assert (root / PARTITION / EPOCHS).read_bytes() == before


def test_a_single_batch_does_not_outweigh_the_checkpoint(root: Path, original: bytes) -> None:
    """No checksum covers the leader epoch of a batch: the one before the new epoch begins says that it is in it."""
    (root / PARTITION / EPOCHS).write_bytes(original)
    log = root / PARTITION / f"{8:020}.log"
    data = bytearray(log.read_bytes())
    with FileSource(str(log)) as source:
        (position,) = (batch.position for batch in Scanner(source) if batch.header.next_offset == 52)
    data[position + BATCH.end("partition_leader_epoch") - 1] ^= 2
    log.write_bytes(data)
    recover(Recovery(full=True), root)
    assert (root / PARTITION / EPOCHS).read_bytes() == original
