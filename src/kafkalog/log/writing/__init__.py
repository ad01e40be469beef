"""Write to a partition (append, roll, flush, retention, truncation, compaction), and build partitions from columns."""
