"""Producer and Consumer over log directories: records find their partitions and are written, or are read and followed.

No broker takes part.  `Producer` is Kafka's client of that name, and its Scala one before; `Consumer` and the streams
are Kafka's high-level consumer.
"""
