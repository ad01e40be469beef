"""Paths of an object store that a URI with wildcards names."""

from __future__ import annotations

import fnmatch
import glob

from kafkalog.log.disk.files import exists, scan_directory
from kafkalog.log.disk.object_store import root_of_uri

__all__ = ["matching"]


def matching(uri: str) -> list[str]:
    """The paths that a URI with `*`, `?` or `[...]` names, ordered; itself if it has none of them and is there."""
    if not glob.has_magic(uri):
        return [uri.rstrip("/")] if exists(uri) else []
    root = root_of_uri(uri)
    found = [root]
    for part in uri[len(root) :].strip("/").split("/"):
        if not glob.has_magic(part):
            found = [f"{path}/{part}" for path in found]
            continue
        found = [
            entry.path
            for path in found
            if path == root or exists(path)
            for entry in scan_directory(path)
            if fnmatch.fnmatchcase(entry.name, part) and (not entry.name.startswith(".") or part.startswith("."))
        ]
    return sorted(path for path in found if exists(path))
