"""Commands about what a cluster knew: groups, transactions, metadata, its quorum."""
