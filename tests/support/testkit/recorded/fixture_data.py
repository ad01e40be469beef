"""Typed access to the recorded data below ``fixtures/``.

Three sets: whole log directories that real brokers wrote (``broker_cases``), small damaged ones with what Kafka's own
recovery left of them (``recovery_cases``), and the volumes of three brokers that went apart (``unpack_replicas``). All
keep to their archives: nothing is unpacked before a test asks for it, and unpacking restores what the archive holds
exactly, modification times to the nanosecond included.
"""

from __future__ import annotations

import gzip
import json
import os
import tarfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache, lru_cache
from pathlib import Path, PurePosixPath
from typing import IO, Any

import zstandard
from isal import igzip

FIXTURES = Path(__file__).resolve().parents[4] / "fixtures"
BROKERS = FIXTURES / "brokers"
RECOVERY = FIXTURES / "recovery-cases"
REPLICAS = FIXTURES / "replicas"
REPLICA_VERSIONS = ("4.3.0", "4.4.0")
QUORUMS = FIXTURES / "quorum"
TIERED = FIXTURES / "tiered"
VALUES = FIXTURES / "values"
TIERED_CASES = ("stopped", "killed", "pair", "returned", "cut-short", "aiven")

# A killed broker leaves 10 MiB preallocated indexes for every partition: written as holes, they cost no disk.
_CHUNK = 1 << 16
_ZEROS = bytes(_CHUNK)
_NANOSECONDS = 1_000_000_000
_gunzipped: Any = igzip.open  # has no types


@dataclass(frozen=True, slots=True)
class BrokerCase:
    """One recorded directory tree: ``broker-<id>/`` is an entry of log.dirs, ``zookeeper/`` ZooKeeper's dataDir."""

    version: str
    name: str
    path: Path
    case: dict[str, Any] = field(repr=False, compare=False)

    @property
    def id(self) -> str:
        """``<version>/<name>``, as the folders are named without their prefix."""
        return f"{self.version}/{self.name}"

    @property
    def archive(self) -> Path:
        """The tar archive that case.json names."""
        return self.path / str(self.case["data"])

    def unpack(self, target: Path) -> Path:
        """Unpack the whole archive into ``target`` (made if missing) and return it."""
        _extract(_stored(self.archive), target)
        return target

    def unpack_recovered(self, target: Path) -> Path:
        """Unpack the files that the broker's own recovery changed or added (crash and torn cases only)."""
        _extract(_stored(self.path / "expected" / "recovered.tar.gz"), target)
        return target

    def has(self, stem: str) -> bool:
        """Tell whether ``expected(stem)`` or ``expected_text(stem)`` has a file to read."""
        return any(path.is_file() for path in self._candidates(stem))

    def expected(self, stem: str) -> list[dict[str, Any]]:
        """Return the decoded lines of ``expected/<stem>.jsonl`` or its gzipped twin."""
        return [json.loads(line) for line in self.expected_text(f"{stem}.jsonl").splitlines() if line]

    def expected_json(self, stem: str) -> Any:
        """Return ``expected/<stem>.json`` or its gzipped twin, decoded."""
        return json.loads(self.expected_text(f"{stem}.json"))

    def expected_text(self, name: str) -> str:
        """Return a file of ``expected/`` as text; ``name`` without ``.gz``."""
        for path in self._candidates(name):
            if path.is_file():
                data = path.read_bytes()
                return (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
        raise FileNotFoundError(f"{self.id} has no expected/{name}")

    def _candidates(self, name: str) -> Iterator[Path]:
        for suffix in ("", ".gz", ".jsonl", ".jsonl.gz"):
            yield self.path / "expected" / (name + suffix)


@dataclass(frozen=True, slots=True)
class RecoveryCase:
    """One damaged log directory, ``before``, and the state that Kafka 4.1.0's own start and stop left of it."""

    id: str
    family: str
    name: str
    case: dict[str, Any] = field(repr=False, compare=False)

    @property
    def outcome(self) -> str:
        """``loaded``, ``start_fails`` or ``dir_offline``."""
        return str(self.case["result"]["outcome"])

    def unpack_before(self, target: Path) -> Path:
        """Unpack the log directory as the broker found it into ``target`` (made if missing) and return it."""
        return self._unpack("before", target)

    def unpack_after(self, target: Path) -> Path:
        """Unpack only those files that Kafka changed or created: there may be none."""
        return self._unpack("after", target)

    def _unpack(self, part: str, target: Path) -> Path:
        _extract(_family(self.family)[self.name], target, below=f"{self.name}/{part}")
        return target

    def expected_after(self, *, with_deleted: bool = False) -> dict[str, tuple[int, str]]:
        """Return relative path -> (size, sha256) of every regular file of Kafka's final state.

        Files named ``*.deleted`` wait there for a deletion that the next start would do: left out unless asked for.
        Directories in place of files and unreadable files have no size: see ``case["result"]["after"]``.
        """
        return {
            path: (int(entry["size"]), str(entry["sha256"]))
            for path, entry in self.case["result"]["after"].items()
            if "sha256" in entry and (with_deleted or not path.endswith(".deleted"))
        }


@lru_cache(maxsize=1)
def broker_cases() -> tuple[BrokerCase, ...]:
    """Return every recorded broker case, ordered by folder name."""
    found = []
    for description in sorted(BROKERS.glob("kafka-*/*/case.json")):
        folder = description.parent
        version = folder.parent.name.removeprefix("kafka-")
        found.append(BrokerCase(version, folder.name, folder, json.loads(description.read_text(encoding="utf-8"))))
    return tuple(found)


def broker_case(version: str, name: str) -> BrokerCase:
    """Return one case, for example ``broker_case("3.9.1-zk", "crash")``; KeyError if there is none."""
    for case in broker_cases():
        if (case.version, case.name) == (version, name):
            return case
    raise KeyError(f"no broker case {version}/{name}")


def replica_roles(version: str = "4.3.0") -> dict[str, Any]:
    """Which broker played which part in the recorded cluster of three."""
    roles: dict[str, Any] = json.loads((REPLICAS / f"kafka-{version}" / "case.json").read_text(encoding="utf-8"))
    return roles


def unpack_replicas(target: Path, *, after: bool = False, version: str = "4.3.0") -> Path:
    """Unpack `broker-<id>` of the recorded cluster of three, as they stood or after they had met again."""
    _extract(_stored(REPLICAS / f"kafka-{version}" / ("after.tar.gz" if after else "before.tar.gz")), target)
    return target


@dataclass(frozen=True, slots=True)
class TieredCase:
    """What brokers with tiered storage left: `volumes` and `remote` below a directory where it is unpacked."""

    name: str
    local: dict[str, dict[str, list[int]]]
    """log directory -> partition directory -> base offsets of its local segments"""
    bounds: dict[str, tuple[int, int]]
    """partition directory -> log start and end, of a consumer's"""

    @property
    def volumes(self) -> tuple[str, ...]:
        return tuple(self.local)

    @property
    def keys(self) -> tuple[str, ...]:
        """Of the pairs that segments are encrypted with."""
        return ("first", "second") if self.name == "aiven" else ()

    def key_files(self, root: Path) -> dict[str, str]:
        """The private keys, where the recording was unpacked."""
        return {each: str(root / "keys" / f"{each}.private.pem") for each in self.keys}

    def tier(self, root: Path) -> Any:
        """The remote tier, where the recording was unpacked."""
        from kafkalog.tiers.layouts import open_tier

        return open_tier(str(root / "remote"), keys=self.key_files(root))

    def logs(self, root: Path, directory: str) -> list[Path]:
        """The objects with the logs of a partition."""
        topic, _, number = directory.rpartition("-")
        below = f"{topic}-{'?' * 22}/{number}/*.log" if self.name == "aiven" else f"{directory}-{'?' * 22}/*.log"
        return sorted((root / "remote").rglob(below))

    def options(self, root: Path) -> list[str]:
        """How the command line is told of the remote tier."""
        keys = [word for name, path in self.key_files(root).items() for word in ("--private-key", f"{name}={path}")]
        return ["--remote", str(root / "remote"), *keys]

    def unpack(self, target: Path) -> Path:
        _extract(_stored(TIERED / self.name / "data.tar.gz"), target)
        return target

    def expected(self, isolation: str) -> dict[str, list[dict[str, Any]]]:
        """What a consumer read, by partition directory."""
        found: dict[str, list[dict[str, Any]]] = {each: [] for each in self.bounds}
        with gzip.open(TIERED / self.name / "expected" / f"{isolation}.jsonl.gz", "rt", encoding="utf-8") as lines:
            for line in lines:
                row = json.loads(line)
                found[f"{row['topic']}-{row['partition']}"].append(row)
        return found


def tiered_case(name: str) -> TieredCase:
    """One of `TIERED_CASES`."""
    case = json.loads((TIERED / name / "case.json").read_text(encoding="utf-8"))
    local, bounds = case["local"], case["partitions"]
    if name in ("stopped", "killed"):
        local = {"broker": local}
        bounds = {f"{topic}-{number}": each for topic, found in bounds.items() for number, each in enumerate(found)}
    return TieredCase(name, local, {directory: (low, high) for directory, (low, high) in bounds.items()})


def tiered_volumes() -> list[tuple[str, str]]:
    """The log directories of all recordings: name of the recording, name of the directory."""
    return [(name, volume) for name in TIERED_CASES for volume in tiered_case(name).volumes]


def unpack_tiered(name: str, target: Path, volume: str = "broker") -> Path:
    """Unpack such a recording; gives the log directory."""
    return tiered_case(name).unpack(target) / volume


def unpack_values(target: Path) -> Path:
    """Unpack the log directory with a schema registry's topic and with what serializers wrote; gives it."""
    _extract(_stored(VALUES / "data.tar.zst"), target)
    return target / "broker-1"


def expected_values() -> list[dict[str, Any]]:
    """What serializers were given, a line for each record."""
    lines = gzip.decompress((VALUES / "expected.jsonl.gz").read_bytes()).decode("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def recovery_families() -> tuple[str, ...]:
    """Return the names of the families, sorted; ``bases`` is the undamaged material, not a family."""
    names = sorted(path.name.removesuffix(".tar.gz") for path in RECOVERY.glob("*.tar.gz"))
    return tuple(name for name in names if name != "bases")


def recovery_cases(families: Iterable[str] | None = None) -> tuple[RecoveryCase, ...]:
    """Return the cases of the given families, or of all, in the order of their archives."""
    chosen = recovery_families() if families is None else tuple(families)
    return tuple(case for family in chosen for case in _cases_of(family))


def recovery_case(case_id: str) -> RecoveryCase:
    """Return one case by its id, for example ``recovery_case("bit_flip/length")``; KeyError if there is none."""
    family = case_id.partition("/")[0]
    for case in _cases_of(family) if family in recovery_families() else ():
        if case.id == case_id:
            return case
    raise KeyError(f"no recovery case {case_id}")


@cache
def _cases_of(family: str) -> tuple[RecoveryCase, ...]:
    found = []
    for name, entries in _family(family).items():
        (description,) = (entry for entry in entries if entry.member.name == f"{name}/case.json")
        case = json.loads(description.content())
        found.append(RecoveryCase(str(case["id"]), family, name, case))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Entry:
    """A member of an archive, and where in its content there is anything but zeros."""

    member: tarfile.TarInfo
    pieces: list[tuple[int, bytes]]

    def content(self) -> bytes:
        found = bytearray(self.member.size)
        for position, data in self.pieces:
            found[position : position + len(data)] = data
        return bytes(found)

    def write(self, path: Path) -> None:
        with path.open("wb") as target:
            for position, data in self.pieces:
                target.seek(position)
                target.write(data)
            target.truncate(self.member.size)


# What was unpacked last is soon unpacked again: an archive whose zeros are left out is a few megabytes, and to read its
# zeros takes a hundred times as long as to write the rest.
@lru_cache(maxsize=32)
def _stored(path: Path) -> list[_Entry]:
    with _open_tar(path) as archive:
        return list(_entries(archive))


# Entries by case; all families together are 9 MiB, and tests come to them in any order.
@cache
def _family(family: str) -> dict[str, list[_Entry]]:
    cases: dict[str, list[_Entry]] = {}
    with _open_tar(RECOVERY / f"{family}.tar.gz") as archive:
        for entry in _entries(archive):
            cases.setdefault(entry.member.name.partition("/")[0], []).append(entry)
    return cases


@contextmanager
def _open_tar(path: Path) -> Iterator[tarfile.TarFile]:
    if path.suffix != ".zst":
        # hundreds of megabytes of zeros: ten times as fast as the standard library
        with _gunzipped(path) as plain, tarfile.open(fileobj=plain, mode="r|", bufsize=_CHUNK) as archive:
            yield archive
        return
    with (
        path.open("rb") as stored,
        zstandard.ZstdDecompressor().stream_reader(stored) as plain,
        tarfile.open(fileobj=plain, mode="r|") as archive,
    ):
        yield archive


def unpack_bases(target: Path) -> None:
    """What the recovery cases were made of; `extractall` takes other arguments in other releases of Python 3.11."""
    _extract(_stored(RECOVERY / "bases.tar.gz"), target)


def _entries(archive: tarfile.TarFile) -> Iterator[_Entry]:
    for member in archive:
        content = archive.extractfile(member) if member.isreg() else None
        yield _Entry(member, [] if content is None else list(_pieces(content)))


def _pieces(content: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    position = 0
    while chunk := content.read(_CHUNK):
        if chunk != _ZEROS:
            yield position, chunk
        position += len(chunk)


def _extract(entries: Iterable[_Entry], target: Path, below: str = "") -> None:
    target.mkdir(parents=True, exist_ok=True)
    folders: list[tuple[Path, tarfile.TarInfo]] = []
    prefix = PurePosixPath(below)
    for entry in entries:
        member = entry.member
        name = PurePosixPath(member.name)
        if not name.is_relative_to(prefix) or name == prefix:
            continue
        relative = name.relative_to(prefix)
        if relative.is_absolute() or ".." in relative.parts:
            raise ValueError(f"the archive names a path outside itself: {member.name}")
        path = target / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        if member.isdir():
            path.mkdir(exist_ok=True)
            folders.append((path, member))
            continue
        if member.issym():
            path.symlink_to(member.linkname)
        elif member.isreg():
            entry.write(path)
            path.chmod(member.mode)
        else:
            raise ValueError(f"neither file, folder nor symbolic link: {member.name}")
        _set_mtime(path, member)
    for path, member in reversed(folders):  # last, because filling a folder changes its time
        path.chmod(member.mode)
        _set_mtime(path, member)


def _set_mtime(path: Path, member: tarfile.TarInfo) -> None:
    # tarfile gives a float, which cannot hold nanoseconds since 1970; the pax header has the decimal digits.
    modified = int(Decimal(member.pax_headers.get("mtime", str(member.mtime))) * _NANOSECONDS)
    os.utime(path, ns=(modified, modified), follow_symlinks=False)


def _quorum(name: str) -> Path:
    version, _, name = name.rpartition("/")
    return QUORUMS / f"kafka-{version or '4.3.0'}" / name


def unpack_quorum(name: str, target: Path) -> Path:
    """Unpack `node-<id>` of a recorded KRaft quorum: `dynamic`, `static`, `snapshots`, or one of `4.4.0/dynamic`."""
    _extract(_stored(_quorum(name) / "data.tar.gz"), target)
    return target


def quorum_expected(name: str) -> dict[str, Any]:
    """What Kafka's administrator and its dump tool said of it."""
    found: dict[str, Any] = json.loads((_quorum(name) / "expected.json").read_text())
    return found
