"""Print groups of old consumers, which kept members and partition owners in ZooKeeper, as tables."""

from __future__ import annotations

from collections.abc import Sequence

from kafkalog.cli.tables import Column, Kind, print_table
from kafkalog.cluster.assignors.old_assignors import Owners
from kafkalog.cluster.groups.old_group_lines import as_derived, as_group, by_thread
from kafkalog.cluster.zookeeper.old_consumers import OldGroup, consumer_of_thread

__all__ = ["AS_DERIVED", "old_row", "print_old_groups"]

AS_DERIVED = {True: "yes", False: "no", None: ""}
"""How a verdict is shown."""


def old_row(old: OldGroup) -> list[object]:
    """Return the cells of an old group's row in the table of groups. The column `in` has the ZooKeeper path, and the
    coordinator is empty (None), because the members of such a group coordinated themselves.
    """
    each = as_group(old)
    place = f"zookeeper{old.chroot}"
    return [each.group_id, each.type, each.state, "", each.assignor, None, len(each.members), len(each.offsets), place,
            None, AS_DERIVED[as_derived(old)]]  # fmt: skip


def print_old_groups(groups: Sequence[OldGroup], without: str | None, joining: str | None) -> None:
    """Print tables about the groups of old consumers. The first has the owners of partitions, with one row for each
    consumer thread; it is omitted if there are none. With `without`, a consumer id, print one table for each group that
    has this consumer: the assignment that results if it leaves. With `joining`, print one table for each group with
    consumers: the assignment that results if a consumer with this id joins. An assignment that is empty or cannot be
    computed is printed as `none`.
    """
    rows = []
    for group in groups:
        registered = {each.consumer_id: each for each in group.consumers}
        for thread, names in (by_thread(group.owners) or {}).items():
            consumer = registered.get(consumer_of_thread(thread))
            about = [consumer.pattern, consumer.timestamp] if consumer is not None else ["not registered", None]
            rows.append([group.group, thread, *about, " ".join(names or [])])
    if rows:
        print_table(
            "owners in ZooKeeper",
            [
                "group",
                Column("thread", wraps=True),
                Column("subscribed by", drop=2),
                Column("since", Kind.TIME, drop=1),
                Column("owns", wraps=True),
            ],
            rows,
        )
    whatifs: list[tuple[str, str, Owners | None]] = []
    if without is not None:
        leaving = [each for each in groups if without in {one.consumer_id for one in each.consumers}]
        whatifs += [(f"without {without}", old_group.group, old_group.without(without)) for old_group in leaving]
    if joining is not None:
        whatifs += [(f"with {joining}", each.group, each.joined_by(joining)) for each in groups if each.consumers]
    for title, name, owners in whatifs:
        threads = (by_thread(owners) or {}).items()
        print_table(
            title,
            ["group", "thread", Column("assignment", wraps=True)],
            [[name, each, " ".join(n or [])] for each, n in threads],
        )
