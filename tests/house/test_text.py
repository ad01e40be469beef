"""Nothing in the repository names one machine's folders or a package registry's host."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOT_OURS = {".git", ".venv", ".cache", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis", "__pycache__",
            ".import_linter_cache", "build", "dist", "artifacts", "demo", "spark-warehouse",
            "metastore_db"}  # fmt: skip

# Written so that no pattern matches its own text. Kafka's default log.dirs lie below /tmp and may be named.
MACHINE_PATH = re.compile(r"(?<![\w.~-])/(?:work|root|farm|Users|home)/[\w.]|(?<![\w.~-])/tmp/(?!k(?:afka|raft)-)[\w.]")
REGISTRY_HOST = re.compile(
    r"pypi[.]org|pythonhosted[.]org|repo1?[.]maven|maven[.]apache[.]org/maven2|search[.]maven|anaconda[.]org"
    r"|registry[.]npmjs|crates[.]io|proxy[.]golang|docker[.]io|ghcr[.]io|quay[.]io",
    re.IGNORECASE,
)
PARTS_OF_PATHS = [f"/{name}/" for name in ("work", "root", "farm", "Users", "home", "tmp")]
PARTS_OF_HOSTS = [each.rpartition("?")[2].replace("[.]", ".") for each in REGISTRY_HOST.pattern.split("|")]
BINARY = {".gz", ".zst", ".bin", ".png", ".parquet", ".log", ".jar"}


def repository_files() -> list[Path]:
    """Return every tracked file, or without git every file that is not a by-product."""
    if shutil.which("git") and (ROOT / ".git").exists():
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
        found = [ROOT / name for name in names if name]
    else:
        found = [path for path in ROOT.rglob("*") if not NOT_OURS.intersection(path.relative_to(ROOT).parts)]
    return [path for path in found if path.is_file() and path.suffix not in BINARY]


def might_hit(text: str) -> bool:
    """Whether a part that every hit has is there: that is found out in a tenth of the time."""
    lowered = text.lower()
    return any(part in text for part in PARTS_OF_PATHS) or any(part in lowered for part in PARTS_OF_HOSTS)


def test_no_file_names_a_machine_path_or_a_registry_host() -> None:
    hits = []
    files = repository_files()
    assert ROOT / "pyproject.toml" in files
    for path in files:
        text = path.read_text(encoding="utf-8", errors="replace")
        if not might_hit(text):
            continue
        for number, line in enumerate(text.splitlines(), start=1):
            match = MACHINE_PATH.search(line) or REGISTRY_HOST.search(line)
            if match:
                hits.append(f"{path.relative_to(ROOT)}:{number}: {match.group()}")
    assert hits == []


# "|" keeps these examples from being hits themselves.
@pytest.mark.parametrize("text", ["/wo|rk/main", "see /ro|ot/.cache", "'/tm|p/x_1'", "/ho|me/me/x"])
def test_machine_paths_are_found(text: str) -> None:
    assert MACHINE_PATH.search(text.replace("|", ""))
    assert might_hit(text.replace("|", ""))


@pytest.mark.parametrize(
    "text", ["/tm|p/kafka-logs", "/tm|p/kraft-combined-logs", "src/wo|rk/x", "/va|r/lib/kafka/data"]
)
def test_other_paths_are_not(text: str) -> None:
    assert not MACHINE_PATH.search(text.replace("|", ""))


@pytest.mark.parametrize("text", ["https://py|pi.org/simple", "files.python|hosted.org", "Repo1.|maven.org"])
def test_registry_hosts_are_found(text: str) -> None:
    assert REGISTRY_HOST.search(text.replace("|", ""))
    assert might_hit(text.replace("|", ""))
