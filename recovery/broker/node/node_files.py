"""Find the log directories of one node as a start does, from its properties, and read their `meta.properties`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from kafkalog.codec.common.errors import FormatError, StorageError, UsageError
from kafkalog.codec.common.limits import DEFAULT_LIMITS
from kafkalog.codec.files.text import MetaProperties, decode_meta_properties
from kafkalog.codec.names import CLUSTER_METADATA_DIRECTORY, META_PROPERTIES, parse_java_long, parse_segment_file
from kafkalog.log.disk.files import is_mounted_read_only, read_small
from kafkalog.log.storage.java import TooLargeError
from kafkalog.log.storage.tree import Tree
from kafkalog.recovery.broker.node.answer import Role
from kafkalog.recovery.facts.owners import ClosedFiles, closed_files
from kafkalog.recovery.facts.survey import Survey, survey

__all__ = ["NodeFiles", "node_files", "read_identity"]

_COMMA = re.compile(r"\s*,\s*")


@dataclass(slots=True)
class NodeFiles:
    """Files that a start reads first: log directories and properties. `meta` has for each directory its
    `meta.properties`, the error if it cannot be read, or None if it is missing.
    """

    roots: tuple[str, ...]
    metadata_root: str | None
    """directory of the metadata log; None if no directory has one and the properties do not name it"""
    properties: Mapping[str, str]
    meta: Mapping[str, MetaProperties | str | None]
    unreadable: Mapping[str, str] = field(default_factory=dict)
    """directory -> error for those that cannot be listed"""
    missing: frozenset[str] = frozenset()
    """directories that do not exist"""
    are_all: bool = False
    """whether the properties name the directories, so that the node has no others"""
    planned: Mapping[str, Tree] = field(default_factory=dict, repr=False)
    """trees that recoveries would leave, by directory, which count in place of the files"""
    _surveys: dict[str, Survey] = field(default_factory=dict, repr=False)
    _closed: dict[str, ClosedFiles | None] = field(default_factory=dict, repr=False)

    @property
    def metadata_directory(self) -> str | None:
        """Path of `__cluster_metadata-0`; None if it does not exist."""
        if self.metadata_root is None:
            return None
        path = os.path.join(self.metadata_root, CLUSTER_METADATA_DIRECTORY)
        return path if os.path.isdir(path) else None

    @property
    def stated_role(self) -> Role | None:
        """Role in the properties: by `process.roles` if it is set, else ZOOKEEPER_BROKER if `zookeeper.connect` is
        there. None if neither is set or there are no properties. Unknown names in `process.roles` give BROKER.
        """
        if not self.properties:
            return None
        roles = {part.strip() for part in self.properties.get("process.roles", "").split(",") if part.strip()}
        if not roles:
            return Role.ZOOKEEPER_BROKER if "zookeeper.connect" in self.properties else None
        if roles == {"broker", "controller"}:
            return Role.COMBINED
        return Role.CONTROLLER if roles == {"controller"} else Role.BROKER

    @property
    def stated_node_id(self) -> int | None:
        """Node id in the properties: `node.id`, else `broker.id`; None if neither is a number."""
        return stated_node_id(self.properties)

    @property
    def node_id(self) -> int | None:
        """Node id in the properties, else in the first `meta.properties` that has one; None if none has."""
        if self.stated_node_id is not None:
            return self.stated_node_id
        known = [meta.node_id for meta in self.meta.values() if isinstance(meta, MetaProperties)]
        return next((node_id for node_id in known if node_id is not None), None)

    @property
    def cluster_id(self) -> str | None:
        """Cluster id in the first `meta.properties` that has one; None if none has."""
        known = [meta.cluster_id for meta in self.meta.values() if isinstance(meta, MetaProperties)]
        return next((cluster_id for cluster_id in known if cluster_id is not None), None)

    def names_of(self, root: str) -> list[str]:
        """Return the different texts by which `log.dirs` and `metadata.log.dir` name a log directory, sorted; empty if
        the properties do not name the directories. Symbolic links are followed.
        """
        texts = {*log_dirs_of(self.properties), self.properties.get("metadata.log.dir", "").strip()} - {""}
        place = os.path.realpath(root)
        return sorted(text for text in texts if self.are_all and os.path.realpath(text) == place)

    @property
    def paths_elsewhere(self) -> tuple[str, ...]:
        """Directories that the properties name, if none of them is among `roots`; empty if one is, or none is named."""
        return () if self.are_all else log_dirs_of(self.properties)

    def surveyed(self, root: str) -> Survey:
        """Return the survey of one log directory; it is made once, and closed by `close`. Raises `StorageError` if the
        directory cannot be listed.
        """
        known = self._surveys.get(root)
        if known is None:
            known = self._surveys[root] = survey(root, tolerant=True, follows=True)
        return known

    def tree(self, root: str) -> Tree:
        """Return the tree of one log directory, or the planned one. Raises `StorageError` if the directory cannot be
        listed.
        """
        planned = self.planned.get(root)
        return self.surveyed(root).tree() if planned is None else planned.copy()

    def outline(self, root: str) -> Tree:
        """Return the tree of one log directory without the files of segments, but with every name that can end a start.
        Raises `StorageError` if the directory cannot be listed.
        """
        surveyed = self.surveyed(root)
        kept = {path: facts for path, facts in surveyed.files.items()
                if "/" not in path or parse_segment_file(path.rpartition("/")[2]) is None}  # fmt: skip
        return replace(surveyed, files=kept).tree()

    def closed(self, root: str) -> ClosedFiles | None:
        """The user of the node (as far as it follows from its files), and the paths in one log directory that this user
        may not open or change; None if it may use all. Cached.
        """
        if root not in self._closed:
            self._closed[root] = closed_files(root, self.roots)
        return self._closed[root]

    def is_read_only(self, root: str) -> bool:
        """Whether the file system of the log directory `root` is mounted read-only. False if the properties do not name
        the directory, because a copy to be examined is often mounted so, and if this cannot be found out.
        """
        return self.are_all and is_mounted_read_only(root)

    def close(self) -> None:
        """Close the surveys' open files."""
        for opened in self._surveys.values():
            opened.close()


def node_files(
    roots: Sequence[str], properties: Mapping[str, str] | None = None, planned: Mapping[str, Tree] | None = None
) -> NodeFiles:
    """Read `meta.properties` of a node's log directories, and note which files cannot be read, and which directories
    are missing or cannot be listed; no exception is raised for these. All paths in the result are absolute. `planned`
    has the trees that recoveries would leave, by directory; their files count in place of those on disk, except for the
    metadata log.

    `properties` are the node's server properties. If their `log.dirs` (or `log.dir`) name one of `roots`, `are_all` is
    True, and the metadata log is in `metadata.log.dir`, or else in the first of `log.dirs`. All these directories are
    added to `roots`. Otherwise the paths in `properties` are ignored, and the metadata log is in the first directory
    that has one (None if none has). Paths are compared after symbolic links are resolved.
    """
    given = properties or {}
    trees = {os.path.abspath(root): tree for root, tree in (planned or {}).items()}
    named = log_dirs_of(given)
    metadata = given.get("metadata.log.dir", "").strip() or next(iter(named), None)
    known = {os.path.realpath(root): os.path.abspath(root) for root in roots}
    are_all = any(os.path.realpath(path) in known for path in named)
    if are_all:  # else the properties are of other paths
        for path in named:
            known.setdefault(os.path.realpath(path), os.path.abspath(path))
    else:
        metadata = None
    if metadata is not None:
        metadata = known.setdefault(os.path.realpath(metadata), os.path.abspath(metadata))
    listed = tuple(known.values())
    meta: dict[str, MetaProperties | str | None] = {}
    unreadable: dict[str, str] = {}
    for root in listed:
        meta[root] = read_identity(root, trees.get(root))
        if os.path.lexists(root):
            try:
                os.listdir(root)
            except OSError as error:
                unreadable[root] = str(error.strerror)
    if metadata is None:
        metadata = next(
            (root for root in listed if os.path.isdir(os.path.join(root, CLUSTER_METADATA_DIRECTORY))), None
        )
    gone = frozenset(root for root in listed if not os.path.lexists(root))
    return NodeFiles(
        roots=listed, metadata_root=metadata, properties=given, meta=meta, unreadable=unreadable, missing=gone,
        are_all=are_all, planned=trees,
    )  # fmt: skip


def stated_node_id(properties: Mapping[str, str]) -> int | None:
    """Return the node id in server properties: `node.id`, else `broker.id`; None if neither is a number."""
    numbers = (parse_java_long(properties.get(name, "").strip(), 32) for name in ("node.id", "broker.id"))
    return next((number for number in numbers if number is not None), None)


def log_dirs_of(properties: Mapping[str, str]) -> tuple[str, ...]:
    """Return the paths in `log.dirs` of server properties, or else in `log.dir`; empty if neither is set."""
    return tuple(filter(None, _COMMA.split(properties.get("log.dirs", properties.get("log.dir", "")).strip())))


def read_identity(root: str, planned: Tree | None = None) -> MetaProperties | str | None:
    """Return the `meta.properties` of a log directory; a text with the reason if it cannot be read; None if it is
    missing. If the tree `planned` has the file, it is read from there. A symbolic link is followed, as by a broker.
    """
    path = os.path.realpath(os.path.join(root, META_PROPERTIES))  # a broker follows a link
    try:
        if planned is not None and META_PROPERTIES in planned.files:
            return decode_meta_properties(planned.read(META_PROPERTIES))
        return decode_meta_properties(read_small(path, DEFAULT_LIMITS.checkpoint_bytes))
    except FormatError as error:
        return error.message
    except TooLargeError as error:
        return str(error)
    except FileNotFoundError:
        return None
    except (StorageError, UsageError, OSError) as error:
        missing = getattr(error, "errno", None) == 2
        return None if missing else str(error)
