"""The names of this room, one line for each; `tests/support/lazy_names.py` makes the table in `__init__.py` of them."""

from kafkalog.cluster.zookeeper.directory import ZooKeeperDirectory as ZooKeeperDirectory
from kafkalog.cluster.zookeeper.directory import open_zookeeper as open_zookeeper
from kafkalog.cluster.zookeeper.replay import Replay as Replay
from kafkalog.cluster.zookeeper.replay import tree_at as tree_at
from kafkalog.cluster.zookeeper.transaction import Transaction as Transaction
from kafkalog.cluster.zookeeper.tree import Node as Node
from kafkalog.cluster.zookeeper.tree import Tree as Tree
