"""The `kafkalog` command: one small file for each subcommand, each a thin layer over a function of the library."""
