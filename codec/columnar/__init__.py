"""Records as Arrow columns: the schema, what builds columns, and what decodes batches into them."""
