"""ZooKeeper's tree as of any transaction, rebuilt from a snapshot and the log transactions after it (`FileTxnSnapLog`).

A snapshot is used if nothing in it is later than the requested transaction. If one cannot be read, the next older one
is used, as ZooKeeper does. If the requested transaction is lost in a gap, the result is the last tree before the gap,
with a finding. For a transaction beyond the last one an error is raised. If transactions have digests (3.6 and later),
the rebuilt tree is checked against them.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, field

from kafkalog.cluster.zookeeper.directory import ZooKeeperDirectory
from kafkalog.cluster.zookeeper.log_file import LogFileReader
from kafkalog.cluster.zookeeper.snapshot import Snapshot, read_snapshot
from kafkalog.cluster.zookeeper.transaction import Transaction
from kafkalog.cluster.zookeeper.tree import Tree
from kafkalog.codec.common.errors import FormatError, UsageError
from kafkalog.codec.common.finding_codes import Trait, codes_with
from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits

__all__ = ["Replay", "Replayer", "is_gap", "tree_at"]

_COUNTER = (1 << 32) - 1
_LOST = "what lies between is lost, or is in another server's log"
_UNREADABLE = codes_with(Trait.UNREAD_STATE)


class Replay(Struct, kw_only=True):
    """A rebuilt tree, and the snapshot and transactions that it was built from."""

    tree: Tree
    zxid: int
    """last transaction in the tree"""
    snapshot: str | None
    transactions: int
    """number of transactions that were applied to the snapshot"""
    digests_checked: int = 0
    findings: list[Finding] = field(default_factory=list)


class Replayer:
    """Iterator that applies the transactions after the chosen snapshot to `tree`, and yields each after it was applied.
    Raises `UsageError` at the end if `zxid` is beyond the last transaction.
    """

    def __init__(self, directory: ZooKeeperDirectory, zxid: int | None = None, limits: Limits = DEFAULT_LIMITS) -> None:
        self._directory = directory
        self._until = zxid
        self.findings: list[Finding] = []
        self._later: tuple[int, str] | None = None
        """earliest zxid after `zxid` that exists, and the file that has it"""
        self.snapshot = self._base(limits)
        self.tree = self.snapshot.tree if self.snapshot is not None else Tree.empty()
        self.start = _named(directory, self.snapshot)
        self.zxid = self.start
        self.transactions = 0
        self.digests_checked = 0
        self._digest_from = self.start
        if self.snapshot is not None:
            self._digest_from = max(self.start, self.snapshot.digest_zxid or self.snapshot.newest_zxid)
            self._check_snapshot(self.snapshot)

    def _base(self, limits: Limits) -> Snapshot | None:
        for zxid, path in reversed(self._directory.snapshots):
            if self._until is not None and zxid > self._until:
                self._later = zxid, path
                continue
            try:
                snapshot = read_snapshot(path, limits)
            except FormatError as error:
                broken = error.code == FindingCode.ZK_CHECKSUM_MISMATCH
                code = FindingCode.ZK_CHECKSUM_MISMATCH if broken else FindingCode.ZK_SNAPSHOT_INVALID
                self.findings.append(Finding(code, Severity.ERROR, error.position, None, error.message, path))
                continue
            newest = max(snapshot.newest_zxid, snapshot.digest_zxid or 0)
            if self._until is None or newest <= self._until:
                return snapshot
            self._later = newest, path
        return None

    def _check_snapshot(self, snapshot: Snapshot) -> None:
        if snapshot.digest is None or snapshot.digest_zxid != self.start:
            return  # the digest is of a later moment than the nodes, or there is none
        self.digests_checked += 1
        if snapshot.digest != self.tree.digest:
            detail = "the nodes are not those that the digest was made of"
            code = FindingCode.ZK_DIGEST_MISMATCH
            self.findings.append(Finding(code, Severity.ERROR, None, None, detail, snapshot.path))

    def __iter__(self) -> Iterator[Transaction]:
        yield from self._until_asked()
        if self._until is not None and self.zxid < self._until:
            self._missed(self._until)

    def _until_asked(self) -> Iterator[Transaction]:
        files = [(zxid, path) for zxid, path in self._directory.logs]
        first = max([at for at, (zxid, _) in enumerate(files) if zxid <= self.start + 1], default=0)
        mismatch = False
        for named, path in files[first:]:
            if self._until is not None and named > self._until:
                self._is_later(named, path)
                return
            reader = LogFileReader(path, named)
            begun = False
            for transaction in reader:
                if transaction.zxid <= self.start:
                    begun = True
                    continue
                if self._until is not None and transaction.zxid > self._until:
                    self._is_later(transaction.zxid, path)
                    self.findings.extend(reader.findings)
                    return
                if not begun:
                    self._gap(transaction.zxid, path)
                    begun = True
                self.tree.apply(transaction)
                self.zxid = transaction.zxid
                self.transactions += 1
                if transaction.digest is not None and transaction.zxid > self._digest_from and not mismatch:
                    self.digests_checked += 1
                    mismatch = transaction.digest != self.tree.digest
                    if mismatch:
                        detail = f"after 0x{transaction.zxid:x} the tree is not the one that ZooKeeper had"
                        code = FindingCode.ZK_DIGEST_MISMATCH
                        self.findings.append(Finding(code, Severity.ERROR, None, None, detail, path))
                yield transaction
            self.findings.extend(reader.findings)

    def _gap(self, zxid: int, path: str) -> None:
        """Add a finding if transactions are missing between the last applied one and `zxid`, the first one in the next
        file.
        """
        if is_gap(self.zxid, zxid):
            detail = f"0x{self.zxid:x} is followed by 0x{zxid:x}: {_LOST}"
            self.findings.append(Finding.of(FindingCode.ZK_GAP, None, None, detail, path))

    def _is_later(self, zxid: int, path: str) -> None:
        if self._later is None or zxid < self._later[0]:
            self._later = zxid, path

    def _missed(self, asked: int) -> None:
        """Report that the transaction `asked` was not found. If it lies in a gap, append a finding. If it is beyond the
        last transaction, raise `UsageError`; but if files could not be read, the end is unknown, and nothing is
        reported. If the logs have no gap there, no transaction ever had this zxid, and nothing is reported.
        """
        if self._later is None:
            if any(finding.code in _UNREADABLE for finding in self.findings):
                return  # nobody knows where the end was
            raise UsageError(f"0x{asked:x} is beyond ZooKeeper's last transaction, which is 0x{self.zxid:x}")
        later, path = self._later
        if is_gap(self.zxid, later):
            detail = (
                f"0x{asked:x} is not there: 0x{self.zxid:x}, whose state is taken, is followed by 0x{later:x}; {_LOST}"
            )
            self.findings.append(Finding.of(FindingCode.ZK_GAP, None, None, detail, path))


def is_gap(before: int, zxid: int) -> bool:
    """Whether transactions between zxid `before` and `zxid` are missing; a new epoch starts counting at 1."""
    new_epoch = zxid >> 32 > before >> 32 and zxid & _COUNTER == 1
    return zxid > before + 1 and not new_epoch


def _named(directory: ZooKeeperDirectory, snapshot: Snapshot | None) -> int:
    if snapshot is None:
        return 0
    return next(zxid for zxid, path in directory.snapshots if path == snapshot.path)


def tree_at(directory: ZooKeeperDirectory, zxid: int | None = None, limits: Limits = DEFAULT_LIMITS) -> Replay:
    """Return the tree after transaction `zxid`, or after the last one if it is None, with the findings.

    If `zxid` lies in a gap, the tree before the gap is returned, with a finding. Damage becomes findings too. Raises
    `UsageError` for a transaction beyond the last one, unless damage hides the end of the logs. Raises `StorageError`
    if files cannot be read.
    """
    replayer = Replayer(directory, zxid, limits)
    for _ in replayer:
        pass
    return Replay(
        tree=replayer.tree,
        zxid=replayer.zxid,
        snapshot=replayer.snapshot.path if replayer.snapshot is not None else None,
        transactions=replayer.transactions,
        digests_checked=replayer.digests_checked,
        findings=replayer.findings,
    )
