"""Scan the batches of a log: what should come next, how each batch is treated, and where the log continues after
damage.
"""
