"""Parse and build: the whole declarations run by Construct, field by field, and what is inside compressed bytes."""
