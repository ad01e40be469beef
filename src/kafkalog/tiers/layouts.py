"""Known layouts of remote tiers, and opening a tier by URI."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafkalog.codec.common.errors import UsageError
from kafkalog.log.disk.files import absolute, is_directory, scan_directory
from kafkalog.log.disk.object_store import StorageOptions
from kafkalog.log.disk.remote_file import is_mounted, is_uri
from kafkalog.tiers.aiven.layout import AivenTier
from kafkalog.tiers.local_tiered_storage import LocalTieredStorage
from kafkalog.tiers.remote_tier import RemoteTier

__all__ = ["LAYOUTS", "key_files", "open_tier"]

LAYOUTS: Mapping[str, type[RemoteTier]] = {each.layout: each for each in (AivenTier, LocalTieredStorage)}
"""in the order of detection, since a topic of the first may be named like a partition of the second"""


def open_tier(
    uri: str,
    *,
    layout: str | None = None,
    storage: Mapping[str, str] | None = None,
    keys: Mapping[str, str] | None = None,
) -> RemoteTier:
    """Open the remote tier at a URI or local path; if `layout` is None, it is detected from the names of directories.

    Raises `UsageError` if the place is missing, `layout` is unknown, none fits (as in an empty place), or `storage` or
    `keys` do not suit. Raises `StorageError` if it or a key file cannot be read.

    * `uri`: the directory or prefix that the storage plugin writes to
    * `layout`: `local-tiered-storage` or `aiven`
    * `storage`: options of the object store without their prefix `storage.`, as for Spark's URIs; ignored for local
      paths
    * `keys`: files of private RSA keys (PEM) by the ids of their pairs, for encrypted segments; the id '' is for all
      other pairs
    """
    if layout is not None and layout not in LAYOUTS:
        raise UsageError(f"unknown layout {layout!r} of a remote tier: there is {', '.join(LAYOUTS)}")
    if is_uri(uri) and (storage or not is_mounted(uri)):
        StorageOptions((uri,), tuple(sorted((storage or {}).items())))
    place = absolute(uri)
    if not is_directory(place):
        raise UsageError(f"{uri} is not a directory or prefix with objects in it: no remote tier is there")
    if layout is not None:
        return LAYOUTS[layout](place, keys)
    names = [entry.name for entry in scan_directory(place)]
    for known in LAYOUTS.values():
        if known.fits(place, names):
            return known(place, keys)
    shown = ", ".join(names[:3]) or "nothing"
    raise UsageError(f"{uri} has no layout of a remote tier that is known ({', '.join(LAYOUTS)}): it holds {shown}")


def key_files(given: Iterable[str]) -> dict[str, str]:
    """Convert options ID=FILE or FILE to `keys` of `open_tier`."""
    parts = [each.partition("=") for each in given]
    return {pair if sign else "": path if sign else pair for pair, sign, path in parts}
