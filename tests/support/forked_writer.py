"""A program that forks while it writes: what children do must change nothing, and the parent must not notice them.

For each moment and each thing that a child can do it prints one JSON line of what was seen.
"""

from __future__ import annotations

import gc
import json
import os
import stat
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import kafkalog
from kafkalog.codec.native import thresholds
from kafkalog.log.writing.session import locked_directory

PRODUCER = kafkalog.ProducerState(producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
FLUSH_SECONDS = 0.005
FREE = {"close", "name", "path", "config", "open", "fail"}
"""What a child may use: it examines nothing that changes, or does nothing there."""
ARGUMENTS: dict[str, tuple[object, ...]] = {
    "append": ([b"child"],), "end_transaction": (7, 0), "next_sequence": (7,), "is_in_transaction": (7,),
    "offset_for_timestamp": (0,), "offsets_before": (0, 1), "read": (0,), "truncate_to": (0,),
    "truncate_fully_and_start_at": (0,), "delete_records_before": (0,),
}  # fmt: skip


def begun(path: Path, moment: str, stack: ExitStack) -> kafkalog.Log:
    """A log that is at that moment of its life."""
    path.parent.mkdir()
    if moment == "in a session":
        stack.enter_context(locked_directory(path.parent))
    if moment == "beside another log":
        stack.enter_context(kafkalog.Log.open(path.with_name("t-1"))).append([b"other"])
    seconds = FLUSH_SECONDS if moment == "while it is flushed" else None
    config = kafkalog.LogConfig(segment_bytes=300, flush_seconds=seconds, preallocate=moment == "with room reserved")
    log = stack.enter_context(kafkalog.Log.open(path, config))
    if moment != "before the first append":
        log.append([b"a"])
    if moment == "in a transaction":
        log.append([b"b"], producer=PRODUCER)
    if moment == "after rolling":
        log.roll()
    return log


MOMENTS = (
    "before the first append", "after an append", "in a transaction", "while it is flushed", "with room reserved",
    "in a session", "beside another log", "after rolling", "while a thread appends",
)  # fmt: skip


def members() -> list[str]:
    return sorted(name for name in vars(kafkalog.Log) if not name.startswith("_") and name not in FREE)


def refused(log: kafkalog.Log) -> str:
    """Use everything; what was not refused in one sentence."""
    odd = []
    for name in members():
        try:
            found = getattr(log, name)
            if callable(found):
                keywords = {"commit": True} if name == "end_transaction" else {}
                found(*ARGUMENTS.get(name, ()), **keywords)
            odd.append(f"{name} was not refused")
        except kafkalog.UsageError as error:
            if "forked" not in str(error):
                odd.append(f"{name}: {error}")
    return "; ".join(odd)


def uses(log: kafkalog.Log, stack: ExitStack) -> str:
    return refused(log)


def closes(log: kafkalog.Log, stack: ExitStack) -> str:
    log.close()
    stack.close()
    return refused(log)


def collects(log: kafkalog.Log, stack: ExitStack) -> str:
    stack.pop_all()  # nobody closes anything now; what is left goes when the child ends
    gc.collect()
    return ""


def opens_again(log: kafkalog.Log, stack: ExitStack) -> str:
    try:
        kafkalog.Log.open(log.path).close()
    except kafkalog.UsageError as error:
        return "" if "is locked" in str(error) else str(error)
    return "it was opened"


def recovers(log: kafkalog.Log, stack: ExitStack) -> str:
    try:
        kafkalog.recover(os.path.dirname(log.path))
    except kafkalog.RecoveryRefused as error:
        return "" if "locked" in str(error) else str(error)
    return "it was recovered"


DEEDS: dict[str, Callable[[kafkalog.Log, ExitStack], str]] = {
    "nothing": lambda log, stack: "", "uses it": uses, "closes it": closes, "drops it": collects,
    "opens it again": opens_again, "recovers it": recovers,
}  # fmt: skip


def state(root: Path) -> dict[str, tuple[int, int, bytes]]:
    """Every file with its times and bytes; who opens a lock's file and closes it gives up the lock."""
    return {
        str(path.relative_to(root)): (
            status.st_mtime_ns,
            status.st_ino,
            b"" if path.name == ".lock" else path.read_bytes(),
        )
        for path in sorted(root.rglob("*"))
        if stat.S_ISREG((status := path.stat()).st_mode)
    }


def forked(deed: Callable[[kafkalog.Log, ExitStack], str], log: kafkalog.Log, stack: ExitStack, at_once: bool) -> str:
    """What a child saw that did it; it ends at once, or as a program does that ends in order."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            told = deed(log, stack)
        except BaseException:  # noqa: BLE001 - the parent is told
            told = traceback.format_exc()
        os.write(writing, (told or "-").encode()[:60_000])
        if at_once:
            os._exit(0)
        raise SystemExit(0)
    os.close(writing)
    with os.fdopen(reading) as stream:
        told = stream.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return "" if (told, code) == ("-", 0) else f"{told} (exit code {code})"


def one(root: Path, moment: str, deed: str, at_once: bool) -> dict[str, object]:
    path = root / "logs" / "t-0"
    root.mkdir()
    wrong: list[str] = []
    with ExitStack() as stack:
        log = begun(path, moment, stack)
        if moment == "while a thread appends":

            def handed() -> Iterator[bytes]:  # the child comes to be within an append that its parent goes on with
                yield b"b"
                wrong.append(forked(DEEDS[deed], log, stack, at_once))
                yield b"c"

            log.append(handed())
        else:
            if moment == "while it is flushed":
                while log.recovery_point < log.end_offset:
                    time.sleep(FLUSH_SECONDS)
            before = state(root)
            wrong.append(forked(DEEDS[deed], log, stack, at_once))
            if state(root) != before:
                wrong.append("files were changed")
        if not (path.parent / ".lock").exists() or (path.parent / ".kafka_cleanshutdown").exists():
            wrong.append("the directory no longer counts as being written")
        log.append([b"after"])
        log.flush()
        if moment == "in a transaction":
            log.end_transaction(7, 0, commit=True)
        end = log.end_offset
    found = [record.value for record in kafkalog.open_partition(path).records()]
    if found[-1] != b"after" or kafkalog.verify(path.parent).findings:
        wrong.append(f"the parent lost something: {found} of {end}")
    if (path.parent / ".lock").exists() or not (path.parent / ".kafka_cleanshutdown").exists():
        wrong.append("the parent did not end in order")
    return {"moment": moment, "deed": deed, "at once": at_once, "wrong": [each for each in wrong if each]}


def carried_on(root: Path) -> dict[str, object]:
    """A child that comes to be within an append goes on with it: nothing of that reaches the disk."""
    root.mkdir()
    with kafkalog.Log.open(root / "t-0") as log:
        log.append([b"a"], leader_epoch=1)
        here = os.getpid()
        told: list[str] = []

        def handed() -> Iterator[bytes]:
            yield b"b"
            child = os.fork()
            if child:
                told.append(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))
            yield b"c"

        before = state(root)
        try:
            log.append(handed(), leader_epoch=2)
        except kafkalog.UsageError:
            os._exit(0 if os.getpid() != here and state(root) == before else 1)
        if os.getpid() != here:
            os._exit(2)
    records = sum(1 for _ in kafkalog.open_partition(root / "t-0").records())
    wrong = [] if told == ["0"] and records == 3 else [f"{told}, {records} records"]
    return {"moment": "within an append", "deed": "goes on", "at once": True, "wrong": wrong}


def read_on(root: Path, threads: int) -> dict[str, object]:
    """A reader that was begun before: one thread reads on, several are refused, and the parent reads all."""
    root.mkdir()
    thresholds.ENOUGH_BYTES = 0
    with kafkalog.Log.open(root / "t-0", kafkalog.LogConfig(segment_bytes=3000)) as log:
        for _ in range(300):
            log.append([b"x" * 50] * 10)
    reader = kafkalog.open_partition(root / "t-0").to_arrow(["offset"], threads=threads, batch_rows=100)
    first = reader.read_next_batch()["offset"].to_pylist()
    child = os.fork()
    if child == 0:
        try:
            seen = first + [offset for batch in reader for offset in batch["offset"].to_pylist()]
            os._exit(0 if threads == 1 and seen == list(range(3000)) else 1)
        except kafkalog.UsageError:
            os._exit(0 if threads > 1 else 2)
        except BaseException:  # noqa: BLE001 - the parent is told
            traceback.print_exc()
            os._exit(3)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    seen = first + [offset for batch in reader for offset in batch["offset"].to_pylist()]
    wrong = [] if code == 0 and seen == list(range(3000)) else [f"exit code {code}, {len(seen)} records"]
    return {"moment": f"reading with {threads} threads", "deed": "reads on", "at once": True, "wrong": wrong}


def main(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    number = 0
    for moment in MOMENTS:
        for deed in DEEDS:
            for at_once in (True, False):
                number += 1
                print(json.dumps(one(folder / str(number), moment, deed, at_once)), flush=True)
    print(json.dumps(carried_on(folder / "carried")), flush=True)
    for threads in (1, 2):
        print(json.dumps(read_on(folder / f"read{threads}", threads)), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
