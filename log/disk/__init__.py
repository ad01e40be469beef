"""Files of a log directory: opened and read without trust, lent as memory, changed, locked."""
