"""Which transaction was the last one at a time."""

from __future__ import annotations

from kafkalog.cluster.zookeeper.directory import ZooKeeperDirectory
from kafkalog.cluster.zookeeper.log_file import LogFileReader
from kafkalog.cluster.zookeeper.replay import is_gap
from kafkalog.codec.errors import UsageError

__all__ = ["zxid_at"]


def zxid_at(directory: ZooKeeperDirectory, time: int) -> int:
    """The last transaction that the leader's clock says was not after `time` (ms); `UsageError` if the logs hold none.

    Where the ones after it are lost it is the first of these: which of them came before `time` is not known.
    Clocks may go back when the leader changes; then it is the last one before the first that is later.
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
