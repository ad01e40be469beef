"""What of a damaged log is sound, what comes behind the damage, and what can be mended."""
