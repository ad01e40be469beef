"""The question about a node's start as commands ask it: about one log directory that they have read already."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from kafkalog.classes import dataclass
from kafkalog.codec.findings import Finding
from kafkalog.codec.names import META_PROPERTIES, DirectoryState, parse_partition_directory
from kafkalog.log.directories.identities import meta_properties_of
from kafkalog.recovery.broker.manager import BrokerResult
from kafkalog.recovery.broker.node.answer import NodeAnswer, NodeStart, StartOutcome
from kafkalog.recovery.broker.node.sentences import node_findings
from kafkalog.recovery.broker.node_start import node_start

__all__ = ["ANYTHING", "StartQuestion", "directories_of_node", "findings_for", "start_with"]


@dataclass(frozen=True, slots=True)
class StartQuestion:
    """What is known of a node beside its directories: the release that is asked about, and its properties."""

    release: str | None = None
    properties: Mapping[str, str] | None = None


ANYTHING = StartQuestion()
"""every release, and no properties"""


def start_with(
    root: str,
    roots: Sequence[str],
    loaded: Mapping[str, BrokerResult],
    asked: StartQuestion = ANYTHING,
    now_ms: int | None = None,
    controllers: Sequence[str] = (),
    apart: Sequence[str] = (),
) -> NodeStart:
    """What the node does that `root` belongs to, among the log directories `roots` that are known of it.

    `loaded` is what loading the logs comes to, by log directory; those of other directories are not loaded here.
    `controllers` are log directories of other nodes of the cluster, for the metadata that they have; `apart` are
    directories that name another broker and may be this one's all the same, so that the answer is not known.
    """
    start = node_start(
        directories_of_node(root, roots),
        properties=asked.properties or None,
        release=asked.release,
        # an error before the logs without an exception is of `meta.properties`
        loaded={path: each for path, each in loaded.items() if not each.is_before_logs or each.error is not None},
        loads_others=False,
        controllers=controllers,
        now_ms=now_ms,
    )
    if not apart or start.never_starts:
        return start
    message = f"{apart[0]} names another broker or cluster: a broker that has both starts with neither"
    answer = NodeAnswer(StartOutcome.UNKNOWN, message=message)
    return replace(start, answers=tuple(answer for _each in start.answers))


def directories_of_node(root: str, roots: Sequence[str]) -> list[str]:
    """`root` and the other log directories of its node, in the order of `roots`; copies of `root` are left out.

    A copy, such as the same directory before and after something, has its directory id and some of its partitions.
    """
    real = os.path.realpath(root)
    found = [
        root if os.path.realpath(each) == real else each
        for each in dict.fromkeys(map(_log_directory_of, roots))
        if os.path.realpath(each) == real or not _is_copy(root, each)
    ]
    return found if root in found else [root, *found]


def _log_directory_of(path: str) -> str:
    """The directory of a partition directory that was given by itself; any other path as it is."""
    whole = os.path.abspath(path)
    is_partition = parse_partition_directory(os.path.basename(whole)) is not None
    return os.path.dirname(whole) if is_partition and not os.path.exists(os.path.join(whole, META_PROPERTIES)) else path


def _is_copy(root: str, other: str) -> bool:
    own, theirs = meta_properties_of(root), meta_properties_of(other)
    if own is None or theirs is None or own.directory_id is None or own.directory_id != theirs.directory_id:
        return False
    return bool(_live(root) & _live(other))


def _live(root: str) -> frozenset[str]:
    """Names of the live partition directories in a log directory; none if it cannot be listed."""
    try:
        names = os.listdir(root)
    except OSError:
        return frozenset()
    parsed = ((name, parse_partition_directory(name)) for name in names)
    return frozenset(name for name, found in parsed if found is not None and found.state is DirectoryState.LIVE)


def findings_for(start: NodeStart, root: str, roots: Sequence[str]) -> list[Finding]:
    """The findings about a start that are to be told of one of a node's directories: each is told of one only."""
    real = os.path.realpath(root)
    first = os.path.realpath(roots[0]) if roots else real
    found = []
    for finding in node_findings(start):
        place = os.path.realpath(finding.file or first)
        owner = next((each for each in start.roots if _is_in(place, os.path.realpath(each))), first)
        if os.path.realpath(owner) == real:
            found.append(finding)
    return found


def _is_in(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory + os.sep)
