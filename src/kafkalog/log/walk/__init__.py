"""Scan the batches of a log: which offset comes next, how a batch is treated, where a log continues after damage."""
