"""What Kafka's assignors make of the members' subscriptions: those of classic groups and of consumers in ZooKeeper."""
