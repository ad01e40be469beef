"""Analyses of log directories that no repair depends on, such as disk usage and the effect of retention."""
