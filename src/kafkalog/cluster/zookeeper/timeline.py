"""History of a ZooKeeper-mode cluster: controllers, brokers, leaders and ISRs, transaction by transaction.

It is built from all transactions that are still in the logs. The writer of a change is known from its session. The
cause is derived from the states before and after by the rules of `PartitionStateMachine` and `ReplicaStateMachine`, and
given only if they are unambiguous. Times are from the clock of ZooKeeper's leader; the order is that of the
transactions.
"""

from __future__ import annotations

import re

from msgspec import Struct, field
from msgspec.structs import replace

from kafkalog.cluster.zookeeper.directory import ZooKeeperDirectory
from kafkalog.cluster.zookeeper.kafka_nodes import PartitionState, chroots, controller_id, partition_state, replicas_of
from kafkalog.cluster.zookeeper.replay import Replayer
from kafkalog.cluster.zookeeper.transaction import Transaction, TransactionType
from kafkalog.cluster.zookeeper.tree import Tree
from kafkalog.codec.common.findings import Finding

__all__ = ["BrokerLife", "ControllerTerm", "LeaderChange", "Timeline", "from_the_beginning", "timeline"]

_STATE = re.compile(r"(.*)/brokers/topics/([^/]+)/partitions/(\d{1,10})/state\Z")
_ENDS = (TransactionType.CLOSE_SESSION, TransactionType.DELETE)
_NO_LEADER = -1


class ZxidSpan(Struct, frozen=True, kw_only=True):
    """The time from one transaction to another; the end is None while it lasts."""

    from_zxid: int
    from_time: int
    to_zxid: int | None = None
    to_time: int | None = None
    ended_by: str | None = None


class ControllerTerm(Struct, frozen=True, kw_only=True):
    """A broker's term as controller; `epoch` is None if `/controller_epoch` does not contain it."""

    chroot: str
    broker: int | None
    epoch: int | None
    session: int
    span: ZxidSpan


class BrokerLife(Struct, frozen=True, kw_only=True):
    """A broker's registration; `epoch` is the node's czxid, which is the broker epoch from 2.2 on."""

    chroot: str
    broker: str
    epoch: int
    session: int
    span: ZxidSpan


class LeaderChange(Struct, frozen=True, kw_only=True):
    """A change of a partition's state; `before` is None at its creation, `after` at its deletion."""

    zxid: int
    time: int
    chroot: str
    topic: str
    partition: int
    before: PartitionState | None
    after: PartitionState | None
    writer: str | None
    """broker whose session wrote the change, if known"""
    cause: str

    @property
    def is_election(self) -> bool:
        """Whether the change created a new leader epoch."""
        return self.after is not None and (self.before is None or self.before.leader_epoch != self.after.leader_epoch)


class Timeline(Struct, kw_only=True):
    """The history of one or more clusters: terms of controllers, registrations of brokers and changes of partitions, in
    order of the transactions. `tree` and `zxid` are the last state that was read.
    """

    terms: list[ControllerTerm] = field(default_factory=list)
    brokers: list[BrokerLife] = field(default_factory=list)
    changes: list[LeaderChange] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    tree: Tree = field(default_factory=Tree)
    zxid: int = 0

    def of(self, chroot: str) -> Timeline:
        """Return a copy with only the terms, brokers and changes of the cluster at `chroot`; its other fields are the
        same.
        """
        return replace(
            self,
            terms=[term for term in self.terms if term.chroot == chroot],
            brokers=[broker for broker in self.brokers if broker.chroot == chroot],
            changes=[change for change in self.changes if change.chroot == chroot],
        )


def from_the_beginning(directory: ZooKeeperDirectory) -> ZooKeeperDirectory:
    """Return the directory with its oldest snapshot only, or without snapshots if the logs begin at the first
    transaction of all.
    """
    first_log = directory.logs[0][0] if directory.logs else None
    keep = 0 if first_log == 1 and directory.snapshots and directory.snapshots[0][0] > 0 else 1
    return ZooKeeperDirectory(directory.paths, directory.logs, directory.snapshots[:keep])


class _Watcher:
    """Observer of a replayed tree that records controllers, broker registrations and partition changes in `found`."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.found = Timeline()
        self.states: dict[tuple[str, str, int], PartitionState] = {}
        self.terms: dict[str, int] = {}
        self.lives: dict[tuple[str, str], int] = {}
        for path, node in tree.nodes.items():
            if (match := _STATE.match(path)) is not None:
                state = partition_state(node.data)
                if state is not None:
                    self.states[match[1], match[2], int(match[3])] = state
        self._look(0, 0, None)

    def see(self, transaction: Transaction) -> None:
        if transaction.failed:
            return
        paths = [operation.path for operation in transaction.operations if operation.path is not None]
        ended = any(operation.type in _ENDS for operation in transaction.operations)
        if ended or any("/brokers/ids" in path or "/controller" in path for path in paths):
            reason = None
            if transaction.type is TransactionType.CLOSE_SESSION:
                reason = "session closed by its client" if transaction.cxid else "session expired"
            elif ended:
                reason = "node deleted"
            self._look(transaction.zxid, transaction.time, reason)
        for path in dict.fromkeys(paths):
            if (match := _STATE.match(path)) is not None:
                self._state(path, (match[1], match[2], int(match[3])), transaction)

    def _look(self, zxid: int, time: int, reason: str | None) -> None:
        """Compare the controllers and broker registrations of all clusters with their state at the previous call. New
        ones are appended to `self.found`, and ended ones get the end of their span there. Broker and epoch of a
        controller that stays are brought up to date. `zxid` and `time` (ms since 1970) belong to the present
        transaction. `reason` is why a node was removed; if it is None, "replaced" is noted.
        """
        followed = {*self.terms, *(chroot for chroot, _broker in self.lives)}  # their nodes may be gone
        for chroot in sorted(followed.union(chroots(self.tree.nodes))):
            self._controller(chroot, zxid, time, reason)
            ids = self.tree.nodes.get(f"{chroot}/brokers/ids")
            registered = ids.children if ids is not None else set()
            known = {name for where, name in self.lives if where == chroot}
            for name in sorted(known | registered):
                self._broker(chroot, name, zxid, time, reason)

    def _controller(self, chroot: str, zxid: int, time: int, reason: str | None) -> None:
        node = self.tree.nodes.get(f"{chroot}/controller")
        at = self.terms.get(chroot)
        term = self.found.terms[at] if at is not None else None
        epoch_node = self.tree.nodes.get(f"{chroot}/controller_epoch")
        text = (epoch_node.data or b"").strip() if epoch_node is not None else b""
        epoch = int(text) if text.isdigit() and len(text) < 11 else None
        if term is not None and at is not None and (node is None or node.czxid != term.span.from_zxid):
            span = replace(term.span, to_zxid=zxid, to_time=time, ended_by=reason or "replaced")
            self.found.terms[at] = replace(term, span=span)
            del self.terms[chroot]
            term = None
        if node is None:
            return
        if term is None:
            self.terms[chroot] = len(self.found.terms)
            span = ZxidSpan(from_zxid=node.czxid, from_time=node.ctime)
            self.found.terms.append(
                ControllerTerm(
                    chroot=chroot, broker=controller_id(node.data), epoch=epoch, session=node.ephemeral_owner, span=span
                )
            )
        elif at is not None:  # up to 2.0 the epoch follows in a transaction of its own, from 2.2 on the data
            self.found.terms[at] = replace(term, broker=controller_id(node.data), epoch=epoch)

    def _broker(self, chroot: str, name: str, zxid: int, time: int, reason: str | None) -> None:
        node = self.tree.nodes.get(f"{chroot}/brokers/ids/{name}")
        at = self.lives.get((chroot, name))
        if at is not None:
            life = self.found.brokers[at]
            if node is not None and node.czxid == life.epoch:
                return
            span = replace(life.span, to_zxid=zxid, to_time=time, ended_by=reason or "replaced")
            self.found.brokers[at] = replace(life, span=span)
            del self.lives[chroot, name]
        if node is not None:
            self.lives[chroot, name] = len(self.found.brokers)
            span = ZxidSpan(from_zxid=node.czxid, from_time=node.ctime)
            self.found.brokers.append(
                BrokerLife(chroot=chroot, broker=name, epoch=node.czxid, session=node.ephemeral_owner, span=span)
            )

    def _state(self, path: str, key: tuple[str, str, int], transaction: Transaction) -> None:
        node = self.tree.nodes.get(path)
        after = partition_state(node.data) if node is not None else None
        before = self.states.get(key)
        if before == after:
            return
        if after is None:
            self.states.pop(key, None)
        else:
            self.states[key] = after
        chroot, topic, partition = key
        live = {name for where, name in self.lives if where == chroot}
        writer = next(
            (name for (where, name), at in self.lives.items()
             if where == chroot and self.found.brokers[at].session == transaction.session),
            None,
        )  # fmt: skip
        topic_node = self.tree.nodes.get(f"{chroot}/brokers/topics/{topic}")
        replicas = replicas_of(topic_node.data).get(partition, ()) if topic_node is not None else ()
        cause = cause_of(before, after, replicas, live)
        if (
            after is not None
            and after.leader == _NO_LEADER
            and f"{chroot}/admin/delete_topics/{topic}" in self.tree.nodes
        ):
            cause = "topic is being deleted"
        self.found.changes.append(
            LeaderChange(
                zxid=transaction.zxid,
                time=transaction.time,
                chroot=chroot,
                topic=topic,
                partition=partition,
                before=before,
                after=after,
                writer=writer,
                cause=cause,
            )
        )


def cause_of(
    before: PartitionState | None, after: PartitionState | None, replicas: tuple[int, ...], live: set[str]
) -> str:
    """Describe the cause of a partition's change in a few words, for example `ISR shrinks` or `unclean election`.

    `before` is None for a new partition, `after` None for a deleted one. `replicas` are the assigned brokers, `live`
    the ids (as text) of the registered ones. If the two states do not determine the cause, the text is general:
    `rewritten` or `elected`.
    """
    if before is None:
        return "created"
    if after is None:
        return "topic deleted"
    grown, shrunk = set(after.isr) - set(before.isr), set(before.isr) - set(after.isr)
    if after.leader_epoch == before.leader_epoch:
        return "ISR grows" if grown else "ISR shrinks" if shrunk else "rewritten"
    if after.leader == _NO_LEADER:
        return "leader lost: no replica may lead"
    if after.leader == before.leader:
        return "ISR shrinks, by the controller" if shrunk else "new epoch of the same leader"
    if after.recovering or after.leader not in before.isr:
        return "unclean election"
    if before.leader == _NO_LEADER:
        return "elected: there was no leader"
    return _succession(before, after, replicas, live)


def _succession(before: PartitionState, after: PartitionState, replicas: tuple[int, ...], live: set[str]) -> str:
    if before.leader not in replicas:
        return "elected: reassignment"
    if str(before.leader) not in live:
        return "elected: the old leader's broker is gone"
    if before.leader not in after.isr:
        return "elected: controlled shutdown of the old leader's broker"
    return "preferred leader elected" if replicas and after.leader == replicas[0] else "elected"


def timeline(directory: ZooKeeperDirectory, zxid: int | None = None) -> Timeline:
    """Read the history up to and including `zxid`, or to the end of the logs if it is None. It begins with the oldest
    snapshot, or with the logs if these begin with the first transaction of all or no snapshot can be used.

    Damage becomes findings of the result. Raises `UsageError` for a `zxid` beyond the last transaction, unless damage
    hides the end of the logs. Raises `StorageError` if files cannot be read.
    """
    replayer = Replayer(from_the_beginning(directory), zxid)
    watcher = _Watcher(replayer.tree)
    for transaction in replayer:
        watcher.see(transaction)
    timeline = watcher.found
    timeline.findings, timeline.tree, timeline.zxid = replayer.findings, replayer.tree, replayer.zxid
    return timeline
