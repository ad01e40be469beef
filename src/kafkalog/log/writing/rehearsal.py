"""Load a log on a virtual copy of its directory first, so that real loading does not fail halfway."""

from __future__ import annotations

import os

from msgspec.structs import replace

from kafkalog.codec.common.source import Source
from kafkalog.codec.headers.header_tables import HeaderTables
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
    loading would raise, with the path of the real file. Raises `StorageError` if the directory cannot be listed or a
    file cannot be read.
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

        tree = Tree(sizes, [name], origin, HeaderTables().of)
        try:
            return LogLoader(tree, replace(request, directory=name)).load().log_end_offset
        except JavaError as error:
            if error.segment_path is not None:
                error.segment_path = os.path.join(parent, error.segment_path)
            raise
        except LogLossError as error:
            raise LogLossError(os.path.join(parent, error.path), error.position) from error
