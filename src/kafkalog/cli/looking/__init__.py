"""Commands that look and check."""
