"""The metadata log of a KRaft cluster: its records, the metadata image built from them, elections and quorums."""
