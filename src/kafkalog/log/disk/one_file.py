"""Files that are read one after the other: the last one stays open, whoever asks for another closes it."""

from __future__ import annotations

from typing import Self

from kafkalog.log.disk.files import FileSource

__all__ = ["OneFile"]


class OneFile:
    """Whoever calls it with a path gets that file; use as a context manager, or `close` it."""

    def __init__(self) -> None:
        self._source: FileSource | None = None
        self._path = ""

    def __call__(self, path: str) -> FileSource:
        """The opened file; the one before is closed."""
        if self._source is None or self._path != path:
            self.close()
            self._source, self._path = FileSource(path), path
        return self._source

    def close(self) -> None:
        """Close the one that is open."""
        if self._source is not None:
            self._source.close()
            self._source = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
