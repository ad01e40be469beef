"""Find the storage that lists and reads a path: the one registered for its URI, or the object store that it names."""

from __future__ import annotations

import os

from kafkalog.log.disk.remote_file import Storage, is_uri, mounted

__all__ = ["storage_of"]


def storage_of(path: str) -> Storage | None:
    """Return the storage that lists and reads a path; None if the path is local. If no storage is registered for a URI,
    an existing local file of that name counts as local. Otherwise one is registered with the settings in the
    environment; it connects at its first request, which fails if the scheme is unknown. Raises `UsageError` for a
    `file:` URI, a malformed one, or one that contains credentials.
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
