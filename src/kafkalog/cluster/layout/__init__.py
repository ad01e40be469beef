"""Which records there are in internal topics and in ZooKeeper's files, and how their bytes are laid out.

The layouts of Kafka's records are its own schemas (`codec.messages`), read when a type is first met.
"""
