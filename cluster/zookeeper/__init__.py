"""ZooKeeper's data directory without ZooKeeper: its transaction logs, snapshots and the tree at any transaction."""

from kafkalog.cluster.zookeeper.directory import ZooKeeperDirectory, open_zookeeper
from kafkalog.cluster.zookeeper.replay import Replay, tree_at
from kafkalog.cluster.zookeeper.transaction import Transaction
from kafkalog.cluster.zookeeper.tree import Node, Tree

__all__ = ["Node", "Replay", "Transaction", "Tree", "ZooKeeperDirectory", "open_zookeeper", "tree_at"]
