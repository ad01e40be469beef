"""Small helpers that import nothing else of the codec: advice as a value, shell words, the order of a Java map."""
