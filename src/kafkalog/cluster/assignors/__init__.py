"""Kafka's assignors: those of classic groups and those of consumers in ZooKeeper."""
