"""Open and read files of a log directory without trusting them, change files, and lock the directory."""
