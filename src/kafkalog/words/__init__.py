"""Words of the command line that more than one part says: options, times, exit codes, recommended commands."""
