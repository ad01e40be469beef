"""Decide what to do from bytes alone; no module here imports one that changes files."""
