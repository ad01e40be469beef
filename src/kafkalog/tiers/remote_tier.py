"""What a remote tier is to everything above it: a listing of segments, and objects that are read by ranges.

A layout is how a storage plugin names and shapes objects.  Another one is a class with the methods of `RemoteTier`, and
its line in `layouts`; `docs/tiered.md` says what each has to give.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from msgspec import Struct

from kafkalog.codec.names import FileKind
from kafkalog.log.disk.remote_file import RemoteFile
from kafkalog.tiers.segments import RemoteSegment

__all__ = ["ListedSegment", "RemoteObject", "RemoteTier"]


class RemoteObject(Struct, frozen=True):
    """An object of a segment, as it was listed."""

    path: str
    """of the object, a URI or a local path"""
    size: int
    """bytes of the object, which are those of the file that it holds unless it is packed"""
    modified_ns: int
    part: str = ""
    """which file it is of those in one object, where the layout has several there"""
    is_packed: bool = False
    """what it holds has another size, which `RemoteTier.size` tells"""


class ListedSegment(Struct, frozen=True, kw_only=True):
    """The objects of one segment, whatever `__remote_log_metadata` says of it."""

    topic: str
    topic_id: str
    partition: int
    id: str
    base_offset: int
    objects: Mapping[FileKind, RemoteObject]
    epochs: RemoteObject | None = None
    """the leader epochs up to the segment's end, as a leader-epoch-checkpoint"""
    lacking: tuple[str, ...] = ()
    """suffixes of objects that are not there, and without which no other one can be read"""

    @property
    def has_log(self) -> bool:
        """Whether there is one that can be read, as far as the listing tells."""
        return FileKind.LOG in self.objects and not self.lacking

    @property
    def key(self) -> tuple[str, int]:
        """Topic and partition."""
        return self.topic, self.partition


class RemoteTier(Protocol):
    """A place with remote segments; everything raises `StorageError` where it cannot be read."""

    layout: str
    """the name under which `--layout` knows it"""
    place: str
    """where it is, a URI or a local path"""

    def __init__(self, place: str, keys: Mapping[str, str] | None = None) -> None:
        """At a URI or a local path, with the files of private keys by the ids of their pairs; nothing is read yet."""

    @classmethod
    def fits(cls, place: str, names: Iterable[str]) -> bool:
        """Whether a place with these names directly below it can be of this layout."""

    def segments(self) -> list[ListedSegment]:
        """Everything that is there, from a listing alone; by topic, partition, base offset and id."""

    def others(self) -> list[str]:
        """What the listing has that this layout does not know."""

    def open(self, item: RemoteObject) -> RemoteFile:
        """The file that an object holds, for reads at positions; `MissingFileError` if it has gone."""

    def size(self, item: RemoteObject) -> int:
        """Bytes of the file that an object holds; `StorageError` if what says so does not agree with the listing."""

    def described(self, listed: ListedSegment) -> RemoteSegment | None:
        """A segment as the event of its copy has it, where its own objects say that; None of other layouts."""
