"""Journal of transactions, written before each commit: the part of the offset map that would be lost if the replay were
killed.

A line is valid only if the target shows that its transaction was committed. The transaction of an incomplete last line
was never committed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from kafkalog.codec.common.errors import UsageError
from kafkalog.log.disk.fs import AppendFile, remove
from kafkalog.replay.offset_map import OffsetMap, Run

__all__ = ["Journal"]

_MOST_BYTES = 1 << 30


class Journal:
    """The journal file beside the offset map; a context manager. An existing file is read and continued; an incomplete
    last line is cut off.

    `identity` is the id of the replay. Raises `StorageError` for I/O errors, and `UsageError` if an existing file is
    not a journal or belongs to another replay.
    """

    def __init__(self, path: str, identity: str) -> None:
        self.path = path
        is_new = not os.path.lexists(path)
        self._is_of_use = not is_new
        self._file = AppendFile(path, create=is_new)
        self._lines: dict[tuple[str, int, int], tuple[int, list[Run]]] = {}
        """topic, partition and end of a transaction -> its start and contents; the latest transaction with that end"""
        if is_new:
            self._append({"replay": identity})
            return
        try:
            self._read(identity)
        except BaseException:
            self._file.close()
            raise

    def _read(self, identity: str) -> None:
        if self._file.size > _MOST_BYTES:
            raise UsageError(f"{self.path} has {self._file.size} bytes, more than a journal of a replay can have")
        whole, newline, _torn = self._file.read(0, self._file.size).rpartition(b"\n")
        lines = whole.split(b"\n") if newline else []
        try:
            parsed = [json.loads(line) for line in lines]
            if parsed and parsed[0]["replay"] != identity:
                raise UsageError(
                    f"{self.path} is the journal of another replay ({parsed[0]['replay']}, not {identity}); "
                    "name another file with --map"
                )
            for each in parsed[1:]:
                runs = [Run(int(source), int(target), int(count)) for source, target, count in each["runs"]]
                key = str(each["topic"]), int(each["partition"]), int(each["next"])
                self._lines[key] = int(each["from"]), runs
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise UsageError(f"{self.path} is not the journal of a replay: {error}") from None
        self._file.truncate(len(whole) + len(newline))
        if not lines:
            self._append({"replay": identity})

    def _append(self, line: Mapping[str, object]) -> None:
        self._file.append(json.dumps(line, separators=(",", ":")).encode() + b"\n")
        self._file.sync()

    def add(self, topic: str, partition: int, start: int, next_offset: int, runs: list[Run]) -> None:
        """Append a transaction that is about to be committed, and flush it to disk (fsync). The transaction has the
        source records from offset `start` up to `next_offset` (exclusive), where the next transaction begins. `runs`
        are the source and target offsets of its records. Raises `StorageError` if writing fails.
        """
        self._append({
            "topic": topic, "partition": partition, "from": start, "next": next_offset,
            "runs": [[run.source, run.target, run.count] for run in runs],
        })  # fmt: skip
        self._lines[topic, partition, next_offset] = start, runs
        self._is_of_use = True

    def knows(self, topic: str, partition: int, next_offset: int) -> bool:
        """Whether the journal contains the transaction that ended at `next_offset`."""
        return (topic, partition, next_offset) in self._lines

    def map_of(self, topic: str, partition: int, begin: int, committed: int) -> OffsetMap:
        """Return the offset map of all transactions that were committed from source offset `begin` up to `committed`
        (exclusive); empty if `committed` is not above `begin`.

        The transactions are found backwards: the one that ends at `committed`, then the one that ends where it begins,
        and so on. So aborted transactions are left out. A transaction that begins below `begin` is included as a whole.
        Raises `UsageError` if a transaction is missing in the journal.
        """
        chain: list[list[Run]] = []
        end = committed
        while end > begin:
            line = self._lines.get((topic, partition, end))
            if line is None or line[0] >= end:
                raise UsageError(
                    f"{self.path} lacks the transaction of {topic}-{partition} that ended at offset {end}: name the "
                    "map that this replay was begun with, or delete the target's topics and begin with another --id"
                )
            end, runs = line
            chain.append(runs)
        return OffsetMap(run for runs in reversed(chain) for run in runs)

    def close(self) -> None:
        """Close the file, and remove it if it was created here and has no transaction."""
        if not self._is_of_use:
            self.remove()
            return
        self._file.close()

    def remove(self) -> None:
        """Close and remove the file, once the map is written."""
        self._is_of_use = True
        self._file.close()
        remove(self.path)

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
