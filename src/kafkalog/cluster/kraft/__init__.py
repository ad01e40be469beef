"""The metadata log of a KRaft cluster: its records, the image that they add up to, elections, quorums."""
