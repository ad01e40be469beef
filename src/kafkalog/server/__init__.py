"""A read-only broker over log directories: Kafka's protocol for those who read, from the files as they are.

`apis` and `wire` are requests and responses, whose layouts are Kafka's schemas in `codec.messages`; `catalog` and
`served_log` what the directories hold; `handlers/` one file for each kind of question; `network` and `connection` the
sockets.  Nothing here writes to a log directory.
"""
