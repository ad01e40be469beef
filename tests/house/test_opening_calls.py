"""Whatever is read of a directory under examination is opened in one place, which takes regular files only."""

from __future__ import annotations

import ast
from pathlib import Path

from testkit.judging.modules import module
from testkit.running.programs import dev

ROOT = Path(__file__).resolve().parents[2]
ROOMS = (*dev.ROOMS, "src")
METHODS = {"read_bytes", "read_text", "fromfile", "memmap", "memory_map", "copyfile", "copy2", "copytree", "load"}
OPENERS = {"os", "io", "Path", "codecs", "gzip", "bz2", "lzma", "shelve", "tarfile", "zipfile"}
CLASSES = {"FileIO", "OSFile", "ParquetFile", "ORCFile", "TextFileReader"}
ALLOWED = {
    "src/kafkalog/log/disk/files.py": "the opener: without blocking, links not followed, a regular file or an error",
    "src/kafkalog/log/disk/fs.py": "`log` writes here: links are not followed; callers examine the kind first",
    "recovery/act/descriptors.py": "the kernel's number of a mount, and a directory that is made",
    "recovery/act/fs.py": "recovery's own, relative to the directory's descriptor",
    "recovery/act/lock.py": "the broker's lock, which is locked; of it a note of ours is read, of 64 bytes at most",
    "recovery/act/machine_id.py": "the name of the machine, which the kernel tells",
    "recovery/act/permissions.py": "the attributes of what is to be changed, of which nothing is read",
    "src/kafkalog/log/disk/holders.py": "the broker's lock, never read, and the kernel's list of locks",
    "src/kafkalog/__main__.py": "the null device, in the place of an output that is closed",
    "src/kafkalog/cli/main.py": "the null device, to write to where the reader of a pipe went away",
    "src/kafkalog/log/writing/record_files.py": "records that a user gives `build` to write",
    "src/kafkalog/values/protoc.py": "what a compiler wrote into a folder of our own, of 64 MiB at most",
    "src/kafkalog/replay/offset_map.py": "the map that an earlier replay wrote, which the user names",
}


def opening_calls(path: Path) -> list[str]:
    """Calls that open a path."""
    found = []
    for call in module(path).calls:
        if call.owner is None:
            if call.name == "open" or call.name in CLASSES:
                found.append(f"{path.name}:{call.line}: {call.name}")
        else:
            is_open = call.name == "open" and call.owner in OPENERS
            is_numpy = call.name == "load" and call.owner not in {"np", "numpy", "pickle"}
            if is_open or call.name in CLASSES or (call.name in METHODS and not is_numpy):
                found.append(f"{path.name}:{call.line}: {call.owner}.{call.name}")
    return found


def test_one_module_opens_what_is_read() -> None:
    modules = {
        str(path.relative_to(ROOT)): path
        for room in ROOMS
        for path in (ROOT / room).rglob("*.py")
        if not any(part.is_symlink() for part in path.parents if part != ROOT)
    }
    assert set(modules) >= set(ALLOWED)
    assert [call for name, path in modules.items() if name not in ALLOWED for call in opening_calls(path)] == []
    assert all(opening_calls(modules[name]) for name in ALLOWED), "the search finds what it looks for"


def test_no_file_is_mapped() -> None:
    """A process that reads a mapped file ends where somebody else cuts it (ADR 23)."""
    importing, mapped = [], []
    for path in (path for room in ROOMS for path in (ROOT / room).rglob("*.py")):
        source = path.read_text()
        for node in ast.walk(ast.parse(source)) if "mmap" in source else ():
            if isinstance(node, ast.Import) and any(name.name == "mmap" for name in node.names):
                importing.append(path.name)
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("mmap.mmap", "mmap"):
                mapped.append(ast.unparse(node.args[0]))
    assert set(importing) == {"memory.py"}
    assert set(mapped) == {"-1"}, "memory that belongs to no file"
