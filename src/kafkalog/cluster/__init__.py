"""Cluster state, from its files alone: internal topics, groups, transactions, KRaft metadata, ZooKeeper.

`offsets`, `groups`, `producers` and `transactions` read the coordinators' topics; `metadata_log`, `metadata_image` and
`metadata_history` read KRaft's metadata; `zookeeper` reads a ZooKeeper server's directory.  `assignors`,
`old_assignors` and `rederive` compute what a group's assignment should be, `migration` carries offsets between
ZooKeeper and Kafka, and `cross_check` compares metadata with log directories.  `layout` lists the record types.
"""
