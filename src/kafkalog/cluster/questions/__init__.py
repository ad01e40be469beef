"""Questions about a cluster, each a public call with a typed result: `offsets`, `groups`, `metadata` and others.

Each call opens log directories and ZooKeeper's directories by their paths, and changes nothing.
"""
