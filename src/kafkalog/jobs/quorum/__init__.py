"""A KRaft quorum brought back from the files: a new voter set at a new epoch behind the best log that is left.

`request` is what is asked for, `voters` who will vote, `refusals` what speaks against it, `metadata_tree` the log with
its new end; `plan` puts them together, and `run` carries it out with the locks, journals and quarantines of every
recovery.
"""
