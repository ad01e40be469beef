"""Executions derived from the declarations: plain Python everywhere, kernels where numba is installed."""
