"""The log directory's own files that cannot be read or understood: said by `plan` and `recover`, which go on."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from testkit.judging.trees import stamps
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.running.command import kafkalog


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = own_copy(brokers("4.1.1/segments")[0], tmp_path / "broker")
    (root / ".kafka_cleanshutdown").unlink(missing_ok=True)
    return root


def refuse_to_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The operating system does not give out this file, whoever asks and however it is named."""
    wanted, real = path.stat(), os.open

    def refusing(name: Any, *arguments: Any, **named: Any) -> int:
        where = {"dir_fd": named["dir_fd"]} if "dir_fd" in named else {}
        try:
            found = os.stat(name, **where)
        except OSError:
            found = None
        if found is not None and os.path.samestat(found, wanted):
            raise OSError(errno.EACCES, os.strerror(errno.EACCES), name)
        return real(name, *arguments, **named)

    monkeypatch.setattr(os, "open", refusing)


@pytest.mark.parametrize("name", ["meta.properties", "replication-offset-checkpoint", "cleaner-offset-checkpoint"])
def test_what_recovery_never_writes_does_not_stop_it(name: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_to_read(root / name, monkeypatch)
    planned = kafkalog("plan", "--json", root)
    assert planned.code == 4
    (line,) = planned.objects
    assert [(each["severity"], each["file"]) for each in line["findings"] if each["code"] == "unreadable"] == [
        ("error", name)
    ]
    assert line["refusal"] is None
    assert line["declined"] == {}
    assert line["broker"]["outcome"] is None
    assert len(line["partitions"]) == 8
    done = kafkalog("recover", "--yes", root)
    assert done.code == 4
    assert "recovered" in done.out
    assert "Traceback" not in done.err
    if name == "meta.properties":
        assert "whether a broker starts on it is not known" in done.out


@pytest.mark.parametrize("name", ["recovery-point-offset-checkpoint", "log-start-offset-checkpoint"])
@pytest.mark.parametrize("mode", ["safe", "salvage", "kafka"])
def test_what_recovery_would_write_anew_is_a_refusal(
    name: str, mode: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = stamps(root)
    refuse_to_read(root / name, monkeypatch)
    (line,) = kafkalog("plan", "--json", "--mode", mode, root).objects
    assert f"{name}: cannot open the file: Permission denied" in line["refusal"]
    assert "give this user the right to read it" in line["refusal"]
    assert line["recommended"] is None
    assert len(line["partitions"]) == 8
    done = kafkalog("recover", "--yes", "--mode", mode, root)
    assert done.code == 4
    monkeypatch.undo()
    assert stamps(root) == before


def test_mode_kafka_declines_without_meta_properties(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_to_read(root / "meta.properties", monkeypatch)
    (line,) = kafkalog("plan", "--json", "--mode", "kafka", root).objects
    assert "a broker that cannot read it opens no log" in line["refusal"]


@pytest.mark.parametrize(
    ("text", "outcome"), [("", "start_fails"), ("\\u12", "start_fails"), ("version=1\n", "start_fails")]
)
def test_meta_properties_without_sense_are_said_and_never_touched(text: str, outcome: str, root: Path) -> None:
    (root / "meta.properties").write_text(text)
    verified = kafkalog("verify", "--json", root)
    (line,) = kafkalog("plan", "--json", root).objects
    (said,) = [each for each in line["findings"] if each["code"] == "meta_properties_invalid"]
    found = [each for each in verified.objects[0]["findings"] if each["code"] == "meta_properties_invalid"]
    assert [(each["severity"], each["detail"]) for each in found] == [(said["severity"], said["detail"])]
    assert line["broker"]["outcome"] == outcome
    assert verified.objects[0]["broker"]["outcome"] == outcome
    assert (
        "mode kafka changes nothing then" in kafkalog("plan", "--json", "--mode", "kafka", root).objects[0]["refusal"]
    )
    done = kafkalog("recover", "--yes", root)
    assert done.code == 2
    assert "meta.properties stays as it is, and no broker starts on it" in done.out
    assert "a broker that starts on it now opens it" not in done.out
    assert (root / "meta.properties").read_text() == text


def test_a_volume_without_the_metadata_log_goes_offline_alone(root: Path) -> None:
    for path in (root / "__cluster_metadata-0").iterdir():
        path.unlink()
    (root / "__cluster_metadata-0").rmdir()
    (root / "meta.properties").write_text("version=1\n")
    (line,) = kafkalog("plan", "--json", root).objects
    assert line["broker"]["outcome"] == "dir_offline"


@pytest.mark.parametrize("name", ["recovery-point-offset-checkpoint", "log-start-offset-checkpoint"])
def test_a_checkpoint_without_sense_is_the_same_finding_everywhere(name: str, root: Path) -> None:
    (root / name).write_text("garbage")
    (line,) = kafkalog("plan", "--json", root).objects
    verified = kafkalog("verify", "--json", root).objects[0]["findings"]
    found = [
        [(each["severity"], os.path.relpath(root / each["file"], root), each["detail"])
         for each in rows if each["code"] == "checkpoint_invalid"]
        for rows in (line["findings"], verified)
    ]  # fmt: skip
    assert len(found[0]) == 1
    assert found[0] == found[1]
