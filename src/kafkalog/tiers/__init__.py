"""Tiered storage: remote segments, and logs read from both tiers.

`metadata` reads `__remote_log_metadata`. `tiering` finds out from the local files whether a log is tiered and where its
local part begins. `lineage` selects the remote segments that belong to a log by leader epoch. `both` reads both tiers
as one log.
"""
