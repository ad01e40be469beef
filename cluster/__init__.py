"""What the cluster knew, from its files alone: internal topics, groups, transactions, KRaft metadata, ZooKeeper.

`offsets`, `groups`, `producers` and `transactions` read the coordinators' topics; `metadata_log`, `metadata_image` and
`metadata_history` KRaft; `zookeeper` a ZooKeeper server's directory; `assignors`, `old_assignors` and `rederive` say
what a group's assignment should be, `migration` carries offsets between ZooKeeper and Kafka, `cross_check` whether
metadata and log directories agree.  `layout` says which record types there are.
"""

if __name__ != "kafkalog.cluster":
    raise ImportError("this folder is kafkalog.cluster; import that name")
