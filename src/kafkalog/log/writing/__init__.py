"""Write a partition: append, roll, flush, apply retention, truncate, compact; and build whole partitions from
columns.
"""
