"""A finding is as bad in one command as in every other, and what ends a log is called the same everywhere.

Every recorded case goes through `ls`, `verify`, `plan`, `dump` with and without `--all`, and Spark's `findings`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest

import kafkalog
from kafkalog.codec.common.findings import Finding, FindingJson
from kafkalog.codec.common.shapes import plain, shaped
from kafkalog.log import open_all
from kafkalog.recovery import Recovery, plan
from kafkalog.recovery.checks.verify import verify
from kafkalog.spark.contents_files import finding_places, finding_rows
from testkit.made.batches import patch, simple
from testkit.recorded.fixture_data import RecoveryCase, recovery_cases, recovery_families
from testkit.recorded.recovery_settings import given
from testkit.running.command import kafkalog as command

Place = tuple[str, str | None, int | None]
ENDS = {"torn_tail", "zero_tail", "batch_size_invalid", "crc_mismatch"}


def listed(findings: Iterable[Finding], root: Path | None = None) -> list[dict[str, object]]:
    """As JSON has them; a plan's paths are relative to its directory."""
    rows: list[dict[str, object]] = plain(shaped(findings, list[FindingJson]))
    for row in rows:
        if root is not None and row["file"] is not None:
            row["file"] = str(root / str(row["file"]))
    return rows


def dumped(root: Path, *, everything: bool) -> list[Finding]:
    found: list[Finding] = []
    for partition in open_all(root).readable():
        reader = partition.records(all=True) if everything else partition.records(on_damage="stop")
        for _ in reader:
            pass
        found += reader.findings
    return found


def answers(root: Path, **options: object) -> dict[str, list[dict[str, object]]]:
    """What each command finds."""
    made = plan(Recovery(**options), root)[0]  # type: ignore[arg-type]
    inventory = command("ls", "--json", root).objects[0]["findings"]
    return {
        "ls": inventory,
        "verify": listed(verify(root).findings),
        "plan": listed(made.findings, Path(made.root)),
        "dump": listed(dumped(root, everything=False)),
        "dump --all": listed(dumped(root, everything=True)),
        "spark": [row for place in finding_places(open_all(root)) for row in finding_rows(place)],
    }


def severities(found: dict[str, list[dict[str, object]]]) -> dict[Place, dict[str, set[str]]]:
    by_place: dict[Place, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for name, rows in found.items():
        for row in rows:
            at: Place = (str(row["code"]), row["file"], row["position"])  # type: ignore[assignment]
            by_place[at][str(row["severity"])].add(name)
    return by_place


@pytest.mark.parametrize("family", recovery_families())
def test_a_finding_is_as_bad_everywhere(family: str, tmp_path: Path, compared: Callable[[str, int], None]) -> None:
    _compare_severities(family, recovery_cases([family])[::10], tmp_path, compared)


@pytest.mark.sweep
@pytest.mark.parametrize("family", recovery_families())
def test_every_finding_is_as_bad_everywhere(family: str, tmp_path: Path, compared: Callable[[str, int], None]) -> None:
    _compare_severities(family, recovery_cases([family]), tmp_path, compared)


def _compare_severities(
    family: str, cases: Sequence[RecoveryCase], tmp_path: Path, compared: Callable[[str, int], None]
) -> None:
    together = 0
    for number, case in enumerate(cases):
        root = case.unpack_before(tmp_path / str(number))
        found = severities(answers(root, **given(case)))
        differing = {place: dict(named) for place, named in found.items() if len(named) > 1}
        assert differing == {}, case.id
        together += sum(len(next(iter(named.values()))) > 1 for named in found.values())
        ends: dict[tuple[str | None, int | None], set[str]] = defaultdict(set)
        for code, file, position in found:
            if code in ENDS:
                ends[file, position].add(code)
        assert [names for names in ends.values() if len(names) > 1] == [], case.id
    compared(f"findings that several commands have alike, {family}", together)


# -- torn tails, and what only looks like one --------------------------------------------------------------------------


def made(tmp_path: Path, **segments: bytes) -> Path:
    directory = tmp_path / "logs" / "made-0"
    directory.mkdir(parents=True)
    (tmp_path / "logs" / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    for name, data in segments.items():
        (directory / f"{int(name[1:]):020d}.log").write_bytes(data)
        for kind in ("index", "timeindex"):
            (directory / f"{int(name[1:]):020d}.{kind}").touch()
    return tmp_path / "logs"


def codes_of(root: Path) -> dict[str, set[tuple[str, str]]]:
    """Code and severity of what ends the log, by command."""
    return {
        name: {(str(row["code"]), str(row["severity"])) for row in rows if row["code"] in ENDS}
        for name, rows in answers(root).items()
    }


BEYOND = b"\x7f\x00\x00\x00"


def test_a_size_beyond_the_file_with_batches_behind_it_is_damage(tmp_path: Path) -> None:
    first = simple(2)
    root = made(tmp_path, s0=first + patch(simple(3, 2), 8, BEYOND) + simple(4, 5) + simple(1, 9))
    assert set(map(frozenset, codes_of(root).values())) == {frozenset({("batch_size_invalid", "error")})}
    (partition,) = command("ls", "--json", root).objects[0]["partitions"]
    assert (partition["sound_batches_behind_damage"], partition["sound_records_behind_damage"]) == (2, 5)
    (segment,) = partition["segments"]
    assert (segment["stop"], segment["valid_bytes"]) == ("corrupt", len(first))
    assert [record.offset for record in kafkalog.open(root)["made", 0].records(all=True)] == [0, 1, 5, 6, 7, 8, 9]
    assert [record.offset for record in kafkalog.open(root)["made", 0].records(on_damage="stop")] == [0, 1]


@pytest.mark.parametrize("rest", [b"", simple(9, 2)[:40], patch(simple(3, 2), 8, BEYOND), bytes(90)])
def test_a_segment_that_another_one_follows_has_no_tail(tmp_path: Path, rest: bytes) -> None:
    root = made(tmp_path, s0=simple(2) + rest, s20=simple(4, 20))
    expected = {("batch_size_invalid", "error")} if rest else set()
    assert all(found == expected for found in codes_of(root).values())


@pytest.mark.parametrize(
    ("rest", "code"), [(simple(9, 2)[:40], "torn_tail"), (simple(9, 2)[:-1], "torn_tail"), (bytes(90), "zero_tail")]
)
def test_what_an_append_leaves_is_a_warning(tmp_path: Path, rest: bytes, code: str) -> None:
    root = made(tmp_path, s0=simple(2), s20=simple(4, 20) + rest.replace(simple(9, 2)[:8], simple(9, 24)[:8], 1))
    assert all(found == {(code, "warning")} for found in codes_of(root).values())
    assert command("plan", root, "--mode", "strict").code in (0, 1)
