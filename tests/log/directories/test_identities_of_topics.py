"""One topic has one id, whichever of its partitions is opened first; a directory with several is reported."""

from __future__ import annotations

from pathlib import Path

import kafkalog
from kafkalog.codec.common.findings import FindingCode
from kafkalog.log import Log, NewRecord


def ids(root: Path) -> dict[str, str]:
    found = {}
    for each in kafkalog.open(root).partitions:
        assert each.metadata is not None
        found[str(each.name)] = each.metadata.topic_id
    return found


def test_partitions_of_a_topic_share_its_id(tmp_path: Path) -> None:
    for name in ("t-1", "t-0", "other-0", "t-x-0"):
        with Log.open(tmp_path / name) as log:
            log.append([NewRecord(value=b"v")])
    found = ids(tmp_path)
    assert found["t-0"] == found["t-1"]
    assert len(set(found.values())) == 3
    assert not any(each.code is FindingCode.IDENTITY_MISMATCH for each in kafkalog.verify(tmp_path).findings)


def test_an_id_that_is_given_is_taken_and_several_are_reported(tmp_path: Path) -> None:
    given = "AAAAAAAAAAAAAAAAAAAAAQ"
    for name, id in (("t-0", None), ("t-1", given)):
        with Log.open(tmp_path / name, topic_id=id) as log:
            log.append([NewRecord(value=b"v")])
    assert ids(tmp_path)["t-1"] == given
    (finding,) = [each for each in kafkalog.verify(tmp_path).findings if each.code is FindingCode.IDENTITY_MISMATCH]
    assert given in finding.detail
    assert str(finding.file).endswith("t-1")
