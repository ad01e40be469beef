"""A partition that cannot be read is left as it is, and `plan` and `recover` go on with the others and say so."""

from __future__ import annotations

import errno
import json
import os
import shlex
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkalog import FindingCode, Log, LogConfig, RecoveryRefused, verify
from kafkalog.codec.common.errors import StorageError
from kafkalog.copies.copy_walk import CopyWalk
from kafkalog.copies.stretches import Stretch
from kafkalog.recovery import Recovery, Undo, plan, recover, undo
from kafkalog.recovery.run import recover_into
from kafkalog.spark.fleet import RecoveredLine, _recover
from testkit.judging.trees import contents, stamps
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.running.command import kafkalog
from testkit.running.sockets import make_socket

VICTIM = "orders-23-0"
DAMAGED = "clicks-42-0"
WHATS = {
    "a directory not to be listed": ("Permission denied", "give this user the right to read it"),
    "a log not to be opened": ("Permission denied", "give this user the right to read it"),
    "a disk error": ("Input/output error", "the disk may be failing"),
    "a disk error beside the log": ("Input/output error", "the disk may be failing"),
    "an index not to be opened": ("Permission denied", "give this user the right to read it"),
    "a disk error in an index": ("Input/output error", "the disk may be failing"),
    "vanished": ("No such file or directory", "see why it cannot be read"),
}


class Fail:
    """The operating system answers with an error for some files or directories, however they are named."""

    def __init__(self) -> None:
        self._wanted: dict[tuple[int, int], int] = {}
        self._is_paused = False

    def __call__(self, path: Path, number: int) -> None:
        """From now on, for this path."""
        status = path.stat()
        self._wanted[status.st_dev, status.st_ino] = number

    def refuse(self, kinds: tuple[int, ...], status: os.stat_result, path: Any = None) -> None:
        """Raise the error if it is one of these."""
        number = self._wanted.get((status.st_dev, status.st_ino))
        if number in kinds and not self._is_paused:
            raise OSError(number, os.strerror(number), path)

    def look(self, at: Callable[[Path], Any], root: Path) -> Any:
        """What really is there."""
        self._is_paused = True
        try:
            return at(root)
        finally:
            self._is_paused = False


@pytest.fixture
def fail(monkeypatch: pytest.MonkeyPatch) -> Fail:
    fail = Fail()
    real = {name: getattr(os, name) for name in ("scandir", "listdir", "open", "pread", "preadv")}

    def at_a_path(name: str) -> Callable[..., Any]:
        def called(path: Any = ".", *arguments: Any, **named: Any) -> Any:
            where = {"dir_fd": named["dir_fd"]} if "dir_fd" in named else {}
            try:
                status = os.stat(path, **where)
            except OSError:
                pass
            else:
                fail.refuse((errno.EACCES, errno.ENOENT), status, path)
            return real[name](path, *arguments, **named)

        return called

    def at_a_descriptor(name: str) -> Callable[..., Any]:
        def called(descriptor: int, *arguments: Any) -> Any:
            fail.refuse((errno.EIO,), os.fstat(descriptor))
            return real[name](descriptor, *arguments)

        return called

    for name in ("scandir", "listdir", "open"):
        monkeypatch.setattr(os, name, at_a_path(name))
    for name in ("pread", "preadv"):
        monkeypatch.setattr(os, name, at_a_descriptor(name))

    return fail


def break_it(what: str, victim: Path, fail: Fail) -> None:
    log = min(victim.glob("*.log"))
    match what:
        case "a directory not to be listed":
            fail(victim, errno.EACCES)
        case "a log not to be opened":
            fail(log, errno.EACCES)
        case "a disk error":
            fail(log, errno.EIO)
        case "a disk error beside the log":
            fail(victim / "leader-epoch-checkpoint", errno.EIO)
        case "an index not to be opened":
            fail(log.with_suffix(".index"), errno.EACCES)
        case "a disk error in an index":
            fail(max(victim.glob("*.timeindex")), errno.EIO)
        case _:
            fail(victim, errno.ENOENT)


def flip(log: Path, position: int) -> None:
    data = bytearray(log.read_bytes())
    data[position] ^= 1
    log.write_bytes(data)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A broker's directory after a crash; one partition has a flipped bit in its last batch."""
    root = own_copy(brokers("4.1.1/segments")[0], tmp_path / "broker")
    (root / ".kafka_cleanshutdown").unlink(missing_ok=True)
    log = max(path for path in (root / DAMAGED).glob("*.log") if path.stat().st_size)
    flip(log, -1)
    return root


def without(root: Path, target: Path) -> Path:
    shutil.copytree(root, target)
    shutil.rmtree(target / VICTIM)
    return target


def partitions(root: Path) -> dict[str, tuple[int, str]]:
    """What is in the partition directories; files beside them name what else there is."""
    return {path: data for path, data in contents(root).items() if "/" in path}


@pytest.mark.parametrize("what", WHATS)
@pytest.mark.parametrize("mode", ["safe", "salvage", "kafka"])
def test_the_others_are_planned_for_and_recovered(mode: str, what: str, root: Path, fail: Fail, tmp_path: Path) -> None:
    before, victim = fail.look(stamps, root), fail.look(contents, root / VICTIM)
    alone = without(root, tmp_path / "alone" / "broker")
    words = ["--mode", mode, "--full", "--accept-loss", "--at", "1767225600000"]
    assert kafkalog("recover", "--yes", *words, alone).code == 2
    break_it(what, root / VICTIM, fail)

    planned = kafkalog("plan", "--json", "--mode", mode, "--full", root)
    assert planned.code == 4
    (line,) = planned.objects
    why, remedy = WHATS[what]
    sentence = line["declined"][VICTIM]
    assert list(line["declined"]) == [VICTIM]
    assert str(root / VICTIM) in sentence
    assert why in sentence
    assert remedy in sentence
    assert line["refusal"] is None
    assert line["changed"] is False
    assert line["broker"]["outcome"] is None
    (file,) = [each["file"] for each in line["findings"] if each["code"] == "unreadable"]
    assert file == VICTIM or file.startswith(f"{VICTIM}/")
    assert VICTIM not in {each["name"] for each in line["partitions"]}
    assert fail.look(stamps, root) == before

    done = kafkalog("recover", "--yes", "--json", *words, root)
    assert done.code == 4
    (line,) = done.objects
    assert line["changed"] is True
    assert line["declined"] == {VICTIM: sentence}
    assert fail.look(contents, root / VICTIM) == victim
    assert {
        path: data for path, data in fail.look(partitions, root).items() if not path.startswith(VICTIM)
    } == fail.look(partitions, alone)

    again = kafkalog("recover", "--yes", *words, root)
    assert again.code == 4
    assert f"{VICTIM} was left as it is: " in again.out
    assert kafkalog("undo", "--yes", root, "--run", line["run_id"]).code == 2
    assert fail.look(stamps, root) == before


@pytest.fixture
def replicas(tmp_path: Path) -> list[Path]:
    """Log directories of three brokers with equal logs of several segments; the first segment of `t-0` in the first
    directory has a flipped bit.
    """
    roots = [tmp_path / name / "logs" for name in ("own", "second", "third")]
    roots[0].mkdir(parents=True)
    for name in ("t-0", "u-0"):
        with Log.open(roots[0] / name, LogConfig(segment_bytes=1000)) as log:
            for number in range(40):
                log.append([(None, b"%d" % number * 50)])
    for root in roots[1:]:
        shutil.copytree(roots[0], root)
    flip(min((roots[0] / "t-0").glob("*.log")), -1)
    return roots


@pytest.mark.parametrize("others", [1, 2])
@pytest.mark.parametrize("failing", [1, 2, 3])
def test_a_log_that_ends_in_a_disk_error_is_not_merged(
    failing: int, others: int, replicas: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it holds after the error would be lost; and this is not a copy that cannot be read."""
    logs = {str(max((root / "t-0").glob("*.log"))) for root in replicas[:failing]}

    class Walk(CopyWalk):
        def __iter__(self) -> Iterator[Stretch]:
            for stretch in super().__iter__():
                if stretch.path in logs:
                    raise StorageError(errno.EIO, os.strerror(errno.EIO), stretch.path)
                yield stretch

    monkeypatch.setattr("kafkalog.copies.merge_copies.CopyWalk", Walk)
    made = plan(Recovery(mode="merge", copies=replicas[1 : 1 + others]), replicas[0])[0]
    assert list(made.declined) == ["t-0"]
    assert "Input/output error" in made.declined["t-0"]
    assert not [action for action in made.actions if action.path.startswith("t-0/")]


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO])
def test_a_damaged_log_whose_copies_cannot_be_read_is_refused(number: int, replicas: list[Path], fail: Fail) -> None:
    own, *copies = replicas
    for copy in copies:
        fail(copy / "t-0" if number == errno.EACCES else max((copy / "t-0").glob("*.log")), number)
    with pytest.raises(RecoveryRefused, match=f"no copy of it can be read: .*{os.strerror(number)}.*;"):
        recover(Recovery(mode="merge", copies=copies), own)


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO])
@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex", ".snapshot"])
def test_all_but_a_file_beside_the_log_is_verified(suffix: str, number: int, fail: Fail, tmp_path: Path) -> None:
    root = own_copy(brokers("4.1.1/crash")[0], tmp_path / "broker")
    partition = root / "parcels-40-4"
    sound = verify(root)
    (file,) = sorted(partition.glob(f"*{suffix}"))[:1]
    fail(file, number)
    (before, after) = (
        next(report for each in found.directories for report in each.partitions if report.path == str(partition))
        for found in (sound, verify(root))
    )
    facts = ("batches", "records", "log_end_offset", "valid_bytes", "log_bytes", "segments")
    assert [getattr(after, fact) for fact in facts] == [getattr(before, fact) for fact in facts]
    assert after.batches > 0
    named = [(each.code, each.file) for each in after.findings if each not in before.findings]
    assert named == [(FindingCode.UNREADABLE, str(file))]
    assert kafkalog("verify", root).code == 4


def test_a_person_is_told(root: Path, fail: Fail) -> None:
    break_it("a disk error", root / VICTIM, fail)
    planned = kafkalog("plan", root)
    assert planned.code == 4
    text = " ".join(planned.out.split())
    assert f"{VICTIM} is left as it is: {root / VICTIM}/" in text
    assert "what Kafka would do is unknown: " in text
    assert "Traceback" not in planned.err


def test_a_refusal_beside_it_is_the_smaller_evil(root: Path, fail: Fail) -> None:
    """Exit code 4 comes before 3: for want of consent, of a terminal, and of what a marker vouches for."""
    log = min((root / DAMAGED).glob("*.log"))
    flip(log, 70)
    assert kafkalog("recover", "--full", "--yes", root).code == 3
    break_it("a disk error", root / VICTIM, fail)
    before = fail.look(stamps, root)
    for words in (["--yes"], [], ["--accept-loss"], ["--accept-loss", "--yes", "--mark-clean"]):
        finished = kafkalog("recover", "--full", "--json", *words, root)
        assert finished.code == 4, words
        (line,) = finished.objects
        assert (line["changed"], line["run_id"]) == (False, None)
        assert VICTIM in line["declined"]
        assert fail.look(stamps, root) == before
    with pytest.raises(RecoveryRefused) as refused:
        recover(Recovery(full=True), root)
    assert refused.value.is_unreadable


def test_nothing_else_to_do_is_no_refusal(root: Path, fail: Fail) -> None:
    recover(Recovery(full=True, accept_loss=True), root)
    break_it("a directory not to be listed", root / VICTIM, fail)
    before = fail.look(stamps, root)
    finished = kafkalog("recover", "--json", "--yes", "--full", root)
    assert finished.code == 4
    assert [(each["changed"], each["run_id"], list(each["declined"])) for each in finished.objects] == [
        (False, None, [VICTIM])
    ]
    assert fail.look(stamps, root) == before


def test_all_that_cannot_be_read_is_named_at_once(root: Path, fail: Fail) -> None:
    logs = {}
    for log in sorted(path for path in root.glob("*-[0-9]*/*.log") if path.stat().st_size):
        if log.parent.name not in (DAMAGED, "__cluster_metadata-0"):
            logs[log.parent.name] = log
    names = sorted(logs)[:3]
    assert len(names) == 3
    for name in names:
        fail(logs[name], errno.EIO)
    assert sorted(plan(Recovery(full=True), root)[0].declined) == names


def test_several_at_a_time(root: Path, fail: Fail, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkalog.log.directories.workers._WORTHWHILE_BYTES", 0)
    break_it("a disk error", root / VICTIM, fail)
    result = recover(Recovery(full=True, accept_loss=True), root, jobs=2)[0]
    assert list(result.declined) == [VICTIM]
    assert result.changed


def test_python_goes_on_too(root: Path, fail: Fail, tmp_path: Path) -> None:
    other = own_copy(brokers("4.1.1/compact")[0], tmp_path / "other")
    shutil.rmtree(other / "__cluster_metadata-0")
    break_it("a log not to be opened", root / VICTIM, fail)
    made = plan(Recovery(full=True), root)[0]
    assert made.is_unreadable
    first, second = recover(Recovery(full=True, accept_loss=True), root, other)
    assert list(first.declined) == [VICTIM]
    assert not second.declined
    assert first.run_id is not None
    undo(Undo(run_ids=[first.run_id]), root)
    (line,) = _recover((str(root),), mode="safe", config={}, full=True, quarantine=None, accept_loss=True)
    assert isinstance(line, RecoveredLine)
    assert line.outcome == "recovered"
    assert line.run_id is not None
    assert line.message == first.declined[VICTIM]
    assert line.report is not None
    assert list(json.loads(line.report)["declined"]) == [VICTIM]


def test_it_can_be_read_again_when_it_is_recovered(root: Path, fail: Fail) -> None:
    made = plan(Recovery(full=True), root)[0]
    break_it("a disk error", root / VICTIM, fail)
    before = fail.look(stamps, root)
    with pytest.raises(RecoveryRefused, match=f"{VICTIM} can no longer be read") as refused:
        recover(Recovery(full=True, accept_loss=True), root, expected=[made])
    assert refused.value.reason == "changed"
    assert fail.look(stamps, root) == before


@pytest.mark.parametrize("what", WHATS)
def test_a_copy_lacks_what_cannot_be_read(what: str, root: Path, fail: Fail, tmp_path: Path) -> None:
    alone = without(root, tmp_path / "alone" / "broker")
    before = fail.look(stamps, root)
    recover(Recovery(full=True, accept_loss=True, at=1767225600000), alone)
    break_it(what, root / VICTIM, fail)
    finished = kafkalog("recover", "--json", "--yes", "--full", "--accept-loss", "--at", "1767225600000", root,
                        "--into", tmp_path / "copy")  # fmt: skip
    assert finished.code == 4
    (line,) = finished.objects
    assert list(line["declined"]) == [VICTIM]
    assert "the copy does not hold this directory" in line["declined"][VICTIM]
    assert not (tmp_path / "copy" / VICTIM).exists()
    assert fail.look(partitions, tmp_path / "copy") == fail.look(partitions, alone)
    assert fail.look(stamps, root) == before


SPECIAL: dict[str, tuple[Callable[[Path], object], str]] = {
    "a FIFO": (os.mkfifo, "a FIFO, not a file"),
    "a socket": (make_socket, "a socket, not a file"),
    "a link": (lambda path: path.symlink_to("/dev/null"), "a symbolic link"),
}


@pytest.mark.parametrize("name", ["the log", "partition.metadata", "leader-epoch-checkpoint", "notes.txt"])
@pytest.mark.parametrize("what", SPECIAL)
def test_what_is_no_file_keeps_recovery_from_its_own_partition_only(
    what: str, name: str, root: Path, tmp_path: Path
) -> None:
    """Kafka would wait forever at a FIFO, so what it would do is not known; nothing here opens it."""
    make, why = SPECIAL[what]
    alone = without(root, tmp_path / "alone" / "broker")
    words = ["--full", "--at", "1767225600000"]
    assert kafkalog("recover", "--yes", "--accept-loss", *words, alone).code == 2
    path = min((root / VICTIM).glob("*.log")) if name == "the log" else root / VICTIM / name
    path.unlink(missing_ok=True)
    make(path)
    before, damaged = stamps(root), contents(root / DAMAGED)

    planned = kafkalog("plan", "--json", *words, root)
    assert planned.code == 4
    (line,) = planned.objects
    assert line["refusal"] is None
    assert list(line["declined"]) == [VICTIM]
    assert line["declined"][VICTIM].startswith(f"{path}: {why}; nothing in this directory is changed")
    assert "put the file itself in its place" in line["declined"][VICTIM]
    assert line["broker"]["outcome"] is None
    assert [each["file"] for each in line["findings"] if each["code"] == "unreadable"] == [f"{VICTIM}/{path.name}"]
    copied = kafkalog("recover", "--yes", "--json", "--accept-loss", *words, root, "--into", tmp_path / "copy")
    assert (copied.code, list(copied.objects[0]["declined"])) == (4, [VICTIM])
    assert partitions(tmp_path / "copy") == partitions(alone)
    assert stamps(root) == before

    typed = [each for each in kafkalog("plan", *words, root).out.splitlines() if each.startswith("  kafkalog recover ")]
    assert kafkalog(*shlex.split(typed[0])[1:]).code == 4
    others = {name: data for name, data in partitions(root).items() if not name.startswith((VICTIM, DAMAGED))}
    assert others == {name: data for name, data in partitions(alone).items() if not name.startswith(DAMAGED)}
    assert contents(root / DAMAGED) != damaged
    assert kafkalog("undo", "--yes", root).code == 2
    assert stamps(root) == before
    assert kafkalog("index", "rebuild", "--yes", root / VICTIM).code == 4


@pytest.mark.parametrize("name", ["00000000000000099999.log", "partition.metadata"])
@pytest.mark.parametrize("what", ["a FIFO", "a link"])
def test_every_command_says_that_the_start_is_not_known(what: str, name: str, root: Path) -> None:
    """Brokers of 3.9.1, 4.1.0 and 4.3.0 followed a link to a file, cut that file, and started or ended; at a FIFO in
    place of a checkpoint they waited forever.
    """
    path = root / VICTIM / name
    path.unlink(missing_ok=True)
    SPECIAL[what][0](path)
    for words in (["verify"], ["plan"], ["report", "-o", "-", "--format", "text"]):
        said = " ".join(kafkalog(*words, root).out.split())
        assert f"what Kafka would do is unknown: the broker's start cannot be predicted: {path}: a " in said
        assert ("would start" in said, "out of service" in said) == (False, False)
    foreseen = kafkalog("triage", root)
    said = " ".join(foreseen.out.split())
    assert (foreseen.code, "is taken to stay down" in said, "cannot be read: a " in said) == (4, True, True)


def test_a_copy_that_cannot_be_written_is_an_error(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what cannot be read of the original is left out."""

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(StorageError):
        recover_into(Recovery(full=True), root, target=tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_undelete_goes_on_as_well(root: Path, fail: Fail) -> None:
    (root / "invoices-25-0").rename(root / f"invoices-25-0.{'0' * 32}-delete")
    break_it("a directory not to be listed", root / VICTIM, fail)
    assert kafkalog("undelete", root, "--topic", VICTIM.removesuffix("-0"), "--yes").code == 4
    assert kafkalog("undelete", root, "--topic", "invoices-25", "--yes").code == 2
    assert (root / "invoices-25-0").is_dir()


@pytest.mark.parametrize("what", ["a directory not to be listed", "a log not to be opened", "a disk error"])
def test_what_was_deleted_is_listed_and_taken_out_beside_it(what: str, root: Path, fail: Fail, tmp_path: Path) -> None:
    gone = [root / f"{name}.{'0' * 32}-delete" for name in ("invoices-25-0", VICTIM)]
    for path in gone:
        (root / path.name.partition(".")[0]).rename(path)
    break_it(what, gone[1], fail)
    listed = kafkalog("undelete", "--json", root)
    assert listed.code == 4
    (line,) = listed.objects
    assert {each["path"] for each in line["remains"]} == {str(gone[0])}
    assert [each["path"] for each in line["unreadable"]] == [str(gone[1])]
    assert WHATS[what][0] in line["unreadable"][0]["reason"]
    assert str(gone[1]) in listed.err
    text = kafkalog("undelete", root)
    assert (text.code, text.err) == (4, listed.err)
    assert "invoices-25" in text.out

    assert kafkalog("undelete", root, "--topic", "invoices-25", "--into", tmp_path / "taken").code == 0
    assert (tmp_path / "taken" / "invoices-25-0").is_dir()
    lost = kafkalog("undelete", root, "--topic", VICTIM.removesuffix("-0"), "--into", tmp_path / "none")
    assert (lost.code, (tmp_path / "none").exists()) == (4, False)


def test_one_unreadable_partition_of_a_topic_is_left_out(root: Path, fail: Fail, tmp_path: Path) -> None:
    topic = VICTIM.removesuffix("-0")
    gone = root / f"{VICTIM}.{'0' * 32}-delete"
    (root / VICTIM).rename(gone)
    other = root / f"{topic}-9.{'1' * 32}-delete"
    shutil.copytree(gone, other)
    break_it("a disk error", gone, fail)
    finished = kafkalog("undelete", "--json", root, "--topic", topic, "--into", tmp_path / "taken")
    assert finished.code == 4
    (line,) = finished.objects
    assert [each["directory"] for each in line["put_back"]] == [f"{topic}-9"]
    assert [each["path"] for each in line["unreadable"]] == [str(gone)]
    assert str(gone) in finished.err
    assert not (tmp_path / "taken" / VICTIM).exists()


def test_what_stands_beside_the_partitions_must_be_read_to_act(root: Path, fail: Fail) -> None:
    before = fail.look(stamps, root)
    fail(root / "recovery-point-offset-checkpoint", errno.EIO)
    finished = kafkalog("plan", root)
    assert finished.code == 4
    assert "recovery-point-offset-checkpoint: " in finished.out
    done = kafkalog("recover", "--yes", root)
    assert (done.code, "recovery-point-offset-checkpoint: " in done.err) == (4, True)
    assert fail.look(stamps, root) == before
