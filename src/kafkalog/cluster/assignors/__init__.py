"""Kafka's assignors: for classic groups, and for groups of consumers in ZooKeeper."""
