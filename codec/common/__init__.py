"""Small helpers that import nothing else of the codec: errors, findings, limits, arguments, byte sources, memory."""
