"""Search for the last ZooKeeper transaction before a given time."""

from __future__ import annotations

from kafkalog.cluster.zookeeper.directory import ZooKeeperDirectory
from kafkalog.cluster.zookeeper.log_file import LogFileReader
from kafkalog.cluster.zookeeper.replay import is_gap
from kafkalog.codec.common.errors import UsageError

__all__ = ["zxid_at"]


def zxid_at(directory: ZooKeeperDirectory, time: int) -> int:
    """Find the first transaction whose time by the leader's clock is after `time` (ms since 1970), and return the zxid
    of the one before it. If no transaction is later than `time`, return the zxid of the last one. Clocks may go back
    when the leader changes; transactions after the first later one are not read.

    Return instead the next zxid, which is lost, if there is a gap behind the found transaction. Do the same if the
    found transaction is the last one and a snapshot is newer. The lost transaction may have come before `time`. A
    damaged end of the last log shows no loss here; `tree_at` reports it. Raises `UsageError` if the logs begin after
    `time` or have no transaction, `StorageError` for I/O errors.
    """
    last_zxid: int | None = None
    for named, path in directory.logs:
        for transaction in LogFileReader(path, named):
            if transaction.time > time:
                if last_zxid is None:
                    raise UsageError(
                        f"{', '.join(directory.paths)}: the logs begin after that time, at {transaction.time}"
                    )
                return last_zxid + is_gap(last_zxid, transaction.zxid)
            last_zxid = transaction.zxid
    if last_zxid is None:
        raise UsageError(f"{', '.join(directory.paths)}: no log says when anything happened")
    newest = max((zxid for zxid, _path in directory.snapshots), default=0)
    return last_zxid + (newest > last_zxid)
