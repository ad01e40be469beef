"""Files of a log directory: opening and reading them without trust, changing them, and locking the directory."""
