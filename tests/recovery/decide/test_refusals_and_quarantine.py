"""A refusal changes nothing, not a byte and not a time, in the directory or in its quarantine, whatever came before: a
run that was cut short, deleted segments that a start would remove, several partitions.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from kafkalog import KafkaLogError, Log, Producer
from kafkalog.codec.common.findings import FindingCode, Severity
from kafkalog.recovery import Recovery, Undo, recover, runs, undo
from kafkalog.recovery.act.journal import JOURNAL
from kafkalog.recovery.checks.verify import verify
from testkit.judging.trees import first_difference, stamps
from testkit.recorded.fixture_data import recovery_case
from testkit.recorded.recovery_cases import unpacked_cases
from testkit.recorded.recovery_settings import given
from testkit.running.command import kafkalog
from testkit.running.stopping import cut_short

CASE = recovery_case("bit_flip/length")
"""What a mode other than kafka cannot keep all of, so that it needs consent."""
SETTINGS = [f"--config={name}={value}" for name, value in given(CASE)["config"].items()]
AT = ["--at", str(given(CASE)["at"])]
BEFORE = ("nothing", "a run cut short", "a run set aside", "deleted segments", "two partitions")


def prepared(before: str, root: Path, patch: pytest.MonkeyPatch) -> None:
    CASE.unpack_before(root)
    if before in ("a run cut short", "a run set aside"):
        cut_short(lambda: recover(Recovery(accept_loss=True, **given(CASE)), root)[0], patch)
        assert list(root.parent.glob(f"{root.name}.recovery/*/{JOURNAL}"))
    if before == "a run set aside":  # once somebody acts: a broker has been there since
        log = min(root.glob("t-0/*.log"))
        with log.open("ab") as file:
            file.write(b"more")
    if before == "deleted segments":
        for suffix in (".log", ".index", ".timeindex"):
            (root / "t-0" / f"{0:020d}{suffix}.deleted").write_bytes(b"")
    if before == "two partitions":
        shutil.copytree(root / "t-0", root / "t-1")


def refused(*words: str) -> Callable[[Path], None]:
    def work(root: Path) -> None:
        finished = kafkalog(*words, root)
        assert finished.code == 3, finished

    return work


def refused_append(root: Path) -> None:
    with pytest.raises(KafkaLogError):
        Log.open(root / "t-0").close()


def refused_build(root: Path) -> None:
    lines = root.parent / "lines.jsonl"
    lines.write_text('{"topic": "t", "partition": 0, "value": "x"}\n')
    finished = kafkalog("build", "--append", "--into", root, lines)
    assert finished.code in (1, 3, 64), finished


def refused_producing(root: Path) -> None:
    with pytest.raises(KafkaLogError), Producer(root, num_partitions=1) as producer:
        producer.send("t", b"value", partition=0).result()


REFUSALS: dict[str, Callable[[Path], None]] = {
    "recover without --yes": refused("recover", *SETTINGS, *AT),
    "recover without consent": refused("recover", "--yes", *SETTINGS, *AT),
    "recover --mode strict": refused("recover", "--yes", "--mode", "strict", *SETTINGS, *AT),
    "recover --mode salvage --complete no such run": refused(
        "recover", "--yes", "--complete", "20260101T000000.000000Z-00000001", *SETTINGS, *AT
    ),
    "recover --mark-clean without consent": refused("recover", "--yes", "--mark-clean", *SETTINGS, *AT),
    "recover to a quarantine inside": lambda root: refused(
        "recover", "--yes", "--accept-loss", "--quarantine", str(root / "t-0" / "q"), *SETTINGS, *AT
    )(root) if not list(root.parent.glob("logs.recovery/*")) else None,
    "undo without --yes": refused("undo"),
    "undo of no such run": refused("undo", "--yes", "--run", "20260101T000000.000000Z-00000001"),
    "purge of no such run": refused("runs", "--yes", "--purge", "20260101T000000.000000Z-00000001"),
    "an append": refused_append,
    "build --append": refused_build,
    "a producer": refused_producing,
}  # fmt: skip


@pytest.mark.parametrize("before", BEFORE)
def test_a_refusal_changes_nothing(
    before: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measured: Callable[[str, int], None]
) -> None:
    root = tmp_path / "logs"
    prepared(before, root, monkeypatch)
    compared = 0
    for name, work in REFUSALS.items():
        if name == "undo without --yes" and before in ("nothing", "deleted segments", "two partitions"):
            continue  # there is nothing to undo, which is said before anybody is asked
        held = stamps(tmp_path)
        held = {path: value for path, value in held.items() if path not in (".", "lines.jsonl")}
        work(root)
        now = {path: value for path, value in stamps(tmp_path).items() if path not in (".", "lines.jsonl")}
        assert first_difference(dict(now), dict(held)) == "", (before, name)
        compared += 1
    measured(f"refusals after {before}, nothing of the directory or its quarantine changed", compared)


@pytest.mark.parametrize("every", [9, pytest.param(1, marks=pytest.mark.sweep)])
def test_a_log_that_is_not_opened_for_writing_stays_as_it_is(
    every: int, measured: Callable[[str, int], None]
) -> None:
    """Every recorded damage: what a broker would throw half way through loading is known before anything is done."""
    declined = 0
    for case in unpacked_cases(every):
        root = case.before
        for partition in sorted(path.parent for path in root.glob("*/partition.metadata")):
            before = stamps(root)
            try:
                Log.open(partition).close()
            except KafkaLogError:
                assert first_difference(dict(stamps(root)), dict(before)) == "", case.name
                declined += 1
    measured("recorded logs that were not opened for writing, every byte and time left", declined)
    assert declined


def test_an_index_is_never_rebuilt_by_cutting_its_log(tmp_path: Path) -> None:
    """A broker does not start on the last batch, whose checksum is right: what to do about that is for `recover`."""
    root = recovery_case("end_offset/legacy-v1-zstd-bits-last-clean").unpack_before(tmp_path / "logs")
    before = stamps(root)
    finished = kafkalog("index", "rebuild", "--yes", root)
    assert finished.code == 3
    assert "recover the log first" in finished.err
    assert first_difference(dict(stamps(root)), dict(before)) == ""


def test_a_build_into_several_partitions_of_which_one_is_damaged_writes_none(tmp_path: Path) -> None:
    root = tmp_path / "logs"
    root.mkdir()
    for number in range(3):
        with Log.open(root / f"t-{number}") as log:
            log.append([b"x"])
    (root / ".kafka_cleanshutdown").unlink()
    path = root / "t-2" / f"{0:020d}.log"
    path.write_bytes(path.read_bytes()[:-1])
    lines = tmp_path / "lines.jsonl"
    lines.write_text("".join(f'{{"topic": "t", "partition": {number}, "value": "y"}}\n' for number in range(3)))
    held = stamps(root)
    for more in ([], ["--append"], ["--append", "--partitions", "3"]):
        finished = kafkalog("build", *more, "--into", root, lines)
        assert finished.code in (1, 64), finished
        assert first_difference(dict(stamps(root)), dict(held)) == "", more
    shutil.rmtree(root / "t-0")
    held = stamps(root)
    assert kafkalog("build", "--into", root, lines).code == 64, "t-1 is there already"
    assert first_difference(dict(stamps(root)), dict(held)) == ""


def test_a_run_that_was_cut_short_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "logs"
    prepared("a run cut short", root, monkeypatch)
    run = runs(root)[-1].run_id
    (found,) = [each for each in verify(root).findings if each.code is FindingCode.RUN_UNFINISHED]
    assert (found.file, found.severity) == (str(root), Severity.WARNING)
    copy = CASE.unpack_before(tmp_path / "copy")
    for words in (["verify"], ["ls"], ["report", "-o", tmp_path / "report.html"], ["compare", copy]):
        finished = kafkalog(*words, root)
        told = (tmp_path / "report.html").read_text() if words[0] == "report" else finished.err
        assert (finished.code, f"run {run} was cut short" in told, "run_unfinished" in told) == (1, True, True), words
    advice = f"`kafkalog recover {root}` completes it, `kafkalog undo {root} --run {run}` reverses it"
    assert f"run {run} was cut short: {advice}" in kafkalog("verify", root).err
    assert advice in kafkalog("runs", root).out
    assert advice.replace(", ", "; ") in kafkalog("compact", root, "--yes").err
    undo(Undo(run_ids=[run]), root)
    assert FindingCode.RUN_UNFINISHED not in [each.code for each in verify(root).findings]


def test_what_a_run_has_left_half_done_is_not_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part of it may be in the quarantine."""
    root = tmp_path / "logs"
    prepared("a run cut short", root, monkeypatch)
    run = runs(root)[-1].run_id
    copy = CASE.unpack_before(tmp_path / "copy")
    finished = kafkalog("merge", root, copy, "--into", tmp_path / "new")
    assert (finished.code, f"run {run} has left {root} half done" in finished.err) == (3, True), finished
    assert not (tmp_path / "new").exists()


def test_a_second_name_that_a_run_gave_is_no_backup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "logs"
    prepared("a run cut short", root, monkeypatch)
    for log in root.glob("t-0/*.log"):
        (tmp_path / log.name).hardlink_to(log)
    planned = kafkalog("plan", root, "--mode", "kafka", *SETTINGS)
    assert (planned.code, "hard links (from a snapshot" in planned.out) == (1, False), planned
    assert "was cut short" in planned.out


def test_compaction_and_index_rebuild_refuse_what_is_half_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measured: Callable[[str, int], None]
) -> None:
    root = tmp_path / "logs"
    prepared("a run cut short", root, monkeypatch)
    held = {path: value for path, value in stamps(tmp_path).items() if path != "."}
    commands = [
        ("compact", "--yes", "--config", "cleanup.policy=compact"),
        ("index", "rebuild", "--yes"),
    ]
    for words, more in product(commands, ([], ["--json"])):
        finished = kafkalog(*words, *more, root)
        assert (finished.code, "was cut short" in finished.err + finished.out) == (3, True), finished
        now = {path: value for path, value in stamps(tmp_path).items() if path != "."}
        assert first_difference(dict(now), dict(held)) == "", words
    measured("commands that refuse what a run has left half done", len(commands) * 2)
