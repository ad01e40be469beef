"""List many directories of an object store in few requests, and read the small files in them."""

from __future__ import annotations

from typing import Any

from kafkalog.codec.common.limits import KIB
from kafkalog.log.disk.looked_at import in_threads, looked_at
from kafkalog.log.disk.remote import storage_of

__all__ = ["list_ahead"]

_SMALL = 64 * KIB
"""Most bytes of a file that is read in advance."""


def list_ahead(root: str, directories: list[str], small: frozenset[str]) -> None:
    """List `directories` of an object store, which are below `root`, with few requests. Read their files of at most 64
    KiB whose names are in `small`. Listings and contents are put into the cache of `looking_once`. Does nothing without
    that cache, without directories, or if `root` is local or in a store that cannot do this. Raises `StorageError` if a
    request fails or a directory is missing; among more than 16, a missing one counts as empty.
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
