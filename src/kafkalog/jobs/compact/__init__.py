"""Run a pass of the log cleaner on a directory that no broker has open."""
