"""Compiled code: C functions that execute the declared layouts, and the calls to them."""
