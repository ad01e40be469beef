"""Questions about a cluster, each a public function with a typed result: `offsets`, `groups`, `metadata` and others.

Each function opens log directories and ZooKeeper's directories by their paths, and changes nothing.
"""
