"""Commands about the state of a cluster: groups, transactions, metadata, its quorum."""
