"""Records of internal topics as values and as JSON."""
