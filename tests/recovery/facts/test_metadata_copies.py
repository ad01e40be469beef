"""A damaged metadata log is not salvaged with a gap; other nodes have copies of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalog.cluster.kraft.quorum_log import read_quorum_log
from testkit.judging.trees import first_difference, stamps
from testkit.recorded.quorums import BROKER, METADATA, copied, last_log, tear
from testkit.running.command import kafkalog


def spoil(directory: Path) -> None:
    """More than one bit in the middle of the log, so that nothing proves what was there."""
    log = last_log(directory)
    data = bytearray(log.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 3] = bytes(each ^ 0x5A for each in data[middle : middle + 3])
    log.write_bytes(bytes(data))


@pytest.mark.parametrize("which", [1, BROKER])
def test_other_copies_are_named_in_place_of_salvage(which: int, tmp_path: Path) -> None:
    at = copied("dynamic", tmp_path, which)[which]
    spoil(at)
    shown = kafkalog("plan", "--cluster-metadata", at)
    assert shown.code == 1
    assert "recommended: none of these" in shown.out
    assert "kafkalog quorum show" in shown.out
    assert "kafkalog quorum recover" in shown.out
    assert "--mode salvage --yes" not in shown.out
    (line,) = kafkalog("plan", "--cluster-metadata", "--json", at).objects
    assert line["recommended"] is None
    (own,) = (each for each in line["partitions"] if each["name"] == METADATA)
    assert own["recommended"] is None
    assert all(each["refusal"] for each in line["ways"] if each["way"] == "salvage")
    before = stamps(tmp_path)
    refused = kafkalog("recover", "--cluster-metadata", "--yes", at)
    assert refused.code == 3
    assert "kafkalog quorum show" in refused.err
    assert "salvage loses least" not in refused.err
    assert first_difference(dict(stamps(tmp_path)), dict(before)) == ""
    assert "kafkalog quorum show" in kafkalog("plan", at).out, "without --cluster-metadata too"


def test_salvage_makes_no_gap_in_a_metadata_log(tmp_path: Path) -> None:
    at = copied("dynamic", tmp_path, 1)[1]
    spoil(at)
    log = last_log(at).read_bytes()
    finished = kafkalog("recover", "--cluster-metadata", "--mode", "salvage", "--yes", at)
    assert finished.code == 3
    assert "a metadata log must not have" in finished.err
    assert last_log(at).read_bytes() == log


def test_a_torn_end_is_cut_as_before(tmp_path: Path) -> None:
    at = copied("dynamic", tmp_path, 1)[1]
    tear(at)
    assert "none of these" not in kafkalog("plan", "--cluster-metadata", at).out
    assert kafkalog("recover", "--cluster-metadata", "--mode", "salvage", "--yes", at).code == 2
    assert read_quorum_log(at).findings == []
