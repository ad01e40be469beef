"""Small helpers that import nothing of the codec: advice as a value, words of a shell, order of a Java map."""
