"""A producer over logs: records find their partitions, wait in batches and are written, without a broker."""
