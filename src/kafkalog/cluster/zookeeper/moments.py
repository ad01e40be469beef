"""Find the last ZooKeeper transaction at a given time."""

from __future__ import annotations

from kafkalog.cluster.zookeeper.directory import ZooKeeperDirectory
from kafkalog.cluster.zookeeper.log_file import LogFileReader
from kafkalog.cluster.zookeeper.replay import is_gap
from kafkalog.codec.common.errors import UsageError

__all__ = ["zxid_at"]


def zxid_at(directory: ZooKeeperDirectory, time: int) -> int:
    """Return the zxid of the last transaction that, by the leader's clock, was not after `time` (ms since 1970).

    If the transactions right after it are lost, that zxid plus one is returned, because it is unknown which of the lost
    ones came before `time`. Clocks may go back when the leader changes; then the last transaction before the first
    later one counts. Raises `UsageError` if the logs begin after `time` or hold no transaction, `StorageError` for I/O.
    """
    found: int | None = None
    for named, path in directory.logs:
        for transaction in LogFileReader(path, named):
            if transaction.time > time:
                if found is None:
                    raise UsageError(
                        f"{', '.join(directory.paths)}: the logs begin after that time, at {transaction.time}"
                    )
                return found + is_gap(found, transaction.zxid)
            found = transaction.zxid
    if found is None:
        raise UsageError(f"{', '.join(directory.paths)}: no log says when anything happened")
    newest = max((zxid for zxid, _path in directory.snapshots), default=0)
    return found + (newest > found)
