"""Mount log directories together with their remote part."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.names import parse_partition_directory
from kafkalog.log.directories.directory import is_log_dir, is_partition_dir, log_dirs_inside
from kafkalog.log.directories.partition import Partition
from kafkalog.log.disk.files import absolute, is_directory
from kafkalog.log.disk.remote import storage_of
from kafkalog.tiers.both_tiers import BothTiers
from kafkalog.tiers.layouts import key_files, open_tier
from kafkalog.tiers.local_tiering import remote_metadata_in
from kafkalog.tiers.remote_tier import RemoteTier

__all__ = ["RemotePart", "TierBounds", "mounted", "tier_bounds"]

Mounted = list[tuple[BothTiers, str]]
"""the mount for each path, and the equivalent path in it"""


def mounted(paths: Sequence[str], tier: RemoteTier) -> Mounted:
    """Mount the log directories at `paths` together with their remote part. Return (mount, equivalent path in it) for
    each path, in order. A path is a log directory, a partition directory in one, or a directory that contains log
    directories; such a directory gives one pair for each of them. If `paths` is empty, or none of the log directories
    has a partition of the tier, the result is a single mount of the whole tier.

    Events are read from the log directories at `paths`. Raises `UsageError` for any other path, `StorageError` if a
    directory or the tier cannot be read.
    """
    places = [place for path in paths for place in _places(path)]
    metadata = remote_metadata_in(dict.fromkeys(root for root, _ in places))
    made = {root: BothTiers(root, tier, metadata) for root, _ in places}
    if not any(both.has_both for both in made.values()):
        both = BothTiers(None, tier, metadata)
        return [(both, both.path)]
    return [(made[root], f"{made[root].path}/{name}" if name else made[root].path) for root, name in places]


def _places(path: str) -> list[tuple[str, str]]:
    """Return pairs of a log directory (as an absolute path) and a partition name. A partition directory gives one pair;
    a log directory gives one with the name "", and so does each log directory inside another directory. Raises
    `UsageError` for any other path, `StorageError` if a directory cannot be listed.
    """
    place = absolute(path)
    if not is_directory(place):
        raise UsageError(f"{path} is not a directory: what is read together with a remote tier is one")
    if parse_partition_directory(os.path.basename(place)) is not None and is_partition_dir(place):
        return [(os.path.dirname(place), os.path.basename(place))]
    if is_log_dir(place):
        return [(place, "")]
    inside = log_dirs_inside(place)
    if not inside:
        raise UsageError(f"{path} is not a Kafka log directory: it holds no partition and no segment")
    return [(each, "") for each in inside]


class TierBounds(Struct, frozen=True):
    """Where the two tiers of a log meet."""

    local_log_start: int
    """the log end offset if nothing is local"""
    highest_remote_offset: int
    """the last offset copied; -1 if there is none"""


def tier_bounds(partition: Partition) -> TierBounds | None:
    """Return the offsets at which the two tiers of a partition meet: the start of the local part, and the last offset
    copied (-1: none). The local part starts at its first segment, or at the log start offset if that is larger; if
    nothing is local, the log end offset is returned as its start.

    None if the partition was not opened with its remote part, or has no remote segments. Raises `StorageError` if the
    tier cannot be read.
    """
    both = storage_of(partition.path)
    found = both.bounds(os.path.basename(partition.path)) if isinstance(both, BothTiers) else None
    if found is None:
        return None
    begins, highest = found
    local = partition.log_end_offset() if begins is None else max(begins, partition.log_start_offset)
    return TierBounds(local, highest)


class RemotePart:
    """A named remote tier, opened when paths are read with it. Can be pickled, and the paths remain readable."""

    def __init__(
        self,
        uri: str,
        layout: str | None = None,
        keys: tuple[str, ...] = (),
        found: Mapping[tuple[str, ...], Mounted] | None = None,
    ) -> None:
        self.uri = uri
        self.layout = layout
        self.keys = keys
        """files of private keys, in the form of `key_files`"""
        self._found = dict(found or {})

    def __reduce__(self) -> tuple[Any, ...]:
        return RemotePart, (self.uri, self.layout, self.keys, self._found)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemotePart) and self._named() == other._named()

    def __hash__(self) -> int:
        return hash(self._named())

    def _named(self) -> tuple[object, ...]:
        return self.uri, self.layout, self.keys

    def paths(self, paths: Sequence[str]) -> list[str]:
        """Return the paths that stand for both tiers. The tier is opened once for the same paths. Raises the errors of
        `open_tier`.
        """
        asked = tuple(paths)
        if asked not in self._found:
            self._found[asked] = mounted(paths, open_tier(self.uri, layout=self.layout, keys=key_files(self.keys)))
        return [path for _, path in self._found[asked]]
