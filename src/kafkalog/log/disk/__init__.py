"""Files of a log directory: opened and read without trust, changed, locked."""
