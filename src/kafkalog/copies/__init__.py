"""Compare several copies of a partition: identify them, read the content of each, and merge them."""
