"""The layout of Aiven's plugin for tiered storage (`io.aiven.kafka.tieredstorage`).

Of each segment three objects: the log in chunks that are compressed and encrypted one by one, all indexes in one
object, and a manifest that says where what is.
"""
