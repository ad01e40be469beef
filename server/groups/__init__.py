"""Consumer groups of clients that are connected now, and what groups had committed before, from the files.

As much as consumers need to subscribe, of the classic protocol: the members agree on who reads what, this server only
brings them together.  What they commit is kept in memory, or in a file that somebody names, and never in a log.
"""
