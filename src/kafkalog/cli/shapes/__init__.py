"""Types of the JSON lines that commands print with `--json`, and functions that build these lines."""
