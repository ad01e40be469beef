"""Journals and pointers are input from the disk: a right checksum proves nothing.

Whatever they say, `recover` and `undo` end with one sentence and have changed nothing, neither in the directory nor
anywhere else; or they act on the directory they were given and on nothing else.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.plain.crc32c import crc32c
from kafkalog.log.disk.pointer import POINTER, Pointer
from kafkalog.recovery import Recovery, recover
from kafkalog.recovery.act.journal import JOURNAL, MANIFEST, UNDOING, Journal
from testkit.judging.trees import first_difference, stamps
from testkit.recorded.fixture_data import recovery_cases
from testkit.recorded.recovery_settings import given
from testkit.running.command import kafkalog

CASE = recovery_cases(["torn_tail"])[0]
STATE = {"size": 1, "digest": "0" * 64,
         "attributes": {"mtime_ns": 0, "mode": 0o644, "uid": 0, "gid": 0, "extended": {}}}  # fmt: skip
Values = dict[str, Any]
OWNER = "0" * 32


def step(**given: Any) -> Values:
    empty = {"kind": "remove", "path": "t-0/x", "target": None, "before": None, "after": None, "kept_bytes": None,
             "kept_crc32c": None, "entries": None}  # fmt: skip
    return {**empty, **given}


def replaced(**given: Any) -> Callable[[Values], Values]:
    return lambda values: {**values, **given}


def first_step(**given: Any) -> Callable[[Values], Values]:
    return lambda values: {**values, "steps": [{**values["steps"][0], **given}, *values["steps"][1:]]}


def instead(value: object, values: Values) -> object:
    return value


def steps(*each: Values) -> Callable[[Values], Values]:
    return lambda values: {**values, "steps": list(each)}


BAD_PATHS = ("/etc/passwd", "../outside", "t-0/../../outside", "", ".", "..", "t-0/", "/", "t-0//x", "a\0b", "a/b/c",
             "\ud800", 7, None, ["t-0"])  # fmt: skip
LOSS = {"partition": "t-0", "records": 2, "is_exact": True, "ranges": [[4, 5]]}
DOCUMENTS: tuple[object, ...] = (None, [], 7, "x", {}, True)
HOSTILE: dict[str, Callable[[Values], Any]] = {
    **{f"path {path!r}": first_step(path=path) for path in BAD_PATHS},
    **{
        f"target {path!r}": steps(step(kind="rename", path="t-0/00000000000000000000.log", target=path, before=STATE))
        for path in BAD_PATHS
    },
    **{f"directory {path!r}": replaced(directories={path: 0}) for path in ("../x", "/x", "a/b/c", "a\0")},
    **{
        f"bystander {path!r}": replaced(bystanders={path: {"kind": "file", "size": 0, "mtime_ns": 0}})
        for path in ("../x", "/x", "", "a\0")
    },
    **{
        f"entry {path!r}": steps(
            step(kind="remove_directory", path="t-0", before=STATE, entries={path: ["file", STATE]})
        )
        for path in ("../x", "/x", "", "a/../../x", "a\0")
    },
    **{f"run {name!r}": replaced(run_id=name) for name in ("../../x", "", "x", "20260101T000000.000000Z-zzzzzzzz", 7)},
    **{f"the document is {value!r}": partial(instead, value) for value in DOCUMENTS},
    "another version": replaced(version=1),
    "no version": lambda values: {name: value for name, value in values.items() if name != "version"},
    "a field too many": replaced(more=1),
    "a field less": lambda values: {name: value for name, value in values.items() if name != "mode"},
    "steps are not a list": replaced(steps={"0": 1}),
    "a step is not an object": replaced(steps=[7]),
    "a step of no known kind": first_step(kind="format"),
    "a step without what it needs": steps(step(kind="write")),
    "a negative size": first_step(kept_bytes=-1),
    "a size of 2^70": first_step(kept_bytes=2**70),
    "a size that is true": first_step(kept_bytes=True),
    "a size that is a fraction": first_step(kept_bytes=1.5),
    "cut after the end": first_step(kept_bytes=2**40),
    "a mode with more bits": first_step(before={**STATE, "attributes": {**STATE["attributes"], "mode": 2**20}}),  # type: ignore[dict-item]
    "a digest that is none": first_step(before={**STATE, "digest": "x" * 64}),
    "attributes that are none": first_step(before={**STATE, "attributes": []}),
    "the root is not a path": replaced(root="logs"),
    "the root is not text": replaced(root=None),
    "the sequence is text": replaced(sequence="1"),
    "same_mount is a number": replaced(same_mount=1),
    "drops is a number": replaced(drops=1),
    "the losses are text": replaced(lost="none"),
    "a loss is a number": replaced(lost=[3]),
    "a loss outside": replaced(lost=[{**LOSS, "partition": "../t-0"}]),
    "a loss of fewer than none": replaced(lost=[{**LOSS, "records": -1}]),
    "a loss that ends before it begins": replaced(lost=[{**LOSS, "ranges": [[5, 4]]}]),
    "a loss of half a range": replaced(lost=[{**LOSS, "ranges": [[5]]}]),
    "is_beside is text": replaced(is_beside="yes"),
    "the mount is not a path": replaced(mount="mnt"),
    "the owner is none": replaced(owner=None),
    "the owner is not an id": replaced(owner="../x"),
    "a rename onto itself": steps(step(kind="rename", path="t-0/a", target="t-0/a", before=STATE)),
    "removed twice": steps(step(before=STATE), step(before=STATE)),
    "renamed from nothing": steps(step(kind="rename", path="t-0/none", target="t-0/x")),
    "a directory moved into itself": steps(step(kind="rename_directory", path="t-0", target="t-0/x")),
    "cut, then removed": steps(
        step(kind="truncate", path="t-0/a", before=STATE, kept_bytes=0, kept_crc32c=0), step(path="t-0/a", before=STATE)
    ),
    "written, and then another file": steps(
        step(kind="write", path="t-0/a", after=STATE), step(path="t-0/a", before={**STATE, "size": 2})
    ),
    "a file that was never there": steps(step(path="t-0/never", before=STATE)),
}  # fmt: skip


IMPOSSIBLE = (
    "a rename onto itself", "removed twice", "renamed from nothing", "a directory moved into itself",
    "cut, then removed", "written, and then another file",
)  # fmt: skip
"""steps that are well formed, each by itself"""


def sealed(body: bytes) -> bytes:
    return body + f"\n{crc32c(body):08x}\n".encode()


@pytest.fixture(scope="module")
def values(tmp_path_factory: pytest.TempPathFactory) -> Values:
    """A journal as a run writes it."""
    root = CASE.unpack_before(tmp_path_factory.mktemp("run") / "logs")
    recover(Recovery(accept_loss=True, **given(CASE)), root)
    (manifest,) = root.parent.glob(f"logs.recovery/*/{MANIFEST}")
    loaded: Values = json.loads(manifest.read_bytes())["journal"]
    return loaded


def hostile_directory(tmp_path: Path, name: str, data: bytes) -> Path:
    root = CASE.unpack_before(tmp_path / "parent" / "logs")
    run = root.with_name("logs.recovery") / "20260101T000000.000000Z-00000001"
    run.mkdir(parents=True)
    (run / name).write_bytes(data)
    (root / POINTER).write_bytes(Pointer(OWNER, (), (run.name,)).encode())
    (tmp_path / "parent" / "outside").write_text("not to be touched")
    return root


def one_sentence_and_nothing_changed(root: Path, *words: str | Path) -> None:
    top = root.parent.parent
    before = stamps(top)
    finished = kafkalog(*words)
    assert finished.code == 3, finished
    assert len(finished.err.splitlines()) == 1, finished.err
    assert "unexpected" not in finished.err
    assert first_difference(dict(stamps(top)), dict(before)) == ""


@pytest.mark.parametrize("what", HOSTILE)
def test_a_journal_with_a_right_checksum(
    what: str, values: Values, tmp_path: Path, measured: Callable[[str, int], None]
) -> None:
    written = {**values, "run_id": "20260101T000000.000000Z-00000001"}
    try:
        data = sealed(json.dumps(HOSTILE[what](written), ensure_ascii=True).encode())
    except (KeyError, IndexError):
        raise AssertionError(what) from None
    commands: tuple[tuple[str, ...], ...] = (("undo", "--yes"), ("undo", "--yes", "--run", written["run_id"]))
    for name in (JOURNAL, MANIFEST, UNDOING):
        root = hostile_directory(tmp_path / name, name, data)
        for words in commands:
            one_sentence_and_nothing_changed(root, *words, root)
        # a run that has ended is not read for its steps, and one that fits no more is set aside: recover goes on
        if what not in ("a file that was never there", *(IMPOSSIBLE if name == MANIFEST else ())):
            one_sentence_and_nothing_changed(root, "recover", "--yes", root)
    measured("hostile journals, each under three names, refused with everything left as it was", 1)


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[" * 100_000, b"{\"version\":" + b"9" * 5000 + b"}", b"\xff\xfe", b"{}" * 3, b"null"],
    ids=["empty", "cut", "deep", "a long number", "no text", "several", "null"],
)  # fmt: skip
def test_a_journal_that_is_no_json(body: bytes, tmp_path: Path) -> None:
    root = hostile_directory(tmp_path, JOURNAL, sealed(body))
    for words in (("undo", "--yes"), ("recover", "--yes")):
        one_sentence_and_nothing_changed(root, *words, root)


@pytest.mark.parametrize("damage", ["flipped", "empty", "a directory", "a link"])
def test_a_journal_that_is_damaged(damage: str, values: Values, tmp_path: Path) -> None:
    data = bytearray(sealed(json.dumps(values).encode()))
    data[20] ^= 1
    root = hostile_directory(tmp_path, JOURNAL, bytes(data) if damage == "flipped" else b"")
    (journal,) = root.parent.glob(f"logs.recovery/*/{JOURNAL}")
    if damage == "a directory":
        journal.unlink()
        journal.mkdir()
    elif damage == "a link":
        journal.unlink()
        journal.symlink_to("/dev/zero")
    for words in (("undo", "--yes"), ("recover", "--yes")):
        top = root.parent.parent
        before = stamps(top)
        finished = kafkalog(*words, root)
        assert finished.code in (3, 4)
        assert len(finished.err.splitlines()) == 1
        assert first_difference(dict(stamps(top)), dict(before)) == ""


POINTERS = {
    "a NUL": b"kafkalog-quarantine " + b"0" * 32 + b"\n/a\0b\n",
    "only a NUL": b"\0",
    "relative": b"kafkalog-quarantine " + b"0" * 32 + b"\nelsewhere\n",
    "dots": b"kafkalog-quarantine " + b"0" * 32 + b"\n/a/../etc\n",
    "no id": b"/elsewhere\n",
    "empty": b"",
    "no text": b"\xff\xfe\n",
    "long": b"x" * (1 << 17),
    "a run that is none": b"kafkalog-quarantine " + b"0" * 32 + b"\nrun ../../x\n",
}


@pytest.mark.parametrize("what", [*POINTERS, "a directory", "a link", "a FIFO"])
def test_a_pointer_that_is_none(what: str, tmp_path: Path) -> None:
    import os

    root = CASE.unpack_before(tmp_path / "parent" / "logs")
    pointer = root / POINTER
    if what == "a directory":
        pointer.mkdir()
    elif what == "a link":
        pointer.symlink_to("/dev/zero")
    elif what == "a FIFO":
        os.mkfifo(pointer)
    else:
        pointer.write_bytes(POINTERS[what])
    for words in (("undo", "--yes"), ("recover", "--yes")):
        one_sentence_and_nothing_changed(root, *words, root)


def test_a_pointer_leads_to_nothing_new(tmp_path: Path) -> None:
    """A directory that was handed to us says that its quarantine is elsewhere: nothing is written there."""
    root = CASE.unpack_before(tmp_path / "parent" / "logs")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (root / POINTER).write_bytes(b"kafkalog-quarantine " + b"0" * 32 + f"\n{elsewhere / 'home'}\n".encode())
    before = stamps(elsewhere)
    assert kafkalog("recover", "--yes", root).code == 2
    assert stamps(elsewhere) == before
    assert kafkalog("undo", "--yes", root).code == 2
    assert stamps(elsewhere) == before


def test_a_run_of_another_machine_is_completed_only_when_named(
    values: Values, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from testkit.running.stopping import Stopped, failing_at

    root = CASE.unpack_before(tmp_path / "parent" / "logs")
    looked = stamps(root)
    monkeypatch.setattr("kafkalog.recovery.act.runner.machine_id", lambda: "0123456789abcdef")
    number = 1
    while not list(root.parent.glob(f"logs.recovery/*/{JOURNAL}")):
        number += 1
        with failing_at(number, Stopped, monkeypatch), pytest.raises(Stopped):
            recover(Recovery(accept_loss=True, **given(CASE)), root)
    monkeypatch.undo()
    (run,) = (path.parent.name for path in root.parent.glob(f"logs.recovery/*/{JOURNAL}"))
    one_sentence_and_nothing_changed(root, "recover", "--yes", root)
    one_sentence_and_nothing_changed(root, "undo", "--yes", root)
    one_sentence_and_nothing_changed(root, "recover", "--yes", "--complete", "20260101T000000.000000Z-00000001", root)
    assert recover(Recovery(complete=run, accept_loss=True, **given(CASE)), root)[0].completed == (run,)
    assert kafkalog("undo", "--yes", "--run", run, root).code == 2
    assert first_difference(dict(stamps(root)), dict(looked)) == ""


@pytest.mark.parametrize("kind", ["a directory", "a FIFO"])
@pytest.mark.parametrize("name", [MANIFEST, JOURNAL])
def test_what_is_no_file_is_no_journal(kind: str, name: str, tmp_path: Path) -> None:
    root = hostile_directory(tmp_path, name, b"")
    (document,) = root.parent.glob(f"logs.recovery/*/{name}")
    document.unlink()
    if kind == "a directory":
        document.mkdir()
    else:
        os.mkfifo(document)
    for words in (("undo", "--yes", root), ("recover", "--yes", "--accept-loss", root)):
        one_sentence_and_nothing_changed(root, *words)
    said = kafkalog("plan", root)
    assert f"{document}: {kind}, not a file" in said.out + said.err
    assert "Errno" not in said.out + said.err


def test_a_journal_is_json_with_the_checksum_of_its_bytes(values: Values) -> None:
    document = Journal.decode(sealed(json.dumps(values).encode()), "old").encode()
    loaded = json.loads(document)
    assert set(loaded) == {"crc32c", "journal"}
    assert loaded["journal"] == values
    body = document.partition(b'"journal": ')[2].removesuffix(b"}\n")
    assert loaded["crc32c"] == f"{crc32c(body):08x}"


def test_a_journal_of_before_is_read_and_no_changed_byte_of_either_is(values: Values) -> None:
    old = sealed(json.dumps(values).encode())
    known = Journal.decode(old, "old")
    new = known.encode()
    assert Journal.decode(new, "new") == known
    for document in (old, new):
        for position in range(0, len(document), 7):
            changed = bytearray(document)
            changed[position] ^= 1
            with pytest.raises(FormatError):
                Journal.decode(bytes(changed), "changed")
        for length in range(0, len(document) - 1, 11):
            with pytest.raises(FormatError):
                Journal.decode(document[:length], "cut")
