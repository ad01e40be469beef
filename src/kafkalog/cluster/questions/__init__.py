"""Questions about a cluster, each a public call with a typed result: `offsets`, `groups`, `transactions`, `metadata`,
`elections` and others.

Each opens log directories and ZooKeeper's directories by their paths, and changes nothing.
"""
