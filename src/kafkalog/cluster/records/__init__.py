"""Records of the cluster's own topics as values and as JSON."""
