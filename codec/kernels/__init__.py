"""Compiled code and nothing else: numba compiles it once for a machine, and every kernel stops before what is odd."""
