"""Simulate how a broker itself would start on a log directory, without changing anything on disk.

A model of Kafka 4.1's start-up recovery and orderly stop (`LogManager`, `LogLoader`, `LogSegment`,
`ProducerStateManager`, `LeaderEpochFileCache`) runs over a virtual copy of the directory. The result is the tree that
Kafka would leave, or the exception with which it would fail. Files are read through `Source`.
"""
