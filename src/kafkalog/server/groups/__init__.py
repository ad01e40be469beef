"""Consumer groups of clients that are connected now, and what groups had committed before, from the files.

As much as consumers need to subscribe.  `coordinator` and `group` are the classic protocol: the members agree on who
reads what, this server only brings them together.  `consumer_groups` and `consumer_group` are the new one (KIP-848),
where the server says who reads what.  What is committed is kept in memory, or in a file that somebody names, and never
in a log.
"""
