"""What a plan is made of: files, settings, topics and metadata as they are, and rules as they were given."""
