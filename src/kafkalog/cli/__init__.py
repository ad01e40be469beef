"""The `kafkalog` command: one small file for each subcommand, each a thin skin over a function of the library."""
