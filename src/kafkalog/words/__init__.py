"""Words of the command line that several parts use: options, times, exit codes, recommended commands."""
