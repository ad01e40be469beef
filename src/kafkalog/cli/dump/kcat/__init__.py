"""What `dump` prints as kcat does."""
