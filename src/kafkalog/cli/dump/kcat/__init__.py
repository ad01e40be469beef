"""Output of `dump` in the form of kcat."""
