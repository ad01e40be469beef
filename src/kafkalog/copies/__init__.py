"""Compare several copies of a partition: identify them, read what each holds, and join them."""
