"""What tests share; the programs beside this package make pages and recordings, or are started by tests."""
