"""A new directory never begins inside a log directory, where it would stop a broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalog import Recovery, RecoveryRefused, UsageError, compact_into, recover, recover_into
from testkit.judging.trees import stamps
from testkit.made.scenes import metadata_elsewhere
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.recorded.fixture_data import recovery_case
from testkit.running.command import kafkalog

PLAIN = recovery_case("undamaged/full-scan-plain")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return PLAIN.unpack_before(tmp_path / "logs")


@pytest.mark.parametrize("words", [["recover", "--yes"], ["merge"]])
@pytest.mark.parametrize("inside", ["new", "t-0/new"])
def test_a_copy_of_a_log_directory(words: list[str], inside: str, root: Path, tmp_path: Path) -> None:
    other = PLAIN.unpack_before(tmp_path / "other") if words == ["merge"] else None
    before = stamps(root)
    finished = kafkalog(*words, "--into", root / inside, root, *([] if other is None else [other]))
    assert finished.code == 64
    assert "inside the log directory" in finished.err
    assert stamps(root) == before


@pytest.mark.parametrize("words", [["merge"], ["build", "--topic", "new"]])
def test_what_is_made_of_copies_or_records(words: list[str], root: Path, tmp_path: Path) -> None:
    lines = tmp_path / "records.jsonl"
    lines.write_text('{"value":"one"}\n')
    other = PLAIN.unpack_before(tmp_path / "other")
    what = [lines] if words[0] == "build" else [root / "t-0", other / "t-0"]
    before = stamps(root)
    finished = kafkalog(*words, "--into", root / "new", *what)
    assert finished.code == 64
    assert "inside the log directory" in finished.err
    assert stamps(root) == before


@pytest.mark.parametrize("target", ["/nowhere", "{log}"])
def test_a_link_that_leads_nowhere_in_the_place_of_a_log(target: str, root: Path) -> None:
    """A broker takes it for no log at all; that nothing of it is counted is said."""
    log = max(path for path in root.glob("t-0/*.log") if path.stat().st_size)
    log.unlink()
    log.symlink_to(target.format(log=log))
    finished = kafkalog("plan", root)
    assert finished.code == 1
    assert "a dangling symbolic link: the log's content is not here" in finished.out
    (made,) = kafkalog("plan", "--json", root).objects
    assert f"t-0/{log.name}" in [finding["file"] for finding in made["findings"] if finding["code"] == "foreign_file"]


def test_a_link_that_leads_nowhere_beside_the_partitions(root: Path) -> None:
    (root / "backup").mkdir()
    for name in ("old.log", "leader-epoch-checkpoint"):
        (root / "backup" / name).symlink_to("/nowhere")
    assert "dangling" not in kafkalog("plan", root).out


def test_a_directory_that_is_declined_as_a_whole(root: Path) -> None:
    """`plan` ends as `recover` would."""
    log = max(path for path in root.glob("t-0/*.log") if path.stat().st_size)
    log.write_bytes(log.read_bytes()[:-3])
    (root.parent / "snapshot").hardlink_to(log)
    assert kafkalog("plan", root).code == kafkalog("recover", "--yes", root).code == 3


@pytest.mark.parametrize("error", [ValueError, SystemExit, RecoveryRefused])
def test_a_plan_is_declined_by_an_exception(error: type[BaseException], root: Path, tmp_path: Path) -> None:
    """Its copy is removed again, with the directories above it that were made for it; in place nothing is changed."""
    log = max(path for path in root.glob("t-0/*.log") if path.stat().st_size)
    log.write_bytes(log.read_bytes()[:-3])

    def decline(made: object) -> None:
        raise error(f"not {type(made).__name__}")

    before = stamps(root)
    for work in (recover_into, compact_into):
        with pytest.raises(error, match=r"not .*Plan"):
            work(root, target=tmp_path / "new" / "copy", on_plan=decline)
        assert not (tmp_path / "new").exists()
    with pytest.raises(error, match=r"not .*Plan"):
        recover(root, on_plan=decline)
    assert stamps(root) == before
    assert not root.with_name("logs.recovery").exists()


def test_a_copy_of_one_of_two_log_directories(tmp_path: Path) -> None:
    """`plan` prints the metadata log of the other directory as a second path; it is only read."""
    data = own_copy(brokers("4.1.1/segments")[0], tmp_path / "data")
    other = metadata_elsewhere(data, tmp_path / "data-2")
    properties = tmp_path / "server.properties"
    properties.write_text(
        f"process.roles=broker,controller\nnode.id=1\ncontroller.quorum.bootstrap.servers=localhost:9093\n"
        f"controller.listener.names=C\nlog.dirs={data},{other}\nmetadata.log.dir={other}\n"
    )
    metadata, before = other / "__cluster_metadata-0", stamps(other)
    for number, more in enumerate(([metadata], [])):
        copy = tmp_path / f"copy-{number}"
        done = kafkalog("recover", data, *more, "--server-properties", properties, "--into", copy, "--yes")
        assert done.code == 0
        words = " ".join(done.out.split())
        assert "name no voters" not in words
        assert (f"settings of topics: from {metadata}" in words) is bool(more)
        assert not (copy / "__cluster_metadata-0").exists()
    assert stamps(other) == before
    with pytest.raises(UsageError, match="one log directory is recovered into"):
        recover_into(Recovery(), data, other, target=tmp_path / "both")
