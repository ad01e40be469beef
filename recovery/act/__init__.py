"""Change a directory under lock, journal and quarantine, and undo the change."""
