"""Layouts of the records of internal topics and of ZooKeeper's files.

The layouts of Kafka's records are Kafka's own schemas (`codec.messages`), read on first use of a type.
"""
