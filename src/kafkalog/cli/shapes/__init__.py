"""The lines that commands print with --json, as types, and the functions that make them."""
