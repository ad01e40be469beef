"""The broker's storage classes under Kafka's names: plans run them, and `Log` writes with them.

They access files only through `disk.Disk`. On the virtual tree they compute the files that a broker would leave, and
change nothing; on a directory they write.
"""
