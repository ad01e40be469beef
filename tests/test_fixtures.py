"""The fixtures are what their names say, and the helpers give them back exactly."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from testkit.judging.trees import copy_tree, stamps
from testkit.recorded.fixture_data import (
    BROKERS,
    FIXTURES,
    RECOVERY,
    REPLICA_VERSIONS,
    BrokerCase,
    RecoveryCase,
    broker_case,
    broker_cases,
    recovery_case,
    recovery_cases,
    recovery_families,
    replica_roles,
    unpack_replicas,
)

CHECK = runpy.run_path(str(FIXTURES / "check.py"))


def ident(case: BrokerCase | RecoveryCase) -> str:
    return case.id


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


# --- names tell the truth -------------------------------------------------------------------------------------------


def test_every_version_and_case_is_there() -> None:
    versions: dict[str, set[str]] = {}
    for case in broker_cases():
        versions.setdefault(case.version, set()).add(case.name)
    assert set(versions) == {
        "0.8.2.2", "0.9.0.1", "0.10.2.2", "0.11.0.3", "1.1.1", "2.8.2", "3.9.1", "3.9.1-zk", "4.1.1", "4.3.0", "4.4.0",
    }  # fmt: skip
    assert versions.pop("4.4.0") == {"groups", "metadata", "torn", "txn"}
    for version, names in versions.items():
        assert {"codecs", "segments", "compact", "groups", "crash", "torn"} <= names, version
    assert len(broker_cases()) == 82


@pytest.mark.parametrize("case", broker_cases(), ids=ident)
def test_a_broker_folder_tells_the_truth(case: BrokerCase) -> None:
    assert case.case["kafka"] == case.version.removesuffix("-zk")
    assert case.case["case"] == case.name
    zookeeper = case.case["mode"] != "kraft"
    assert zookeeper == (case.version.endswith("-zk") or int(case.version.split(".")[0]) < 3)
    assert case.path == BROKERS / f"kafka-{case.version}" / case.name
    assert case.archive.is_file()


def test_no_broker_folder_is_left_out() -> None:
    folders = {path for path in BROKERS.glob("*/*") if path.is_dir()}
    assert folders == {case.path for case in broker_cases()}


def test_each_recovery_case_is_where_its_id_says() -> None:
    cases = recovery_cases()
    assert [case.id for case in cases] == [f"{case.family}/{case.name}" for case in cases]
    index = json.loads((RECOVERY / "index.json").read_text(encoding="utf-8"))
    assert sorted(case.id for case in cases) == sorted(entry["id"] for entry in index["cases"])
    assert {entry["id"]: entry["outcome"] for entry in index["cases"]} == {case.id: case.outcome for case in cases}
    assert len(cases) == 562
    assert len(recovery_families()) == 24


# --- unpacking is exact -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "name"), [("3.9.1", "metadata"), ("0.8.2.2", "torn"), ("4.3.0", "codecs")])
def test_unpacking_a_broker_case_keeps_bytes_sizes_modes_and_times(version: str, name: str, tmp_path: Path) -> None:
    case = broker_case(version, name)
    top = case.unpack(tmp_path / "unpacked")
    plain = _plain_tar(case.archive, tmp_path / "plain.tar")
    seen = set()
    with tarfile.open(plain) as archive:
        for member in archive:
            path = top / member.name
            status = path.lstat()
            assert status.st_mtime_ns == int(Decimal(member.pax_headers["mtime"]) * 10**9), member.name
            assert status.st_mode & 0o777 == member.mode, member.name
            if member.isreg():
                content = archive.extractfile(member)
                assert content is not None
                assert path.read_bytes() == content.read(), member.name
            seen.add(path)
    assert set(top.rglob("*")) == seen


def _plain_tar(stored: Path, target: Path) -> Path:
    if stored.suffix == ".gz":
        target.write_bytes(gzip.decompress(stored.read_bytes()))
        return target
    import zstandard

    with stored.open("rb") as source, target.open("wb") as sink:
        zstandard.ZstdDecompressor().copy_stream(source, sink)
    return target


def test_preallocated_indexes_are_unpacked_as_holes_with_their_full_size(tmp_path: Path) -> None:
    broker_case("0.8.2.2", "crash").unpack(tmp_path)
    preallocated = [path for path in tmp_path.rglob("*.index") if path.stat().st_size == 10 << 20]
    assert preallocated
    assert all(path.stat().st_blocks * 512 < 1 << 20 for path in preallocated)


def test_a_copy_is_the_same_and_keeps_holes_links_and_times(tmp_path: Path) -> None:
    (original,) = broker_case("0.8.2.2", "crash").unpack(tmp_path / "unpacked").glob("broker-*")
    (original / "two pieces").write_bytes(b"first" + bytes(1 << 20) + b"last" + bytes(1 << 18))
    os.truncate(original / "two pieces", 3 << 20)
    (original / "link").symlink_to("two pieces")
    copy = copy_tree(original, tmp_path / "copy")
    assert stamps(copy) == stamps(original)
    assert sum(path.stat().st_size for path in copy.rglob("*")) > 10 << 20
    assert sum(path.stat().st_blocks * 512 for path in copy.rglob("*")) < 4 << 20


def test_flushes_of_this_process_are_left_out_and_refused_as_ever(tmp_path: Path) -> None:
    file = os.open(tmp_path, os.O_RDONLY)
    os.fsync(file)
    os.close(file)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fsync(file)
    name = os.open(tmp_path, os.O_PATH)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fsync(name)
    os.close(name)


def test_the_broker_dirs_named_in_the_case_are_unpacked(tmp_path: Path) -> None:
    case = broker_case("2.8.2", "zkhist")
    case.unpack(tmp_path)
    unpacked = sorted(path.name for path in tmp_path.iterdir())
    assert unpacked == sorted([f"broker-{number}" for number in case.case["brokers"]] + ["zookeeper"])


def test_unpack_recovered_gives_the_hashes_listed(tmp_path: Path) -> None:
    case = broker_case("4.1.1", "torn")
    case.unpack_recovered(tmp_path)
    hashes = set(re.findall(r"\b[0-9a-f]{64}\b", case.expected_text("recovered.json")))
    unpacked = {sha256(path) for path in tmp_path.rglob("*") if path.is_file()}
    assert unpacked
    assert unpacked <= hashes


@pytest.mark.parametrize("family", recovery_families())
def test_each_recovery_case_plus_its_changes_is_the_expected_state(family: str, tmp_path: Path) -> None:
    for case in recovery_cases([family]):
        before = _state(case.unpack_before(tmp_path / case.name / "before"))
        changed = _state(case.unpack_after(tmp_path / case.name / "after"))
        # What Kafka set aside under a random name is listed, but not stored (see the provenance).
        expected = {path: want for path, want in case.expected_after().items() if "-stray/" not in path}
        assert before, case.id
        assert expected, case.id
        assert {path: changed.get(path, before.get(path)) for path in expected} == expected, case.id
        assert changed.keys() <= expected.keys(), case.id


def _state(top: Path) -> dict[str, tuple[int, str]]:
    return {
        path.relative_to(top).as_posix(): (path.stat().st_size, sha256(path))
        for path in top.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


@pytest.mark.parametrize("version", REPLICA_VERSIONS)
def test_the_three_brokers_played_the_parts_that_their_record_says(version: str, tmp_path: Path) -> None:
    roles = replica_roles(version)
    assert roles["kafka"] == version
    before = unpack_replicas(tmp_path / "before", version=version)
    after = unpack_replicas(tmp_path / "after", after=True, version=version)
    old, new, behind = (roles[part] for part in ("old_leader", "new_leader", "behind"))
    assert {old, new, behind} == set(roles["brokers"])
    assert {path.name for path in before.iterdir()} == {"controller", *(f"broker-{each}" for each in roles["brokers"])}

    def log(root: Path, broker: int) -> bytes:
        return b"".join(path.read_bytes() for path in sorted((root / f"broker-{broker}" / "tale-0").glob("*.log")))

    assert log(before, new).startswith(log(before, behind))
    assert len({log(before, broker) for broker in roles["brokers"]}) == 3
    assert {log(after, broker) for broker in roles["brokers"]} == {log(before, new)}


def test_symbolic_links_stay_links(tmp_path: Path) -> None:
    top = recovery_case("foreign_files/dangling-symlink-other").unpack_before(tmp_path)
    assert os.readlink(top / "t-0" / "link") == "nowhere"


def test_waiting_deletions_are_left_out_unless_asked_for() -> None:
    case = recovery_case("bit_flip/length")
    waiting = case.expected_after(with_deleted=True).keys() - case.expected_after().keys()
    assert waiting
    assert all(path.endswith(".deleted") for path in waiting)


def test_families_can_be_chosen() -> None:
    assert {case.family for case in recovery_cases(["torn_tail", "overflow"])} == {"torn_tail", "overflow"}


def test_an_unknown_case_is_a_key_error() -> None:
    with pytest.raises(KeyError, match=re.escape("9.9.9/codecs")):
        broker_case("9.9.9", "codecs")
    with pytest.raises(KeyError, match="bit_flip/nothing"):
        recovery_case("bit_flip/nothing")


# --- expected/ --------------------------------------------------------------------------------------------------------


def test_expected_reads_plain_and_gzipped_lines_alike() -> None:
    plain, gzipped = broker_case("3.9.1", "metadata"), broker_case("3.9.1", "txn")
    assert (plain.path / "expected" / "read_uncommitted.jsonl").is_file()
    assert (gzipped.path / "expected" / "read_uncommitted.jsonl.gz").is_file()
    for case in (plain, gzipped):
        lines = case.expected("read_uncommitted")
        assert lines
        assert all({"topic", "partition", "offset", "key", "value"} <= line.keys() for line in lines)


@pytest.mark.parametrize("case", broker_cases(), ids=ident)
def test_every_recorded_line_decodes(case: BrokerCase) -> None:
    stems = {path.name.split(".jsonl")[0] for path in (case.path / "expected").glob("*.jsonl*")}
    assert bool(stems) == (case.name != "tornbig")  # that broker dies of its own size field: nobody could read from it
    for stem in stems:
        assert case.has(stem)
        lines: list[Any] = case.expected(stem)
        assert all(isinstance(line, dict) for line in lines), stem


def test_a_missing_expectation_says_what_is_missing() -> None:
    with pytest.raises(FileNotFoundError, match=re.escape("3.9.1/codecs has no expected/committed.jsonl")):
        broker_case("3.9.1", "codecs").expected("committed")


# --- the check itself -------------------------------------------------------------------------------------------------


@pytest.fixture
def small(tmp_path: Path) -> Path:
    root = tmp_path / "fixtures"
    (root / "a").mkdir(parents=True)
    (root / "a" / "one").write_bytes(b"one")
    (root / "two").write_bytes(b"two")
    assert CHECK["write_manifest"](root) == 2
    return root


def test_a_sound_tree_has_no_problems(small: Path) -> None:
    assert CHECK["check"](small) == []


def test_the_manifest_is_sorted_and_in_the_format_of_sha256sum(small: Path) -> None:
    lines = (small / "MANIFEST.sha256").read_text(encoding="utf-8").splitlines()
    assert lines == [f"{hashlib.sha256(b'one').hexdigest()}  a/one", f"{hashlib.sha256(b'two').hexdigest()}  two"]


def test_missing_changed_and_extra_files_are_told_apart(small: Path) -> None:
    (small / "two").unlink()
    (small / "a" / "one").write_bytes(b"uno")
    (small / "three").write_bytes(b"")
    assert CHECK["check"](small) == ["missing: two", "changed: a/one", "not in MANIFEST.sha256: three"]


def test_a_link_in_place_of_a_file_is_a_change(small: Path) -> None:
    (small / "copy").write_bytes(b"two")
    CHECK["write_manifest"](small)
    (small / "two").unlink()
    (small / "two").symlink_to("copy")
    assert CHECK["check"](small) == ["changed: two"]


@pytest.mark.parametrize("manifest", [None, "", "abc\n", "0" * 64 + "  two\n" + "0" * 64 + "  two\n"])
def test_an_unusable_manifest_is_a_problem(small: Path, manifest: str | None) -> None:
    (small / "MANIFEST.sha256").unlink()
    if manifest is not None:
        (small / "MANIFEST.sha256").write_text(manifest, encoding="utf-8")
    (problem,) = CHECK["check"](small)
    assert problem.startswith("MANIFEST.sha256 cannot be read: ")


def test_a_tree_is_the_same_whether_its_zeros_are_holes_or_not_and_any_byte_makes_it_another(tmp_path: Path) -> None:
    size, places = 300_000, (0, 9_000, 65_535, 65_536, 131_072, 299_999)
    written = bytearray(size)
    for number in places:
        written[number] = 7

    def held(name: str, data: bytes) -> str:
        path = tmp_path / name
        path.write_bytes(data)
        return stamps(path)["."][2]

    with (tmp_path / "sparse").open("wb") as file:
        for number in places:
            file.seek(number)
            file.write(b"\x07")
    wanted = held("whole", bytes(written))
    assert stamps(tmp_path / "sparse")["."][2] == wanted
    others = [written + b"\0", written[:-1], written[1:] + b"\0", bytes(65_536) + written[: size - 65_536], bytes(size)]
    for number in (*places, 70_000, 250_000):
        flipped = bytearray(written)
        flipped[number] ^= 1
        others.append(flipped)
    assert wanted not in {held("other", bytes(other)) for other in others}


def test_a_changed_fixture_stops_the_whole_session(tmp_path: Path) -> None:
    tests = tmp_path / "tests"
    tests.mkdir()
    shutil.copy(Path(__file__).with_name("conftest.py"), tests)
    (tests / "test_never.py").write_text("def test_never():\n    pass\n", encoding="utf-8")
    root = tmp_path / "fixtures"
    root.mkdir()
    shutil.copy(FIXTURES / "check.py", root)
    (root / "one").write_bytes(b"one")
    CHECK["write_manifest"](root)
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:randomly"]
    support = Path(__file__).with_name("support")
    command = [sys.executable, "-m", "pytest", *options, "-o", f"pythonpath={support}", str(tests)]

    sound = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "1 passed" in sound.stdout
    assert sound.returncode == 0

    (root / "one").write_bytes(b"two")
    damaged = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert damaged.returncode == pytest.ExitCode.USAGE_ERROR
    assert "passed" not in damaged.stdout
    assert "no test result would mean anything: changed: one" in damaged.stderr
