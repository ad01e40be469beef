"""One pass of the log cleaner, class by class."""
