"""Consumer groups of connected clients, and offsets committed earlier according to the files.

This is as much as consumers need to subscribe. `coordinator` and `group` are the classic protocol, where members agree
on the assignment. `consumer_groups` and `consumer_group` are the new one (KIP-848), where the server decides. Commits
are kept in memory, or in a file given by the user, and never in a log.
"""
