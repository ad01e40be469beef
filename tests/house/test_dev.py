"""dev.py says in one sentence what is missing, and its requirements are pinned and checked."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from testkit.running.programs import dev

ROOT = Path(__file__).resolve().parents[2]


def program(folder: Path, name: str, script: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def java(folder: Path, version: str) -> Path:
    return program(folder, "java", f"echo 'openjdk version \"{version}\"' >&2")


# --- Java and Maven -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment (build 17.0.15+6)', 17),
        ('java version "1.8.0_392"\nJava(TM) SE Runtime Environment', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "11.0.22" 2024-01-16', 11),
        ('openjdk version "24-ea" 2025-03-18', 24),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.", None),
        ("", None),
    ],
)
def test_java_version_is_parsed(text: str, major: int | None) -> None:
    assert dev.parse_java_version(text) == major


def test_nothing_is_missing_where_all_is_there(tmp_path: Path) -> None:
    java(tmp_path, "17.0.1")
    program(tmp_path, "javac", "exit 0")
    program(tmp_path, "mvn", "exit 0")
    assert dev.missing_tools({"PATH": str(tmp_path)}) == []


def test_without_java_and_maven_two_sentences_say_what_is_not_run(tmp_path: Path) -> None:
    assert dev.missing_tools({"PATH": str(tmp_path)}) == [
        "a JDK 17 or later is missing (JAVA_HOME, PATH): Spark and real Kafka are not run",
        "Maven (mvn) is missing from PATH: real Kafka is not run",
    ]


def test_without_a_browser_a_sentence_says_what_is_not_tried(tmp_path: Path) -> None:
    assert dev.missing_browser({"PATH": str(tmp_path)}) == [
        "Chromium is missing from PATH: the page of `kafkalog report` is not tried in a browser"
    ]
    program(tmp_path, "chromium", "exit 0")
    assert dev.missing_browser({"PATH": str(tmp_path)}) == []


def test_an_older_java_is_named(tmp_path: Path) -> None:
    java(tmp_path, "11.0.2")
    program(tmp_path, "mvn", "exit 0")
    assert dev.missing_tools({"PATH": str(tmp_path)}) == [
        "only Java 11 was found, a JDK 17 or later is missing (JAVA_HOME, PATH): Spark and real Kafka are not run"
    ]


def test_a_java_without_a_compiler_is_said_to_be_one(tmp_path: Path) -> None:
    java(tmp_path, "17.0.1")
    program(tmp_path, "mvn", "exit 0")
    assert dev.missing_tools({"PATH": str(tmp_path)}) == [
        "the Java found has no compiler, a JDK 17 is missing: real Kafka is not run"
    ]


def test_java_home_comes_first_and_an_older_one_gives_way_to_the_path(tmp_path: Path) -> None:
    newer, older = java(tmp_path / "newer" / "bin", "21.0.1"), java(tmp_path / "older" / "bin", "11.0.1")
    assert dev.find_java({"JAVA_HOME": str(tmp_path / "newer"), "PATH": str(older.parent)}) == newer
    assert dev.find_java({"JAVA_HOME": str(tmp_path / "older"), "PATH": str(newer.parent)}) == newer
    assert dev.find_java({"JAVA_HOME": str(tmp_path / "gone"), "PATH": str(older.parent)}) is None


def test_a_java_that_does_not_start_is_no_java(tmp_path: Path) -> None:
    program(tmp_path, "java", "exit 1")
    assert dev.find_java({"PATH": str(tmp_path)}) is None


# --- setting up -------------------------------------------------------------------------------------------------------


def test_a_missing_venv_module_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    assert dev.venv_sentence() is None
    monkeypatch.setattr(dev.importlib.util, "find_spec", lambda name: None if name == "ensurepip" else object())
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert f"install the package python{version}-venv" in dev.venv_sentence()


def test_an_older_python_is_refused_with_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(dev.sys, "version_info", (3, 9, 2, "final", 0))
    assert dev.main(["test"]) == 1
    said = capsys.readouterr().err
    assert said == "kafkalog needs Python 3.11 or later; this is 3.9.2: run dev.py with a newer one\n"


def test_a_folder_in_the_way_of_the_venv_is_not_removed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / ".venv").mkdir()
    kept = tmp_path / ".venv" / "kept"
    kept.write_bytes(b"mine")
    monkeypatch.setattr(dev, "VENV", tmp_path / ".venv")
    with pytest.raises(dev.DevError, match="not a virtual environment; move it aside"):
        dev._make_venv(None, dev.VENV)
    assert kept.read_bytes() == b"mine"


def test_the_stamp_changes_with_the_requirements(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("build.txt", "dev.txt", "pyproject.toml", "setup.py"):
        (tmp_path / name).write_text(name, encoding="utf-8")
    monkeypatch.setattr(dev, "ROOT", tmp_path)
    monkeypatch.setattr(dev, "REQUIREMENTS", tmp_path)
    stamps = {dev._stamp(), dev._stamp()}
    assert len(stamps) == 1
    for name in ("build.txt", "dev.txt", "pyproject.toml", "setup.py"):
        (tmp_path / name).write_text("changed", encoding="utf-8")
        stamps.add(dev._stamp())
    assert len(stamps) == 5


# --- requirements -----------------------------------------------------------------------------------------------------


def entries(name: str) -> list[str]:
    text = (ROOT / "requirements" / name).read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines()


@pytest.mark.parametrize("name", ["build.txt", "dev.txt"])
def test_every_requirement_is_pinned_and_hashed(name: str) -> None:
    for entry in entries(name):
        assert re.fullmatch(r"[a-z0-9.-]+==[\w.]+( ; [^#]+?)?( +--hash=sha256:[0-9a-f]{64})+", entry), entry[:80]


@pytest.mark.parametrize("name", ["build.in", "build.txt", "dev.txt"])
def test_no_requirement_file_names_a_place(name: str) -> None:
    text = (ROOT / "requirements" / name).read_text(encoding="utf-8")
    assert "://" not in text
    assert not re.search(r"^\s*(-i|-f|--index|--extra-index|--find-links|--trusted-host)", text, re.MULTILINE)


def test_the_linters_are_those_that_everything_else_is_checked_with() -> None:
    text = (ROOT / "requirements" / "dev.txt").read_text(encoding="utf-8")
    chosen = dev._requirements_of(text, dev.LINTERS)
    names = [line.partition("==")[0] for line in chosen.splitlines() if not line.startswith(" ")]
    assert sorted(names) == sorted(dev.LINTERS)
    assert all(line in text for line in chosen.splitlines())
    assert chosen.count("--hash=sha256:") >= len(names)


def test_every_dependency_of_the_project_is_pinned() -> None:
    with (ROOT / "pyproject.toml").open("rb") as stream:
        declared = tomllib.load(stream)
    wanted = [*declared["project"]["dependencies"], *declared["dependency-groups"]["dev"]]
    for extra in declared["project"]["optional-dependencies"].values():
        wanted += extra
    names = {re.split(r"[\[<>=]", requirement)[0] for requirement in wanted} - {"kafkalog"}
    assert {"pyspark", "kafka-python", "aiokafka", "pyarrow", "construct"} <= names
    assert names <= {entry.partition("==")[0] for entry in entries("dev.txt")}


# --- commands ---------------------------------------------------------------------------------------------------------


def test_help_shows_one_line_for_each_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert dev.main(["help"]) == 0
    lines = capsys.readouterr().out.splitlines()[2:]
    assert [line.split()[0] for line in lines] == list(dev.COMMANDS)
    assert list(dev.COMMANDS) == [
        "setup", "demo", "test", "lint", "types", "sweep", "interop", "trials", "native", "same", "bench", "wheel",
        "bundle", "release", "ci",
    ]  # fmt: skip
    assert all(len(line) <= 120 for line in lines)


def test_the_makefile_has_the_same_words() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    (targets,) = re.findall(r"^(.*):\n\t@\$\(PYTHON\) dev\.py \$@$", text, re.MULTILINE)
    assert targets.split() == ["help", *dev.COMMANDS]


def test_an_unknown_command_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert dev.main(["tset"]) == 64
    assert "no such command: tset" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "program"), [(["--cuts", "3"], "cut_power.py"), (["--version", "4.4.0"], "lost_quorums.py")]
)
def test_trials_passes_its_options_on(options: list[str], program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[list[str]] = []

    def run(command: list[str], **_others: object) -> subprocess.CompletedProcess[str]:
        ran.append(command[1:])
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(dev, "_ensure_venv", lambda: None)
    monkeypatch.setattr(dev, "missing_tools", lambda _: [])
    monkeypatch.setattr(dev, "environment", dict)
    monkeypatch.setattr(dev.subprocess, "run", run)
    assert dev.main(["trials", *options]) == 0
    assert ran == [[f"tests/campaigns/{program}", *options]]
    assert (ROOT / "tests" / "campaigns" / program).is_file()
    assert dev.main(["lint", *options]) == 64, "no other command takes any"


def test_every_step_is_run_and_the_failed_ones_named(capsys: pytest.CaptureFixture[str]) -> None:
    ran = []

    def fail() -> None:
        ran.append("first")
        raise dev.DevError("broken")

    with pytest.raises(dev.DevError, match=r"^failed: first$"):
        dev._run_all({"first": fail, "second": lambda: ran.append("second")})
    assert ran == ["first", "second"]
    assert "first: broken" in capsys.readouterr().err


def test_a_compiler_that_fails_ends_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "cc", "exit 3")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(dev, "CACHE", tmp_path / "cache")
    with pytest.raises(dev.DevError, match=r"^cc ended with 3"):
        dev._sanitized(0)


def test_a_failing_step_shows_what_the_program_said(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(dev.DevError, match=r"^trying failed with exit code 3$"):
        dev._step("trying", [sys.executable, "-c", "print('the reason'); raise SystemExit(3)"])
    assert "the reason" in capfd.readouterr().err


def test_programs_are_run_with_caches_inside_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    values = dev.environment()
    assert "PYTHONDONTWRITEBYTECODE" not in values
    assert values["PYSPARK_PYTHON"] == str(ROOT / ".venv" / "bin" / "python")
    assert "PYTHONPATH" not in values


def test_tests_write_to_memory_where_there_is_plenty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = tmp_path / "meminfo"
    monkeypatch.setattr(dev, "ROOM_BYTES", 1 << 20)
    facts.write_text("MemTotal:       24684136 kB\nMemAvailable:       2048 kB\n")
    assert dev.has_room_in_memory(tmp_path, facts)
    facts.write_text("MemTotal:       24684136 kB\nMemAvailable:       2047 kB\n")
    assert not dev.has_room_in_memory(tmp_path, facts)
    facts.write_text("MemTotal:       24684136 kB\n")
    assert not dev.has_room_in_memory(tmp_path, facts)
    assert not dev.has_room_in_memory(tmp_path, tmp_path / "nothing")
    facts.write_text("MemAvailable:       2048 kB\n")
    assert not dev.has_room_in_memory(tmp_path / "nothing", facts)
    monkeypatch.setattr(dev, "ROOM_BYTES", 1 << 60)
    assert not dev.has_room_in_memory(tmp_path, facts)


def test_ci_run_is_executable_and_safe() -> None:
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & 0o111
    assert "set -euo pipefail" in script.read_text(encoding="utf-8")
    subprocess.run(["bash", "-n", str(script)], check=True)


def test_an_installation_holds_what_a_page_is_made_of() -> None:
    names = {name for name in dev.package_sources(ROOT) if "/page/" in name}
    there = {path.name for path in (ROOT / "src" / "kafkalog" / "reporting" / "page").iterdir()}
    assert names == {f"kafkalog/reporting/page/{name}" for name in there}
    assert len(names) == 4


# --- what a distribution must hold ------------------------------------------------------------------------------------


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    root = tmp_path / "checkout"
    package = root / "src" / "kafkalog"
    package.mkdir(parents=True)
    (package / "__init__.py").write_bytes(b"")
    (package / "py.typed").write_bytes(b"")
    for room in dev.ROOMS:
        (root / room).mkdir()
        (root / room / "__init__.py").write_text(f"name = {room!r}\n", encoding="utf-8")
        (package / room).symlink_to(f"../../{room}")
    return root


def wheel_of(root: Path, target: Path, leave_out: str = "", extra: str = "kafkalog/__init__.py") -> Path:
    with zipfile.ZipFile(target, "w") as archive:
        for name, path in dev.package_sources(root).items():
            if name != leave_out:
                archive.write(path, name)
        if extra not in archive.namelist():
            archive.writestr(extra, "")
    return target


def test_the_sources_are_the_rooms_files_by_their_package_names(checkout: Path) -> None:
    rooms = [f"kafkalog/{room}/__init__.py" for room in dev.ROOMS]
    assert sorted(dev.package_sources(checkout)) == sorted(["kafkalog/__init__.py", "kafkalog/py.typed", *rooms])


def test_a_whole_wheel_has_no_problems(checkout: Path, tmp_path: Path) -> None:
    assert dev.wheel_problems(wheel_of(checkout, tmp_path / "a.whl"), checkout) == []


def test_a_wheel_without_a_room_is_found_out(checkout: Path, tmp_path: Path) -> None:
    archive = wheel_of(checkout, tmp_path / "a.whl", leave_out="kafkalog/codec/__init__.py")
    assert dev.wheel_problems(archive, checkout) == ["the wheel lacks kafkalog/codec/__init__.py"]


def test_a_wheel_with_a_stale_file_is_found_out(checkout: Path, tmp_path: Path) -> None:
    archive = wheel_of(checkout, tmp_path / "a.whl")
    (checkout / "recovery" / "__init__.py").write_bytes(b"newer = True\n")
    assert dev.wheel_problems(archive, checkout) == ["the wheel holds another kafkalog/recovery/__init__.py"]


def test_a_wheel_that_leaks_a_folder_is_found_out(checkout: Path, tmp_path: Path) -> None:
    archive = wheel_of(checkout, tmp_path / "a.whl", extra="codec/__init__.py")
    assert dev.wheel_problems(archive, checkout) == ["the wheel holds codec at its top"]


def test_the_manual_is_in_the_wheel(checkout: Path, tmp_path: Path) -> None:
    page = "kafkalog-1.data/data/share/man/man1/kafkalog.1"
    archive = wheel_of(checkout, tmp_path / "a.whl", extra=page)
    assert dev.wheel_problems(archive, checkout) == ["the wheel holds 1 pages of the manual, and there are 0"]
    (checkout / "docs" / "man").mkdir(parents=True)
    (checkout / "docs" / "man" / "kafkalog.1").write_bytes(b"")
    assert dev.wheel_problems(archive, checkout) == []


def test_an_sdist_of_links_is_found_out(checkout: Path, tmp_path: Path) -> None:
    path = tmp_path / "kafkalog-1.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, source in dev.package_sources(checkout).items():
            member = tarfile.TarInfo(f"kafkalog-1/src/{name}")
            member.size = source.stat().st_size
            archive.addfile(member, io.BytesIO(source.read_bytes()))
    assert dev.sdist_problems(path, checkout) == []
    with tarfile.open(path, "w:gz") as archive:
        archive.add(checkout / "src", "kafkalog-1/src")
    lacking = [f"the sdist lacks kafkalog/{room}/__init__.py" for room in sorted(dev.ROOMS)]
    assert dev.sdist_problems(path, checkout) == lacking
