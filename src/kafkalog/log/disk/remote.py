"""Which storage lists and reads a path: the one that is registered for its URI, or the object store that it names."""

from __future__ import annotations

import os
from typing import Any

from kafkalog.codec.limits import KIB
from kafkalog.log.disk.looked_at import in_threads, looked_at
from kafkalog.log.disk.remote_file import Storage, is_uri, mounted

__all__ = ["list_ahead", "storage_of"]

_SMALL = 64 * KIB
"""Bytes of a file that is read ahead, at most."""


def storage_of(path: str) -> Storage | None:
    """The storage that lists and reads a path; None for local ones.

    If none is registered for a URI, the object store is reached as the environment says; raises `UsageError` for a
    scheme of no store.
    """
    if "://" not in path or not is_uri(path):
        return None
    storage = mounted(path)
    if storage is None:
        if os.path.lexists(path):
            return None
        from kafkalog.log.disk.object_store import mount_default

        mount_default(path)
        storage = mounted(path)
    return storage


def list_ahead(root: str, directories: list[str], small: frozenset[str]) -> None:
    """Learn what is in directories below `root`, and the content of their files of the names in `small`.

    Does nothing outside of `looking_once`, and for paths that are not in an object store.
    """
    known, storage = looked_at(), storage_of(root) if directories else None
    ahead: Any = getattr(storage, "list_ahead", None)
    if known is None or storage is None or ahead is None:
        return
    ahead(root, directories, known)
    wanted = [
        entry.path for path in directories for entry in known.listings.get(path, ())
        if entry.name in small and not entry.directory and entry.size <= _SMALL
    ]  # fmt: skip

    def read(path: str) -> None:
        file = storage.open(path)
        try:
            known.keep(path, file.read(0, file.size))
        finally:
            file.close()

    in_threads(read, wanted)
