"""The layout of Aiven's plugin for tiered storage (`io.aiven.kafka.tieredstorage`).

Each segment has three objects: the log in chunks that are compressed and encrypted separately, all indexes in one
object, and a manifest with the positions.
"""
