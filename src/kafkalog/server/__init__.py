"""A read-only Kafka broker over log directories.

It speaks Kafka's protocol to consumers and answers from the files as they are. `apis` and `wire` are requests and
responses, with the layouts of `codec.messages`. `catalog` and `served_log` are the contents of the directories,
`handlers` the requests by subject, `network` and `connection` the sockets. Nothing here writes to a log directory.
"""
