"""Build the report of `kafkalog report` on the state of log directories, as a page or as text that can be shared."""
