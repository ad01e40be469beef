"""Read the input of a plan: files, settings, topics and metadata, and settle the rules of a request."""
