"""ZooKeeper's data directory without ZooKeeper: its transaction logs, snapshots and the tree at any transaction.

Names are imported when somebody asks for them; the stub beside this file is the one table of them.
"""

from kafkalog.codec.lazily import homes, lazily

_HOMES = homes(__name__)

__all__ = list(_HOMES)

__getattr__ = lazily(__name__, _HOMES)
