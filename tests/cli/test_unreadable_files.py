"""What cannot be read does not stop the rest: one sentence for it, everything else as ever, and exit code 4."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from testkit.recorded.broker_dirs import brokers, join_cluster, own_copy
from testkit.running.command import Finished, kafkalog

CODE = "unreadable"
VICTIM = "orders-23-0"
READING = (["ls"], ["ls", "--segments"], ["verify", "--all"], ["verify", "--all", "--shallow"], ["dump"],
           ["dump", "--batches"], ["dump", "--all"], ["dump", "--json"])  # fmt: skip

Fail = Callable[[str, int], None]


@pytest.fixture
def broker(tmp_path: Path) -> Path:
    return own_copy(brokers("4.1.1/segments")[0], tmp_path / "broker")


@pytest.fixture
def fail(monkeypatch: pytest.MonkeyPatch) -> Fail:
    """The operating system answers with an error for one path: where it is listed, opened or read."""
    scandir, opened, pread = os.scandir, os.open, os.pread
    wanted: dict[str, int] = {}
    descriptors: dict[int, str] = {}

    def refuse(path: Any, kinds: tuple[int, ...]) -> None:
        number = wanted.get(str(path)) if isinstance(path, str | os.PathLike) else None
        if number in kinds:
            raise OSError(number, os.strerror(number), str(path))

    def listing(path: Any = ".") -> Any:
        refuse(path, (errno.EACCES, errno.ENOENT))
        return scandir(path)

    def opening(path: Any, *arguments: Any, **named: Any) -> int:
        refuse(path, (errno.EACCES, errno.ENOENT))
        descriptor = opened(path, *arguments, **named)
        descriptors[descriptor] = str(path)
        return descriptor

    def reading(descriptor: int, length: int, position: int) -> bytes:
        refuse(descriptors.get(descriptor), (errno.EIO,))
        return pread(descriptor, length, position)

    def buffers(descriptor: int, targets: Any, position: int, *flags: Any) -> int:
        refuse(descriptors.get(descriptor), (errno.EIO,))
        return preadv(descriptor, targets, position, *flags)

    preadv = os.preadv
    monkeypatch.setattr(os, "scandir", listing)
    monkeypatch.setattr(os, "open", opening)
    monkeypatch.setattr(os, "pread", reading)
    monkeypatch.setattr(os, "preadv", buffers)
    return wanted.__setitem__


def sentences(finished: Finished, path: Path) -> list[str]:
    return [line for line in finished.err.splitlines() if CODE in line and str(path) in line]


@pytest.mark.parametrize("arguments", READING, ids=" ".join)
@pytest.mark.parametrize("what", ["a directory not to be listed", "a log not to be opened", "a disk error", "vanished"])
def test_one_partition_that_cannot_be_read_does_not_stop_the_others(
    broker: Path, fail: Fail, arguments: list[str], what: str, tmp_path: Path
) -> None:
    victim = broker / VICTIM
    log = min(victim.glob("*.log"))
    others = tmp_path / "others"
    shutil.copytree(broker, others)
    shutil.rmtree(others / VICTIM)
    expected = kafkalog(*arguments, others).out.replace(str(others), str(broker))
    match what:
        case "a directory not to be listed":
            fail(str(victim), errno.EACCES)
        case "a log not to be opened":
            fail(str(log), errno.EACCES)
        case "a disk error":
            fail(str(log), errno.EIO)
        case _:
            fail(str(victim), errno.ENOENT)
    finished = kafkalog(*arguments, broker)
    assert finished.code == 4
    assert sentences(finished, victim)
    assert "Traceback" not in finished.err
    if arguments[0] == "dump":
        assert set(expected.splitlines()) <= set(finished.lines)
    if arguments[0] != "dump":
        assert all(name in finished.out for name in ("clicks-42", "invoices-25", "stock-41"))


@pytest.mark.parametrize("command", ["ls", "verify"])
def test_json_has_it_as_a_finding_of_its_directory(broker: Path, fail: Fail, command: str, tmp_path: Path) -> None:
    sound = join_cluster(own_copy(brokers("4.1.1/compact")[0], tmp_path / "sound"), broker)
    fail(str(broker / VICTIM), errno.EACCES)
    finished = kafkalog(command, "--json", broker, sound)
    assert finished.code == 4
    found = [each for line in finished.objects for each in line["findings"] if each["code"] == CODE]
    assert [(each["severity"], each["file"], each["detail"]) for each in found] == [
        ("error", str(broker / VICTIM), "cannot list the directory: Permission denied")
    ]
    if command == "verify":
        clean = {each["path"]: each["clean"] for each in finished.objects}
        assert clean == {str(broker): False, str(sound): True}


@pytest.mark.parametrize("arguments", READING, ids=" ".join)
def test_a_whole_directory_that_cannot_be_read_does_not_stop_the_next(
    broker: Path, fail: Fail, arguments: list[str], tmp_path: Path
) -> None:
    sound = own_copy(brokers("4.1.1/compact")[0], tmp_path / "sound")
    expected = kafkalog(*arguments, sound)
    fail(str(broker), errno.EACCES)
    finished = kafkalog(*arguments, broker, sound)
    assert finished.code == 4
    assert len(sentences(finished, broker)) == 1
    assert set(expected.out.splitlines()[1:]) <= set(finished.lines) or arguments[0] == "verify"
    alone = kafkalog(*arguments, broker)
    assert (alone.code, len(sentences(alone, broker))) == (4, 1)


@pytest.mark.parametrize("arguments", [["ls"], ["verify"], ["dump"]], ids=" ".join)
def test_a_volume_of_several_that_cannot_be_listed_is_said(
    broker: Path, fail: Fail, arguments: list[str], tmp_path: Path
) -> None:
    own_copy(brokers("4.1.1/compact")[0], tmp_path / "other")
    fail(str(broker), errno.EACCES)
    finished = kafkalog(*arguments, tmp_path)
    assert finished.code == 4
    assert len(sentences(finished, broker)) == 1
    assert finished.out


@pytest.mark.parametrize("arguments", [["ls"], ["verify"], ["dump"]], ids=" ".join)
def test_a_link_to_nothing_in_the_place_of_a_partition(broker: Path, arguments: list[str]) -> None:
    whole = kafkalog(*arguments, broker)
    (broker / "linked-0").symlink_to(broker / "nowhere")
    finished = kafkalog(*arguments, broker)
    assert finished.code == 1
    assert "linked-0" in finished.err
    if arguments == ["dump"]:
        assert finished.out == whole.out


def test_of_damage_and_what_cannot_be_read_the_worse_decides(broker: Path, fail: Fail) -> None:
    log = max(broker.glob("clicks-42-0/*.log"), key=lambda path: path.stat().st_size)
    data = bytearray(log.read_bytes())
    data[70] ^= 1
    log.write_bytes(data)
    assert kafkalog("verify", broker).code == 1
    fail(str(broker / VICTIM), errno.EACCES)
    finished = kafkalog("verify", broker)
    assert finished.code == 4
    assert "crc_mismatch" in finished.err
