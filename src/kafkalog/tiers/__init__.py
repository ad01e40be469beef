"""Tiered storage: which logs go on in a remote tier, what is there, and both tiers read as one log.

`metadata` reads what `__remote_log_metadata` says of remote segments, `tiering` tells from what lies on a disk whether
a log is tiered and where its local part begins, `lineage` which remote segments belong to a log as its epochs have it.
"""
