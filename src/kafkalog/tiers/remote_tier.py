"""The interface of a remote tier: a listing of segments, and objects read by ranges.

A layout describes the names and contents of a storage plugin's objects. To add one, write a class with the methods of
`RemoteTier` and list it in `layouts`. `docs/tiered.md` describes what is needed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Protocol

from msgspec import Struct

from kafkalog.codec.names import FileKind
from kafkalog.log.disk.remote_file import RemoteFile
from kafkalog.tiers.segments import RemoteSegment

__all__ = ["UUID_IN_A_NAME", "ListedSegment", "RemoteObject", "RemoteTier"]

UUID_IN_A_NAME = re.compile(r"[A-Za-z0-9_-]{22}", re.ASCII)
"""a topic id or segment id in the name of an object"""


class RemoteObject(Struct, frozen=True, kw_only=True):
    """An object of a segment, as listed."""

    path: str
    """a URI or a local path"""
    size: int
    """size of the object in bytes; the file in it has the same size unless `is_packed`"""
    modified_ns: int
    part: str = ""
    """which file in the object is meant, if a layout stores several in one"""
    is_packed: bool = False
    """whether the file has another size, given by `RemoteTier.size`"""


class ListedSegment(Struct, frozen=True, kw_only=True):
    """The objects of a segment, regardless of `__remote_log_metadata`."""

    topic: str
    topic_id: str
    partition: int
    id: str
    base_offset: int
    objects: Mapping[FileKind, RemoteObject]
    epochs: RemoteObject | None = None
    """the leader epochs up to the segment's end, as a leader-epoch-checkpoint"""
    lacking: tuple[str, ...] = ()
    """suffixes of missing objects without which no other can be read"""

    @property
    def has_log(self) -> bool:
        """Whether it has a log that can be read, according to the listing."""
        return FileKind.LOG in self.objects and not self.lacking

    @property
    def key(self) -> tuple[str, int]:
        """Topic and partition."""
        return self.topic, self.partition


class RemoteTier(Protocol):
    """A place with remote segments. Every method raises `StorageError` if it cannot be read."""

    layout: str
    """name of the layout for `--layout`"""
    place: str
    """a URI or a local path"""

    def __init__(self, place: str, keys: Mapping[str, str] | None = None) -> None:
        """Open a place at a URI or a local path. `keys` are files of private keys by the ids of their pairs. Nothing is
        read yet.
        """

    @classmethod
    def fits(cls, place: str, names: Iterable[str]) -> bool:
        """Return whether a place with these names directly below it can have this layout."""

    def segments(self) -> list[ListedSegment]:
        """Return all segments, from a listing alone, by topic, partition, base offset and id."""

    def others(self) -> list[str]:
        """Objects in the listing that the layout does not know."""

    def open(self, item: RemoteObject) -> RemoteFile:
        """Open the file in an object for reads at positions. Raises `MissingFileError` if it is gone."""

    def size(self, item: RemoteObject) -> int:
        """Size of the file in an object. Raises `StorageError` if it contradicts the listing."""

    def described(self, listed: ListedSegment) -> RemoteSegment | None:
        """Metadata of a segment from its own objects, as in the event of its copy. None if the layout has none."""
