"""Load a log on a virtual copy of its directory first, so that real loading does not fail halfway."""

from __future__ import annotations

import os
from functools import cache

from msgspec.structs import replace

from kafkalog.codec.common.source import Source
from kafkalog.codec.headers.header_tables import HeaderTables
from kafkalog.codec.names import FileKind
from kafkalog.codec.rules.framing import first_batch_bytes
from kafkalog.log.disk.files import scan_directory
from kafkalog.log.disk.one_file import OneFile
from kafkalog.log.storage.java import JavaError
from kafkalog.log.storage.loader import LoadRequest, LogLoader
from kafkalog.log.storage.segment import LogLossError
from kafkalog.log.storage.tree import Tree

__all__ = ["rehearse"]


def rehearse(request: LoadRequest, *, without: str | None = None) -> int:
    """Load the log of `request` on a virtual copy of its directory; return the log end offset. Changes nothing on disk.
    `without` is the path of a file that is treated as missing. Raises the `JavaError` or `LogLossError` that real
    loading would raise, with the path of the real file.
    """
    path = request.directory
    parent, name = os.path.split(path)
    sizes = {
        f"{name}/{entry.name}": entry.stat(follow_symlinks=False).st_size
        for entry in scan_directory(path)
        if entry.is_file(follow_symlinks=False) and entry.path != without
    }
    with OneFile() as files:

        def origin(file: str) -> Source:
            return files(os.path.join(parent, file))

        @cache
        def tables() -> HeaderTables:  # made only if a log is scanned, which a clean shutdown makes unnecessary
            logs = {file: size for file, size in sizes.items() if file.endswith(FileKind.LOG.value)}
            largest = max(logs, key=logs.__getitem__, default="")
            return HeaderTables(sum(logs.values()), lambda: first_batch_bytes(lambda: origin(largest)))

        tree = Tree(sizes, [name], origin, lambda file, size: tables().of(file, size))
        try:
            return LogLoader(tree, replace(request, directory=name)).load().log_end_offset
        except JavaError as error:
            if error.segment_path is not None:
                error.segment_path = os.path.join(parent, error.segment_path)
            raise
        except LogLossError as error:
            raise LogLossError(os.path.join(parent, error.path), error.position) from error
