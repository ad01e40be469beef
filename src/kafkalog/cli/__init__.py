"""The `kafkalog` command: one small module for each subcommand, a thin layer over a function of the library."""
