"""Recovery's module and the log's own change files; one more sends to what a caller opened, one has a file of its own.

Nobody else does.
"""

from __future__ import annotations

from pathlib import Path

from testkit.judging.modules import module

ROOT = Path(__file__).resolve().parents[2]
ALLOWED = {
    ROOT / name
    for name in (
        "src/kafkalog/log/disk/fs.py",
        "src/kafkalog/log/reading/sending.py",
        "recovery/act/fs.py",
        "recovery/act/descriptors.py",
        "recovery/facts/scratch.py",
    )
}
CHANGING = {
    "chmod", "chown", "copy_file_range", "fchmod", "fchown", "ftruncate", "link", "makedirs", "mkdir",
    "posix_fallocate", "pwrite", "pwritev", "remove", "removedirs", "rename", "renames", "replace", "rmdir",
    "sendfile", "symlink", "truncate", "unlink", "utime", "write", "writev",
}  # fmt: skip
CREATING = {"O_CREAT", "O_TRUNC", "O_RDWR", "O_WRONLY", "O_APPEND"}


def changing_calls(path: Path) -> list[str]:
    """Attributes of `os` in a module that change the disk, or open a file for that."""
    return [f"{path.name}:{line}: os.{name}" for line, name in module(path).of_os if name in CHANGING | CREATING]


def test_only_these_modules_change_the_disk() -> None:
    below = ("log", "cluster", "tiers", "values", "tables", "server", "replay", "producer")
    packages = ("codec", "recovery", *(f"src/kafkalog/{name}" for name in below))
    modules = [path for package in packages for path in (ROOT / package).rglob("*.py")]
    assert set(modules) >= ALLOWED
    assert [call for path in modules if path not in ALLOWED for call in changing_calls(path)] == []
    assert all(changing_calls(path) for path in ALLOWED), "the search finds what it looks for"
