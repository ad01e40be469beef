"""Findings that say the same of many places are one sentence."""

from __future__ import annotations

from pathlib import Path

from kafkalog.codec.common.findings import Finding, FindingCode
from kafkalog.words.finding_lines import finding_lines
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.running.command import kafkalog


def waiting(number: int) -> Finding:
    return Finding.of(FindingCode.TEMPORARY_FILE, None, None, "a file that was waiting to be deleted", f"t-0/{number}")


def test_more_than_three_are_one_sentence_with_their_number_and_first_places() -> None:
    other = Finding.of(FindingCode.CRC_MISMATCH, 7, 12, "stored checksum 1, computed 2", "t-0/0.log")
    few, many = [waiting(number) for number in range(3)], [waiting(number) for number in range(33)]
    assert [line for line, _alike in finding_lines([*few, other])] == [str(each) for each in (*few, other)]
    (first, alike), (second, alone) = finding_lines([many[0], other, *many[1:]])
    places = "33 places: t-0/0; t-0/1; t-0/2 and so on"
    assert first == f"{many[0].severity}: temporary_file ({places}): a file that was waiting to be deleted"
    assert (second, alike, alone) == (str(other), many, [other])


def test_batches_of_another_epoch_are_one_line(tmp_path: Path) -> None:
    """Each batch of the log has an epoch that the checkpoint does not list there."""
    root = own_copy(brokers("4.3.0/segments")[0], tmp_path / "data")
    checkpoint = root / "metrics-41-0" / "leader-epoch-checkpoint"
    checkpoint.write_text("0\n1\n3 0\n")
    for finished in (kafkalog("verify", root).err, kafkalog("plan", root).out):
        lines = [line for line in finished.splitlines() if "leader_epoch_mismatch" in line]
        assert len(lines) == 1
        assert " places: " in lines[0]
