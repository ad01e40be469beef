"""Write and read the journal of an execution: the list of its steps, which is written before it changes anything and
later becomes its manifest.

The name of the document says how far the execution is:

* `preparing.json`: copies are being made, nothing was changed;
* `journal.json`: it has begun and not ended;
* `manifest.json`: it has ended;
* `undoing.json`: it is being undone;
* `closing.json`: every byte is back; the pointer in the log directory and the directories' times are not yet;
* `undone.json`: it was undone;
* `superseded.json`: it was interrupted, and the directory was changed before it could be completed;
* `purging.json`: what it saved is being permanently deleted.

A journal comes from the disk, so it is not trusted: a checksum is not a signature. Every path in it must lie below the
log directory beside which it was found, and it never says where in the quarantine anything is: that follows from the
step.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from msgspec import Struct, field, structs

from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.plain.crc32c import crc32c
from kafkalog.log.disk.pointer import CLOSING, JOURNAL, JOURNAL_VERSION, MANIFEST, UNDOING, is_run_id
from kafkalog.recovery.act.descriptors import is_kept_attribute
from kafkalog.recovery.act.fs import Attributes
from kafkalog.recovery.decide.actions import ActionKind

__all__ = [
    "CLOSING",
    "JOURNAL",
    "MANIFEST",
    "PREPARING",
    "PURGING",
    "SUPERSEDED",
    "UNDOING",
    "UNDONE",
    "Bystander",
    "EntryKind",
    "FileState",
    "Journal",
    "LossOfRun",
    "Step",
]

PREPARING = "preparing.json"
UNDONE = "undone.json"
SUPERSEDED = "superseded.json"
PURGING = "purging.json"
_BEFORE_CHECKSUM, _BEFORE_BODY, _AFTER_BODY = b'{"crc32c": "', b'", "journal": ', b"}\n"
_CHECKSUM_DIGITS = 8
_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)
_WORD = re.compile(r"[0-9a-f]{1,64}", re.ASCII)
_KINDS = frozenset(str(action_kind) for action_kind in ActionKind)
_MOST_PARTS = 2
"""components of a path to a file of the log directory, or of a directory in it"""
_MOST_PARTS_INSIDE = 100
_INT64 = 1 << 63
_ANY = 1 << 66
"""Bound of offsets that damaged headers claim, and of differences of them, which may exceed Kafka's."""


class EntryKind:
    """Kind of an entry of a directory."""

    FILE = "file"
    DIRECTORY = "directory"
    OTHER = "other"


class FileState(Struct, frozen=True):
    """A file's content (size in bytes, digest as in `recovery.act.digest`) and its attributes."""

    size: int
    digest: str
    attributes: Attributes


class Bystander(Struct, frozen=True):
    """An entry that an execution relies on and does not change: its kind and, for a file, size and modification time
    (ns).
    """

    kind: str
    size: int = 0
    mtime_ns: int = 0


class Step(Struct, frozen=True, kw_only=True):
    """One action with the state before and after it.

    For a truncation, `before.size` is the size of the whole file, `before.digest` the digest of the removed tail, and
    `kept_bytes` and `kept_crc32c` describe the rest. For a removed directory, `entries` are everything in it, with a
    digest for each file if files have to be copied out.
    """

    kind: ActionKind
    path: str
    target: str | None = None
    before: FileState | None = None
    after: FileState | None = None
    kept_bytes: int | None = None
    kept_crc32c: int | None = None
    entries: Mapping[str, tuple[str, FileState | None]] | None = None


class LossOfRun(Struct, frozen=True, kw_only=True):
    """Loss of one partition as the plan counted it. The last offset of a range is None if no end is known."""

    partition: str
    records: int | None
    """None if unknown"""
    is_exact: bool
    """False: more records may have been lost"""
    ranges: Sequence[tuple[int, int | None]]
    """first and last offsets"""


class Journal(Struct, frozen=True, kw_only=True):
    """All steps of an execution (one journaled, undoable change of a log directory) in order, and everything that
    completing or undoing it relies on.
    """

    run_id: str
    tool_version: str
    root: str
    """path of the log directory; only compared, to tell a copy of the directory from the directory itself"""
    mount: str
    """mount point of the file system with the log directory"""
    owner: str
    """id of the log directory, as in its pointer file"""
    is_beside: bool
    """whether the quarantine is beside the log directory, and moves together with it"""
    machine: str | None
    """machine that began the execution; None if unknown"""
    sequence: int
    """number that is higher for later executions, whatever the clock says"""
    mode: str
    drops: bool
    """whether readable records are lost, so that completing it needs consent again"""
    same_mount: bool
    """whether files are renamed into the quarantine; otherwise they were copied before the execution began"""
    steps: Sequence[Step] = ()
    directories: Mapping[str, int] = field(default_factory=dict)
    """modification times (ns) of the directories that the execution touches; the log directory itself is ''"""
    bystanders: Mapping[str, Bystander] = field(default_factory=dict)
    lost: Sequence[LossOfRun] | None = None
    """loss of each partition; None if the losses were not counted"""

    def encode(self) -> bytes:
        """Return the document: a JSON object on one line, with the CRC-32C of the bytes of its `journal`."""
        values = {"version": JOURNAL_VERSION, **structs.asdict(self)}
        body = json.dumps(values, sort_keys=True, ensure_ascii=True, default=structs.asdict).encode()
        return _BEFORE_CHECKSUM + f"{crc32c(body):08x}".encode() + _BEFORE_BODY + body + _AFTER_BODY

    @classmethod
    def decode(cls, data: bytes, source: str) -> Journal:
        """Decode the bytes of a journal's document; `source` is its path, for error messages. Raises `FormatError` if
        the checksum is wrong, it is not JSON, the version is another one, or fields are missing or impossible for an
        execution.
        """
        body, checksum = _body_and_checksum(data)
        if checksum != f"{crc32c(body):08x}".encode():
            raise FormatError("the recovery journal is damaged: its checksum does not match", source=source)
        reader = _Reader(source)
        try:
            values = json.loads(body)
        except (ValueError, RecursionError):
            reader.refuse("it is not JSON")
        if not isinstance(values, dict) or values.get("version") != JOURNAL_VERSION:
            raise FormatError("the recovery journal is of another version of kafkalog", source=source)
        return reader.journal(values)


def _body_and_checksum(data: bytes) -> tuple[bytes, bytes]:
    """Split a journal's document into its JSON body and its checksum in hexadecimal; the checksum is not verified. Both
    are empty if the document begins in the present format but is malformed. Any other document is read in the former
    format, with the checksum on its last line; the body is empty if there is only one line.
    """
    checksum_end = len(_BEFORE_CHECKSUM) + _CHECKSUM_DIGITS
    start = checksum_end + len(_BEFORE_BODY)
    if data.startswith(_BEFORE_CHECKSUM):
        if data[checksum_end:start] != _BEFORE_BODY or not data.endswith(_AFTER_BODY):
            return b"", b""
        return data[start : -len(_AFTER_BODY)], data[len(_BEFORE_CHECKSUM) : checksum_end]
    body, _, checksum = data.rstrip(b"\n").rpartition(b"\n")
    return body, checksum


class _Reader:
    """Decoder that validates every value. Raises `FormatError`."""

    def __init__(self, source: str) -> None:
        self.source = source

    def refuse(self, why: str) -> NoReturn:
        raise FormatError(f"this is not a recovery journal that kafkalog wrote: {why}", source=self.source)

    def fields(self, values: Any, what: str, names: Sequence[str]) -> list[Any]:
        if not isinstance(values, dict) or set(values) != set(names):
            self.refuse(f"{what} does not have the fields it should have")
        return [values[name] for name in names]

    def number(self, value: Any, what: str, low: int = 0, high: int = _INT64) -> int:
        if type(value) is not int or not low <= value < high:
            self.refuse(f"{what} is not a number in its range")
        return value

    def text(self, value: Any, what: str, is_valid: Callable[[str], object]) -> str:
        if not isinstance(value, str) or "\0" in value or not is_valid(value):
            self.refuse(f"{what} is not what it should be")
        return value

    def optional(self, value: Any, read: Callable[..., Any], *arguments: Any) -> Any:
        return None if value is None else read(value, *arguments)

    def path(self, value: Any, most: int = _MOST_PARTS) -> str:
        if not isinstance(value, str) or "\0" in value:
            self.refuse("a path is not valid")
        parts = value.split("/")
        if len(parts) > most or any(part in ("", ".", "..") for part in parts):
            self.refuse("a path leads out of the log directory, or deeper than anything Kafka makes")
        try:
            value.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            self.refuse("a path is not valid")
        return value

    def items(self, value: Any, what: str) -> list[tuple[Any, Any]]:
        if not isinstance(value, dict):
            self.refuse(f"{what} is not an object")
        return list(value.items())

    def attributes(self, value: Any, bits: int = 0o1000) -> Attributes:
        names = ("mtime_ns", "mode", "uid", "gid", "extended")
        mtime, mode, uid, gid, extended = self.fields(value, "attributes", names)
        return Attributes(
            mtime_ns=self.number(mtime, "a time", -_INT64),
            mode=self.number(mode, "a file's mode", 0, bits),
            uid=self.number(uid, "an owner", 0, 1 << 32),
            gid=self.number(gid, "a group", 0, 1 << 32),
            extended={
                self.text(name, "an extended attribute", is_kept_attribute): self.text(
                    data, "an extended attribute", str.isascii
                )
                for name, data in self.items(extended, "a file's extended attributes")
            },
        )

    def state(self, value: Any, bits: int = 0o1000) -> FileState:
        size, digest, attributes = self.fields(value, "a file", ("size", "digest", "attributes"))
        return FileState(
            self.number(size, "a size"),
            self.text(digest, "a digest", _DIGEST.fullmatch),
            self.attributes(attributes, bits),
        )

    def entry(self, value: Any) -> tuple[str, FileState | None]:
        if not isinstance(value, list) or len(value) != 2:
            self.refuse("an entry of a directory is not what it should be")
        kind, state = value
        if kind not in (EntryKind.FILE, EntryKind.DIRECTORY, EntryKind.OTHER):
            self.refuse("an entry of a directory is of an unknown kind")
        if state is None and kind != EntryKind.OTHER:
            self.refuse("an entry of a directory has no attributes")
        return kind, self.optional(state, self.state, 0o10000 if kind == EntryKind.DIRECTORY else 0o1000)

    def bystander(self, value: Any) -> Bystander:
        kind, size, mtime = self.fields(value, "a file that is not touched", ("kind", "size", "mtime_ns"))
        if kind not in (EntryKind.FILE, EntryKind.DIRECTORY, EntryKind.OTHER):
            self.refuse("a file that is not touched is of an unknown kind")
        return Bystander(kind, self.number(size, "a size"), self.number(mtime, "a time", -_INT64))

    def step(self, value: Any) -> Step:
        names = ("kind", "path", "target", "before", "after", "kept_bytes", "kept_crc32c", "entries")
        kind, path, target, before, after, kept, crc, entries = self.fields(value, "a step", names)
        if kind not in _KINDS:
            self.refuse("a step is of an unknown kind")
        step = Step(
            kind=ActionKind(kind),
            path=self.path(path),
            target=self.optional(target, self.path),
            before=self.optional(before, self.state, 0o10000 if kind == ActionKind.REMOVE_DIRECTORY else 0o1000),
            after=self.optional(after, self.state),
            kept_bytes=self.optional(kept, self.number, "a size"),
            kept_crc32c=self.optional(crc, self.number, "a checksum", 0, 1 << 32),
            entries=None
            if entries is None
            else {
                self.path(name, _MOST_PARTS_INSIDE): self.entry(entry)
                for name, entry in self.items(entries, "a directory's entries")
            },
        )
        needed: dict[ActionKind, tuple[Any, ...]] = {
            ActionKind.REMOVE: (step.before,),
            ActionKind.TRUNCATE: (step.before, step.kept_bytes, step.kept_crc32c),
            ActionKind.RENAME: (step.target,),
            ActionKind.WRITE: (step.after,),
            ActionKind.REMOVE_DIRECTORY: (step.before, step.entries),
            ActionKind.RENAME_DIRECTORY: (step.target,),
            ActionKind.MAKE_DIRECTORY: (),
        }
        if any(value is None for value in needed[step.kind]):
            self.refuse(f"a step of kind {step.kind} lacks what it needs")
        if step.kind is ActionKind.TRUNCATE and step.before and (step.kept_bytes or 0) > step.before.size:
            self.refuse("a file is cut after its end")
        return step

    def loss(self, value: Any) -> LossOfRun:
        names = ("partition", "records", "is_exact", "ranges")
        partition, records, is_exact, ranges = self.fields(value, "a loss", names)
        if not isinstance(is_exact, bool) or not isinstance(ranges, list):
            self.refuse("a loss does not have the fields it should have")
        return LossOfRun(
            partition=self.path(partition, 1),
            records=self.optional(records, self.number, "a count of records", 0, _ANY),
            is_exact=is_exact,
            ranges=[self.range(bounds) for bounds in ranges],
        )

    def range(self, value: Any) -> tuple[int, int | None]:
        if not isinstance(value, list) or len(value) != 2:
            self.refuse("a range of offsets is not what it should be")
        first = self.number(value[0], "an offset", -_ANY, _ANY)
        return first, self.optional(value[1], self.number, "an offset", first, _ANY)

    def journal(self, values: dict[str, Any]) -> Journal:
        names = (
            "version", "run_id", "tool_version", "root", "mount", "owner", "is_beside", "machine", "sequence", "mode",
            "drops", "same_mount", "steps", "directories", "bystanders", "lost",
        )  # fmt: skip
        read = self.fields({"lost": None, **values}, "the document", names)  # earlier versions did not note it
        _, run_id, tool, root, mount, owner, beside, machine, sequence, mode, drops, same, steps, *around = read
        directories, bystanders, lost = around
        are_flags = all(isinstance(flag, bool) for flag in (beside, drops, same))
        if not isinstance(steps, list) or not isinstance(lost, list | None) or not are_flags:
            self.refuse("the document does not have the fields it should have")
        return Journal(
            run_id=self.text(run_id, "the name of the run", is_run_id),
            tool_version=self.text(tool, "the version of kafkalog", lambda text: len(text) < 256),
            root=self.text(root, "the path of the log directory", lambda text: text.startswith("/")),
            mount=self.text(mount, "the path of its mount", lambda text: text.startswith("/")),
            owner=self.text(owner, "the id of the log directory", _WORD.fullmatch),
            is_beside=beside,
            machine=self.optional(machine, self.text, "the id of the machine", _WORD.fullmatch),
            sequence=self.number(sequence, "the number of the run"),
            mode=self.text(mode, "the mode", lambda text: len(text) < 256),
            drops=drops,
            same_mount=same,
            steps=[self.step(step) for step in steps],
            directories={
                path if path == "" else self.path(path): self.number(mtime, "a time", -_INT64)
                for path, mtime in self.items(directories, "the directories")
            },
            bystanders={
                self.path(path): self.bystander(bystander)
                for path, bystander in self.items(bystanders, "the files that are not touched")
            },
            lost=None if lost is None else [self.loss(loss) for loss in lost],
        )
