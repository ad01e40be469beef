"""Predict a node's start for a command that has already read one of its log directories."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from msgspec import Struct, structs

from kafkalog.codec.common.arguments import check_fields
from kafkalog.codec.common.findings import Finding
from kafkalog.codec.names import META_PROPERTIES, DirectoryState, parse_partition_directory
from kafkalog.log.directories.directory import is_readable_partition
from kafkalog.log.directories.identities import meta_properties_of
from kafkalog.log.storage.tree import Tree
from kafkalog.recovery.broker.manager import BrokerResult
from kafkalog.recovery.broker.node.answer import NodeAnswer, NodeStart, StartOutcome
from kafkalog.recovery.broker.node.node_files import log_dirs_of, stated_node_id
from kafkalog.recovery.broker.node.sentences import node_findings
from kafkalog.recovery.broker.node_start import node_start

__all__ = ["ANYTHING", "StartQuestion", "directories_of_node", "findings_for", "start_with"]


class StartQuestion(Struct, frozen=True):
    """Facts about a node besides its directories: the release to ask about (None: all), and its properties."""

    release: str | None = None
    properties: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        check_fields(self)


ANYTHING = StartQuestion()
"""all releases, no properties"""


def start_with(
    root: str,
    roots: Sequence[str],
    loaded: Mapping[str, BrokerResult],
    asked: StartQuestion = ANYTHING,
    now_ms: int | None = None,
    controllers: Sequence[str] = (),
    apart: Sequence[str] = (),
    planned: Mapping[str, Tree] | None = None,
    *,
    loads_others: bool = False,
) -> NodeStart:
    """Predict the start of the node that `root` belongs to. Its log directories are `root` and those in `roots` that
    are not copies of it. Reads only. Raises `UsageError` if the release is not a version number or not known, and
    `StorageError` in the cases in which `node_start` does.

    * `loaded`: results of loading logs, by log directory
    * `asked`: properties and release to ask about. If the properties are of another node and do not name `root`, they
      are ignored, and every answer has a condition that says so
    * `now_ms`: time to treat as now, in ms since 1970; None: the clock's
    * `controllers`: log directories of other nodes of the cluster, for their metadata
    * `apart`: directories that name another broker but may belong to this one. If there is one, every answer becomes
      UNKNOWN, unless no release starts without it either
    * `planned`: trees that recoveries would leave, as in `node_start`
    * `loads_others`: whether the logs of directories that are not in `loaded` are loaded; if False, their segments are
      not read
    """
    others = _other_node(root, asked.properties or {})
    start = node_start(
        directories_of_node(root, roots),
        properties=None if others is not None else asked.properties or None,
        release=asked.release,
        # an error before the logs without an exception is of `meta.properties`
        loaded={
            path: result
            for path, result in loaded.items()
            if not result.is_before_logs or result.error is not None
        },
        loads_others=loads_others,
        controllers=controllers,
        now_ms=now_ms,
        planned=planned,
    )
    if others is not None:
        condition = f"with its own properties: those that were given are of node {others}"
        start = structs.replace(start, answers=tuple(
            structs.replace(answer, condition="; ".join(filter(None, (answer.condition, condition))))
            for answer in start.answers
        ))  # fmt: skip
    if not apart or start.never_starts:
        return start
    message = f"{apart[0]} names another broker or cluster: a broker that has both starts with neither"
    answer = NodeAnswer(outcome=StartOutcome.UNKNOWN, message=message)
    return structs.replace(start, answers=tuple(answer for _each in start.answers))


def _other_node(root: str, properties: Mapping[str, str]) -> int | None:
    """Return the node id in server properties that are of another node than `root`: they have another id than its
    `meta.properties`, and name directories, but not `root`. None if they may be of this node, also because a node id is
    unknown.
    """
    meta, stated = meta_properties_of(root), stated_node_id(properties)
    if meta is None or stated in (None, meta.node_id) or meta.node_id is None:
        return None
    paths = (*log_dirs_of(properties), properties.get("metadata.log.dir", "").strip())
    named = [os.path.realpath(path) for path in paths if path]
    return stated if named and os.path.realpath(root) not in named else None


def directories_of_node(root: str, roots: Sequence[str]) -> list[str]:
    """Return the log directories of the node that `root` belongs to: `root`, and the directories in `roots` that are
    not copies of it. They are in the order of `roots`; `root` is first if it is not among them. A partition directory
    is replaced by its log directory. A directory is a copy if it has the directory id of `root` and a partition in
    common with it.
    """
    real = os.path.realpath(root)
    directories = [
        root if os.path.realpath(directory) == real else directory
        for directory in dict.fromkeys(map(_log_directory_of, roots))
        if os.path.realpath(directory) == real or not _is_copy(root, directory)
    ]
    return directories if root in directories else [root, *directories]


def _log_directory_of(path: str) -> str:
    """Return the absolute path of the parent of `path` if `path` is a partition directory; any other path unchanged. A
    partition directory has a name like one, has no `meta.properties` of its own, and has a partition's files or a
    `meta.properties` beside it. A log directory can have such a name too, for example `logs-1`.
    """
    whole = os.path.abspath(path)
    parent = os.path.dirname(whole)
    is_called_so = parse_partition_directory(os.path.basename(whole)) is not None
    if not is_called_so or os.path.exists(os.path.join(whole, META_PROPERTIES)):
        return path
    return parent if os.path.exists(os.path.join(parent, META_PROPERTIES)) or is_readable_partition(whole) else path


def _is_copy(root: str, other: str) -> bool:
    own, theirs = meta_properties_of(root), meta_properties_of(other)
    if own is None or theirs is None or own.directory_id is None or own.directory_id != theirs.directory_id:
        return False
    return bool(_live(root) & _live(other))


def _live(root: str) -> frozenset[str]:
    """Return the names of the live partition directories (not `-future`, `-delete` or `-stray`) in a log directory;
    empty if it cannot be listed.
    """
    try:
        names = os.listdir(root)
    except OSError:
        return frozenset()
    parsed = ((name, parse_partition_directory(name)) for name in names)
    return frozenset(name for name, found in parsed if found is not None and found.state is DirectoryState.LIVE)


def findings_for(start: NodeStart, root: str, roots: Sequence[str]) -> list[Finding]:
    """Return the findings about a node's start that are reported for the log directory `root`. Each finding is reported
    for one directory only: the one that contains its file, else the first of `roots` (`root` if there are none).
    """
    real = os.path.realpath(root)
    first = os.path.realpath(roots[0]) if roots else real
    findings = []
    for finding in node_findings(start):
        place = os.path.realpath(finding.file or first)
        owner = next((node_root for node_root in start.roots if _is_in(place, os.path.realpath(node_root))), first)
        if os.path.realpath(owner) == real:
            findings.append(finding)
    return findings


def _is_in(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory + os.sep)
