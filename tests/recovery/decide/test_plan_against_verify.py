"""A plan and the checks never contradict each other, on everything that was ever recorded.

What no check finds anything in, what a broker stopped in order and starts on, is left as it is; and whatever a check
finds, the plan says too.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import kafkalog
from kafkalog.codec.common.findings import FindingCode, Severity
from kafkalog.log.directories.directory import is_log_dir
from kafkalog.recovery import Recovery, plan, recover, undo
from kafkalog.recovery.broker.node.sentences import start_sentences
from kafkalog.recovery.checks.report import VerifyReport
from kafkalog.recovery.checks.verify import verify
from kafkalog.recovery.decide.plan import Plan
from kafkalog.words.outlook import forecast_sentences
from testkit.judging.trees import stamps
from testkit.recorded.fixture_data import (
    REPLICA_VERSIONS,
    broker_case,
    broker_cases,
    recovery_cases,
    recovery_families,
    tiered_case,
    tiered_volumes,
    unpack_replicas,
    unpack_tiered,
)
from testkit.recorded.recovery_settings import given
from testkit.running.command import kafkalog as command

MARKER = ".kafka_cleanshutdown"
CACHE = "remote-log-index-cache"


def contradiction(root: Path, **options: Any) -> tuple[str, str]:
    """What kind of directory it is, and what is said of it that cannot both be true."""
    checked, made = verify(root), plan(Recovery(**options), root)[0]
    said = [_without_how(sentence) for sentence in forecast_sentences(made.broker)]
    if not options and said != of_verify(checked):
        return "with findings", f"verify says {of_verify(checked)}, and the plan {said}"
    if not checked.is_clean:
        # what is wrong inside of a message, `verify` alone looks for, and a plan says that it has not
        told = [each for each in checked.findings if each.severity is not Severity.INFO]
        inside = all(each.code is FindingCode.MESSAGE_INVALID and "inner message" in each.detail for each in told)
        silent = "" if made.is_worth_a_look or inside else f"verify finds {checked.findings[0]}, and the plan nothing"
        return "with findings", silent
    if made.broker.outcome != "loaded":
        return "on which no broker starts by these settings", ""
    if made.is_hurt:
        return "clean", f"verify finds nothing, and the plan {made.refusal or made.findings or made.choice.own}"
    if not (root / MARKER).is_file():
        return "clean, after a crash", ""
    return "clean, stopped in order", f"{len(made.actions)} changes: {made.actions[0]}" if made.changes else ""


def of_verify(checked: VerifyReport) -> list[str]:
    """What `verify` says of the next start on the only log directory."""
    (start,) = (each.broker for each in checked.directories if each.broker is not None)
    return start_sentences(start.node, start.outcome, start.exception, start.message)


def _without_how(sentence: str) -> str:
    """A plan says of a start that succeeds how the logs are loaded too."""
    return re.sub(r", (after its own recovery|trusting the clean-shutdown marker)(, which would lose .* be read)?"
                  r"(, and readers would skip .* on disk)?", "", sentence)  # fmt: skip


def log_dirs(root: Path) -> Iterator[Path]:
    yield from (each for each in sorted(root.iterdir()) if each.is_dir() and is_log_dir(each))


def of_brokers(version: str, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    for case in broker_cases():
        if case.version == version:
            yield from ((f"{case.id} {each.name}", each) for each in log_dirs(case.unpack(tmp_path / case.name)))
            shutil.rmtree(tmp_path / case.name)


def compare(found: Iterator[tuple[str, Path, dict[str, Any]]], compared: Callable[[str, int], None]) -> None:
    counts: Counter[str] = Counter()
    said = []
    for name, root, options in found:
        kind, contradicted = contradiction(root, **options)
        counts[kind] += 1
        said += [f"{name}: {contradicted}"] if contradicted else []
    assert said == []
    assert counts
    for kind, count in counts.items():
        compared(f"plan and verify agree on directories {kind}", count)


VERSIONS = sorted({case.version for case in broker_cases()})
SAMPLE = ("0.8.2.2", "4.1.1")


@pytest.mark.parametrize(
    "version", [each if each in SAMPLE else pytest.param(each, marks=pytest.mark.sweep) for each in VERSIONS]
)
def test_on_what_brokers_wrote(version: str, tmp_path: Path, compared: Callable[[str, int], None]) -> None:
    compare(((name, root, {}) for name, root in of_brokers(version, tmp_path)), compared)


@pytest.mark.parametrize("each", [4, pytest.param(1, marks=pytest.mark.sweep)])
@pytest.mark.parametrize("family", recovery_families())
def test_on_damaged_directories(family: str, each: int, tmp_path: Path, compared: Callable[[str, int], None]) -> None:
    cases = recovery_cases([family])[::each]
    compare(((case.id, case.unpack_before(tmp_path / case.name), given(case)) for case in cases), compared)


SMALL_FILES = ("leader-epoch-checkpoint", "partition.metadata", "quorum-state", "meta.properties",
               "replication-offset-checkpoint", "recovery-point-offset-checkpoint", "log-start-offset-checkpoint",
               "cleaner-offset-checkpoint")  # fmt: skip


@pytest.mark.parametrize("version", ["2.8.2", "4.1.1", "4.3.0"])
@pytest.mark.parametrize("contents", [b"\0", b""])
def test_on_small_files_that_are_zeros_or_empty(
    version: str, contents: bytes, tmp_path: Path, compared: Callable[[str, int], None]
) -> None:
    """As a power cut leaves them: a plan said OFFLINE, and a check NOT START, of one leader-epoch-checkpoint."""
    (root,) = log_dirs(broker_case(version, "txn").unpack(tmp_path / "recorded"))
    paths = [path for name in SMALL_FILES for path in sorted(root.rglob(name))[:2]]
    assert len(paths) > len(SMALL_FILES) // 2

    def damaged() -> Iterator[tuple[str, Path, dict[str, Any]]]:
        for path in paths:
            before = path.read_bytes()
            path.write_bytes(contents * len(before))
            yield str(path.relative_to(root)), root, {}
            path.write_bytes(before)

    compare(damaged(), compared)


FOLLOWS_DAMAGE = {FindingCode.OFFSET_GAP, FindingCode.SEGMENT_MISSING, FindingCode.INDEX_ENTRY_MISMATCH}
MARKED_ALWAYS = ("txn_index", "epoch_file")


@pytest.mark.parametrize(
    "family", [pytest.param(each, marks=[] if each in MARKED_ALWAYS else pytest.mark.sweep)
               for each in recovery_families()]
)  # fmt: skip
def test_what_is_wrong_beyond_a_recovery_was_told_by_its_plan(
    family: str, tmp_path: Path, compared: Callable[[str, int], None]
) -> None:
    """An aborted transaction that no index lists below the recovery point: a run renewed a snapshot and said no more,
    and consumers would have been given the aborted records.
    """
    count, silent = 0, []
    for case in recovery_cases([family]):
        root = case.unpack_before(tmp_path / case.name)
        if not (root / MARKER).is_file() or plan(Recovery(**given(case)), root)[0].refusal is not None:
            continue
        is_damaged = any(each.severity == "error" or each.code in FOLLOWS_DAMAGE for each in verify(root).findings)
        made = recover(Recovery(accept_loss=True, **given(case)), root)[0].plan
        told = {each.code for each in made.findings}
        if any(each.is_cut_below_high_watermark for each in made.partitions):
            told.add(FindingCode.LOG_END_BELOW_HIGH_WATERMARK)
        if is_damaged:
            told |= FOLLOWS_DAMAGE
        left = {each.code for each in verify(root).findings if each.severity != "info"}
        silent += [f"{case.id}: {sorted(left - told)}"] if left - told else []
        count += 1
    assert silent == []
    compared("recoveries of what was closed in order, after which a check finds nothing that was not told", count)


def test_on_volumes_that_went_apart(tmp_path: Path, compared: Callable[[str, int], None]) -> None:
    roots = [
        unpack_replicas(tmp_path / f"{version}-{after}", after=after, version=version)
        for version in REPLICA_VERSIONS
        for after in (False, True)
    ]
    compare(((str(each), each, {}) for root in roots for each in log_dirs(root)), compared)


@pytest.mark.parametrize("has_cache", [True, False])
@pytest.mark.parametrize(("name", "volume"), tiered_volumes())
def test_on_tiered_logs(
    name: str, volume: str, has_cache: bool, tmp_path: Path, compared: Callable[[str, int], None]
) -> None:
    root = unpack_tiered(name, tmp_path, volume)
    if not has_cache:
        shutil.rmtree(root / CACHE)
    compare(iter([(name, root, {})]), compared)


def lost(made: Plan) -> dict[str, int]:
    return {name: each.records_lost for name, each in made.choice.own_by_partition.items() if each.records_lost}


@pytest.mark.parametrize(("name", "volume"), [("stopped", "broker"), ("killed", "broker")])
def test_the_remote_part_of_a_tiered_log_is_not_lost(name: str, volume: str, tmp_path: Path) -> None:
    """1,527 records and more were said to be lost of logs whose first segments are elsewhere."""
    root = unpack_tiered(name, tmp_path, volume)
    shutil.rmtree(root / CACHE)
    local = tiered_case(name).local[volume]
    assert any(bases[0] > 0 for bases in local.values())
    made = plan(root)[0]
    assert lost(made) == {}
    assert lost(plan(root, jobs=2)[0]) == {}
    assert {each.name for each in made.partitions} >= set(local)


def test_the_first_segment_of_a_log_beside_tiered_ones_is_lost(tmp_path: Path) -> None:
    """It has no line in log-start-offset-checkpoint, as every tiered log has, so its records were here."""
    root = unpack_tiered("stopped", tmp_path)
    first = tiered_case("stopped").local["broker"]["plain-0"]
    for path in (root / "plain-0").glob("00000000000000000000.*"):
        path.unlink()
    made = plan(root)[0]
    assert lost(made) == {"plain-0": first[1]}
    found = [finding for finding in verify(root).findings if finding.code == "segment_missing"]
    assert [Path(finding.file or "").parent.name for finding in found] == ["plain-0"]


def test_a_log_that_retention_has_emptied_has_lost_nothing(tmp_path: Path) -> None:
    """All that is left of it is an empty segment at its end, where the high watermark is."""
    (root,) = log_dirs(broker_case("4.1.1", "metadata").unpack(tmp_path))
    emptied = [each for each in root.glob("*-*/*.log") if not each.stat().st_size and int(each.stem)]
    assert emptied
    assert lost(plan(root)[0]) == {}


def test_what_was_stopped_in_order_is_left_as_it_is(tmp_path: Path) -> None:
    """19 files in 9 of 9 partitions would have been changed, whose broker started on them."""
    (root,) = log_dirs(broker_case("4.1.1", "txn").unpack(tmp_path))
    before = stamps(root)
    shown = command("plan", "--json", root)
    assert (shown.code, shown.objects[0]["changes"], shown.objects[0]["actions"]) == (0, False, [])
    assert command("recover", "--yes", root).code == 0
    assert stamps(root) == before
    assert plan(Recovery(full=True), root)[0].changes
    assert len(plan(Recovery(mode="salvage"), root)[0].actions) == 0


def test_more_is_done_for_a_marker_of_ones_own(tmp_path: Path) -> None:
    """It vouches for a start after a crash too: with --mark-clean everything is prepared for that."""
    (root,) = log_dirs(broker_case("4.1.1", "txn").unpack(tmp_path))
    done = recover(Recovery(mark_clean=True), root)[0]
    assert {action.path.partition("/")[0] for action in done.plan.actions} - {MARKER}


def test_beside_a_damaged_partition_all_are_prepared_for_a_start_without_the_marker(tmp_path: Path) -> None:
    (root,) = log_dirs(broker_case("4.1.1", "txn").unpack(tmp_path))
    damaged = max(root.glob("*-*/*.log"), key=lambda path: path.stat().st_size)
    with damaged.open("r+b") as log:
        log.seek(-20, 2)
        byte = log.read(1)[0]
        log.seek(-20, 2)
        log.write(bytes([byte ^ 1]))
    before = {name: held for name, held in stamps(root).items() if "/" in name}
    done = recover(Recovery(accept_loss=True), root)[0]
    assert not (root / MARKER).exists()
    after = stamps(root)
    others = [name for name in before if name.endswith(".log") and not name.startswith(damaged.parent.name)]
    assert all(after[name] == before[name] for name in others)
    assert done.changed
    assert plan(root)[0].actions == []
    assert sum(1 for _ in kafkalog.open_partition(damaged.parent).records()) > 0
    undo(root)
    assert {name: held for name, held in stamps(root).items() if "/" in name} == before


def test_an_index_that_a_check_finds_fault_with_is_a_reason_to_act(tmp_path: Path) -> None:
    """The marker says nothing of it."""
    (root,) = log_dirs(broker_case("4.1.1", "txn").unpack(tmp_path))
    log = max(root.glob("*-*/*.log"), key=lambda path: (path.stat().st_size, path.name))
    index = log.with_suffix(".index")
    index.write_bytes(b"".join(entry.to_bytes(4, "big") * 2 for entry in (7, 3, 9)))
    made = plan(root)[0]
    assert not verify(root).is_clean
    assert f"{log.parent.name}/{index.name}" in {action.path for action in made.actions}


@pytest.mark.parametrize("case", ["attr-transactional-idem", "attr-control-idem", "legacy-v0-says-gzip-last-unclean"])
def test_a_start_after_the_next_crash_is_thought_of(case: str, tmp_path: Path) -> None:
    """A marker lets a broker start on a batch that it could not load after a crash: that is told all the same."""
    found = next(each for each in recovery_cases() if each.name == case)
    root = found.unpack_before(tmp_path / "logs")
    (root / MARKER).unlink(missing_ok=True)
    without = plan(Recovery(**given(found)), root)[0]
    (root / MARKER).write_text('{"version":0,"brokerEpoch":1}')
    assert plan(Recovery(**given(found)), root)[0].broker.outcome == "loaded"
    refused = [each for each in without.findings if each.code is FindingCode.BROKER_REFUSES]
    assert refused != []
    told = plan(Recovery(**given(found)), root)[0].findings
    assert [each for each in told if each.code is FindingCode.BROKER_REFUSES] == refused
