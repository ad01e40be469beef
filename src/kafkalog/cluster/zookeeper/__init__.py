"""ZooKeeper's data directory, read without ZooKeeper: transaction logs, snapshots, and the tree at any transaction.

Names are imported on first use; `tests/support/lazy_names.py` writes their table from the stub beside this file.
"""

from kafkalog.codec.common.lazily import lazily

_NAMES = {
    ".directory": ["ZooKeeperDirectory", "open_zookeeper"],
    ".replay": ["Replay", "tree_at"],
    ".transaction": ["Transaction"],
    ".tree": ["Node", "Tree"],
}

__all__, __getattr__ = lazily(__name__, _NAMES)
