"""Producer and consumer over log directories, without a broker.

Records are assigned to partitions and written, or read and followed. `Producer` is Kafka's client of that name and the
older Scala one. `Consumer` and the streams are Kafka's high-level consumer.
"""
