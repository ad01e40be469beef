"""Read files one after another, with only one open at a time."""

from __future__ import annotations

from typing import Self

from kafkalog.log.disk.files import FileSource

__all__ = ["OneFile"]


class OneFile:
    """Opener of files by path that keeps only the last one open. Use it as a context manager, or `close` it."""

    def __init__(self) -> None:
        self._source: FileSource | None = None
        self._path = ""

    def __call__(self, path: str) -> FileSource:
        """Return the opened file `path`: the one that is open, or a newly opened one after the previous file was
        closed. Raises `StorageError` if it cannot be opened.
        """
        if self._source is None or self._path != path:
            self.close()
            self._source, self._path = FileSource(path), path
        return self._source

    def close(self) -> None:
        """Close the open file, if any."""
        if self._source is not None:
            self._source.close()
            self._source = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
