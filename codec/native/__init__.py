"""Compiled code: C that executes the declared layouts at the speed of the machine, and how Python calls it."""
