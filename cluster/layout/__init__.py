"""Declarations only: field tables of Kafka's typed records and ZooKeeper's files, and how a table becomes Construct."""
