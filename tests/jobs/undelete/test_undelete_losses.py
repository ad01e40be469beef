"""What is put back never costs a record that can be read: of what was deleted, or of the log that lives.

Every recorded case of damage, deleted as a broker deletes, and put back: a whole partition, or its first segment, which
goes back into a live log.  A part of them in each run, all in the sweep.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from kafkalog import RecoveryRefused, Undelete, open_partition, undelete
from kafkalog.codec.common.errors import KafkaLogError
from kafkalog.codec.names import CLUSTER_METADATA_TOPIC, DELETED, FileKind, parse_partition_directory
from kafkalog.recovery import Recovery, recover
from testkit.judging.trees import stamps
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.recorded.fixture_data import RecoveryCase, recovery_cases
from testkit.recorded.recovery_settings import given
from testkit.running.shares import EACH

UNIQUE = "0" * 32
_DELETED_WITH_ITS_LOG = (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TRANSACTION_INDEX)


def offsets(directory: Path) -> set[int]:
    """Of every record in the files that can be read."""
    try:
        return {record.offset for record in open_partition(directory).records(all=True)}
    except KafkaLogError:
        return set()


def delete_whole(directory: Path) -> bool:
    """As `LogManager.asyncDelete` does."""
    directory.rename(directory.with_name(f"{directory.name}.{UNIQUE}-delete"))
    return True


def delete_first_segment(directory: Path) -> bool:
    """As `LocalLog.deleteSegmentFiles` does, over a file of that name too; False where there is only one."""
    logs = sorted(directory.glob("*.log"))
    for kind in _DELETED_WITH_ITS_LOG if len(logs) > 1 else ():
        path = logs[0].with_suffix(kind.value)
        if path.is_file():
            path.replace(path.with_name(path.name + DELETED))
    return len(logs) > 1


def compare(
    cases: Sequence[RecoveryCase], delete: Callable[[Path], bool], target: Path, compared: Callable[[str, int], None]
) -> None:
    for case in cases:
        root = case.unpack_before(target)
        names = {path: parse_partition_directory(path.name) for path in root.iterdir() if path.is_dir()}
        for directory, name in names.items():
            if name is None or name.state.value or name.topic == CLUSTER_METADATA_TOPIC:
                continue
            before = offsets(directory)
            if not delete(directory):
                continue
            settings, left = given(case), stamps(root)
            try:
                undelete(
                    Undelete(
                        topic=name.topic, partitions=[name.partition], config=settings["config"], at=settings["at"]
                    ),
                    root,
                )
            except RecoveryRefused:
                assert stamps(root) == left, case.name
                compared("undeletes that were declined, with nothing changed", 1)
            else:
                assert before <= offsets(directory), case.name
                compared("undeletes that lost nothing", 1)
        shutil.rmtree(target)
        shutil.rmtree(target.with_name(f"{target.name}.recovery"), ignore_errors=True)


@EACH
@pytest.mark.parametrize("delete", [delete_whole, delete_first_segment])
def test_put_back_without_a_loss(
    delete: Callable[[Path], bool], each: int, tmp_path: Path, compared: Callable[[str, int], None]
) -> None:
    compare(recovery_cases()[:: 20 * each], delete, tmp_path / "logs", compared)


@pytest.mark.sweep
@pytest.mark.parametrize("delete", [delete_whole, delete_first_segment])
def test_all_put_back_without_a_loss(
    delete: Callable[[Path], bool], tmp_path: Path, compared: Callable[[str, int], None]
) -> None:
    compare(recovery_cases(), delete, tmp_path / "logs", compared)


@pytest.mark.parametrize("what", ["a flipped bit", "a length", "zeros", "an older batch"])
def test_damage_of_the_live_log_is_not_cut_on_the_way(what: str, tmp_path: Path) -> None:
    """`recover` asks for consent there; `undelete` leaves it to `recover`."""
    root = own_copy(brokers("4.1.1/segments")[0], tmp_path / "logs")
    recover(Recovery(full=True, quarantine=tmp_path / "first"), root)
    (root / ".kafkalog-quarantine").unlink()
    live = root / "orders-23-0"
    assert delete_first_segment(live)
    log = max(path for path in live.glob("*.log") if path.stat().st_size)
    data = bytearray(log.read_bytes())
    match what:
        case "a flipped bit":
            data[70] ^= 1
        case "a length":
            data[8] ^= 0x40
        case "zeros":
            data[:] = bytes(len(data))
        case _:
            data += data[: 12 + int.from_bytes(data[8:12], "big")]
    log.write_bytes(data)
    before = stamps(root)
    with pytest.raises(RecoveryRefused, match="recover the partition first"):
        undelete(Undelete(topic="orders-23"), root)
    assert stamps(root) == before
