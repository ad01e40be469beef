"""Files of a log directory beside the log: text files, indexes, producer snapshots, KRaft's records and files."""
