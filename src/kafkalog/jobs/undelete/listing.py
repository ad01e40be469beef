"""List deleted data that is still on disk."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack

from msgspec.structs import replace

from kafkalog.codec.common.advice import Ask, Sentence
from kafkalog.jobs.undelete.below_start import below_start_in
from kafkalog.jobs.undelete.remains import OnUnreadable, Remains, RemainsKind, each_place, remains_in, why_elsewhere
from kafkalog.jobs.undelete.results import holds_data
from kafkalog.log.disk.files import PathLike
from kafkalog.recovery.act.history import root_of_runs
from kafkalog.recovery.facts.brokers import facts_of_each
from kafkalog.recovery.facts.topic_facts import TopicFacts

__all__ = ["deleted"]


def deleted(
    path: PathLike,
    *,
    topic: str | None = None,
    partitions: Sequence[int] = (),
    quarantine: PathLike | None = None,
    on_unreadable: OnUnreadable | None = None,
    beside: Sequence[PathLike] = (),
) -> tuple[Remains, ...]:
    """Return deleted data of a log directory that is still on disk, sorted by topic, partition, execution id and
    directory. Reads the logs with such data; changes nothing.

    Searches the directory itself and what its finished and superseded executions keep. `on_unreadable` is called with
    the path of each directory that cannot be read and the error; the others are still examined. Raises `UsageError` for
    a path that does not exist, or has no executions and is not a log directory or a partition directory in one. Raises
    `RecoveryRefused` for a pointer file that kafkalog did not write. Raises `StorageError` if a log directory (also
    one of `beside`) or a quarantine cannot be listed, or the log-start checkpoint cannot be read. Without
    `on_unreadable` it is raised also if another directory cannot be read.

    * `path`: the log directory, or a partition directory in it, which stands for it
    * `topic`: name of the deleted topic; None: all
    * `partitions`: numbers of partitions; none: all
    * `quarantine`: where executions keep what they removed, if it is not the usual place
    * `beside`: other log directories; those of the same broker may hold its metadata log
    """
    root = root_of_runs(path)
    leftovers: list[Remains] = []
    with ExitStack() as stack:
        places = list(each_place(stack, path, quarantine, on_unreadable))
        facts = facts_of_each([root, *map(root_of_runs, beside)])[root]
        for place, run_id in places:
            leftovers += remains_in(place, run_id, topic, partitions, on_unreadable)
            if run_id is None:  # the log directory itself, with its live segments
                leftovers += below_start_in(place, topic, partitions, on_unreadable, facts.replicas)
    leftovers = [_beside_live(remains, facts.roots) for remains in leftovers]
    if facts.source is not None and facts.problem is None:
        leftovers = [_with_cluster(remains, facts) for remains in leftovers]
    return tuple(
        sorted(
            leftovers,
            key=lambda remains: (remains.topic, remains.partition, remains.run_id or "", remains.directory),
        )
    )


def _beside_live(remains: Remains, roots: Sequence[str]) -> Remains:
    """Return a copy of `remains` that is marked as not restorable, if another log directory of the broker has the
    partition with data of its own. Otherwise, or if it is a live log's deleted segments or not restorable anyway,
    return it unchanged. `roots` are the broker's log directories. Raises `StorageError` if a directory cannot be
    listed.
    """
    name = f"{remains.topic}-{remains.partition}"
    is_put_back = remains.why_not is None and remains.kind is not RemainsKind.SEGMENTS
    places = (os.path.join(root, name) for root in roots if os.path.realpath(root) != remains.place)
    other = next((place for place in places if is_put_back and os.path.isdir(place) and holds_data(place)), None)
    if other is None:
        return remains
    own_data = f"{other} exists and holds its own data: extract it with "
    why_not = Sentence(own_data, Ask.UNDELETE_INTO, ", or name another topic with ", Ask.AS_TOPIC)
    return replace(remains, outcome="", why_not=why_not)


def _with_cluster(remains: Remains, facts: TopicFacts) -> Remains:
    if remains.why_not is not None or remains.kind is RemainsKind.SEGMENTS:
        return remains
    if remains.topic in facts.topic_ids:
        elsewhere = why_elsewhere(remains, facts)
        return remains if elsewhere is None else replace(remains, outcome="", why_not=elsewhere)
    return replace(remains, outcome=f"{remains.outcome}, once the cluster knows the topic again (it does not now)")
