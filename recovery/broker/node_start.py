"""What a node does when it is started on its log directories: the one model that every command asks.

    start = node_start(["/data/a", "/data/b"])
    for releases, answer in start.grouped: ...
"""
