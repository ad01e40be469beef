"""Several copies written as one."""
