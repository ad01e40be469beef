"""Compiled functions of the codec, kept as machine code on disk and called without the compiler; knows no Kafka."""
