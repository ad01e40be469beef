"""Consumer groups: the contents of `__consumer_offsets`, and the assignments that assignors compute."""
