"""Producers and transactions, read from `__transaction_state` and from the logs of partitions."""
