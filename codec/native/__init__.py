"""Compiled code: C functions that execute the declared layouts, and the Python functions that call them."""
