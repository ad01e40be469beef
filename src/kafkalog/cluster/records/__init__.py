"""Records of internal topics, decoded to fields and converted to JSON."""
