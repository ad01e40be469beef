"""Consumer groups: what `__consumer_offsets` says of them, and what their assignors compute."""
