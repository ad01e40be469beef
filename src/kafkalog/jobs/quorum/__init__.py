"""Recover a KRaft quorum from files: write a new voter set at a new epoch, after the best log that is left.

`request` defines the request, `voters` chooses the voters, `refusals` has the reasons to refuse, and `metadata_tree`
builds the log with its new end. `plan` combines them, and `run` carries the plan out with the locks, journals and
quarantines of every recovery.
"""
