"""Predict, after a power failure and before the first start, which broker will lead each partition and which records
followers lose.
"""
