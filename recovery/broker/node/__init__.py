"""The parts of a node's start, one module each, in the order in which a node meets them.

Each part looks at the files that it reads and returns what follows from them for one release; none changes a file.
`recovery.broker.node_start` asks them one after the other.
"""
