"""Rules about batches: what a scan needs first, what loops assume of the declared layout, the interface of an
execution, and the rules that a valid checksum does not cover.
"""
