"""Compute what the broker itself would make of a log directory, without changing it.

A model of Kafka 4.1's start-up recovery and orderly stop (`LogManager`, `LogLoader`, `LogSegment`,
`ProducerStateManager`, `LeaderEpochFileCache`), run over a virtual copy of the directory: the result is the tree that
Kafka would leave, or the exception it would fail with. Reads through `Source`, and writes nothing.
"""
