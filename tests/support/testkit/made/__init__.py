"""Data that tests make: batches, segments, whole directories, and the damage done to them."""
