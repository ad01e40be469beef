"""Parse and build whole structures, field by field by their declarations, and the contents of compressed bytes."""
