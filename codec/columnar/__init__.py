"""Records as Arrow columns: the schema, builders of columns, and decoders from batches to columns."""
