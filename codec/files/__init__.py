"""Decode and encode the files beside the log in a log directory: text files, indexes, producer snapshots, and the
control records and files of KRaft.
"""
