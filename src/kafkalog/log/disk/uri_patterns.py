"""Find the paths of an object store that match a URI with wildcards."""

from __future__ import annotations

import fnmatch
import glob

from kafkalog.log.disk.files import exists, is_directory, scan_directory
from kafkalog.log.disk.object_store import root_of_uri

__all__ = ["matching"]


def matching(uri: str) -> list[str]:
    """Return the existing paths that match a URI with the wildcards `*`, `?` or `[...]`, sorted. A wildcard matches
    within one name and is case-sensitive. It matches a leading dot only if the pattern begins with a dot. For a URI
    without wildcards, return the URI itself without slashes at its end, or an empty list if it does not exist. Raises
    `StorageError` if a request fails, or if a URI with wildcards names a bucket that does not exist. Raises
    `UsageError` for a malformed URI, credentials in it, or an unknown scheme.
    """
    if not glob.has_magic(uri):
        return [uri.rstrip("/")] if exists(uri) else []
    root = root_of_uri(uri)
    paths = [root]
    for part in uri[len(root) :].strip("/").split("/"):
        if not glob.has_magic(part):
            paths = [f"{path}/{part}" for path in paths]
            continue
        paths = [
            entry.path
            for path in paths
            if path == root or is_directory(path)
            for entry in scan_directory(path)
            if fnmatch.fnmatchcase(entry.name, part) and (not entry.name.startswith(".") or part.startswith("."))
        ]
    return sorted(path for path in paths if exists(path))
