"""Recover a KRaft quorum from files: a new voter set at a new epoch, after the best log that is left.

`request` is the question, `voters` chooses the voters, `refusals` are the reasons to refuse, `metadata_tree` is the log
with its new end; `plan` combines them, and `run` carries the plan out with the locks, journals and quarantines of every
recovery.
"""
