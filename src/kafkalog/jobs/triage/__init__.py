"""Predict, after a power failure, which broker will lead each partition and which records followers lose."""
