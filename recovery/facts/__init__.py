"""Read the input of a plan: files, settings, topics and metadata as they are, and rules as they were given."""
